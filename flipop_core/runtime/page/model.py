"""What the status page shows, and in which words: a pure function of the overview and of what the process knows.

The model holds times and no ages, so that it changes only when something has happened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.runtime.history import History
from flipop_core.runtime.page.words import unix_seconds, visible

MAX_ADDRESSES = 500
"""How many addresses one page shows, those of resources with trouble first: the page stays below half a megabyte."""

MAX_HOLDS = 10
"""How many holds are shown of one resource."""

Tone = Literal["good", "busy", "bad", "idle"]

_STATE_TONES: dict[str, Tone] = {
    "active": "good",
    "in-progress": "busy",
    "no-match": "bad",
    "unassigned": "bad",
    "error": "bad",
}
_HOLDS_MOVES = frozenset({"Grace"})
_NAME_LIMIT = 253


class AccountFact(msgspec.Struct, frozen=True):
    """One provider account in one role. ``accepted`` is None while its credentials have not been verified.

    ``closed_until`` (Unix time) is when it may be called again, None for now.
    """

    role: str
    account: str
    credentials: str
    used: bool
    accepted: bool | None
    message: str = ""
    closed_until: float | None = None
    gate_reason: str = ""
    gate_message: str = ""


class Process(msgspec.Struct, frozen=True):
    """What a replica knows of itself. ``leading`` without ``elects``: it acts without an election.

    ``problem`` is what keeps it from being ready. ``epoch`` is the Unix time at which its monotonic clock was 0.
    """

    identity: str
    version: str
    leading: bool
    elects: bool = True
    holder: str = ""
    problem: str = ""
    epoch: float = 0.0
    accounts: tuple[AccountFact, ...] = ()


class HeldView(msgspec.Struct, frozen=True):
    """Something that waits. ``until`` is Unix time; ``moves``: then the address moves."""

    reason: str
    message: str
    until: float | None
    moves: bool


class AddressRow(msgspec.Struct, frozen=True):
    """One address. ``since`` is Unix time, and a bound only if not ``exact``."""

    address: str
    state: str
    tone: Tone
    node: str
    since: float | None
    exact: bool
    error: str
    holds: tuple[HeldView, ...]


class ResourceRow(msgspec.Struct, frozen=True):
    """A pool, a RoutedIP or a record set. ``facts`` are a few words each; ``since`` and ``created`` are Unix times."""

    anchor: str
    name: str
    ready: str
    tone: Tone
    reason: str
    message: str
    since: float | None
    created: float | None
    facts: tuple[str, ...]
    dns: tuple[str, ...]
    firewall: str
    holds: tuple[HeldView, ...]
    addresses: tuple[AddressRow, ...]
    left_out: int = 0


class Group(msgspec.Struct, frozen=True):
    """All resources of one kind."""

    slug: str
    title: str
    rows: tuple[ResourceRow, ...]
    holds_addresses: bool


class MoveRow(msgspec.Struct, frozen=True):
    """One move. ``ended_at`` is Unix time."""

    resource: str
    address: str
    from_node: str
    to_node: str
    why: str
    ended_at: float
    seconds: float | None


class Figure(msgspec.Struct, frozen=True):
    """One number of the summary, such as 3 of 4."""

    label: str
    value: int
    total: int
    tone: Tone


class Page(msgspec.Struct, frozen=True):
    """The whole page. ``headline`` is one sentence, which is read out when it changes.

    ``replica`` and ``leader`` are the host parts of identities, which are the names of pods.
    """

    process: Process
    replica: str
    leader: str
    role: str
    headline: str
    tone: Tone
    figures: tuple[Figure, ...]
    attention: tuple[ResourceRow, ...]
    groups: tuple[Group, ...]
    moves: tuple[MoveRow, ...]


def page_model(overview: Mapping[str, Sequence[Mapping[str, Any]]], process: Process, history: History) -> Page:
    """Return the page for an overview as `flipop_core.runtime.overview.describe` returns it."""
    granted = _grants(overview)
    groups = tuple(
        Group(
            slug,
            title,
            tuple(
                _row(Key(kind, row["namespace"], row["name"]), row, process, history, granted) for row in overview[name]
            ),
            name in _HOLDERS,
        )
        for name, (slug, title, kind) in _GROUPS.items()
    )
    attention = tuple(row for group in groups for row in group.rows if row.tone == "bad")
    figures = _figures(overview)
    return Page(
        process=_clean_process(process),
        replica=_host(process.identity),
        leader=_host(process.holder),
        role=_role(process),
        headline=_headline(overview, process, len(attention)),
        tone="bad" if attention or process.problem else "good",
        figures=figures,
        attention=attention[:MAX_HOLDS],
        groups=tuple(group for group in groups if group.rows),
        moves=tuple(_move(move) for move in history.moves),
    )


_HOLDERS = frozenset({"pools", "routedIPs"})
_GROUPS = {
    "pools": ("pools", "Pools", "FloatingIPPool"),
    "routedIPs": ("routed-ips", "Routed IPs", "RoutedIP"),
    "recordSets": ("record-sets", "Record sets", "NodeDNSRecordSet"),
}


def _grants(overview: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[Key, int]:
    """Return how many addresses of each resource are shown."""
    holders = [
        (Key(_GROUPS[name][2], row["namespace"], row["name"]), row) for name in _HOLDERS for row in overview[name]
    ]
    left, granted = MAX_ADDRESSES, {}
    for key, row in sorted(holders, key=lambda holder: (bool(holder[1]["ready"]), holder[0])):
        granted[key] = min(left, len(row["addresses"]))
        left -= granted[key]
    return granted


def _row(
    key: Key, row: Mapping[str, Any], process: Process, history: History, granted: Mapping[Key, int]
) -> ResourceRow:
    holds = history.holds.get(key, ()) if process.leading else ()
    by_address: dict[str, list[Hold]] = {}
    for hold in holds:
        by_address.setdefault(hold.address, []).append(hold)
    given = sorted(row.get("addresses", ()), key=lambda each: each["state"] in ("active", "disabled"))
    shown = given[: granted.get(key, 0)]
    names = {each["address"] for each in shown}
    rest = [hold for address, held in by_address.items() if address not in names for hold in held]
    tone = _ready_tone(row, given)
    return ResourceRow(
        anchor=_anchor(key),
        name=visible(f"{row['namespace']}/{row['name']}", 2 * _NAME_LIMIT),
        ready={True: "Ready", False: "Not ready", None: "Not reported"}[row["ready"]],
        tone=tone,
        reason=visible(row["reason"], _NAME_LIMIT),
        message=visible(row["message"]),
        since=unix_seconds(row["since"]),
        created=unix_seconds(row["created"]),
        facts=_facts(row),
        dns=tuple(visible(f"{each['type']} {each['name']} ({each['provider']})", 400) for each in row["dns"]),
        firewall=visible(row.get("firewall", ""), _NAME_LIMIT),
        holds=tuple(_held(hold, process.epoch) for hold in rest[:MAX_HOLDS]),
        addresses=tuple(_address(key, each, history, by_address, process.epoch) for each in shown),
        left_out=len(given) - len(shown),
    )


def _ready_tone(row: Mapping[str, Any], addresses: Sequence[Mapping[str, Any]]) -> Tone:
    if row["ready"]:
        return "good"
    if row["ready"] is None:
        return "idle"
    # Under way, and nothing is wrong: it will be ready in a moment.
    busy = row["reason"] in _UNDER_WAY and all(each["state"] not in ("error", "no-match") for each in addresses)
    return "busy" if busy else "bad"


_UNDER_WAY = frozenset({"Assigning", "Reading", "Creating", "UpdatingDNS", "Updating"})


def _facts(row: Mapping[str, Any]) -> tuple[str, ...]:
    facts = [row["provider"]] if row.get("provider") else []
    if "desired" in row:
        facts.append(f"{row['active']} of {row['desired']} active")
        facts.append(_nodes(row["candidates"], len(row["freeNodes"])))
    if row.get("service"):
        ports = ", ".join(row["ports"])
        facts.append(f"Service {row['service']}" + (f" on {ports}" if ports else ""))
    return tuple(visible(fact, 400) for fact in facts)


def _nodes(fit: int, free: int) -> str:
    return f"{fit} fit {'node' if fit == 1 else 'nodes'}, {free} free"


def _address(
    key: Key, row: Mapping[str, Any], history: History, holds: Mapping[str, list[Hold]], epoch: float
) -> AddressRow:
    unchanged = history.unchanged.get((key, row["address"]))
    return AddressRow(
        address=visible(row["address"], _NAME_LIMIT),
        state=visible(row["state"], _NAME_LIMIT),
        tone=_STATE_TONES.get(row["state"], "idle"),
        node=visible(row["node"], _NAME_LIMIT),
        since=unchanged.since if unchanged is not None else None,
        exact=unchanged is not None and unchanged.exact,
        error=visible(row["error"]),
        holds=tuple(_held(hold, epoch) for hold in holds.get(row["address"], ())[:MAX_HOLDS]),
    )


def _held(hold: Hold, epoch: float) -> HeldView:
    until = round(epoch + hold.until) if hold.until is not None else None
    return HeldView(visible(hold.reason, _NAME_LIMIT), visible(hold.message), until, hold.reason in _HOLDS_MOVES)


def _move(move: Any) -> MoveRow:
    return MoveRow(
        resource=visible(f"{move.key.namespace}/{move.key.name}", 2 * _NAME_LIMIT),
        address=visible(move.address, _NAME_LIMIT),
        from_node=visible(move.from_node, _NAME_LIMIT),
        to_node=visible(move.to_node, _NAME_LIMIT),
        why=visible(move.why),
        ended_at=move.ended_at,
        seconds=move.seconds,
    )


def _figures(overview: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Figure, ...]:
    labels = {"pools": "Pools ready", "routedIPs": "Routed IPs ready", "recordSets": "Record sets ready"}
    figures = [
        _figure(label, sum(bool(row["ready"]) for row in overview[name]), len(overview[name]))
        for name, label in labels.items()
        if overview[name]
    ]
    addresses = [
        address
        for name in sorted(_HOLDERS)
        for row in overview[name]
        for address in row["addresses"]
        if address["state"] != "disabled"
    ]
    if addresses:
        active = sum(address["state"] == "active" for address in addresses)
        figures.append(_figure("Addresses active", active, len(addresses)))
    return tuple(figures)


def _figure(label: str, value: int, total: int) -> Figure:
    return Figure(label, value, total, "good" if value == total else "bad")


def _host(identity: str) -> str:
    return visible(identity.partition("_")[0], _NAME_LIMIT)


def _role(process: Process) -> str:
    if process.leading:
        return "Leader" if process.elects else "Acts alone"
    return "Standby"


def _headline(overview: Mapping[str, Sequence[Mapping[str, Any]]], process: Process, attention: int) -> str:
    if process.problem:
        return visible(process.problem)
    count = sum(len(rows) for rows in overview.values())
    if not count:
        return "No pools, RoutedIPs or record sets yet."
    if attention:
        return f"{attention} of {count} {'needs' if attention == 1 else 'need'} attention."
    unready = sum(not row["ready"] for rows in overview.values() for row in rows)
    return f"{unready} of {count} under way." if unready else f"All {count} ready." if count > 1 else "Ready."


def _clean_process(process: Process) -> Process:
    accounts = tuple(
        msgspec.structs.replace(
            fact,
            role=visible(fact.role, _NAME_LIMIT),
            account=visible(fact.account, 2 * _NAME_LIMIT),
            credentials=visible(fact.credentials, 400),
            message=visible(fact.message),
            gate_reason=visible(fact.gate_reason, _NAME_LIMIT),
            gate_message=visible(fact.gate_message),
        )
        for fact in process.accounts
    )
    return msgspec.structs.replace(
        process,
        identity=visible(process.identity, 400),
        version=visible(process.version, _NAME_LIMIT),
        holder=visible(process.holder, 400),
        problem=visible(process.problem),
        epoch=0.0,  # two readings of it differ by a little
        accounts=accounts,
    )


def _anchor(key: Key) -> str:
    """Return an ID for the document: one for each resource, without what an ID or an address bar would not take."""
    name = f"{key.kind}/{key.namespace}/{key.name}"
    return re.sub(r"[^A-Za-z0-9.-]", lambda match: ":" if match[0] == "/" else f"_{ord(match[0]):x}_", name)
