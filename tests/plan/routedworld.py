"""A controller process in miniature that keeps RoutedIPs too: services, their firewalls, and what is recorded of them.

As `tests.plan.world`, which it builds on: each call is a `Flight`, and anything may happen before it departs or lands.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from flipop_core.errors import AccessDenied, ClusterUnavailable, FlipopError, NotFound, RateLimited, Rejected
from flipop_core.model import Applied, InProgress, Key
from flipop_core.plan.actions import AssignAddress, CreateAddress, Plan, ProviderAction
from flipop_core.plan.assess import pool_addresses
from flipop_core.plan.firewall import (
    AddFirewallNodes,
    FirewallAction,
    FirewallEntries,
    FirewallObservation,
    FirewallStep,
    RemoveFirewallNodes,
    RemoveFirewallRules,
    Share,
    next_failure,
)
from flipop_core.plan.limits import Gate, next_gate
from flipop_core.plan.observed import Operation, PoolMemory, PoolObservation
from flipop_core.plan.outcomes import Outcome, remember
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.report import pool_status
from flipop_core.plan.routedip import RoutedIPObservation, RoutedIPPlan, plan_routed_ip
from flipop_core.plan.routedstatus import routed_ip_status
from flipop_core.providers import Firewall, FirewallRule
from flipop_core.resources.parse import (
    PoolView,
    RoutedIPView,
    entries_annotation,
)
from flipop_core.resources.routed import RoutedIPIssuerSpec
from flipop_core.runtime.firewallaccounts import KnownFirewall, firewall_after
from flipop_core.testing.firewalls import InMemoryFirewalls
from tests.plan.account import RECHECK_SECONDS, Flight
from tests.plan.firewallground import FirewallGround
from tests.plan.routedcluster import RoutedCloud, RoutedCluster, Service
from tests.plan.world import Process, World


class RoutedWorld(World):
    """All there is, firewalls included. ``placed`` is where the project has put whose addresses, by which firewall."""

    cloud: RoutedCloud
    cluster: RoutedCluster
    process: RoutedProcess

    def __post_init__(self) -> None:
        firewalls = InMemoryFirewalls("memory://", lambda: self.cloud.machines, clock=lambda: self.now)
        self.ground = FirewallGround(firewalls, self.recorded)
        self.placed: dict[str, tuple[Key, str, str]] = {}
        self.process = RoutedProcess(self)

    def restart(self) -> None:
        """Let the process die and another one take its place."""
        self.process = RoutedProcess(self)

    def recorded(self) -> list[FirewallEntries]:
        """Return all entries that are recorded, or are being."""
        views = self.cluster.routed_views().values()
        written = [entries for view in views for entries in view.firewall_entries]
        return [*written, *(each for entries in self.process.recording.values() for each in entries)]

    def check_change(self, firewall: Firewall, action: FirewallAction) -> None:
        """Check as it is begun that a removal takes nothing that a RoutedIP needs, as far as the process knows."""
        if not isinstance(action, RemoveFirewallRules | RemoveFirewallNodes):
            return
        for key, view in self.process.routed.items():
            if view.metadata.deletion_timestamp is None and self._uses(view, firewall):
                rules, nodes = self.process.needs(key)
                if isinstance(action, RemoveFirewallRules):
                    assert not rules & set(action.rules), f"{action.summary}: {key} needs it"
                else:
                    assert not nodes & set(action.provider_ids), f"{action.summary}: {key} needs it"

    def check_departure(self, firewall: Firewall, action: FirewallAction) -> None:
        """Check as it has its effect that a removal takes no node where the project has put an address."""
        if not isinstance(action, RemoveFirewallNodes):
            return
        views = self.cluster.routed_views()
        for address, (key, target, name) in self.placed.items():
            view = views.get(key)
            if view is None or view.metadata.deletion_timestamp is not None or not self._uses(view, firewall):
                continue
            if self.process.firewall_name(view) != name or target not in action.provider_ids:
                continue
            assert self.cloud.whereabouts(address).isdisjoint({target}), f"{action.summary}: {address} is there"

    def _uses(self, view: RoutedIPView, firewall: Firewall) -> bool:
        return view.spec is not None and self.process.firewall_name(view) in (firewall.id, firewall.name)


class RoutedProcess(Process):
    """One life of the controller."""

    world: RoutedWorld

    def __init__(self, world: RoutedWorld) -> None:
        self.routed: dict[Key, RoutedIPView] = {}
        self.services: dict[str, Service] = {}
        self.known: dict[str, KnownFirewall] = {}
        self.ids: dict[str, str] = {}
        self.firewall_gate = Gate()
        self.changing: set[str] = set()
        self.recording: dict[Key, tuple[FirewallEntries, ...]] = {}
        self._unread: set[Key] = set()
        super().__init__(world)

    # -- observe -----------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Bring the stores up to date; what has changed is queued."""
        super().watch()
        if not self.watching:
            return
        cluster = self.world.cluster
        services = {name: Service(each.ports, set(each.nodes)) for name, each in cluster.services.items()}
        routed = cluster.routed_views()
        if services != self.services or routed != self.routed:
            self.queue |= routed.keys()
        for key in self._unread:
            self.recording.pop(key, None)  # the answer was lost; now the outcome shows
        self._unread.clear()
        self.services, self.routed = services, routed

    def observe(self, pool: PoolView) -> PoolObservation:
        """Gather what decides about addresses: a RoutedIP's nodes have a ready endpoint."""
        observed = super().observe(pool)
        if pool.kind != "RoutedIP":
            return observed
        view = self.routed[pool.key]
        assert view.spec is not None
        ready = self.services[view.spec.service_ref.name].nodes
        return replace(
            observed,
            candidates=tuple(node for node in observed.candidates if node.name in ready),
            adopts=False,
            node_limit=self.issuer(view).node_limit,
            prefers_youngest=True,
        )

    def observe_routed(self, pool: PoolView) -> RoutedIPObservation:
        """Gather all that decides about a RoutedIP."""
        view = self.routed[pool.key]
        name = self.firewall_name(view)
        rules, nodes = self.needs(pool.key)
        present = self._observe_firewall(view, name, rules, nodes) if name else None
        left = [each.name for each in view.firewall_entries if each.name != name and (each.rules or each.nodes)]
        former = tuple(self._observe_firewall(view, each, frozenset(), frozenset()) for each in left)
        return RoutedIPObservation(
            addresses=self.observe(pool),
            firewall=present,
            former=former,
            post_allow=self.issuer(view).firewall_post_allow,
        )

    def issuer(self, view: RoutedIPView) -> RoutedIPIssuerSpec:
        """Return its issuer."""
        assert view.spec is not None
        return self.world.cluster.issuers[view.spec.issuer_ref.name]

    def firewall_name(self, view: RoutedIPView) -> str:
        """Return its firewall as the specs name it, empty for none."""
        assert view.spec is not None
        return view.spec.routed_ip_firewall_name or self.issuer(view).routed_ip_firewall_name

    def needs(self, key: Key) -> tuple[frozenset[FirewallRule], frozenset[str]]:
        """Return the rules that the service needs, and the nodes that hold the address or are about to."""
        view, pool = self.routed[key], self.pools[key]
        assert view.spec is not None
        observed = super().observe(pool)
        own = pool_addresses(observed)[:1]
        records = observed.inventory.records
        held = {records[address].provider_id for address in own if address in records}
        coming = {o.target for o in observed.operations.values() if o.owner == key and o.verb in ("assign", "create")}
        nodes = frozenset(provider_id for provider_id in held | coming if provider_id)
        return self.services[view.spec.service_ref.name].rules(), nodes

    def _observe_firewall(
        self, view: RoutedIPView, name: str, rules: frozenset[FirewallRule], nodes: frozenset[str]
    ) -> FirewallObservation:
        known = self.known.get(self._id(name), KnownFirewall())
        entries = next((each for each in view.firewall_entries if each.name == name), None)
        return FirewallObservation(
            key=view.key,
            entries=entries or FirewallEntries(provider="memory", name=name),
            firewall=known.firewall,
            read_at=known.read_at,
            rules=rules,
            nodes=nodes,
            others=self._share(view.key, self._id(name)),
            busy=known.busy or view.key in self.recording,
            reread_at=known.read_at + RECHECK_SECONDS,
            gate=self.firewall_gate,
            failure=known.failure,
        )

    def _share(self, own: Key, firewall_id: str) -> Share:
        """Return what the others need and have recorded. Of a record that is being written only what stays counts."""
        share = Share()
        for key, view in self.routed.items():
            if key == own or view.spec is None:
                continue
            if view.metadata.deletion_timestamp is None and self._id(self.firewall_name(view)) == firewall_id:
                rules, nodes = self.needs(key)
                share = replace(share, rules=share.rules | rules, nodes=share.nodes | nodes)
            recorded_rules, recorded_nodes = self._items(view.firewall_entries, firewall_id)
            if key in self.recording:
                new_rules, new_nodes = self._items(self.recording[key], firewall_id)
                recorded_rules, recorded_nodes = recorded_rules & new_rules, recorded_nodes & new_nodes
            share = replace(
                share,
                recorded_rules=share.recorded_rules | recorded_rules,
                recorded_nodes=share.recorded_nodes | recorded_nodes,
            )
        return share

    def _items(
        self, entries: Collection[FirewallEntries], firewall_id: str
    ) -> tuple[frozenset[FirewallRule], frozenset[str]]:
        here = [each for each in entries if self._id(each.name) == firewall_id]
        return frozenset(r for each in here for r in each.rules), frozenset(n for each in here for n in each.nodes)

    def _id(self, name: str) -> str:
        """Return the firewall's ID, or its name as long as it has not been read."""
        return self.ids.get(name, name)

    # -- act ---------------------------------------------------------------------------------------------------------

    def plan_routed(self, key: Key) -> tuple[RoutedIPObservation, RoutedIPPlan]:
        """Return what is observed of a RoutedIP, and what is to be done."""
        observed = self.observe_routed(self.pools[key])
        return observed, plan_routed_ip(observed, self.world.now)

    def reconcile(self, key: Key) -> Plan | None:
        """Do what is to be done for one pool or RoutedIP now."""
        if key.kind != "RoutedIP":
            return super().reconcile(key)
        self.queue.discard(key)
        pool, now = self.pools.get(key), self.world.now
        if pool is None or pool.spec is None:
            return None
        observed, planned = self.plan_routed(key)
        self.world.check(observed.addresses, plan_pool(observed.addresses, now), now)
        plan = planned.plan
        self.looks.pop(key, None)
        if plan.next_look is not None:
            self.looks[key] = plan.next_look
        if plan.reread_all:
            self.account.read_all(key)
        elif plan.reread:
            self.account.read(key, plan.reread)
        for action in plan.actions:
            self._act(pool, action)
        assert len(planned.steps) <= 1
        for firewall, step in planned.steps:
            self._take(pool, firewall, step)
        self._report(pool, observed.addresses, plan)
        (self._waiting.add if any(h.reason == "NoFreeNode" for h in plan.holds) else self._waiting.discard)(key)
        return plan

    def _take(self, pool: PoolView, observed: FirewallObservation, step: FirewallStep) -> None:
        name = observed.entries.name
        if step.read:
            self._read_firewall(name)
        if step.record is not None:
            self._record_entries(pool, step.record)
        if step.action is not None:
            self._change_firewall(pool.key, name, step.action)

    def _record_entries(self, pool: PoolView, record: FirewallEntries) -> None:
        key, version = pool.key, pool.metadata.resource_version
        others = [each for each in self.routed[key].firewall_entries if not each.is_same_firewall(record)]
        entries = (*others, record)
        annotation = entries_annotation(entries)

        def done(error: FlipopError | None) -> None:
            if isinstance(error, ClusterUnavailable):
                self._unread.add(key)
            else:
                self.recording.pop(key, None)
            self._written(key, error)
            self.queue |= self.routed.keys()

        write = lambda: self.world.cluster.patch_annotations(key, version, annotation)  # noqa: E731 - as in world
        if self._write(key, f"record entries of {key.name}", write, done):
            self.recording[key] = entries

    def _written(self, key: Key, error: FlipopError | None) -> None:
        super()._written(key, error)
        if (
            key.kind == "RoutedIP"
            and key in self.world.cluster.pools
            and self.pools[key] == self.world.cluster.view(key)
        ):
            self.routed[key] = self.world.cluster.routed(key)

    def _report(self, pool: PoolView, before: PoolObservation, plan: Plan) -> None:
        key = pool.key
        if key.kind != "RoutedIP" or before.deleting:
            super()._report(pool, before, plan)
            return
        view, memory = self.routed[key], self.memories.get(key, PoolMemory())
        account = self.account
        observed = replace(before, operations=dict(account.operations), inventory=account.inventory, memory=memory)
        timestamp = dt.datetime.fromtimestamp(self.world.now, dt.UTC).isoformat()
        status = pool_status(observed, plan, pool.metadata.generation, timestamp)
        routed = routed_ip_status(status, (), self.firewall_name(view), view.firewall_entries)
        if routed != view.status:
            self._write(
                key,
                f"status of {key.name}",
                lambda: self.world.cluster.patch_status(key, routed),
                lambda error: self._written(key, error),
            )

    # -- calls -------------------------------------------------------------------------------------------------------

    def _read_firewall(self, name: str) -> None:
        known_as, started = self._id(name), self.world.now
        known = self.known.get(known_as, KnownFirewall())
        if known.busy:
            return
        self.known[known_as] = replace(known, busy=True)
        self.flights.append(
            Flight(
                f"read {name}",
                lambda: self.world.ground.get(name),
                lambda answer: self._firewall_read(name, known_as, started, answer),
            )
        )

    def _firewall_read(self, name: str, known_as: str, started: float, answer: Any) -> None:
        """Take an answer in. Only now may it be known that two names mean one firewall."""
        failure = self.known[known_as].failure
        if isinstance(answer, FlipopError):
            self._firewall_failed(known_as, name, None, answer)
            if isinstance(answer, NotFound) and self.ids.pop(name, None) is not None:
                self.known[name] = self.known.pop(known_as)
        else:
            self.known[known_as] = replace(self.known[known_as], busy=False)
            kept = failure if failure is not None and failure.action is not None else None
            self.ids[name] = self.ids[answer.name] = answer.id
            present = self.known.get(answer.id, KnownFirewall())
            # Under its other name it may have been changed since this read began.
            if not present.busy and (known_as == answer.id or present.read_at < started):
                self.firewall_gate = Gate()
                self.known[answer.id] = KnownFirewall(answer, self.world.now, kept)
        self.queue |= self.routed.keys()

    def _change_firewall(self, key: Key, name: str, action: FirewallAction) -> None:
        firewall_id = self._id(name)
        known = self.known[firewall_id]
        assert known.firewall is not None
        assert not known.busy
        assert firewall_id not in self.changing, "one change of a firewall at a time"
        assert firewall_id == known.firewall.id
        firewall = known.firewall
        self.world.check_change(firewall, action)
        self.known[firewall_id] = replace(known, busy=True)
        self.changing.add(firewall_id)

        def call() -> Any:
            self.world.check_departure(firewall, action)
            return self.world.ground.change(firewall, action)

        def land(answer: Any) -> None:
            self.changing.discard(firewall_id)
            if isinstance(answer, FlipopError):
                self._firewall_failed(firewall_id, name, action, answer)
                self._refused(key, action, answer)
            else:
                self.firewall_gate = Gate()
                assert isinstance(answer, Applied | InProgress)
                after = replace(firewall_after(firewall, action), in_progress=isinstance(answer, InProgress))
                self.known[firewall_id] = KnownFirewall(after, self.world.now)
            self.queue |= self.routed.keys()

        self.flights.append(Flight(action.summary, call, land))

    def _firewall_failed(self, known_as: str, name: str, action: FirewallAction | None, error: FlipopError) -> None:
        now = self.world.now
        if isinstance(error, RateLimited | AccessDenied):
            self.firewall_gate = next_gate(self.firewall_gate, error, now, 1.0)
        failure = next_failure(self.known[known_as].failure, name, action, error, now, 1.0)
        self.known[known_as] = KnownFirewall(failure=failure)

    def _refused(self, key: Key, action: FirewallAction, error: FlipopError) -> None:
        """Pass over a node that the firewall cannot take: the address goes to the next one."""
        if not isinstance(action, AddFirewallNodes) or not isinstance(error, NotFound | Rejected):
            return
        pool = self.pools.get(key)
        for address in pool_addresses(self.observe(pool))[:1] if pool is not None and pool.spec is not None else ():
            for provider_id in action.provider_ids:
                refused = AssignAddress(address, provider_id, provider_id)
                memory = self.memories.get(key, PoolMemory())
                self.memories[key] = remember(memory, refused, error, self.world.now, 1.0)

    def _start(self, key: Key, action: ProviderAction) -> None:
        if key.kind != "RoutedIP":
            super()._start(key, action)
            return
        count = len(self.flights)
        super()._start(key, action)
        target = action.request.provider_id if isinstance(action, CreateAddress) else None
        target = action.provider_id if isinstance(action, AssignAddress) else target
        if target is None or len(self.flights) == count:
            return
        view, flight = self.routed[key], self.flights[-1]
        rules, name, call = self.needs(key)[0], self.firewall_name(view), flight.call
        subject = action.address if isinstance(action, AssignAddress) else ""
        strict = bool(name) and not self.issuer(view).firewall_post_allow

        def checked() -> Any:
            if strict:
                assert self.world.ground.admits(name, target, rules), f"{action.summary}: {name} does not admit it"
            self.world.placed[subject] = (key, target, name)
            return call()

        flight.call = checked

    def action_ended(self, owner: Key, action: ProviderAction, outcome: Outcome) -> None:
        """Remember the answer; others may wait for what it says of nodes."""
        super().action_ended(owner, action, outcome)
        self.queue |= self.routed.keys()

    def operation_ended(self, operation: Operation, *, effect: bool) -> None:
        """Remember the end of an operation; others may wait for what it says of nodes."""
        super().operation_ended(operation, effect=effect)
        self.queue |= self.routed.keys()
