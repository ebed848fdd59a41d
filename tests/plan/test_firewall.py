"""What is done to one firewall for one RoutedIP: one row here is one situation and the step that follows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, NotFound, OutcomeUnknown, Rejected, Unavailable
from flipop_core.model import Key
from flipop_core.plan.firewall import (
    FRESH_SECONDS,
    PENDING_SECONDS,
    AddFirewallNodes,
    AddFirewallRules,
    FirewallEntries,
    FirewallFailure,
    FirewallObservation,
    FirewallStep,
    RemoveFirewallNodes,
    RemoveFirewallRules,
    Share,
    admits,
    next_failure,
    plan_closing,
    plan_opening,
)
from flipop_core.plan.limits import Gate
from flipop_core.providers import Firewall, FirewallRule

from .builders import NOW

KEY = Key("RoutedIP", "web", "a")
HTTP, HTTPS, QUIC = FirewallRule("tcp", 80), FirewallRule("tcp", 443), FirewallRule("udp", 443)
SSH = FirewallRule("tcp", 22, 0, ("10.0.0.0/8",))
NONE = FirewallEntries(provider="memory", name="fw")


def entries(*items: FirewallRule | str) -> FirewallEntries:
    rules = [item for item in items if isinstance(item, FirewallRule)]
    return NONE.with_items(rules, [item for item in items if isinstance(item, str)])


def share(*needed: FirewallRule | str, recorded: tuple[FirewallRule | str, ...] = ()) -> Share:
    need, record = entries(*needed), entries(*recorded)
    return Share(frozenset(need.rules), frozenset(need.nodes), frozenset(record.rules), frozenset(record.nodes))


def observe(*present: FirewallRule | str, need: tuple[FirewallRule | str, ...] = (HTTP, "m1"), **more: Any) -> Any:
    """Return what is observed. ``present`` is in the firewall, ``need`` what the RoutedIP needs."""
    held, needed = entries(*present), entries(*need)
    in_progress = more.pop("in_progress", False)
    values: dict[str, Any] = {
        "key": KEY,
        "entries": NONE,
        "firewall": Firewall("f-1", "fw", held.rules, held.nodes, in_progress=in_progress),
        "read_at": NOW,
        "rules": frozenset(needed.rules),
        "nodes": frozenset(needed.nodes),
    }
    return FirewallObservation(**(values | more))


def opening(observed: FirewallObservation, *, fresh: bool = False) -> FirewallStep:
    return plan_opening(observed, observed.nodes, NOW, fresh=fresh)


def closing(observed: FirewallObservation) -> FirewallStep:
    return plan_closing(observed, NOW)


def told(step: FirewallStep) -> str:
    """Return the step as one line; it is at most one thing."""
    parts = ["done"] * step.done + ["read"] * step.read
    if step.record is not None:
        parts.append("record " + " ".join([*(f"{r.port}/{r.protocol}" for r in step.record.rules), *step.record.nodes]))
    parts += [step.action.summary] if step.action is not None else []
    parts += [f"hold {step.hold.reason}"] if step.hold is not None else []
    assert len(parts) == 1, parts
    return parts[0].strip()


def failed(seconds: float, action: Any = None, reason: str = "FirewallFailed") -> FirewallFailure:
    return FirewallFailure(1, NOW + seconds, "it failed", reason, action)


ADMITS: dict[str, tuple[tuple[FirewallRule, ...], FirewallRule, bool]] = {
    "nothing": ((), HTTP, False),
    "the same rule": ((HTTP,), HTTP, True),
    "another port": ((HTTPS,), HTTP, False),
    "another protocol": ((HTTPS,), QUIC, False),
    "a range around it": ((FirewallRule("tcp", 1, 1024),), HTTP, True),
    "the first of a range": ((FirewallRule("tcp", 80, 90),), HTTP, True),
    "the last of a range": ((FirewallRule("tcp", 70, 80),), HTTP, True),
    "beside a range": ((FirewallRule("tcp", 81, 90), FirewallRule("tcp", 70, 79)), HTTP, False),
    "a range in a range": ((FirewallRule("udp", 100, 200),), FirewallRule("udp", 100, 200), True),
    "a range that reaches out": ((FirewallRule("udp", 100, 200),), FirewallRule("udp", 150, 201), False),
    "a range by its first port alone": ((HTTP,), FirewallRule("tcp", 80, 81), False),
    "IPv4 alone": ((FirewallRule("tcp", 80, 0, ("0.0.0.0/0",)),), HTTP, False),
    "IPv6 alone": ((FirewallRule("tcp", 80, 0, ("::/0",)),), HTTP, False),
    "each family by its own rule": (
        (FirewallRule("tcp", 80, 0, ("0.0.0.0/0",)), FirewallRule("tcp", 1, 99, ("::/0",))),
        HTTP,
        True,
    ),
    "a network does not admit everybody": ((FirewallRule("tcp", 80, 0, ("10.0.0.0/8", "::/0")),), HTTP, False),
    "everybody includes a network": ((HTTP,), FirewallRule("tcp", 80, 0, ("10.0.0.0/8", "2001:db8::/32")), True),
    "a network in a network": ((SSH,), FirewallRule("tcp", 22, 0, ("10.1.2.0/24",)), True),
    "a network beside it": ((SSH,), FirewallRule("tcp", 22, 0, ("11.0.0.0/24",)), False),
    "a network around it": ((SSH,), FirewallRule("tcp", 22, 0, ("0.0.0.0/0",)), False),
    "an address, with and without its length": (
        (FirewallRule("tcp", 22, 0, ("192.0.2.1",)),),
        FirewallRule("tcp", 22, 0, ("192.0.2.1/32",)),
        True,
    ),
    "bits beyond the length": (
        (FirewallRule("tcp", 22, 0, ("10.1.2.3/8",)),),
        FirewallRule("tcp", 22, 0, ("10.9.0.0/16",)),
        True,
    ),
    "no network at all": ((FirewallRule("tcp", 80, 0, ("sg-1", "0.0.0.0/0", "::/0")),), HTTP, True),
    "nothing but what is no network": ((FirewallRule("tcp", 80, 0, ("sg-1",)),), HTTP, False),
    "IPv4 is not in IPv6": ((FirewallRule("tcp", 22, 0, ("::/0",)),), SSH, False),
}


@pytest.mark.parametrize(("present", "rule", "expected"), ADMITS.values(), ids=ADMITS)
def test_admits(present: tuple[FirewallRule, ...], rule: FirewallRule, expected: bool) -> None:
    assert admits(Firewall("f-1", "fw", present), rule) is expected


ADD_HTTP, ADD_M1 = AddFirewallRules("fw", (HTTP,)), AddFirewallNodes("fw", ("m1",))
OPENING: dict[str, tuple[FirewallObservation, str]] = {
    "not known": (observe(firewall=None), "read"),
    "all is there": (observe(HTTP, "m1"), "done"),
    "nothing is needed": (observe(need=()), "done"),
    "a record goes first": (observe(), "record 80/tcp m1"),
    "then rules": (observe(entries=entries(HTTP, "m1")), "open 80/TCP in firewall fw"),
    "then nodes": (observe(HTTP, entries=entries(HTTP, "m1")), "add m1 to firewall fw"),
    "then it is done": (observe(HTTP, "m1", entries=entries(HTTP, "m1")), "done"),
    "several rules at once, in order": (
        observe(need=(QUIC, HTTPS, HTTP), entries=entries(HTTP, HTTPS, QUIC)),
        "open 80/TCP, 443/TCP, 443/UDP in firewall fw",
    ),
    "several nodes at once, in order": (
        observe(HTTP, need=(HTTP, "m2", "m1"), entries=entries("m1", "m2")),
        "add m1, m2 to firewall fw",
    ),
    "what is there already is not recorded": (observe(HTTP, "m9", SSH), "record m1"),
    "a wider rule of somebody is enough": (observe(FirewallRule("tcp", 1, 65535), "m1"), "done"),
    "what is recorded and stale stays on record": (
        observe("m1", entries=entries(HTTPS, "m7")),
        "record 80/tcp 443/tcp m7",
    ),
    "what another one had added is recorded too": (
        observe(HTTP, "m1", others=share(recorded=(HTTP, "m1"))),
        "record 80/tcp m1",
    ),
    "what another one had added and is not needed is not": (
        observe(HTTP, HTTPS, "m1", "m2", others=share(recorded=(HTTPS, "m2"))),
        "done",
    ),
    "what another one needs, and somebody else added, is not": (
        observe(HTTP, "m1", others=share(HTTP, "m1")),
        "done",
    ),
    "a call is under way": (observe(busy=True), "hold FirewallPending"),
    "the account is closed": (observe(gate=Gate(NOW + 5, "RateLimited", "slow")), "hold RateLimited"),
    "the account is open again": (observe(HTTP, "m1", gate=Gate(NOW, "RateLimited", "slow")), "done"),
    "a read has failed": (observe(firewall=None, failure=failed(5)), "hold FirewallFailed"),
    "a read has failed a while ago": (observe(firewall=None, failure=failed(0)), "read"),
    "this very change has failed": (
        observe(entries=entries(HTTP, "m1"), failure=failed(5, ADD_HTTP)),
        "hold FirewallFailed",
    ),
    "this very change has failed a while ago": (
        observe(entries=entries(HTTP, "m1"), failure=failed(0, ADD_HTTP)),
        "open 80/TCP in firewall fw",
    ),
    "another change has failed": (
        observe(entries=entries(HTTP, "m1"), failure=failed(5, ADD_M1)),
        "open 80/TCP in firewall fw",
    ),
    "a change has failed and is not needed any more": (observe(HTTP, "m1", failure=failed(5, ADD_HTTP)), "done"),
    "a change has failed, and the firewall is not known": (
        observe(firewall=None, failure=failed(5, ADD_HTTP)),
        "read",
    ),
    "changes are not in effect yet": (observe(HTTP, "m1", in_progress=True), "hold FirewallPending"),
    "changes are not in effect, and were read a while ago": (
        observe(HTTP, "m1", in_progress=True, read_at=NOW - PENDING_SECONDS),
        "read",
    ),
    "more changes need not wait for those": (
        observe(HTTP, in_progress=True, entries=entries("m1")),
        "add m1 to firewall fw",
    ),
    "it is to be read again": (observe(HTTP, "m1", reread_at=NOW), "read"),
    "it is to be read again later": (observe(HTTP, "m1", reread_at=NOW + 1), "done"),
}


@pytest.mark.parametrize(("observed", "expected"), OPENING.values(), ids=OPENING)
def test_opening(observed: FirewallObservation, expected: str) -> None:
    assert told(opening(observed)) == expected
    assert opening(observed) == opening(observed)


@pytest.mark.parametrize(
    ("age", "fresh", "expected"),
    [
        (FRESH_SECONDS, True, "done"),
        (FRESH_SECONDS + 1, True, "read"),
        (FRESH_SECONDS + 1, False, "done"),
    ],
)
def test_a_move_relies_on_a_recent_read_only(age: float, fresh: bool, expected: str) -> None:
    assert told(opening(observe(HTTP, "m1", read_at=NOW - age), fresh=fresh)) == expected


def test_what_is_recorded_names_the_firewall_by_its_id() -> None:
    for before, after in (("", "f-1"), ("another", "another")):
        step = opening(observe(entries=replace(entries("m7"), id=before)))
        assert step.record is not None
        assert step.record.id == after


def test_a_hold_tells_when_to_look_again() -> None:
    for observed, until in [
        (observe(gate=Gate(NOW + 5, "RateLimited", "slow")), NOW + 5),
        (observe(firewall=None, failure=failed(7)), NOW + 7),
        (observe(entries=entries(HTTP, "m1"), failure=failed(9, ADD_HTTP)), NOW + 9),
        (observe(HTTP, "m1", in_progress=True), NOW + PENDING_SECONDS),
        (observe(busy=True), None),
    ]:
        hold = opening(observed).hold
        assert hold is not None
        assert hold.until == until


RM_HTTP = RemoveFirewallRules("fw", (HTTP,))
CLOSING: dict[str, tuple[FirewallObservation, str]] = {
    "nothing is recorded": (observe(HTTP, "m1", need=()), "done"),
    "all that is recorded is needed": (observe(HTTP, "m1", entries=entries(HTTP, "m1")), "done"),
    "all that is recorded is needed, and it is not known": (observe(firewall=None, entries=entries(HTTP)), "done"),
    "not known": (observe(need=(), firewall=None, entries=entries(HTTP)), "read"),
    "read a while ago": (observe(HTTP, need=(), read_at=NOW - 6, entries=entries(HTTP)), "read"),
    "rules go first": (
        observe(HTTP, "m1", need=(), entries=entries(HTTP, "m1")),
        "close 80/TCP in firewall fw",
    ),
    "a rule that is gone leaves the record": (observe("m1", need=(), entries=entries(HTTP, "m1")), "record m1"),
    "then nodes": (observe("m1", need=(), entries=entries("m1")), "remove m1 from firewall fw"),
    "a node that is gone leaves the record": (observe(need=(), entries=entries("m1")), "record"),
    "only what is stale": (
        observe(HTTP, HTTPS, "m1", "m2", entries=entries(HTTP, HTTPS, "m1", "m2")),
        "close 443/TCP in firewall fw",
    ),
    "only what is recorded": (
        observe(HTTP, HTTPS, SSH, "m1", "m8", "m9", need=(), entries=entries("m9")),
        "remove m9 from firewall fw",
    ),
    "what is left of a rule is closed too, as far as the provider tells it from somebody's": (
        observe(FirewallRule("tcp", 80, 0, ("0.0.0.0/0",)), need=(), entries=entries(HTTP)),
        "close 80/TCP in firewall fw",
    ),
    "a rule with other sources is another rule": (
        observe(FirewallRule("tcp", 80, 0, ("0.0.0.0/0", "10.0.0.0/8", "::/0")), need=(), entries=entries(HTTP)),
        "record",
    ),
    "a rule for more ports is another rule": (
        observe(FirewallRule("tcp", 80, 81, ("0.0.0.0/0",)), need=(), entries=entries(HTTP)),
        "record",
    ),
    "what another one has recorded too is its from now on": (
        observe(HTTP, "m1", need=(), entries=entries(HTTP, "m1"), others=share(recorded=(HTTP, "m1"))),
        "record",
    ),
    "of several only that": (
        observe(HTTP, "m1", need=(), entries=entries(HTTP, "m1"), others=share(recorded=(HTTP,))),
        "record m1",
    ),
    "what another one needs stays until it has recorded it": (
        observe(HTTP, "m1", need=(), entries=entries(HTTP, "m1"), others=share(HTTP, "m1")),
        "hold FirewallShared",
    ),
    "the rest goes meanwhile": (
        observe(HTTP, "m1", need=(), entries=entries(HTTP, "m1"), others=share(HTTP)),
        "remove m1 from firewall fw",
    ),
    "there is no such firewall any more": (
        observe(firewall=None, need=(), entries=entries(HTTP, "m1"), failure=failed(60, None, "FirewallNotFound")),
        "record",
    ),
    "a read has failed": (
        observe(firewall=None, need=(), entries=entries(HTTP), failure=failed(5)),
        "hold FirewallFailed",
    ),
    "this very removal has failed": (
        observe(HTTP, need=(), entries=entries(HTTP), failure=failed(5, RM_HTTP)),
        "hold FirewallFailed",
    ),
    "a call is under way": (observe(HTTP, need=(), entries=entries(HTTP), busy=True), "hold FirewallPending"),
    "the account is closed": (
        observe(HTTP, need=(), entries=entries(HTTP), gate=Gate(NOW + 5, "RateLimited", "slow")),
        "hold RateLimited",
    ),
    "changes are not in effect yet": (
        observe(HTTP, need=(), entries=entries(HTTP), in_progress=True),
        "hold FirewallPending",
    ),
    "a removal that is not in effect yet stays on record": (
        observe(need=(), entries=entries(HTTP), in_progress=True),
        "hold FirewallPending",
    ),
}


@pytest.mark.parametrize(("observed", "expected"), CLOSING.values(), ids=CLOSING)
def test_closing(observed: FirewallObservation, expected: str) -> None:
    assert told(closing(observed)) == expected
    assert closing(observed) == closing(observed)


def test_from_nothing_to_open_and_back() -> None:
    """Each step, carried out, leads to the next; at the end nothing is left of it."""
    observed = observe(SSH, "m9", need=(HTTP, HTTPS, "m1"))
    assert followed(observed, closes=False) == [
        "record 80/tcp 443/tcp m1",
        "open 80/TCP, 443/TCP in firewall fw",
        "add m1 to firewall fw",
        "done",
    ]
    observed = observe(SSH, HTTP, HTTPS, "m1", "m9", need=(), entries=entries(HTTP, HTTPS, "m1"))
    assert followed(observed, closes=True) == [
        "close 80/TCP, 443/TCP in firewall fw",
        "record m1",
        "remove m1 from firewall fw",
        "record",
        "done",
    ]


def followed(observed: FirewallObservation, *, closes: bool) -> list[str]:
    lines = []
    for _ in range(10):
        step = closing(observed) if closes else opening(observed, fresh=True)
        lines.append(told(step))
        if step.done:
            break
        observed = carried_out(observed, step)
    assert observed.firewall is not None
    assert {SSH} <= set(observed.firewall.rules)
    assert "m9" in observed.firewall.provider_ids
    return lines


def carried_out(observed: FirewallObservation, step: FirewallStep) -> FirewallObservation:
    if step.record is not None:
        return replace(observed, entries=step.record)
    firewall = observed.firewall
    assert firewall is not None
    rules, nodes = set(firewall.rules), set(firewall.provider_ids)
    match step.action:
        case AddFirewallRules(rules=added):
            rules |= set(added)
        case RemoveFirewallRules(rules=removed):
            rules -= set(removed)
        case AddFirewallNodes(provider_ids=added_nodes):
            nodes |= set(added_nodes)
        case RemoveFirewallNodes(provider_ids=removed_nodes):
            nodes -= set(removed_nodes)
        case None:
            raise AssertionError(step)
    held = NONE.with_items(rules, nodes)
    return replace(observed, firewall=replace(firewall, rules=held.rules, provider_ids=held.nodes))


FAILURES = {
    "no such firewall": (None, NotFound("no firewall fw"), "FirewallNotFound", 15.0),
    "no such node is not the firewall": (ADD_M1, NotFound("no node m1"), "FirewallFailed", 60.0),
    "wrong credentials": (None, AccessDenied("403"), "AccessDenied", 60.0),
    "refused": (ADD_M1, Rejected("no"), "FirewallFailed", 60.0),
    "down": (None, Unavailable("503"), "FirewallFailed", 1.0),
    "the answer is lost": (ADD_HTTP, OutcomeUnknown("timed out"), "FirewallFailed", 1.0),
}


@pytest.mark.parametrize(("action", "error", "reason", "seconds"), FAILURES.values(), ids=FAILURES)
def test_a_failure_says_what_to_mend(action: Any, error: Any, reason: str, seconds: float) -> None:
    failure = next_failure(None, "fw", action, error, NOW, 1.0)
    assert (failure.attempts, failure.reason, failure.action) == (1, reason, action)
    assert failure.not_before == NOW + seconds
    assert failure.error.startswith(f"firewall fw: {error.message}")


def test_the_same_failure_waits_longer_and_another_begins_anew() -> None:
    first = next_failure(None, "fw", ADD_HTTP, Rejected("no"), NOW, 1.0)
    second = next_failure(first, "fw", ADD_HTTP, Rejected("no"), NOW, 1.0)
    assert (second.attempts, second.not_before) == (2, NOW + 300)
    other = next_failure(second, "fw", ADD_M1, Rejected("no"), NOW, 1.0)
    assert (other.attempts, other.not_before) == (1, NOW + 60)


def test_entries_of_one_firewall() -> None:
    assert NONE.is_same_firewall(entries(HTTP, "m1"))
    for other in ("name", "provider", "region", "credentials"):
        assert not NONE.is_same_firewall(replace(NONE, **{other: "else"}))
    assert entries("m2", HTTPS, HTTP, "m1") == entries(HTTP, HTTPS, "m1", "m2"), "sorted"
