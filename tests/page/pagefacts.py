"""Facts for status pages, as a controller would have them, without one."""

from __future__ import annotations

import threading
from typing import Any

from msgspec.structs import replace

from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.runtime.history import AddressMove, History, Unchanged
from flipop_core.runtime.page.app import Facts
from flipop_core.runtime.page.model import AccountFact, Process
from flipop_core.runtime.page.words import timestamp

LEADER = "flipop-7c9d8f6b5-x2x4k_0b8ed2d0-1b5a-4c2b-9c39-6f6a2f0d7a11"
STANDBY = "flipop-7c9d8f6b5-q9w8e_5c1f1f0e-8c55-4d0c-a1de-2d51c9a7f9b3"
HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b[31m\u202egpj.exe\u2028"


def address(number: int, state: str = "active", node: str = "", error: str = "") -> dict[str, Any]:
    return {"address": f"192.0.2.{number}", "state": state, "node": node or f"node-{number}", "error": error}


def resource(
    name: str, *, now: float, ready: bool | None = True, reason: str = "AllActive", **more: Any
) -> dict[str, Any]:
    return {
        "namespace": "edge",
        "name": name,
        "ready": ready,
        "reason": reason,
        "message": "",
        "since": timestamp(now - 4000) if ready is not None else "",
        "created": timestamp(now - 400_000),
        "dns": [],
        **more,
    }


def pool(name: str, addresses: list[dict[str, Any]], *, now: float, **more: Any) -> dict[str, Any]:
    active = sum(each["state"] == "active" for each in addresses)
    numbers = {"provider": "digitalocean", "desired": len(addresses), "active": active, "candidates": 5}
    base = resource(name, now=now, addresses=addresses, freeNodes=["node-8", "node-9"], **numbers)
    return {**base, "message": f"{active} of {len(addresses)} addresses are active", **more}


def record(name: str) -> dict[str, Any]:
    return {"name": name, "type": "A", "provider": "cloudflare"}


def empty_facts(*, leading: bool = True, problem: str = "") -> Facts:
    process = Process(identity=LEADER if leading else STANDBY, version="0.1.0", leading=leading, holder=LEADER)
    overview: dict[str, list[dict[str, Any]]] = {"pools": [], "routedIPs": [], "recordSets": []}
    return Facts(overview, replace(process, problem=problem), History())


def calm_facts(now: float, *, leading: bool = True) -> Facts:
    """Everything is ready."""
    facts = empty_facts(leading=leading)
    pools = [pool("web", [address(1), address(2), address(3)], now=now, dns=[record("www.example.com")])]
    routed = resource("ingress", now=now, addresses=[address(9)], service="edge/ingress", ports=["443/TCP"])
    routed |= {"firewall": "edge-firewall", "message": "1 of 1 addresses are active"}
    sets = [resource("nodes", now=now, reason="Published", dns=[record("nodes.example.com")])]
    sets[0]["message"] = "3 addresses are published"
    accounts = (
        AccountFact("dns", "cloudflare", "CLOUDFLARE_TOKEN", used=True, accepted=True),
        AccountFact("ip", "digitalocean", "DIGITALOCEAN_ACCESS_TOKEN", used=True, accepted=True),
    )
    key = Key("FloatingIPPool", "edge", "web")
    unchanged = {(key, f"192.0.2.{number}"): Unchanged(now - 100 * number, exact=number != 3) for number in (1, 2, 3)}
    moves = (
        AddressMove(key, "192.0.2.1", "node-7", "node-1", "the node is not Ready", now - 100, 4.2),
        AddressMove(key, "192.0.2.2", "", "node-2", "it was on no node", now - 5000, None),
    )
    return Facts(
        {"pools": pools, "routedIPs": [routed], "recordSets": sets},
        replace(facts.process, accounts=accounts if leading else ()),
        History(moves, unchanged, {}),
    )


def troubled_facts(now: float) -> Facts:
    """Something of every kind is wrong. The process's monotonic clock is the wall clock."""
    facts = calm_facts(now)
    until = now + 12
    grace = f"the node is not Ready; the address moves at {timestamp(until)} unless node-5 is Ready again"
    addresses = [
        address(4),
        address(5, "no-match"),
        address(6, "in-progress"),
        address(7, "error", "node-7", "the node already has a reserved IP: choose another node, or free it"),
        {**address(8, "unassigned"), "node": ""},
        {**address(10, "disabled"), "node": ""},
    ]
    message = f"1 of 5 addresses are active; {grace}"
    troubled = pool("api", addresses, now=now, ready=False, reason="Grace", message=message)
    troubled["dns"] = [record("api.example.com"), {**record("api.example.com"), "type": "AAAA"}]
    new = resource(
        "fresh", now=now, ready=None, reason="NotReported", addresses=[], provider="aws", desired=2, active=0
    )
    new |= {
        "message": "no controller has reported on it yet",
        "candidates": 0,
        "freeNodes": [],
        "created": timestamp(now),
    }
    wrong = resource(
        "broken", now=now, ready=False, reason="InvalidSpec", addresses=[], provider="", desired=0, active=0
    )
    wrong |= {"candidates": 0, "freeNodes": [], "message": "spec.match.nodeLabel: 'a=b=c' is no label selector"}
    accounts = (
        *facts.process.accounts,
        AccountFact(
            "ip", "aws/eu-central-1@edge/aws", "Secret edge/aws", used=True, accepted=False,
            message="credentials of IP provider aws (Secret edge/aws): UnauthorizedOperation: correct the Secret",
        ),
        AccountFact(
            "firewall", "digitalocean", "DIGITALOCEAN_ACCESS_TOKEN", used=False, accepted=None,
            closed_until=now + 33, gate_reason="RateLimited", gate_message="429 Too Many Requests",
        ),
    )  # fmt: skip
    key = Key("FloatingIPPool", "edge", "api")
    holds = {
        key: (
            Hold("Grace", grace, "192.0.2.5", until),
            Hold("MoveLimit", "as many addresses have moved within a minute as allowed: 2", "192.0.2.8", now + 40),
            Hold("NoFreeNode", "no node is free"),
        )
    }
    unchanged = {**facts.history.unchanged, (key, "192.0.2.5"): Unchanged(now - 18, exact=True)}
    overview = {**facts.overview, "pools": [troubled, wrong, new, *facts.overview["pools"]]}
    return Facts(
        overview, replace(facts.process, accounts=accounts), replace(facts.history, holds=holds, unchanged=unchanged)
    )


def many_facts(now: float, pools: int, addresses: int) -> Facts:
    """A large cluster."""
    facts = calm_facts(now)
    given = [address(number) for number in range(addresses)]
    rows = [pool(f"p-{index:03}", given, now=now, dns=[record(f"p{index}.example.com")]) for index in range(pools)]
    return Facts({**facts.overview, "pools": rows}, facts.process, facts.history)


def hostile_facts(now: float) -> Facts:
    """Every text that others write is hostile."""
    facts = troubled_facts(now)
    evil = HOSTILE
    row = pool(evil, [{"address": evil, "state": evil, "node": evil, "error": evil}], now=now, ready=False)
    row |= {"namespace": evil, "reason": evil, "message": evil, "provider": evil, "since": evil, "created": evil}
    row |= {"dns": [{"name": evil, "type": evil, "provider": evil}]}
    routed = resource(evil, now=now, addresses=[], service=evil, ports=[evil], firewall=evil, ready=False)
    key = Key("FloatingIPPool", evil, evil)
    moves = (AddressMove(key, evil, evil, evil, evil, now, 1.0),)
    holds = {key: (Hold(evil, evil, evil, now + 5), Hold(evil, evil))}
    account = AccountFact(
        evil, evil, evil, used=True, accepted=False, message=evil, gate_reason=evil, gate_message=evil
    )
    account = replace(account, closed_until=now + 9)
    process = replace(facts.process, identity=evil, holder=evil, problem=evil, version=evil, accounts=(account,))
    return Facts(
        {"pools": [row], "routedIPs": [routed], "recordSets": [{**row, "namespace": "a"}]},
        process,
        History(moves, {}, holds),
    )


class FactsBox:
    """Facts that a test can change while they are served. ``reads`` counts how often they were asked for."""

    def __init__(self, facts: Facts) -> None:
        self._lock = threading.Lock()
        self._facts = facts
        self.reads = 0

    def __call__(self) -> Facts:
        with self._lock:
            self.reads += 1
            return self._facts

    def put(self, facts: Facts) -> None:
        """Serve these from now on."""
        with self._lock:
            self._facts = facts
