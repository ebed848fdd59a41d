"""Nodes and pods from the API server's JSON to flat views, straight through slim types: nothing else is ever built.

Unknown and missing fields and nulls are tolerated; an object without a name raises `msgspec.ValidationError`, one that
is nested too deeply `RecursionError`. Strings that many objects share are interned.
"""

from __future__ import annotations

from sys import intern

import msgspec

from flipop_core.model import IPV4_ANNOTATION, IPV6_ANNOTATION, NodeAddress, NodeView, PodView, Taint
from flipop_core.plan.match import unix_seconds
from flipop_core.runtime.store import Identity


class _Slim(msgspec.Struct, gc=False, rename="camel"):
    pass


class _Annotations(msgspec.Struct, gc=False):
    ipv4: str | None = msgspec.field(default=None, name=IPV4_ANNOTATION)
    ipv6: str | None = msgspec.field(default=None, name=IPV6_ANNOTATION)


class _NodeMetadata(_Slim):
    name: str
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: _Annotations | None = None


class _Taint(_Slim):
    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: str | None = None


class _NodeSpec(_Slim):
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: tuple[_Taint, ...] | None = None


class _Condition(_Slim):
    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None


class _Address(_Slim):
    type: str | None = None
    address: str | None = None


class _NodeStatus(_Slim):
    conditions: tuple[_Condition, ...] | None = None
    addresses: tuple[_Address, ...] | None = None


class _Node(_Slim):
    metadata: _NodeMetadata
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _PodMetadata(_Slim):
    name: str
    namespace: str | None = None
    uid: str | None = None
    deletion_timestamp: str | None = None


class _PodSpec(_Slim):
    node_name: str | None = None


class _PodStatus(_Slim):
    phase: str | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Pod(_Slim):
    metadata: _PodMetadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_NODE = msgspec.json.Decoder(_Node)
_POD = msgspec.json.Decoder(_Pod)
_NO_NODE_SPEC = _NodeSpec()
_NO_NODE_STATUS = _NodeStatus()
_NO_ANNOTATIONS = _Annotations()
_NO_CONDITION = _Condition()
_NO_POD_SPEC = _PodSpec()
_NO_POD_STATUS = _PodStatus()


def decode_node(raw: msgspec.Raw | bytes) -> NodeView:
    """Return the view of a Node; raises msgspec.DecodeError. Labels are sorted by key."""
    node = _NODE.decode(raw)
    metadata, spec, status = node.metadata, node.spec or _NO_NODE_SPEC, node.status or _NO_NODE_STATUS
    ready = _ready_condition(status.conditions)
    return NodeView(
        name=metadata.name,
        uid=metadata.uid or "",
        provider_id=spec.provider_id or "",
        ready=ready.status == "True",
        ready_since=ready.last_transition_time or "",
        deleting=metadata.deletion_timestamp is not None,
        created=metadata.creation_timestamp or "",
        labels=tuple(sorted((intern(key), intern(value or "")) for key, value in (metadata.labels or {}).items())),
        taints=tuple(map(_taint, spec.taints or ())),
        addresses=tuple(map(_address, status.addresses or ())),
        reserved_ipv4=(metadata.annotations or _NO_ANNOTATIONS).ipv4 or "",
        reserved_ipv6=(metadata.annotations or _NO_ANNOTATIONS).ipv6 or "",
        deleted_at=metadata.deletion_timestamp or "",
    )


def decode_pod(raw: msgspec.Raw | bytes) -> PodView:
    """Return the view of a Pod; raises msgspec.DecodeError."""
    pod = _POD.decode(raw)
    metadata, spec, status = pod.metadata, pod.spec or _NO_POD_SPEC, pod.status or _NO_POD_STATUS
    condition = _ready_condition(status.conditions)
    ready = status.phase == "Running" and condition.status == "True"
    return PodView(
        namespace=intern(metadata.namespace or ""),
        name=metadata.name,
        uid=metadata.uid or "",
        node_name=intern(spec.node_name or ""),
        ready=ready,
        deleting=metadata.deletion_timestamp is not None,
        unready_since=0.0 if ready else unix_seconds(condition.last_transition_time or "") or 0.0,
    )


def node_identity(view: NodeView) -> Identity:
    """Return a node's identity for a `Store`."""
    return "", view.name, view.uid


def pod_identity(view: PodView) -> Identity:
    """Return a pod's identity for a `Store`."""
    return view.namespace, view.name, view.uid


def _ready_condition(conditions: tuple[_Condition, ...] | None) -> _Condition:
    for condition in conditions or ():
        if condition.type == "Ready":
            return condition
    return _NO_CONDITION


def _taint(taint: _Taint) -> Taint:
    return Taint(intern(taint.key or ""), intern(taint.value or ""), intern(taint.effect or ""), taint.time_added or "")


def _address(address: _Address) -> NodeAddress:
    return NodeAddress(intern(address.type or ""), address.address or "")
