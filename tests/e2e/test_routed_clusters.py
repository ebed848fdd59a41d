"""Clusters that have no RoutedIPs or do not show them to the controller, and nodes that hold several addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.resources.schema import custom_resource_definitions
from flipop_do_testserver import Settings
from tests.controlplane.cluster import ControlPlane

from .memory import regional_provider
from .routed import Routed
from .world import DEPLOY, ISSUER, POOL, RECORD_SET, ROUTED_IP, Machine, World, install_roles
from .zones import digitalocean_zone, until_ready

LATER_SECONDS = 90.0
"""What is not served is asked for again after a minute."""
NEWER = {"services", "endpointslices", "routedips", "routedipissuers", "secrets"}


@pytest.fixture
def older_cluster(control_plane_binaries: Path) -> Iterator[ControlPlane]:
    """A control plane with the CRDs of pools and record sets alone."""
    with ControlPlane(control_plane_binaries) as cluster:
        for definition in custom_resource_definitions():
            if definition["spec"]["names"]["kind"] in (POOL, RECORD_SET):
                cluster.apply(definition)
        install_roles(cluster)
        yield cluster


def serves_pools(world: World) -> None:
    """Check that pools and record sets are kept as ever."""
    zone = digitalocean_zone(world)
    first, second = world.nodes(2)
    world.pool(desiredIPs=1, dnsRecordSet=zone.spec())
    ((address, holder),) = world.until_active(1).items()
    other = second if holder == first.name else first
    world.cluster.set_node_ready(holder, ready=False)
    world.until_moved(address, other)
    until_ready(world, "pool", POOL)
    assert zone.values() == [address]


def test_a_cluster_without_the_crds_serves_pools_until_they_come(
    older_cluster: ControlPlane, make_world: Callable[[ControlPlane, Settings], World]
) -> None:
    world = make_world(older_cluster, Settings(reserved_ip_limit=0))
    controller = world.controller()
    serves_pools(world)
    assert controller.get("/readyz") == (200, "ok\n")
    assert not controller.lines(level="warning", msg="the API server cannot be followed")
    older_cluster.apply(DEPLOY / "crds.yaml")
    world.cloud.journal.clear()
    routed = Routed(world, "r", routedIPReclaimPolicy="Delete")
    (node,) = routed.machines
    routed.service(node)
    routed.routed_ip()
    routed.until_on(node, timeout_seconds=LATER_SECONDS)
    routed.check_admission()


def narrower(documents: list[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """Return roles as they were before there were RoutedIPs, for an account of another name."""
    for document in documents:
        kind, metadata = document["kind"], {**document["metadata"], "name": f"{name}-{document['metadata']['name']}"}
        if kind in ("Role", "ClusterRole"):
            rules = [{**rule, "resources": _known(rule)} for rule in document["rules"]]
            yield {**document, "metadata": metadata, "rules": [rule for rule in rules if rule["resources"]]}
        elif kind in ("RoleBinding", "ClusterRoleBinding"):
            role = {**document["roleRef"], "name": f"{name}-{document['roleRef']['name']}"}
            subjects = [{**subject, "name": name} for subject in document["subjects"]]
            yield {**document, "metadata": metadata, "roleRef": role, "subjects": subjects}
        elif kind == "ServiceAccount":
            yield {**document, "metadata": {**metadata, "name": name}}


def _known(rule: dict[str, Any]) -> list[str]:
    return [each for each in rule["resources"] if each.partition("/")[0] not in NEWER]


def test_an_account_without_the_newer_permissions_serves_pools(world: World) -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()))
    world.cluster.apply(list(narrower(documents, world.id)))
    routed = Routed(world, "r")
    routed.service(*routed.machines)
    routed.routed_ip()
    kubeconfig = world.cluster.kubeconfig_for_service_account("flipop", world.id, world.directory / "narrow.kubeconfig")
    controller = world.controller(kubeconfig=kubeconfig)
    for machine in routed.machines:
        world.cluster.delete("Node", machine.name)
    serves_pools(world)
    assert controller.get("/readyz") == (200, "ok\n")
    assert routed.status() == {}
    routed.check_untouched()
    said = controller.lines(msg="not watched, since the API server does not serve it to us")
    assert {line["resource"] for line in said} == {"routedips", "routedipissuers"}


# -- nodes that hold several addresses -------------------------------------------------------------------------------


class Roomy:
    """Nodes ``a``, ``b`` and ``c`` of a provider whose nodes hold four addresses each; RoutedIPs without a firewall."""

    def __init__(self, world: World, **issuer: Any) -> None:
        self.world = world
        self.names = {suffix: f"{world.id}-{suffix}" for suffix in "abc"}
        variables = regional_provider(world.directory, dict.fromkeys(self.names.values(), "sim1"), {}, capacity=4)
        self.routed = Routed(world, provider="memory", region="sim1", routedIPFirewallName="", **issuer)
        world.controller(variables=variables).await_leading()

    def add(self, suffix: str) -> None:
        name = self.names[suffix]
        self.world.bare_node(name, f"memory://sim1/{name}", {self.world.id: "node"})

    def serve(self, name: str, *suffixes: str) -> None:
        """Create a service with endpoints on these nodes, and a RoutedIP for it."""
        nodes = [Machine(self.names[suffix], 0) for suffix in suffixes]
        self.routed.service(*nodes, name=name)
        self.routed.routed_ip(name)

    def until_on(self, suffix: str, name: str) -> None:
        def is_there() -> bool:
            status = self.routed.status(name)
            return (status.get("state"), status.get("assignedNode")) == ("active", self.names[suffix])

        self.world.until(is_there, f"{name} on {suffix}")


def test_the_node_with_the_fewest_addresses_is_elected_then_the_youngest_then_by_name(world: World) -> None:
    roomy = Roomy(world, perNodeIPLimit=3)
    roomy.add("b")
    time.sleep(1.01)
    roomy.add("c")
    time.sleep(1.01)
    roomy.add("a")
    roomy.serve("first", "b", "c")
    roomy.until_on("c", "first")
    roomy.serve("second", "b", "c")
    roomy.until_on("b", "second")
    roomy.serve("third", "b", "c")
    roomy.until_on("c", "third")
    roomy.serve("fourth", "a", "b", "c")
    roomy.until_on("a", "fourth")
    # Now a and b have one each: the younger one is next.
    roomy.serve("fifth", "a", "b", "c")
    roomy.until_on("a", "fifth")


def test_the_issuers_limit_holds_where_the_node_could_take_more(world: World) -> None:
    roomy = Roomy(world, perNodeIPLimit=2)
    roomy.add("a")
    for name in ("first", "second"):
        roomy.serve(name, "a")
        roomy.until_on("a", name)
    roomy.serve("third", "a")
    roomy.routed.until_reason("NoFreeNode", "third")
    world.change(world.id, ISSUER, perNodeIPLimit=3)
    roomy.until_on("a", "third")


def test_a_pools_addresses_count_too(world: World) -> None:
    roomy = Roomy(world)
    roomy.add("a")
    world.pool(provider="memory", region="sim1", desiredIPs=1)
    world.until_active(1)
    roomy.serve("web", "a")
    roomy.routed.until_reason("NoFreeNode")
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    world.change(world.id, ISSUER, perNodeIPLimit=2)
    roomy.until_on("a", "web")
    assert world.resource("web", ROUTED_IP)["status"]["providerID"].startswith("memory://")
