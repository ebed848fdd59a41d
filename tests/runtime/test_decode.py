from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from flipop_core.model import NodeAddress, NodeView, PodView, Taint
from flipop_core.runtime.decode import decode_node, decode_pod, node_identity, pod_identity

NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "uid": "u1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"zone": "x", "arch": "amd64"},
        "annotations": {"flipop.digitalocean.com/ipv4-reserved-ip": "192.0.2.1", "other": "x"},
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {
        "providerID": "digitalocean://1",
        "taints": [
            {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-02T00:00:00Z"},
            {"key": "bare", "effect": "NoSchedule", "value": None},
        ],
    },
    "status": {
        "conditions": [
            {"type": "DiskPressure", "status": "True", "lastTransitionTime": "2026-01-05T00:00:00Z"},
            {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": "2026-01-04T00:00:00Z",
                "lastTransitionTime": "2026-01-03T00:00:00Z",
            },
        ],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "192.0.2.9"}],
        "images": [{"names": ["a"], "sizeBytes": 1}],
    },
}
POD: dict[str, Any] = {
    "metadata": {"namespace": "ns", "name": "p1", "uid": "u2", "labels": {"k": "v"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


def node(**changes: Any) -> NodeView:
    return decode_node(json.dumps(NODE | changes).encode())


def pod(**changes: Any) -> PodView:
    return decode_pod(json.dumps(POD | changes).encode())


def test_a_node() -> None:
    assert node() == NodeView(
        name="n1",
        uid="u1",
        provider_id="digitalocean://1",
        ready=True,
        ready_since="2026-01-03T00:00:00Z",
        deleting=False,
        created="2026-01-01T00:00:00Z",
        labels=(("arch", "amd64"), ("zone", "x")),
        taints=(
            Taint(key="k", value="v", effect="NoExecute", time_added="2026-01-02T00:00:00Z"),
            Taint(key="bare", effect="NoSchedule"),
        ),
        addresses=(NodeAddress("InternalIP", "10.0.0.1"), NodeAddress("ExternalIP", "192.0.2.9")),
        reserved_ipv4="192.0.2.1",
    )


def test_a_heartbeat_is_no_difference() -> None:
    later = json.loads(json.dumps(NODE))
    later["metadata"]["resourceVersion"] = "99"
    later["metadata"]["labels"] = {"arch": "amd64", "zone": "x"}
    later["status"]["conditions"][1]["lastHeartbeatTime"] = "2026-02-01T00:00:00Z"
    later["status"]["images"] = []
    assert decode_node(json.dumps(later).encode()) == node()


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_that_is_not_ready(status: str | None) -> None:
    view = node(status={"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "then"}]})
    assert (view.ready, view.ready_since) == (False, "then")


def test_a_node_that_is_being_deleted() -> None:
    assert node(metadata={"name": "n1", "deletionTimestamp": "2026-01-01T00:00:00Z"}).deleting


@pytest.mark.parametrize("rest", [{}, {"spec": None, "status": None}, {"spec": {}, "status": {}}])
def test_a_bare_node(rest: dict[str, Any]) -> None:
    raw = {"metadata": {"name": "n1"}, **rest}
    assert decode_node(json.dumps(raw).encode()) == NodeView(name="n1")


def test_nulls_are_absence() -> None:
    metadata = dict.fromkeys(("uid", "creationTimestamp", "deletionTimestamp", "labels", "annotations"))
    spec = {"providerID": None, "taints": None}
    status = {"conditions": None, "addresses": None}
    raw = {"metadata": {"name": "n1", **metadata}, "spec": spec, "status": status}
    assert decode_node(json.dumps(raw).encode()) == NodeView(name="n1")


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":null}}', b'{"metadata":{"name":3}}']
)
def test_what_has_no_name_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_node(raw)
    with pytest.raises(msgspec.DecodeError):
        decode_pod(raw)


def test_a_pod() -> None:
    assert pod() == PodView("ns", "p1", "u2", "n1", ready=True, deleting=False)


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        ({"status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}, 1_767_225_600.0),
        ({"status": "False", "lastTransitionTime": None}, 0.0),
        ({"status": "False", "lastTransitionTime": "soon"}, 0.0),
        ({"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}, 0.0),
    ],
)
def test_since_when_a_pod_is_not_ready(condition: dict[str, Any], since: float) -> None:
    status = {"phase": "Running", "conditions": [{"type": "Ready", **condition}]}
    assert pod(status=status).unready_since == since


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "True"}]}, False),
        ({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "True"}]}, False),
        ({"phase": "Running"}, False),
        ({"phase": "Running", "conditions": None}, False),
        (None, False),
    ],
)
def test_when_a_pod_is_ready(status: dict[str, Any] | None, ready: bool) -> None:
    assert pod(status=status).ready is ready


def test_a_pod_that_is_being_deleted() -> None:
    assert pod(metadata={**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}).deleting


def test_strings_that_many_share_are_one() -> None:
    one, two = pod(), pod()
    assert one.node_name is two.node_name
    assert one.namespace is two.namespace
    assert node().labels[0][1] is node().labels[0][1]


def test_identities() -> None:
    assert node_identity(node()) == ("", "n1", "u1")
    assert pod_identity(pod()) == ("ns", "p1", "u2")
