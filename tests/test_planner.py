"""The planner as a function of manifests: the same decisions as the controller's, with no effect."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest

from flipop_core import ConfigError, ResourceInvalid
from flipop_core.planner import (
    AddressRecord,
    AnnotateNode,
    AssignAddress,
    Hold,
    Plan,
    PoolObservation,
    ProviderCapabilities,
    observe_pool,
    plan_pool,
)

CAPABILITIES = ProviderCapabilities(atomic_reassign=True, max_ips_per_node=1, create_on_node=True)
A, B = "192.0.2.1", "192.0.2.2"


def node(name: str, *, ready: bool = True, label: str = "ingress", **spec: Any) -> dict[str, Any]:
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    return {
        "metadata": {"name": name, "labels": {"role": label}},
        "spec": {"providerID": f"cloud://{name}", **spec},
        "status": {"conditions": [condition]},
    }


def pod(name: str, on: str, *, ready: bool = True, namespace: str = "web", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "proxy"}, **metadata},
        "spec": {"nodeName": on},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def pool(name: str = "pool", *, created: str = "2025-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    whole = {"provider": "cloud", "ips": [A], "match": {"nodeLabel": "role=ingress"}, **spec}
    return {"metadata": {"name": name, "namespace": "default", "creationTimestamp": created}, "spec": whole}


def observe(manifest: dict[str, Any], *nodes: dict[str, Any], **others: Any) -> PoolObservation:
    arguments = {"records": [AddressRecord(A)], "capabilities": CAPABILITIES, "unix_seconds": 1.75e9, **others}
    return observe_pool(manifest, nodes, **arguments)


def assignments(plan: Plan) -> dict[str, str]:
    return {action.address: action.node for action in plan.actions if isinstance(action, AssignAddress)}


def test_a_free_address_goes_to_the_first_fit_node() -> None:
    nodes = [node("c"), node("a", ready=False), node("b"), node("0", label="db")]
    assert assignments(plan_pool(observe(pool(), *nodes), 0.0)) == {A: "b"}


def test_an_address_on_a_fit_node_stays() -> None:
    observed = observe(pool(), node("a"), node("b"), records=[AddressRecord(A, "cloud://b")])
    assert plan_pool(observed, 0.0).actions == (AnnotateNode("b", A),)


def test_taints_that_are_not_tolerated_keep_a_node_out() -> None:
    tainted = node("a", taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}])
    assert assignments(plan_pool(observe(pool(), tainted, node("b")), 0.0)) == {A: "b"}


def test_a_node_needs_a_ready_pod_of_the_right_namespace() -> None:
    match = {"nodeLabel": "role=ingress", "podLabel": "app=proxy", "podNamespace": "web"}
    pods = [
        pod("one", "a", ready=False),
        pod("two", "b", namespace="test"),
        pod("three", "c", deletionTimestamp="2025-01-01T00:00:00Z"),
        {**pod("four", "d"), "metadata": {"name": "four", "namespace": "web", "labels": {"app": "other"}}},
        pod("five", "e"),
    ]
    nodes = [node(name) for name in "abcde"]
    assert assignments(plan_pool(observe(pool(match=match), *nodes, pods=pods), 0.0)) == {A: "e"}
    assert assignments(plan_pool(observe(pool(match=match), *nodes, pods=pods[:4]), 0.0)) == {}


def test_the_oldest_pool_that_uses_an_address_has_it() -> None:
    older = pool("older", created="2024-01-01T00:00:00Z")
    assert assignments(plan_pool(observe(pool(), node("a"), other_pools=[older]), 0.0)) == {}
    assert assignments(plan_pool(observe(older, node("a"), other_pools=[pool(), older]), 0.0)) == {A: "a"}


def test_a_grace_period_holds_a_move_until_its_end() -> None:
    manifest = pool(gracePeriods={"nodeNotReadySeconds": 60})
    failed = node("a", ready=False)
    since = 1735689600.0  # 2025-01-01
    records = [AddressRecord(A, "cloud://a")]
    early = observe(manifest, failed, node("b"), records=records, unix_seconds=since + 10, read_at=500.0)
    plan = plan_pool(early, 500.0)
    assert assignments(plan) == {}
    (hold,) = (hold for hold in plan.holds if hold.reason == "Grace")
    assert isinstance(hold, Hold)
    assert hold.until == pytest.approx(550.0)
    late = observe(manifest, failed, node("b"), records=records, unix_seconds=since + 61, read_at=551.0)
    assert assignments(plan_pool(late, 551.0)) == {A: "b"}


def test_two_addresses_and_an_address_of_nobody() -> None:
    records = [AddressRecord(A, "cloud://a"), AddressRecord(B)]
    observed = observe(pool(ips=[A, B]), node("a", ready=False), node("b"), node("c"), records=records)
    assert assignments(plan_pool(observed, 0.0)) == {A: "c", B: "b"}


def test_an_address_that_does_not_exist_is_not_assigned() -> None:
    observed = observe(pool(), node("a"), records=[])
    assert assignments(plan_pool(observed, 0.0)) == {}


def test_arguments_stay_as_they_are_and_the_answer_is_the_same() -> None:
    manifest, nodes = pool(ips=[A, B]), [node("a"), node("b")]
    before = copy.deepcopy((manifest, nodes))
    plans = [plan_pool(observe(manifest, *nodes), 0.0) for _ in range(2)]
    assert plans[0] == plans[1]
    assert (manifest, nodes) == before


def test_a_spec_that_makes_no_sense() -> None:
    with pytest.raises(ResourceInvalid, match=r"spec.ips"):
        observe(pool(ips=["no address"]), node("a"))


@pytest.mark.parametrize("manifest", [{}, {"metadata": {}}, {"metadata": {"name": object()}}])
def test_what_is_no_object_of_the_api(manifest: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no such Kubernetes object"):
        observe(manifest, node("a"))
    with pytest.raises(ConfigError, match="no such Kubernetes object"):
        observe(pool(), manifest)


def test_it_needs_no_client_metrics_or_logging() -> None:
    code = (
        "import sys, flipop_core.planner;"
        "print({'kubernetes', 'prometheus_client', 'structlog', 'urllib3', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
