"""What a user may get wrong: told at admission or in the status, without a crash and without a storm."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flipop_core.resources.schema import custom_resource_definitions
from flipop_do_testserver import Settings
from tests.controlplane.api import ApiError, Document
from tests.controlplane.cluster import ControlPlane

from .controller import TOKEN
from .memory import memory_provider
from .world import API_VERSION, DEPLOY, POOL, RECORD_SET, World, install_roles

CRD = "CustomResourceDefinition"
CRD_API_VERSION = "apiextensions.k8s.io/v1"

BAD_SELECTOR: Document = {"desiredIPs": 1, "match": {"nodeLabel": "app in (web"}}
BAD_ADDRESS: Document = {"ips": ["192.0.2.300"]}
NO_ADDRESSES: Document = {"desiredIPs": 0}
NEGATIVE: Document = {"desiredIPs": -1}
BAD_OPERATOR: Document = {"desiredIPs": 1, "match": {"tolerations": [{"key": "a", "operator": "Like"}]}}
NO_PROVIDER: Document = {"provider": "", "desiredIPs": 1}

REFUSED = {
    "bad selector": (BAD_SELECTOR, "spec.match.nodeLabel", "InvalidSelector"),
    "bad address": (BAD_ADDRESS, "spec.ips[0]", "InvalidAddress"),
    "no addresses": (NO_ADDRESSES, "spec.desiredIPs", "InvalidSpec"),
    "negative": (NEGATIVE, "spec.desiredIPs", "InvalidSpec"),
    "bad operator": (BAD_OPERATOR, "spec.match.tolerations[0].operator", "InvalidSpec"),
    "no provider": (NO_PROVIDER, "spec.provider", "InvalidSpec"),
}


@pytest.fixture(scope="module")
def lax_cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane of its own, whose CRDs check nothing when there are any."""
    with ControlPlane(control_plane_binaries) as cluster:
        install_roles(cluster)
        yield cluster


@pytest.fixture
def lax_world(lax_cluster: ControlPlane, make_world: Callable[[ControlPlane, Settings], World]) -> World:
    """A world where every spec is admitted, as under CRDs of another version."""
    for crd in custom_resource_definitions():
        lax = copy.deepcopy(crd)
        for version in lax["spec"]["versions"]:
            version.pop("selectableFields", None)
            version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations", None)
            version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
        lax_cluster.apply(lax)
    return make_world(lax_cluster, Settings(reserved_ip_limit=0))


# -- specs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "field", "_reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_spec_is_refused_at_admission(world: World, spec: Document, field: str, _reason: str) -> None:
    with pytest.raises(ApiError) as refusal:
        world.pool(**spec)
    assert refusal.value.status == 422
    assert field in str(refusal.value)


def test_a_bad_spec_that_was_admitted_is_told_and_harms_no_other_pool(lax_world: World) -> None:
    world = lax_world
    world.nodes(1)
    for number, (spec, _, _) in enumerate(REFUSED.values()):
        world.pool(f"bad-{number}", **spec)
    world.pool("good", desiredIPs=1)
    controller = world.controller()
    assert len(world.until_active(1, "good")) == 1
    for number, (spec, field, reason) in enumerate(REFUSED.values()):
        name = f"bad-{number}"
        condition = world.until_reason(reason, name)
        assert condition["message"].startswith(field), condition
        assert world.status(name)["error"] == condition["message"]
        warnings = [event for event in world.events() if event["regarding"]["name"] == name]
        assert [event["type"] for event in warnings] == ["Warning"], (spec, warnings)
        assert field in warnings[0]["note"]
    calls = world.mutations()
    world.until_at_rest()
    assert world.mutations() == calls
    assert controller.running
    world.change("bad-0", match={"nodeLabel": world.label})
    world.until_reason("NoFreeNode", "bad-0")
    world.node("001")
    world.until_active(1, "bad-0")


def test_an_unknown_provider_is_told_with_those_there_are(world: World) -> None:
    world.nodes(1)
    world.pool(provider="hetzner", desiredIPs=1)
    world.controller()
    condition = world.until_reason("UnknownProvider")
    assert "'hetzner'" in condition["message"]
    assert "digitalocean" in condition["message"]
    (event,) = world.until(world.events, "an event")
    assert event["type"] == "Warning"
    assert "hetzner" in event["note"]
    world.change(provider="digitalocean")
    world.until_active(1)


def test_an_address_of_a_family_that_the_provider_lacks_is_told(world: World) -> None:
    world.pool(provider="memory", ips=["2001:db8::1"])
    world.controller(variables=memory_provider(world.directory))
    condition = world.until_reason("Unsupported")
    assert condition["message"].startswith("spec.ips[0]")
    assert "IPv4" in condition["message"]


def test_a_ttl_below_the_providers_minimum_is_told_and_the_addresses_serve(world: World) -> None:
    world.nodes(1)
    dns = {"zone": "example.org", "recordName": "edge", "ttl": 5, "provider": "memory"}
    world.pool(desiredIPs=1, dnsRecordSet=dns)
    record_set = {"dnsRecordSet": dns, "match": {"nodeLabel": world.label}}
    metadata = {"name": "nodes", "namespace": world.namespace}
    world.cluster.create({"apiVersion": API_VERSION, "kind": RECORD_SET, "metadata": metadata, "spec": record_set})
    world.controller(variables=memory_provider(world.directory))
    for name, kind in (("pool", POOL), ("nodes", RECORD_SET)):
        condition = world.until_reason("InvalidTTL", name, kind)
        assert "spec.dnsRecordSet.ttl" in condition["message"]
        assert "30" in condition["message"]
    world.until_active(1)


# -- credentials -----------------------------------------------------------------------------------------------------


def test_a_wrong_token_is_told_and_is_no_reason_for_a_storm(world: World) -> None:
    world.expected_errors.add("credentials refused")
    world.cloud.settings.token = "another token"
    (node,) = world.nodes(1)
    address = world.cloud.account.add_address()
    for name in ("creates", "given"):
        world.pool(name, **({"desiredIPs": 1} if name == "creates" else {"ips": [address]}))
    controller = world.controller()
    controller.await_leading()
    begun = time.monotonic()
    for name in ("creates", "given"):
        condition = world.until_reason("AccessDenied", name)
        assert "401" in condition["message"]
        assert TOKEN not in str(world.resource(name))
    time.sleep(max(0.0, begun + 5.0 - time.monotonic()))
    assert len(world.cloud.journal.entries()) <= 2
    assert controller.running
    world.cloud.settings.token = TOKEN
    controller.terminate()
    assert controller.await_exit(10.0) == 0
    world.controller()
    world.until(lambda: node.droplet_id in world.held().values(), "an address on the node")
    world.until(
        lambda: [world.condition(name=name).get("reason") for name in ("creates", "given")].count("AllActive") == 1,
        "a pool to be ready",
    )


def test_a_token_that_is_not_set_is_told_by_name(world: World) -> None:
    world.nodes(1)
    world.pool(desiredIPs=1)
    controller = world.controller(variables={"DIGITALOCEAN_ACCESS_TOKEN": ""})
    condition = world.until_reason("ProviderNotConfigured")
    assert "DIGITALOCEAN_ACCESS_TOKEN" in condition["message"]
    assert controller.running
    assert world.cloud.journal.entries() == []


# -- the cluster -----------------------------------------------------------------------------------------------------


def remove_crds(cluster: ControlPlane) -> None:
    for crd in custom_resource_definitions():
        cluster.delete(CRD, crd["metadata"]["name"], api_version=CRD_API_VERSION)


def served(cluster: ControlPlane) -> bool:
    return cluster.request("GET", f"/apis/{API_VERSION}/floatingippools?limit=1")[0] != 404


def test_without_the_crds_the_controller_says_so_and_waits_for_them(
    lax_cluster: ControlPlane, make_world: Callable[[ControlPlane, Settings], World]
) -> None:
    remove_crds(lax_cluster)
    world = make_world(lax_cluster, Settings())
    world.until(lambda: not served(lax_cluster), "the CRDs to be gone")
    world.nodes(1)
    controller = world.controller()
    said: dict[str, Any] = controller.await_line(msg="the API server cannot be followed", resource="floatingippools")
    assert "no resource floatingippools in flipop.digitalocean.com/v1alpha1" in said["problem"]
    assert "kubectl apply -f deploy/crds" in said["problem"]
    status, text = controller.get("/readyz")
    assert status == 503
    assert "floatingippools" in text
    assert controller.get("/healthz")[0] == 200
    lax_cluster.apply(DEPLOY / "crds.yaml")
    world.pool(desiredIPs=1)
    world.until_active(1, timeout_seconds=20.0)
    assert controller.get("/readyz") == (200, "ok\n")
    assert len(controller.lines(msg="the API server cannot be followed", resource="floatingippools")) == 1
