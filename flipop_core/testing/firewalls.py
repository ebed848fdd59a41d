"""The firewalls of the simulated cloud: rules that open ports, nodes they apply to, and changes that take time."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from flipop_core.errors import NotFound, ProviderError, QuotaExceeded, Rejected
from flipop_core.model import Applied, InProgress, MutationResult
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.testing.clock import Clock

NODE_PORTS = range(30000, 32768)
"""The ports that a platform with the capability ``opens_node_ports`` lets traffic to."""

_PROTOCOLS = frozenset({"tcp", "udp"})
_LAST_PORT = 65535


class _State(msgspec.Struct, frozen=True, gc=False):
    """What a firewall does. ``foreign`` are rules that no caller of the service added."""

    rules: tuple[FirewallRule, ...] = ()
    provider_ids: tuple[str, ...] = ()
    foreign: frozenset[FirewallRule] = frozenset()


class _Held(msgspec.Struct):
    """A firewall: as it is in effect, and as it is to be after each pending change, in order, with when that ends."""

    id: str
    name: str
    in_effect: _State
    pending: list[tuple[float, _State]] = []
    other_rules: tuple[str, ...] = ()

    @property
    def wanted(self) -> _State:
        return self.pending[-1][1] if self.pending else self.in_effect


class InMemoryFirewalls:
    """The firewalls of one account. Thread-safe.

    ``scheme`` is how the provider IDs of its nodes begin, ``nodes`` tells which exist; one that is destroyed leaves its
    firewalls. The rest may be set at any time: ``action_seconds`` is how long a change takes to come into effect, 0 for
    at once; ``rule_limit`` and ``node_limit`` are those of one firewall, None for none; with ``marks_rules`` the
    service knows whose a rule is, and removes for its callers only what they added; ``opens_node_ports``: the platform
    lets traffic to `NODE_PORTS` in by itself. ``writes`` counts the changes that calls made.
    """

    def __init__(self, scheme: str, nodes: Callable[[], Collection[str]], *, clock: Clock = time.monotonic) -> None:
        self.action_seconds = 0.0
        self.rule_limit: int | None = None
        self.node_limit: int | None = None
        self.marks_rules = False
        self.opens_node_ports = False
        self.writes = 0
        self._scheme = scheme
        self._nodes = nodes
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._made = 0

    # What a test or the demo sees and does, behind the controller's back.

    def add_firewall(self, name: str, rules: Sequence[FirewallRule] = (), provider_ids: Sequence[str] = ()) -> str:
        """Add a firewall, in effect at once, and return its ID. Names may repeat. Its rules count as somebody else's.

        Raises ValueError for a node that does not exist.
        """
        with self._settled():
            self._check_exist(provider_ids)
            self._made += 1
            held = _Held(f"firewall-{self._made}", name, _state(rules, provider_ids, frozenset(rules)))
            self._held[held.id] = held
            return held.id

    def remove_firewall(self, name: str) -> None:
        """Remove the firewall of that name or ID. Raises KeyError when there is not exactly one."""
        with self._settled():
            del self._held[self._one(name).id]

    def rename(self, name: str, new_name: str) -> None:
        """Give a firewall another name. Raises KeyError when there is not exactly one."""
        with self._settled():
            self._one(name).name = new_name

    def put_rules(self, name: str, rules: Sequence[FirewallRule]) -> None:
        """Replace all rules, at once, by somebody else's. Raises KeyError when there is not exactly one firewall."""
        with self._settled():
            held = self._one(name)
            held.in_effect, held.pending = _state(rules, held.wanted.provider_ids, frozenset(rules)), []

    def put_nodes(self, name: str, provider_ids: Sequence[str]) -> None:
        """Replace all nodes, at once. Raises KeyError when there is not exactly one firewall, ValueError as above."""
        with self._settled():
            self._check_exist(provider_ids)
            held = self._one(name)
            held.in_effect, held.pending = replace(held.wanted, provider_ids=tuple(sorted(set(provider_ids)))), []

    def put_other_rules(self, name: str, rules: Sequence[str]) -> None:
        """Let the firewall have rules that are none from CIDRs, in words. Providers neither see nor change them."""
        with self._settled():
            self._one(name).other_rules = tuple(rules)

    def other_rules(self, name: str) -> tuple[str, ...]:
        """Return what `put_other_rules` set. Raises KeyError when there is not exactly one firewall."""
        with self._settled():
            return self._one(name).other_rules

    def firewall(self, name: str) -> Firewall:
        """Return the firewall of that name or ID. Raises KeyError when there is not exactly one."""
        with self._settled():
            return _view(self._one(name))

    def admits(self, provider_id: str, protocol: str, port: int, source: str = "0.0.0.0/0") -> bool:
        """Whether traffic from all of the CIDR ``source`` reaches that port of the node now.

        It does when a firewall that applies to the node has a rule for it, and it surely does: while a change is
        pending, only what holds before and after it counts.
        """
        with self._settled():
            if self.opens_node_ports and protocol in _PROTOCOLS and port in NODE_PORTS:
                return True
            return any(
                all(_admits(state, provider_id, protocol, port, source) for state in _possible(held))
                for held in self._held.values()
            )

    # What the service answers to a provider.

    def get(self, name: str) -> Firewall:
        """Return the firewall of that ID or name."""
        with self._settled():
            if name in self._held:
                return _view(self._held[name])
            found = [held for held in self._held.values() if held.name == name]
            if not found:
                raise _refusal(NotFound, "get_firewall", f"no firewall {name}")
            if len(found) > 1:
                ids = ", ".join(held.id for held in found)
                raise _refusal(Rejected, "get_firewall", f"{len(found)} firewalls have the name {name}: {ids}")
            return _view(found[0])

    def add_rules(self, firewall_id: str, rules: Sequence[FirewallRule]) -> MutationResult:
        """Add the rules that are not there yet."""
        with self._settled() as now:
            held = self._existing(firewall_id, "add_rules")
            for rule in rules:
                _check_rule(rule)
            wanted = held.wanted
            added = set(rules) - set(wanted.rules)
            _check_limit("add_rules", "rules", len(wanted.rules) + len(added), self.rule_limit if added else None)
            return self._change(held, _state({*wanted.rules, *added}, wanted.provider_ids, wanted.foreign), now)

    def remove_rules(self, firewall_id: str, rules: Sequence[FirewallRule]) -> MutationResult:
        """Remove the rules that are there; with ``marks_rules``, those that were added by a call."""
        with self._settled() as now:
            held = self._existing(firewall_id, "remove_rules")
            wanted = held.wanted
            gone = set(rules) - (wanted.foreign if self.marks_rules else frozenset())
            left = _state(set(wanted.rules) - gone, wanted.provider_ids, wanted.foreign - gone)
            return self._change(held, left, now)

    def add_nodes(self, firewall_id: str, provider_ids: Sequence[str]) -> MutationResult:
        """Apply the firewall to these nodes too."""
        with self._settled() as now:
            held = self._existing(firewall_id, "add_nodes")
            self._check_ours(provider_ids, "add_nodes")
            missing = sorted(set(provider_ids) - set(self._nodes()))
            if missing:
                raise _refusal(NotFound, "add_nodes", f"no node {', '.join(missing)}")
            wanted = held.wanted
            nodes = {*wanted.provider_ids, *provider_ids}
            grows = len(nodes) > len(wanted.provider_ids)
            _check_limit("add_nodes", "nodes", len(nodes), self.node_limit if grows else None)
            return self._change(held, _state(wanted.rules, nodes, wanted.foreign), now)

    def remove_nodes(self, firewall_id: str, provider_ids: Sequence[str]) -> MutationResult:
        """Stop applying the firewall to these nodes."""
        with self._settled() as now:
            held = self._existing(firewall_id, "remove_nodes")
            self._check_ours(provider_ids, "remove_nodes")
            wanted = held.wanted
            nodes = set(wanted.provider_ids) - set(provider_ids)
            return self._change(held, _state(wanted.rules, nodes, wanted.foreign), now)

    # The lock is held.

    @contextmanager
    def _settled(self) -> Iterator[float]:
        """Hold the lock, with every change in effect that is due and every destroyed node gone; yield the time."""
        with self._lock:
            now, nodes = self._clock(), frozenset(self._nodes())
            for held in self._held.values():
                while held.pending and held.pending[0][0] <= now:
                    held.in_effect = held.pending.pop(0)[1]
                held.in_effect = _only_on(held.in_effect, nodes)
                held.pending = [(ends_at, _only_on(state, nodes)) for ends_at, state in held.pending]
            yield now

    def _change(self, held: _Held, wanted: _State, now: float) -> MutationResult:
        if wanted == held.wanted:
            return InProgress(held.id, held.pending[-1][0] - now) if held.pending else Applied()
        self.writes += 1
        if self.action_seconds <= 0:
            held.in_effect, held.pending = wanted, []
            return Applied()
        held.pending.append((now + self.action_seconds, wanted))
        return InProgress(f"{held.id}-change-{self.writes}", self.action_seconds)

    def _one(self, name: str) -> _Held:
        found = [held for held in self._held.values() if name in {held.id, held.name}]
        if len(found) != 1:
            raise KeyError(f"{len(found)} firewalls {name}")
        return found[0]

    def _existing(self, firewall_id: str, operation: str) -> _Held:
        held = self._held.get(firewall_id)
        if held is None:
            raise _refusal(NotFound, operation, f"no firewall {firewall_id}")
        return held

    def _check_exist(self, provider_ids: Collection[str]) -> None:
        missing = sorted(set(provider_ids) - set(self._nodes()))
        if missing:
            raise ValueError(f"no node {', '.join(missing)}")

    def _check_ours(self, provider_ids: Collection[str], operation: str) -> None:
        for provider_id in provider_ids:
            if not provider_id.startswith(self._scheme) or provider_id == self._scheme:
                text = f"{provider_id!r} is no provider ID of this cloud ({self._scheme}<name>)"
                raise _refusal(Rejected, operation, text)


def _state(rules: Collection[FirewallRule], nodes: Collection[str], foreign: frozenset[FirewallRule]) -> _State:
    return _State(tuple(sorted(set(rules), key=_order)), tuple(sorted(set(nodes))), foreign)


def _order(rule: FirewallRule) -> tuple[object, ...]:
    return rule.protocol, rule.port, rule.end_port, rule.sources


def _only_on(state: _State, nodes: frozenset[str]) -> _State:
    if nodes.issuperset(state.provider_ids):
        return state
    return replace(state, provider_ids=tuple(node for node in state.provider_ids if node in nodes))


def _view(held: _Held) -> Firewall:
    wanted = held.wanted
    return Firewall(held.id, held.name, wanted.rules, wanted.provider_ids, in_progress=bool(held.pending))


def _possible(held: _Held) -> list[_State]:
    return [held.in_effect, *(state for _, state in held.pending)]


def _admits(state: _State, provider_id: str, protocol: str, port: int, source: str) -> bool:
    return provider_id in state.provider_ids and any(
        rule.protocol == protocol
        and rule.port <= port <= (rule.end_port or rule.port)
        and any(_contains(network, source) for network in rule.sources)
        for rule in state.rules
    )


def _contains(network: str, source: str) -> bool:
    outer, inner = ipaddress.ip_network(network), ipaddress.ip_network(source)
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)


def _check_rule(rule: FirewallRule) -> None:
    """Raise Rejected for a rule that the service does not take."""
    last = rule.end_port or rule.port
    refusals = {
        f"no rules of protocol {rule.protocol!r} here": rule.protocol not in _PROTOCOLS,
        f"{rule.port} to {last} are no ports": not 1 <= rule.port <= last <= _LAST_PORT,
        "a rule needs a source": not rule.sources,
        f"{', '.join(rule.sources)} are no CIDRs": not all(_is_network(source) for source in rule.sources),
    }
    for reason, applies in refusals.items():
        if applies:
            raise _refusal(Rejected, "add_rules", reason)


def _is_network(text: str) -> bool:
    try:
        return str(ipaddress.ip_network(text)) == text
    except ValueError:
        return False


def _check_limit(operation: str, what: str, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        raise _refusal(QuotaExceeded, operation, f"a firewall can have {limit} {what}")


def _refusal(error: type[ProviderError], operation: str, message: str) -> ProviderError:
    return error(message, provider="memory", operation=operation)
