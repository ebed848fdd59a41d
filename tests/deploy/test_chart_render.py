"""What the chart makes of its values."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from flipop_core.cli.app import cli
from flipop_core.config import LEASE_NAME
from tests.controlplane.api import Document

from .chart_options import PATHS, with_and_without
from .charts import CHART, DEPLOY, VALUE_SETS, Helm, only
from .permissions import ALLOWED, LEASES, Right, granted

RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("path", PATHS)
def test_each_value_has_an_effect(helm: Helm, path: str) -> None:
    changed, base = with_and_without(path)
    assert helm.rendered(changed) != helm.rendered(base)


def pod(documents: list[Document]) -> Document:
    found: Document = only(documents, "Deployment")["spec"]["template"]["spec"]
    return found


def container(documents: list[Document]) -> Document:
    (found,) = pod(documents)["containers"]
    return dict(found)


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_the_arguments_are_those_of_the_command(helm: Helm, value_set: str | None) -> None:
    command, *arguments = container(helm.template(value_set=value_set))["args"]
    assert command == "run"
    run = cli.commands[command]
    with run.make_context(command, arguments) as context:  # raises for an option that there is not
        assert context.params["metrics_bind_addr"].startswith(":")


def test_the_values_reach_the_command(helm: Helm) -> None:
    _, *arguments = container(helm.template(value_set="full"))["args"]
    with cli.commands["run"].make_context("run", arguments) as context:
        given = context.params
    assert given["debug"] is True
    assert given["cluster_name"] == "edge-1"
    assert given["recheck_seconds"] == 120.5
    assert given["max_moves_per_minute"] == 5
    assert given["namespace"] == "kube-system"
    assert given["metrics_bind_addr"] == ":9090"
    assert given["no_leader_election"] is False
    assert given["keep_last_record"] is True


def test_the_defaults_are_those_of_the_command(helm: Helm) -> None:
    _, *arguments = container(helm.template())["args"]
    with cli.commands["run"].make_context("run", []) as context:
        plain = context.params
    with cli.commands["run"].make_context("run", arguments) as context:
        assert context.params == plain


def test_two_replicas_by_default_of_which_one_may_be_evicted(helm: Helm) -> None:
    documents = helm.template()
    assert only(documents, "Deployment")["spec"]["replicas"] == 2
    budget = only(documents, "PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget
    assert budget["selector"] == only(documents, "Deployment")["spec"]["selector"]
    (spread,) = pod(documents)["topologySpreadConstraints"]
    assert spread["labelSelector"] == budget["selector"]


def test_a_constraint_keeps_the_selector_it_has(helm: Helm) -> None:
    first, second = pod(helm.template(value_set="full"))["topologySpreadConstraints"]
    assert first["labelSelector"] == {"matchLabels": {"team": "edge"}}
    assert second["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "flipop"


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_pods_are_restricted(helm: Helm, value_set: str | None) -> None:
    documents = helm.template(value_set=value_set)
    for spec in [pod(documents), *(each["spec"] for each in documents if each["kind"] == "Pod")]:
        assert spec["securityContext"].items() >= RESTRICTED_POD.items()
        for each in spec["containers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"name": "tmp", "mountPath": "/tmp"} in each["volumeMounts"]
        assert next(each for each in spec["volumes"] if each["name"] == "tmp")["emptyDir"]["sizeLimit"]


def test_probes(helm: Helm) -> None:
    found = container(helm.template())
    assert found["ports"] == [{"name": "http", "containerPort": 8080}]
    assert found["livenessProbe"]["httpGet"] == found["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert found["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_credentials_of_an_existing_secret(helm: Helm) -> None:
    documents = helm.template({"credentials": {"existingSecret": "mine"}})
    assert container(documents)["envFrom"] == [{"secretRef": {"name": "mine"}}]
    assert "Secret" not in {document["kind"] for document in documents}


def test_credentials_from_values_restart_the_pods(helm: Helm) -> None:
    documents = helm.template({"credentials": {"values": {"TOKEN": "a: 'b'\n"}}})
    secret = only(documents, "Secret")
    assert base64.b64decode(secret["data"]["TOKEN"]).decode() == "a: 'b'\n"
    assert container(documents)["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    again = helm.template({"credentials": {"values": {"TOKEN": "another"}}})
    sums = [
        only(each, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/credentials"]
        for each in (documents, again)
    ]
    assert len(set(sums)) == 2


def test_without_credentials_there_is_no_secret(helm: Helm) -> None:
    documents = helm.template()
    assert not {"env", "envFrom"} & set(container(documents))
    assert "Secret" not in {document["kind"] for document in documents}


def test_image_by_digest(helm: Helm) -> None:
    assert container(helm.template(value_set="full"))["image"].startswith(
        "registry.example.com:5000/edge/flipop@sha256:"
    )
    assert container(helm.template({"image": {"tag": "2.0"}}))["image"] == "ghcr.io/flipop/flipop:2.0"


def test_without_a_lease_the_old_pod_goes_first(helm: Helm) -> None:
    documents = helm.template(value_set="strict")
    assert only(documents, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert "--no-leader-election" in container(documents)["args"]
    assert not any(right.resource == "leases" for right in granted(documents))


def rights(documents: list[Document], group: str, resource: str) -> set[Right]:
    return {right for right in granted(documents) if (right.group, right.resource) == (group, resource)}


def test_rights_are_those_of_the_plain_manifests(helm: Helm) -> None:
    assert granted(helm.template()) == set(ALLOWED)


def test_secrets_by_name(helm: Helm) -> None:
    assert rights(helm.template(value_set="strict"), "", "secrets") == {
        Right("", "secrets", "get", "flipop", "digitalocean"),
        Right("", "secrets", "get", "ingress", "digitalocean"),
        Right("", "secrets", "get", "ingress", "cloudflare"),
    }
    assert rights(helm.template({"rbac": {"secrets": {"scope": "names"}}}), "", "secrets") == set()


def test_secrets_everywhere(helm: Helm) -> None:
    assert rights(helm.template(value_set="full"), "", "secrets") == {Right("", "secrets", "get")}


def test_the_lease_may_be_elsewhere(helm: Helm) -> None:
    assert rights(helm.template(value_set="full"), LEASES, "leases") == {
        Right(LEASES, "leases", "create", "kube-system"),
        *(Right(LEASES, "leases", verb, "kube-system", LEASE_NAME) for verb in ("get", "watch", "update")),
    }


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_bindings_fit(helm: Helm, value_set: str | None) -> None:
    documents = helm.template(value_set=value_set)
    names = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in documents}
    account = pod(documents)["serviceAccountName"]
    assert ("ServiceAccount", "flipop", account) in names
    for binding in (each for each in documents if each["kind"].endswith("RoleBinding")):
        role = binding["roleRef"]
        assert (role["kind"], binding["metadata"].get("namespace"), role["name"]) in names
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "flipop"}]


def test_crds_are_the_generated_ones_and_stay(helm: Helm) -> None:
    made = {each["metadata"]["name"]: each for each in helm.template() if each["kind"] == "CustomResourceDefinition"}
    sources = [yaml.safe_load(path.read_text()) for path in (DEPLOY / "crds").iterdir()]
    assert {name: crd["spec"] for name, crd in made.items()} == {
        crd["metadata"]["name"]: crd["spec"] for crd in sources
    }
    assert all(crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for crd in made.values())
    loose = helm.template({"crds": {"keep": False}})
    assert not any("annotations" in crd["metadata"] for crd in loose if crd["kind"] == "CustomResourceDefinition")


def test_dashboard_and_alerts_are_taken_as_they_are(helm: Helm) -> None:
    documents = helm.template(value_set="full")
    dashboard = only(documents, "ConfigMap")
    assert dashboard["metadata"]["namespace"] == "monitoring"
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"]["flipop.json"].strip() == (DEPLOY / "grafana" / "flipop.json").read_text().strip()
    rule = only(documents, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())


@pytest.mark.parametrize(("kind", "endpoints"), [("Service", "endpoints"), ("Pod", "podMetricsEndpoints")])
def test_monitors_find_the_metrics(helm: Helm, kind: str, endpoints: str) -> None:
    value = f"{kind.lower()}Monitor"
    documents = helm.template({"metrics": {value: {"enabled": True, "labels": {"release": "a"}}}})
    monitor = only(documents, f"{kind}Monitor")
    target = only(documents, "Service") if kind == "Service" else only(documents, "Deployment")["spec"]["template"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= target["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"][endpoints]
    assert endpoint == {"port": "http", "path": "/metrics", "honorLabels": True}
    assert monitor["metadata"]["labels"]["release"] == "a"


def test_network_policy(helm: Helm) -> None:
    policy = only(helm.template({"networkPolicy": {"enabled": True}}), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    names, https = policy["egress"]
    assert [(each["port"], each["protocol"]) for each in names["ports"]] == [(53, "UDP"), (53, "TCP")]
    assert [each["port"] for each in https["ports"]] == [443, 6443]
    assert policy["podSelector"] == only(helm.template(), "Deployment")["spec"]["selector"]


def test_notes_say_what_is_next(helm: Helm, tmp_path: Path) -> None:
    def notes(*arguments: str) -> str:
        command = ["install", "flipop", str(CHART), "--dry-run=client", "--namespace", "edge", *arguments]
        return helm.succeed(*command).partition("NOTES:")[2]

    assert "No Secret with credentials was given" in notes()
    given = notes("--set=credentials.existingSecret=mine")
    assert "kubectl -n edge create secret generic mine" in given
    assert "helm test flipop -n edge" in given
    assert "(rbac.create)" in notes("--set=rbac.create=false", "--set=crds.install=false")
