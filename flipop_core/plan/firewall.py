"""Plan what a RoutedIP needs of a cloud firewall: opened before its address comes to a node, closed after it has left.

Several RoutedIPs may share a firewall, and others use it too. What the project adds is recorded on the RoutedIP before
it is added, by each RoutedIP that needs it; it is removed when the last of them needs it no more. Nothing else is ever
removed. One step at a time: the next is planned from what the firewall then is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from flipop_core.errors import AccessDenied, FlipopError, NotFound
from flipop_core.model import Key
from flipop_core.plan.actions import Hold
from flipop_core.plan.limits import Backoff, Gate, next_backoff
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.resources import reasons
from flipop_core.resources.routed import FirewallEntries, rule_order

__all__ = [
    "AddFirewallNodes",
    "AddFirewallRules",
    "FirewallAction",
    "FirewallEntries",
    "FirewallFailure",
    "FirewallObservation",
    "FirewallStep",
    "RemoveFirewallNodes",
    "RemoveFirewallRules",
    "Share",
    "admits",
    "announced",
    "is_part",
    "next_failure",
    "plan_closing",
    "plan_opening",
    "rule_order",
]

FRESH_SECONDS = 5.0
"""How old the firewall as read may be when an address is moved in reliance on it."""

MISSING_SECONDS = 15.0
"""After how long a firewall that does not exist is looked for again."""

PENDING_SECONDS = 1.0
"""How long after a read that shows changes not in effect yet the firewall is read again."""


class _Change(msgspec.Struct, frozen=True, gc=False, tag_field="action"):
    firewall: str


class AddFirewallRules(_Change, frozen=True, tag="add-firewall-rules"):
    """Let traffic to ports through a firewall."""

    rules: tuple[FirewallRule, ...]

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"open {_ports(self.rules)} in firewall {self.firewall}"


class AddFirewallNodes(_Change, frozen=True, tag="add-firewall-nodes"):
    """Apply a firewall to nodes too."""

    provider_ids: tuple[str, ...]

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"add {', '.join(self.provider_ids)} to firewall {self.firewall}"


class RemoveFirewallRules(_Change, frozen=True, tag="remove-firewall-rules"):
    """Take rules that the project added out of a firewall."""

    rules: tuple[FirewallRule, ...]

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"close {_ports(self.rules)} in firewall {self.firewall}"


class RemoveFirewallNodes(_Change, frozen=True, tag="remove-firewall-nodes"):
    """Take nodes that the project added out of a firewall."""

    provider_ids: tuple[str, ...]

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"remove {', '.join(self.provider_ids)} from firewall {self.firewall}"


FirewallAction = AddFirewallRules | AddFirewallNodes | RemoveFirewallRules | RemoveFirewallNodes


class FirewallFailure(Backoff, frozen=True, gc=False):
    """A `Backoff` after calls about a firewall have failed, with the CamelCase ``reason`` for a condition.

    ``action`` is the change that failed, None when it was a read.
    """

    reason: str = reasons.FIREWALL_FAILED
    action: FirewallAction | None = None


def next_failure(
    previous: FirewallFailure | None,
    firewall: str,
    action: FirewallAction | None,
    error: FlipopError,
    now: float,
    jitter: float,
) -> FirewallFailure:
    """Return the failure after one more call about ``firewall`` failed: it says what to mend."""
    same = previous if previous is not None and previous.action == action else None
    backoff = next_backoff(same, error, now, jitter)
    reason, text, not_before = reasons.FIREWALL_FAILED, backoff.error, backoff.not_before
    if isinstance(error, NotFound) and action is None:
        # Somebody is about to create it, most likely: nothing moves until then.
        reason, not_before = reasons.FIREWALL_NOT_FOUND, min(not_before, now + MISSING_SECONDS * jitter)
        text = f"firewall {firewall}: {text}: correct routedIPFirewallName, or create the firewall"
    elif isinstance(error, AccessDenied):
        reason, text = (
            reasons.ACCESS_DENIED,
            f"firewall {firewall}: {text}: let the credentials read and change firewalls",
        )
    else:
        text = f"firewall {firewall}: {text}"
    return FirewallFailure(backoff.attempts, not_before, text, reason, action)


class Share(msgspec.Struct, frozen=True):
    """What all other RoutedIPs of a firewall need of it now, and what they have recorded to have added."""

    rules: frozenset[FirewallRule] = frozenset()
    nodes: frozenset[str] = frozenset()
    recorded_rules: frozenset[FirewallRule] = frozenset()
    recorded_nodes: frozenset[str] = frozenset()


class FirewallObservation(msgspec.Struct, frozen=True):
    """All that decides what is done to one firewall for one RoutedIP.

    ``firewall`` is it as last read or changed, at ``read_at`` (monotonic seconds); None when it is not known. ``rules``
    are those that the service needs; ``nodes`` those that hold the address or are about to. ``entries`` is what is
    recorded. ``busy``: a call about it is under way. ``reread_at`` is when it is to be read again even at rest.
    """

    key: Key
    entries: FirewallEntries
    firewall: Firewall | None = None
    read_at: float = float("-inf")
    rules: frozenset[FirewallRule] = frozenset()
    nodes: frozenset[str] = frozenset()
    others: Share = Share()
    busy: bool = False
    reread_at: float = float("inf")
    gate: Gate = Gate()
    failure: FirewallFailure | None = None


class FirewallStep(msgspec.Struct, frozen=True):
    """The next step with one firewall: at most one of read, record and action.

    ``done``: nothing is left to be done, and all of it is in effect. ``record`` is what `FirewallEntries` are to be.
    """

    done: bool = False
    read: bool = False
    record: FirewallEntries | None = None
    action: FirewallAction | None = None
    hold: Hold | None = None


def admits(firewall: Firewall, rule: FirewallRule) -> bool:
    """Whether the firewall's rules let all sources of ``rule`` reach its port."""
    return all(any(_covers(present, rule, source) for present in firewall.rules) for source in rule.sources)


def is_part(present: FirewallRule, rule: FirewallRule) -> bool:
    """Whether a rule that is present is ``rule``, or what is left of it after somebody took some sources away."""
    return replace(present, sources=rule.sources) == rule and set(present.sources) <= set(rule.sources)


def plan_opening(
    observed: FirewallObservation, nodes: Collection[str], now: float, *, fresh: bool = False
) -> FirewallStep:
    """Return the next step until the firewall admits the service's ports on ``nodes``; `done` when it does.

    Rules go before nodes, so that a node that is added is reachable at once. ``fresh``: an address is about to be moved
    in reliance on it.
    """
    waiting = _waits(observed, now, fresh=fresh)
    firewall = observed.firewall
    if waiting is not None or firewall is None:
        return waiting or FirewallStep(read=True)
    rules = {rule for rule in observed.rules if not admits(firewall, rule)}
    absent = set(nodes) - set(firewall.provider_ids)
    wanted = observed.entries.with_items(
        {*observed.entries.rules, *rules, *(observed.rules & observed.others.recorded_rules)},
        {*observed.entries.nodes, *absent, *(set(nodes) & observed.others.recorded_nodes)},
    )
    if wanted != observed.entries:
        return FirewallStep(record=replace(wanted, id=wanted.id or firewall.id))
    if rules:
        return _change(observed, AddFirewallRules(firewall.name, tuple(sorted(rules, key=rule_order))), now)
    if absent:
        return _change(observed, AddFirewallNodes(firewall.name, tuple(sorted(absent))), now)
    return _pending(observed, firewall, now) or FirewallStep(done=True)


def plan_closing(observed: FirewallObservation, now: float) -> FirewallStep:
    """Return the next step until nothing is left of what this RoutedIP had added and does not need; then `done`."""
    entries, others = observed.entries, observed.others
    stale_rules, stale_nodes = set(entries.rules) - observed.rules, set(entries.nodes) - observed.nodes
    if not stale_rules and not stale_nodes:
        return FirewallStep(done=True)
    # What another one needs is its to remove, as soon as that is on record.
    theirs = (stale_rules & others.recorded_rules, stale_nodes & others.recorded_nodes)
    if any(theirs):
        return _dropped(entries, *theirs)
    stale_rules -= others.rules
    stale_nodes -= others.nodes
    if not stale_rules and not stale_nodes:
        return FirewallStep(hold=Hold(reasons.FIREWALL_SHARED, "another RoutedIP is about to take its rules over"))
    if observed.failure is not None and observed.failure.reason == reasons.FIREWALL_NOT_FOUND:
        return _dropped(entries, set(entries.rules), set(entries.nodes))
    waiting = _waits(observed, now, fresh=True)
    firewall = observed.firewall
    if waiting is not None or firewall is None:
        return waiting or FirewallStep(read=True)
    if pending := _pending(observed, firewall, now):
        return pending
    if gone := {rule for rule in stale_rules if not any(is_part(present, rule) for present in firewall.rules)}:
        return _dropped(entries, gone, set())
    if stale_rules:
        return _change(observed, RemoveFirewallRules(firewall.name, tuple(sorted(stale_rules, key=rule_order))), now)
    if left := stale_nodes - set(firewall.provider_ids):
        return _dropped(entries, set(), left)
    return _change(observed, RemoveFirewallNodes(firewall.name, tuple(sorted(stale_nodes))), now)


def announced(observed: FirewallObservation, step: FirewallStep) -> tuple[FirewallAction, ...]:
    """Return the step's action, or the additions that follow when what it records is on record."""
    firewall = observed.firewall
    if step.action is not None or step.record is None or firewall is None:
        return () if step.action is None else (step.action,)
    rules = [rule for rule in set(step.record.rules) - set(observed.entries.rules) if not admits(firewall, rule)]
    nodes = set(step.record.nodes) - set(observed.entries.nodes) - set(firewall.provider_ids)
    actions: list[FirewallAction] = []
    if rules:
        actions.append(AddFirewallRules(firewall.name, tuple(sorted(rules, key=rule_order))))
    if nodes:
        actions.append(AddFirewallNodes(firewall.name, tuple(sorted(nodes))))
    return tuple(actions)


def _change(observed: FirewallObservation, action: FirewallAction, now: float) -> FirewallStep:
    """Return the step that makes the change, or waits since the very same one has just failed."""
    failure = observed.failure
    if failure is not None and failure.action == action and failure.not_before > now:
        return FirewallStep(hold=Hold(failure.reason, failure.error, until=failure.not_before))
    return FirewallStep(action=action)


def _dropped(entries: FirewallEntries, rules: Collection[FirewallRule], nodes: Collection[str]) -> FirewallStep:
    return FirewallStep(record=entries.with_items(set(entries.rules) - set(rules), set(entries.nodes) - set(nodes)))


def _waits(observed: FirewallObservation, now: float, *, fresh: bool) -> FirewallStep | None:
    """Return what has to be waited for before the firewall can be judged, None for nothing."""
    gate, failure = observed.gate, observed.failure
    if observed.busy:
        return FirewallStep(
            hold=Hold(reasons.FIREWALL_PENDING, f"a call about firewall {observed.entries.name} is under way")
        )
    if gate.not_before > now:
        return FirewallStep(hold=Hold(gate.reason, gate.message, until=gate.not_before))
    if failure is not None and failure.action is None and failure.not_before > now:
        return FirewallStep(hold=Hold(failure.reason, failure.error, until=failure.not_before))
    too_old = fresh and observed.read_at + FRESH_SECONDS < now
    if observed.firewall is None or too_old or observed.reread_at <= now:
        return FirewallStep(read=True)
    return None


def _pending(observed: FirewallObservation, firewall: Firewall, now: float) -> FirewallStep | None:
    """Return the wait for changes that the provider has accepted, None when all are in effect."""
    if not firewall.in_progress:
        return None
    look_at = observed.read_at + PENDING_SECONDS
    if look_at <= now:
        return FirewallStep(read=True)
    message = f"changes of firewall {firewall.name} are not in effect yet"
    return FirewallStep(hold=Hold(reasons.FIREWALL_PENDING, message, until=look_at))


def _covers(present: FirewallRule, rule: FirewallRule, source: str) -> bool:
    last = rule.end_port or rule.port
    if present.protocol != rule.protocol or not present.port <= rule.port <= last <= (present.end_port or present.port):
        return False
    return any(_contains(network, source) for network in present.sources)


def _contains(network: str, other: str) -> bool:
    try:
        outer, inner = ipaddress.ip_network(network, strict=False), ipaddress.ip_network(other, strict=False)
    except ValueError:
        return False  # no CIDR: a source that no address can be compared with
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)


def _ports(rules: Iterable[FirewallRule]) -> str:
    return ", ".join(f"{rule.port}/{rule.protocol.upper()}" for rule in rules)
