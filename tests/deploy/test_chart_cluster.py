"""The chart on a real API server: its objects are valid, its release works, and its account has the rights it uses."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_do_testserver import Settings
from tests.controlplane.api import APPLY_PATCH, STRATEGIC_MERGE_PATCH, Document
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog
from tests.e2e.controller import TOKEN
from tests.e2e.routed import Routed
from tests.e2e.world import API_VERSION, POOL, RECORD_SET, REGION, ROUTED_IP, Machine, World
from tests.e2e.zones import cloudflare_zone, until_ready

from .chart_options import OTHERS, with_and_without
from .charts import CHART, DEPLOY, VALUE_SETS, Helm, only, pod_of
from .permissions import EVENTS, FLIPOP, Right, granted

ACCOUNT = "system:serviceaccount:flipop:flipop"
VARIABLE = "DIGITALOCEAN_ACCESS_TOKEN"
LABEL = {"doks.digitalocean.com/node-pool": "work"}

# Used after a conflict of two writes, and when an event repeats; neither is made to happen here.
SELDOM = {
    *(Right(FLIPOP, kind, "get") for kind in ("floatingippools", "nodednsrecordsets", "routedips", "routedipissuers")),
    Right(EVENTS, "events", "patch"),
}

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [ACCOUNT]}, {"level": "None"}],
}

_TEXT: Document = {"type": "string"}
_LABELS: Document = {"type": "object", "additionalProperties": _TEXT}


def _struct(**fields: Document) -> Document:
    return {"type": "object", "properties": fields}


def _each(items: Document) -> Document:
    return {"type": "array", "items": items}


_RELABEL = _struct(
    action=_TEXT, regex=_TEXT, sourceLabels=_each(_TEXT), targetLabel=_TEXT, replacement=_TEXT, separator=_TEXT
)
_ENDPOINT = _struct(
    port=_TEXT,
    path=_TEXT,
    interval=_TEXT,
    scrapeTimeout=_TEXT,
    honorLabels={"type": "boolean"},
    relabelings=_each(_RELABEL),
    metricRelabelings=_each(_RELABEL),
)
_SELECTOR = _struct(matchLabels=_LABELS)
_RULE = _struct(
    alert=_TEXT,
    record=_TEXT,
    expr={"x-kubernetes-int-or-string": True},
    **{"for": _TEXT},
    keep_firing_for=_TEXT,
    labels=_LABELS,
    annotations=_LABELS,
)
MONITORING = {
    "ServiceMonitor": _struct(selector=_SELECTOR, endpoints=_each(_ENDPOINT)),
    "PodMonitor": _struct(selector=_SELECTOR, podMetricsEndpoints=_each(_ENDPOINT)),
    "PrometheusRule": _struct(groups=_each(_struct(name=_TEXT, interval=_TEXT, rules=_each(_RULE)))),
}
"""The part of the Prometheus Operator's schemas that the chart uses; all else is refused by strict validation."""


def monitoring_definition(kind: str) -> Document:
    plural = f"{kind.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _struct(spec=MONITORING[kind])},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.monitoring.coreos.com",
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


class Cluster:
    """A control plane, a helm for it, and what the controller's account has asked of it."""

    def __init__(self, server: ControlPlane, helm: Helm, audit_log: Path) -> None:
        self.server = server
        self.helm = helm.on(server.admin_kubeconfig)
        self._audit_log = audit_log

    def used(self) -> set[Right]:
        """Return the rights of the account's requests so far, wherever a namespace is said to be that of the object."""
        entries = [json.loads(line) for line in self._audit_log.read_text().splitlines()]
        assert all(entry["responseStatus"]["code"] != 403 for entry in entries), "a request was forbidden"
        return {_right(entry["verb"], entry["objectRef"]) for entry in entries if "objectRef" in entry}


def _right(verb: str, target: Document) -> Right:
    subresource = f"/{target['subresource']}" if "subresource" in target else ""
    namespaced = target["resource"] in {"leases", "secrets"}
    return Right(
        target.get("apiGroup", ""),
        target["resource"] + subresource,
        verb,
        target.get("namespace", "") if namespaced else "",
        target.get("name", "") if target["resource"] == "leases" and verb != "create" else "",
    )


@pytest.fixture(scope="module")
def cluster(control_plane_binaries: Path, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster on which the README's commands have been carried out, but for the pool."""
    directory = tmp_path_factory.mktemp("audit")
    policy, log = directory / "policy.yaml", directory / "audit.log"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    arguments = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    with ControlPlane(control_plane_binaries, apiserver_arguments=arguments) as server:
        cluster = Cluster(server, helm, log)
        server.create_namespace("flipop", {"pod-security.kubernetes.io/enforce": "restricted"})
        secret = {"metadata": {"name": "flipop", "namespace": "flipop"}, "stringData": {VARIABLE: TOKEN}}
        server.create({"apiVersion": "v1", "kind": "Secret", **secret})
        refused = cluster.helm.run(*_install("--set=metrics.serviceMonitor.enabled=true"))
        assert "does not serve monitoring.coreos.com/v1" in refused.stderr
        assert server.get("Deployment", "flipop", "flipop", api_version="apps/v1") is None
        cluster.helm.succeed(*_command("helm install flipop ./deploy/chart"))
        for kind in MONITORING:
            server.apply(monitoring_definition(kind))
        for namespace in ("monitoring", "ingress", "other"):
            server.create_namespace(namespace)
        yield cluster


def _install(*arguments: str) -> list[str]:
    return ["install", "flipop", str(CHART), "--namespace", "flipop", *arguments]


def _readme_blocks(language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", (CHART / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    return [text for marked, text in blocks if marked == language]


def _commands() -> list[str]:
    """Return the README's commands, with the chart's directory written out."""
    lines = [line for block in _readme_blocks("") for line in block.replace("\\\n", "").splitlines()]
    return [line.replace("./deploy/chart", str(CHART)) for line in lines]


def _command(beginning: str) -> list[str]:
    """Return the arguments of the README's first command that begins so."""
    whole = beginning.replace("./deploy/chart", str(CHART))
    return shlex.split(next(line for line in _commands() if line.startswith(whole)))[1:]


def readme_pool() -> Document:
    found: Document = yaml.safe_load(next(block for block in _readme_blocks("yaml") if "FloatingIPPool" in block))
    return found


def test_a_working_pool_takes_five_commands() -> None:
    commands = _readme_blocks("")[0].strip().splitlines()
    assert [shlex.split(command)[:2] for command in commands] == [
        ["kubectl", "create"],
        ["kubectl", "create"],
        ["helm", "install"],
        ["kubectl", "apply"],
        ["kubectl", "get"],
    ]


# -- objects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_the_api_server_takes_every_object(cluster: Cluster, helm: Helm, value_set: str | None) -> None:
    kinds = set()
    for document in helm.template(value_set=value_set):
        kinds.add(document["kind"])
        dry_run(cluster.server, document)
    assert {"Deployment", "ServiceAccount", "ClusterRole"} <= kinds
    assert value_set != "full" or {*MONITORING, "ConfigMap", "NetworkPolicy", "Secret"} - {"PodMonitor"} <= kinds


def test_the_api_server_takes_what_each_other_value_makes(cluster: Cluster, helm: Helm) -> None:
    """Those that no file of values has: the objects that they change, or add."""
    taken = [*helm.template()]
    for path in OTHERS:
        values, _ = with_and_without(path)
        for document in helm.template(values):
            if document not in taken:
                taken.append(copy.deepcopy(document))
                dry_run(cluster.server, document)
    assert {"PodMonitor"} <= {document["kind"] for document in taken}


def dry_run(server: ControlPlane, document: Document) -> None:
    """Let the API server say whether it would take an object, with no field that it does not know."""
    metadata = document["metadata"]
    if document["kind"] != "CustomResourceDefinition":
        metadata["name"] += "-dry-run"  # what is installed could not take another selector
    path = server.path_for(
        document["kind"], metadata["name"], metadata.get("namespace"), api_version=document["apiVersion"]
    )
    query = "?dryRun=All&fieldValidation=Strict&fieldManager=dry-run&force=true"
    status, answer = server.request("PATCH", path + query, document, APPLY_PATCH)
    assert status in {200, 201}, f"{document['kind']} {metadata['name']}: {answer}"


def test_strict_validation_finds_what_is_wrong(cluster: Cluster, helm: Helm) -> None:
    """The objects above are taken because they are right, not because nobody looks."""
    for values, kind in (({}, "Deployment"), ({"metrics": {"podMonitor": {"enabled": True}}}, "PodMonitor")):
        document = only(helm.template(values), kind)
        path = cluster.server.path_for(kind, namespace="flipop", api_version=document["apiVersion"])
        document["metadata"]["name"] = "dry-run"
        query = "?dryRun=All&fieldValidation=Strict"
        status, answer = cluster.server.request("POST", path + query, document)
        assert status == 201, answer
        document["spec"]["selectors"] = {}
        status, answer = cluster.server.request("POST", path + query, document)
        assert status == 400
        assert "spec.selectors" in answer["message"]


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_pods_are_admitted_under_the_restricted_standard(cluster: Cluster, helm: Helm, value_set: str | None) -> None:
    documents = helm.template(value_set=value_set)
    pods = [pod_of(only(documents, "Deployment")["spec"]["template"])]
    pods += [document for document in documents if document["kind"] == "Pod"]
    path = cluster.server.path_for("Pod", namespace="flipop") + "?dryRun=All&fieldValidation=Strict"
    for pod in pods:
        pod["spec"].pop("priorityClassName", None)  # no controller makes the classes here
        status, answer = cluster.server.request("POST", path, pod)
        assert status == 201, answer
    pods[0]["spec"]["securityContext"]["runAsNonRoot"] = False
    status, answer = cluster.server.request("POST", path, pods[0])
    assert status == 403
    assert 'violates PodSecurity "restricted' in answer["message"]


# -- the controller --------------------------------------------------------------------------------------------------


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path) -> Iterator[World]:
    watchdog = Watchdog(tmp_path / "controllers")
    world = World(cluster.server, tmp_path, watchdog, Settings(reserved_ip_limit=0))
    yield world
    world.close()
    watchdog.close()


def run_as_installed(cluster: Cluster, world: World) -> None:
    """Start two controllers with the arguments of the installed Deployment, as its service account."""
    deployment = cluster.server.get("Deployment", "flipop", "flipop", api_version="apps/v1")
    assert deployment is not None
    spec = deployment["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "flipop"
    command, address, *arguments = spec["containers"][0]["args"]
    assert command == "run"
    assert address.startswith("--metrics-bind-addr=:")  # the tests choose a free port
    world.controller(*arguments).await_leading()
    world.controller(*arguments)


def test_the_account_has_the_rights_it_uses_and_no_more(cluster: Cluster, helm: Helm, world: World) -> None:
    run_as_installed(cluster, world)
    first, second, third = [world.node(suffix, labels={**LABEL, world.id: "node"}) for suffix in ("a", "b", "c")]
    pool_fails_over(world, [first, second], third)
    records_are_published(world)
    service_is_routed(world)
    world.until_at_rest()
    rights = granted(helm.template())
    used = cluster.used()
    assert used - rights == set()
    assert rights - used <= SELDOM
    status, answer = world.controllers[1].get("/readyz")
    assert (status, answer) == (200, "ok\n"), "a standby is ready"


def pool_fails_over(world: World, holders: list[Machine], spare: Machine) -> None:
    pool = readme_pool()
    assert pool["spec"]["region"] == REGION
    world.cluster.create({**pool, "spec": {**pool["spec"], "reclaimPolicy": "Delete"}})
    name, namespace = pool["metadata"]["name"], pool["metadata"]["namespace"]
    world.until(lambda: len(world.holders(name, namespace=namespace)) == 2, "two active addresses")
    (address,) = [each for each, node in world.holders(name, namespace=namespace).items() if node == holders[0].name]
    world.cluster.set_node_ready(holders[0].name, ready=False)
    world.until(lambda: world.held()[address] == spare.droplet_id, "the address on the spare node")
    world.until(lambda: world.annotation(spare) == address, "the annotation")
    world.cluster.set_node_ready(holders[0].name, ready=True)
    world.cluster.delete(POOL, name, namespace, api_version=API_VERSION)
    world.until(
        lambda: world.cluster.get(POOL, name, namespace, api_version=API_VERSION) is None, "the pool to be gone"
    )
    assert world.held() == {}


def records_are_published(world: World) -> None:
    zone = cloudflare_zone(world)
    world.bare_node(
        f"{world.id}-x", "digitalocean://9001", {world.id: "node"}, addresses=[("ExternalIP", "203.0.113.9")]
    )
    world.record_set(dnsRecordSet={**zone.spec(), "reclaimPolicy": "Delete"})
    world.until(lambda: zone.values() == ["203.0.113.9"], "the record")
    until_ready(world)
    world.delete("records", RECORD_SET)
    world.until(lambda: world.is_gone("records", RECORD_SET), "the record set to be gone")


def service_is_routed(world: World) -> None:
    routed = Routed(world, "r")
    reference = routed.secret("issuer", {VARIABLE: TOKEN})
    routed.change_issuer(credentialsSecretRef=reference)
    routed.service(routed.machines[0])
    routed.routed_ip()
    routed.until_on(routed.machines[0])
    routed.delete()
    world.until(lambda: world.is_gone("web", ROUTED_IP), "the RoutedIP to be gone")


# -- the release -----------------------------------------------------------------------------------------------------


def uninstall(helm: Helm) -> None:
    helm.succeed("uninstall", "flipop", "--namespace", "flipop", "--ignore-not-found")


def test_upgrade_uninstall_and_install_again(cluster: Cluster) -> None:
    helm, server = cluster.helm, cluster.server
    uninstall(helm)
    helm.succeed(*_install("--set=credentials.existingSecret=flipop"))
    pool = readme_pool()
    pool["metadata"]["name"] = "kept"
    server.create(pool)
    helm.succeed(*_command("helm upgrade flipop ./deploy/chart"))
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert server.get(kind, "flipop", "flipop", api_version="monitoring.coreos.com/v1") is not None
    assert server.get("ConfigMap", "flipop-dashboard", "flipop") is not None

    uninstall(helm)
    assert server.get("Deployment", "flipop", "flipop", api_version="apps/v1") is None
    assert server.get(POOL, "kept", "flipop", api_version=API_VERSION) is not None
    helm.succeed(*_install("--set=credentials.existingSecret=flipop"))
    assert server.get(POOL, "kept", "flipop", api_version=API_VERSION) is not None
    uninstall(helm)
    server.delete(POOL, "kept", "flipop", api_version=API_VERSION)


def test_it_takes_over_from_the_plain_manifests(cluster: Cluster) -> None:
    helm, server = cluster.helm, cluster.server
    uninstall(helm)
    server.apply(DEPLOY)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "flipop", "image": "registry.invalid/earlier"}]}}}}
    server.patch(
        "Deployment", "flipop", image, "flipop", api_version="apps/v1", content_type=STRATEGIC_MERGE_PATCH
    )  # by hand: the field has an owner who is not Helm
    refused = helm.run(*_install("--set=credentials.existingSecret=flipop"))
    assert "ownership" in refused.stderr
    (command,) = [line for line in _commands() if "--take-ownership" in line]
    helm.succeed(*shlex.split(command)[1:])
    deployment: Any = server.get("Deployment", "flipop", "flipop", api_version="apps/v1")
    assert deployment["metadata"]["annotations"]["meta.helm.sh/release-name"] == "flipop"
    assert deployment["spec"]["selector"] == {"matchLabels": {"app": "flipop"}}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (
        container["image"] == only(helm.template(), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    )
