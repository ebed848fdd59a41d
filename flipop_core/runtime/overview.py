"""What the resources of a cluster say of themselves: read once, from their statuses, without asking any provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from flipop_core.cluster import (
    FLOATING_IP_POOLS,
    NODE_DNS_RECORD_SETS,
    ROUTED_IPS,
    KubeAPI,
    Query,
    ResourceType,
)
from flipop_core.errors import ClusterError, ConfigError, Forbidden, ObjectNotFound
from flipop_core.resources import reasons
from flipop_core.resources.parse import (
    PoolView,
    RecordSetView,
    RoutedIPView,
    decode_pool,
    decode_record_set,
    decode_routed_ip,
)
from flipop_core.resources.routed import RoutedIPStatus
from flipop_core.resources.statuses import Condition, IPStatus, RecordStatus
from flipop_core.runtime.kube import connect

V = TypeVar("V", PoolView, RoutedIPView, RecordSetView)


def read_overview(
    kubeconfig: str,
    context: str,
    namespace: str = "",
    names: Collection[str] = (),
    refused: list[str] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return ``{"pools": […], "routedIPs": […], "recordSets": […]}`` as JSON values, sorted by namespace and name.

    Each has ``namespace``, ``name``, ``ready`` (True, False or None for not reported yet), ``reason``, ``message``,
    ``since`` and ``created`` (RFC 3339) and ``dns`` (names with their types); pools and RoutedIPs have ``addresses``
    too, each with ``address``, ``state``, ``node`` and ``error``. An empty ``namespace`` is all, no ``names`` are all.
    Which rights are missing to list some of them is added to ``refused``. Raises ConfigError when the cluster cannot be
    read.
    """
    with closing(connect(kubeconfig, context)) as api:
        try:
            return overview(api, namespace, names, refused)
        except Forbidden as error:
            raise ConfigError(_missing_right(FLOATING_IP_POOLS, namespace)) from error
        except ObjectNotFound as error:
            mend = "flipop crds | kubectl apply -f -"
            raise ConfigError(f"the cluster has no {FLOATING_IP_POOLS.plural}: install them with `{mend}`") from error
        except ClusterError as error:
            raise ConfigError(f"the cluster cannot be read: {error}") from error


def overview(
    api: KubeAPI, namespace: str = "", names: Collection[str] = (), refused: list[str] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the overview of a cluster, as `read_overview`. Raises ClusterError."""

    def chosen(resource: ResourceType, decode: Callable[[msgspec.Raw], V]) -> list[V]:
        views = _list(api, Query(resource, namespace), decode, refused)
        return [view for view in views if not names or view.metadata.name in names]

    return describe(
        chosen(FLOATING_IP_POOLS, decode_pool),
        chosen(ROUTED_IPS, decode_routed_ip),
        chosen(NODE_DNS_RECORD_SETS, decode_record_set),
    )


def describe(
    pools: Iterable[PoolView], routed_ips: Iterable[RoutedIPView], record_sets: Iterable[RecordSetView]
) -> dict[str, list[dict[str, Any]]]:
    """Return the overview of these resources, as `read_overview`."""
    return {
        "pools": [_pool_row(view) for view in _sorted(pools)],
        "routedIPs": [_routed_ip_row(view) for view in _sorted(routed_ips)],
        "recordSets": [_record_set_row(view) for view in _sorted(record_sets)],
    }


def held_address(status: RoutedIPStatus) -> dict[str, IPStatus]:
    """Return the address of a RoutedIP with its state, as a pool's status has it; empty while there is none."""
    if not status.address:
        return {}
    held = IPStatus(
        state=status.state or "unassigned",
        node_name=status.assigned_node,
        provider_id=status.provider_id,
        error=status.error,
    )
    return {status.address: held}


def _sorted(views: Iterable[V]) -> list[V]:
    return sorted(views, key=lambda view: (view.metadata.namespace, view.metadata.name))


def _missing_right(resource: ResourceType, namespace: str) -> str:
    name = f"{resource.plural}.{resource.group}"
    where = f"namespace {namespace}" if namespace else "all namespaces"
    option = f"-n {namespace}" if namespace else "-A"
    return (
        f"{name} cannot be read: the right to list them in {where} is missing: kubectl auth can-i list {name} {option}"
    )


def _list(api: KubeAPI, query: Query, decode: Callable[[msgspec.Raw], V], refused: list[str] | None = None) -> list[V]:
    """List all objects. A resource of ours that the cluster does not serve, or not to us, has none, but pools do."""
    views: list[V] = []
    token = ""
    while True:
        try:
            page = api.list_page(query, continue_token=token)
        except (ObjectNotFound, Forbidden) as error:
            if query.resource == FLOATING_IP_POOLS:
                raise
            if isinstance(error, Forbidden) and refused is not None:
                refused.append(_missing_right(query.resource, query.namespace))
            return []
        views += map(decode, page.items)
        token = page.continue_token
        if not token:
            return views


def _pool_row(view: PoolView) -> dict[str, Any]:
    status = view.status
    return {
        **_row(view, status.conditions, status.records),
        "provider": view.spec.provider if view.spec is not None else "",
        "desired": max(0, status.desired_count),
        "active": max(0, status.active_count),
        "candidates": max(0, status.candidate_count),
        "freeNodes": list(status.assignable_nodes),
        "addresses": [_address(address, ip) for address, ip in status.ips.items()],
    }


def _routed_ip_row(view: RoutedIPView) -> dict[str, Any]:
    status = view.status
    service = view.spec.service_ref if view.spec is not None else None
    return {
        **_row(view, status.conditions, status.records),
        "service": f"{service.namespace or view.metadata.namespace}/{service.name}" if service is not None else "",
        "ports": list(status.ports),
        "firewall": status.firewall,
        "addresses": [_address(address, ip) for address, ip in held_address(status).items()],
    }


def _record_set_row(view: RecordSetView) -> dict[str, Any]:
    return _row(view, view.status.conditions, view.status.records)


def _row(
    view: PoolView | RoutedIPView | RecordSetView, conditions: Iterable[Condition], records: Iterable[RecordStatus]
) -> dict[str, Any]:
    ready = next((condition for condition in conditions if condition.type == reasons.READY), None)
    return {
        "namespace": view.metadata.namespace,
        "name": view.metadata.name,
        "ready": ready.status == "True" if ready is not None else None,
        "reason": ready.reason if ready is not None else reasons.NOT_REPORTED,
        "message": ready.message if ready is not None else "no controller has reported on it yet",
        "since": ready.last_transition_time if ready is not None else "",
        "created": view.metadata.creation_timestamp,
        "dns": [{"name": record.name, "type": record.type, "provider": record.provider} for record in records],
    }


def _address(address: str, ip: IPStatus) -> dict[str, Any]:
    return {"address": address, "state": ip.state, "node": ip.node_name, "error": ip.error}
