"""The planner alone, as a function: what the controller would do for one pool, from values, with no effect.

`observe_pool` makes the observation from manifests as the API server has them and from what the provider says of its
addresses; `plan_pool` decides. Neither has a clock, threads or a connection: the same values give the same plan::

    observed = observe_pool(pool, nodes, records=records, capabilities=capabilities, unix_seconds=time.time())
    for action in plan_pool(observed, observed_at).actions:
        print(action.summary)

A `PoolObservation` can as well be built, or changed with ``msgspec.structs.replace``, field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from flipop_core.errors import ConfigError
from flipop_core.model import AddressRecord, CreateRequest, Key, NodeAddress, NodeView, Taint
from flipop_core.plan.actions import (
    Action,
    AnnotateNode,
    AssignAddress,
    CreateAddress,
    DeleteAddress,
    FindCreated,
    Hold,
    Plan,
    RecordLedger,
    SetFinalizer,
    UnassignAddress,
)
from flipop_core.plan.claims import claims_of
from flipop_core.plan.limits import Gate
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.observed import Inventory, Operation, PoolMemory, PoolObservation
from flipop_core.plan.pool import plan_pool
from flipop_core.plan.recovery import graces, notice, notice_ready, unsteady
from flipop_core.providers import ProviderCapabilities
from flipop_core.resources.parse import AddressLedger, decode_pool
from flipop_core.resources.statuses import FloatingIPPoolStatus, IPStatus
from flipop_core.resources.types import (
    RECLAIM_FINALIZER,
    FloatingIPPoolSpec,
    GracePeriods,
    Match,
    Toleration,
)
from flipop_core.runtime.decode import decode_node, decode_pod
from flipop_core.selectors import parse_selector

__all__ = [
    # functions
    "observe_pool",
    "plan_pool",
    # what is observed
    "AddressLedger",
    "AddressRecord",
    "FloatingIPPoolSpec",
    "FloatingIPPoolStatus",
    "Gate",
    "GracePeriods",
    "IPStatus",
    "Inventory",
    "Key",
    "Match",
    "NodeAddress",
    "NodeView",
    "Operation",
    "PoolMemory",
    "PoolObservation",
    "ProviderCapabilities",
    "Taint",
    "Toleration",
    # what is decided
    "Action",
    "AnnotateNode",
    "AssignAddress",
    "CreateAddress",
    "CreateRequest",
    "DeleteAddress",
    "FindCreated",
    "Hold",
    "Plan",
    "RecordLedger",
    "SetFinalizer",
    "UnassignAddress",
]


_View = TypeVar("_View")


def observe_pool(
    pool: Mapping[str, Any],
    nodes: Iterable[Mapping[str, Any]],
    *,
    records: Iterable[AddressRecord],
    capabilities: ProviderCapabilities,
    unix_seconds: float,
    pods: Iterable[Mapping[str, Any]] = (),
    other_pools: Iterable[Mapping[str, Any]] = (),
    read_at: float = 0.0,
    memory: PoolMemory | None = None,
    new_claim: str = "",
) -> PoolObservation:
    """Return what decides for a pool, as the controller would observe it.

    ``pool`` is a FloatingIPPool, ``nodes`` are Nodes and ``pods`` Pods, whole objects as JSON has them; those that the
    pool's selectors do not select are left out. ``records`` are all addresses of the account, read at ``read_at``
    (monotonic seconds, the clock of `plan_pool`'s ``now``). ``unix_seconds`` is the time of day, for tolerations and
    grace periods. ``other_pools`` are those of the same provider: the oldest one that uses an address has it.
    ``memory`` is what earlier plans have led to; ``new_claim`` names a creation, should one be begun, and must never
    be used twice.

    Raises ResourceInvalid for a pool whose spec makes no sense, ConfigError for what is no Kubernetes object.
    """
    view = _decoded(decode_pool, pool)
    if view.spec is None:
        raise view.problem or ConfigError(f"{view.key} has no spec")
    by_address = {record.address: record for record in records}
    others = [other for other in (_decoded(decode_pool, other) for other in other_pools) if other.key != view.key]
    claims = claims_of([view, *others], records_of=lambda _: by_address)
    own = {address for address, key in claims.addresses.items() if key == view.key}
    observed = PoolObservation(
        key=view.key,
        spec=view.spec,
        capabilities=capabilities,
        inventory=Inventory(records=by_address, wanted=frozenset({*own, *by_address}), read_at=read_at),
        ledger=view.ledger,
        status=view.status,
        has_finalizer=RECLAIM_FINALIZER in view.metadata.finalizers,
        deleting=view.metadata.deletion_timestamp is not None,
        claims=claims.addresses,
        reserved_nodes=claims.reserved_nodes(view.key),
        doubtful_creations=claims.doubtful_creations(view.key),
        memory=memory or PoolMemory(),
        new_claim=new_claim,
        selected=claims.selected.get(view.key, ()),
        region=view.spec.region,
    )
    match = view.spec.match
    return _with_nodes(observed, _nodes(nodes, match), _ready_pod_nodes(pods, match), wall=unix_seconds, now=read_at)


def _with_nodes(
    observed: PoolObservation,
    nodes: Mapping[str, NodeView],
    ready_pod_nodes: frozenset[str],
    *,
    wall: float,
    now: float,
) -> PoolObservation:
    match, periods = observed.spec.match, observed.spec.grace_periods
    steady_seconds, memory = observed.spec.stabilization_seconds, observed.memory
    fit, changes_in = candidates(nodes.values(), match, ready_pod_nodes, wall)
    noticed = notice(nodes.values(), match, ready_pod_nodes, periods, memory.noticed, wall)
    ready = notice_ready(nodes.values(), steady_seconds, memory.noticed_ready, wall)
    serving = frozenset(name for name, node in nodes.items() if node.ready and not node.deleting)
    return replace(
        observed,
        nodes=nodes,
        candidates=fit,
        candidates_change_at=None if changes_in is None else now + changes_in,
        memory=replace(memory, noticed=noticed, noticed_ready=ready),
        serving=serving & ready_pod_nodes if needs_pod(match) else serving,
        graces=graces(nodes.values(), match, ready_pod_nodes, periods, _nothing_tells, noticed, wall=wall, now=now),
        unsteady=unsteady(fit, steady_seconds, ready, wall=wall, now=now),
    )


def _nodes(manifests: Iterable[Mapping[str, Any]], match: Match) -> dict[str, NodeView]:
    selector = parse_selector(match.node_label)
    nodes = (_decoded(decode_node, manifest) for manifest in manifests)
    return {node.name: node for node in nodes if selector.matches(dict(node.labels))}


def _ready_pod_nodes(manifests: Iterable[Mapping[str, Any]], match: Match) -> frozenset[str]:
    if not needs_pod(match):
        return frozenset()
    selector = parse_selector(match.pod_label)
    selected = (pod for pod in manifests if selector.matches(pod.get("metadata", {}).get("labels") or {}))
    pods = [_decoded(decode_pod, pod) for pod in selected]
    return frozenset(
        pod.node_name
        for pod in pods
        if pod.node_name and pod.ready and not pod.deleting and match.pod_namespace in ("", pod.namespace)
    )


def _nothing_tells(node: str) -> None:
    """Say when a node lost its last ready pod: one look at the cluster does not know."""
    del node


def _decoded(decode: Callable[[bytes], _View], manifest: Mapping[str, Any]) -> _View:
    try:
        return decode(msgspec.json.encode(manifest))
    except (msgspec.DecodeError, TypeError) as error:
        raise ConfigError(f"no such Kubernetes object: {error}") from error
