"""What the values' schema refuses, and that it names the value."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from .charts import CHART, Helm, nested, only

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())

REFUSED: tuple[tuple[str, Any, str], ...] = (
    # a dotted path, a value, and what the refusal names where that is not the path itself
    ("replicas", 2, "replicas"),
    ("image.repo", "flipop", "repo"),
    ("controller.clustername", "a", "clustername"),
    ("metrics.serviceMonitor.enable", True, "enable"),
    ("podDisruptionBudget.max", 1, "max"),
    ("rbac.secrets.scopes", [], "scopes"),
    ("replicaCount", "2", ""),
    ("replicaCount", -1, ""),
    ("replicaCount", 2.5, ""),
    ("nameOverride", "Flip Op", ""),
    ("fullnameOverride", "a" * 64, ""),
    ("commonLabels", {"team": "a b"}, "commonLabels/team"),
    ("commonLabels", {"-team": "a"}, "commonLabels"),
    ("selectorLabels", {"app": 1}, "selectorLabels/app"),
    ("updateStrategy", {"type": "BlueGreen"}, "updateStrategy/type"),
    ("terminationGracePeriodSeconds", 5, ""),
    ("image.repository", "", ""),
    ("image.repository", "ghcr.io/flipop/flipop:1.0", ""),
    ("image.tag", 1.2, ""),
    ("image.digest", "sha256:abc", ""),
    ("image.pullPolicy", "Sometimes", ""),
    ("imagePullSecrets", ["registry"], "imagePullSecrets/0"),
    ("credentials.existingSecret", "My_Secret", ""),
    ("credentials.values", {"DIGITALOCEAN-TOKEN": "x"}, "credentials/values"),
    ("credentials.values", {"TOKEN": ""}, "credentials/values/TOKEN"),
    ("credentials", {"existingSecret": "flipop", "values": {"TOKEN": "x"}}, "credentials/values"),
    ("controller.debug", "yes", ""),
    ("controller.clusterName", "-a", ""),
    ("controller.recheckSeconds", 0, ""),
    ("controller.maxMovesPerMinute", -1, ""),
    ("extraArgs", ["plan"], "extraArgs/0"),
    ("extraArgs", ["--metrics-bind-addr=:9"], "extraArgs/0"),
    ("extraArgs", ["--kubeconfig=/a", "--no-leader-election"], "extraArgs/1"),
    ("leaderElection.enabled", "false", ""),
    ("leaderElection.enabled", False, "replicaCount"),
    ("http.port", 80, ""),
    ("http.port", 70000, ""),
    ("service.port", 0, ""),
    ("service.annotations", {"a": 1}, "service/annotations/a"),
    ("serviceAccount.annotations", {"eks.amazonaws.com/role-arn": True}, "serviceAccount/annotations"),
    ("serviceAccount.annotations", "role", "serviceAccount/annotations"),
    ("rbac.secrets.scope", "all", ""),
    ("rbac.secrets.names", ["token"], "rbac/secrets/names/0"),
    ("rbac.secrets.names", [{"namespace": "a"}], "rbac/secrets/names/0"),
    ("rbac.secrets.names", [{"name": ""}], "rbac/secrets/names/0/name"),
    ("rbac.aggregateTo.view", "true", ""),
    ("crds.install", None, "'install'"),
    ("metrics", None, "'metrics'"),
    ("extraEnv", [{"value": "x"}], "extraEnv/0"),
    ("extraEnv", [{"name": "A", "value": 1}], "extraEnv/0"),
    ("extraEnv", [{"name": "A B", "value": "x"}], "extraEnv/0"),
    ("extraEnv", [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {}}}], "extraEnv/0"),
    ("extraEnv", {"A": "x"}, "extraEnv"),
    ("extraEnvFrom", [{"secret": {"name": "a"}}], "extraEnvFrom/0"),
    ("extraVolumes", [{"name": "tmp", "emptyDir": {}}], "extraVolumes/0/name"),
    ("extraVolumes", [{"emptyDir": {}}], "extraVolumes/0"),
    ("extraVolumes", [{"name": "a"}], "extraVolumes/0"),
    ("extraVolumeMounts", [{"name": "a", "mountPath": "etc"}], "extraVolumeMounts/0/mountPath"),
    ("extraVolumeMounts", [{"name": "a", "path": "/etc"}], "extraVolumeMounts/0"),
    ("resources", {"limits": {"memory": "512 MB"}}, "resources/limits/memory"),
    ("resources", {"limit": {"memory": "512Mi"}}, "limit"),
    ("resources", {"requests": {"mem": "1Gi"}}, "resources/requests"),
    ("podSecurityContext.runAsUser", "nobody", ""),
    ("podSecurityContext.privileged", True, "privileged"),
    ("containerSecurityContext.privileged", True, ""),
    ("containerSecurityContext.readonlyRootFilesystem", True, "readonlyRootFilesystem"),
    ("containerSecurityContext.capabilities", {"drop": "ALL"}, "containerSecurityContext/capabilities/drop"),
    ("livenessProbe.httpGet", {"path": "/"}, "httpGet"),
    ("readinessProbe.periodSeconds", 0, ""),
    ("startupProbe.failureThreshold", "30", ""),
    ("nodeSelector", {"a": True}, "nodeSelector/a"),
    ("tolerations", [{"key": "a", "effect": "NoRun"}], "tolerations/0/effect"),
    ("tolerations", {"key": "a"}, "tolerations"),
    ("affinity", {"nodeAfinity": {}}, "nodeAfinity"),
    ("topologySpreadConstraints", [{"maxSkew": 1}], "topologySpreadConstraints/0"),
    ("priorityClassName", "Very High", ""),
    ("podDisruptionBudget.maxUnavailable", "half", ""),
    ("podDisruptionBudget.minAvailable", "150%", ""),
    ("networkPolicy.ingressFrom", [{"namespace": "a"}], "networkPolicy/ingressFrom/0"),
    ("networkPolicy.apiServerPorts", ["https"], "networkPolicy/apiServerPorts/0"),
    ("networkPolicy.apiServerPorts", [], "networkPolicy/apiServerPorts"),
    ("networkPolicy.extraEgress", [{"from": []}], "networkPolicy/extraEgress/0"),
    ("metrics.serviceMonitor.interval", "often", ""),
    ("metrics.podMonitor.labels", {"release": 5}, "metrics/podMonitor/labels/release"),
    ("metrics", {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "metrics/podMonitor/enabled"),
    ("metrics.prometheusRule.enabled", 1, ""),
    ("grafanaDashboard.namespace", "a_b", ""),
    ("tests.enabled", "no", ""),
)


@pytest.mark.parametrize(("path", "value", "named"), REFUSED)
def test_a_bad_value_is_refused_by_name(helm: Helm, path: str, value: Any, named: str) -> None:
    said = helm.refusal(nested(path, value))
    assert "values don't meet the specifications of the schema" in said
    assert (named or path.replace(".", "/")) in said


def test_a_service_monitor_needs_the_service(helm: Helm) -> None:
    values = {"metrics": {"serviceMonitor": {"enabled": True}}, "service": {"enabled": False}}
    assert "service/enabled" in helm.refusal(values)


def test_two_replicas_need_the_lease(helm: Helm) -> None:
    off = {"leaderElection": {"enabled": False}}
    assert "replicaCount" in helm.refusal(off)
    rolling = {**off, "replicaCount": 1, "updateStrategy": {"type": "RollingUpdate"}}
    assert "updateStrategy/type" in helm.refusal(rolling)
    assert helm.template({**off, "replicaCount": 1})


def test_what_the_chart_can_do_without_may_be_taken_away(helm: Helm) -> None:
    """With null, as OpenShift wants it for the user's number."""
    needed = {"crds", "credentials", "image", "controller", "leaderElection", "http", "service", "serviceAccount"}
    needed |= {"rbac", "podDisruptionBudget", "networkPolicy", "metrics", "grafanaDashboard", "tests"}
    needed |= {"replicaCount", "terminationGracePeriodSeconds"}
    for name in needed:
        assert f"missing property '{name}'" in helm.refusal({name: None})
    optional = [name for name in VALUES if name not in needed]
    documents = helm.template({}, *(f"--set={name}=null" for name in optional))
    spec = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"] == {}
    assert spec["containers"][0]["livenessProbe"] == {"httpGet": {"path": "/healthz", "port": "http"}}
    openshift = helm.template({}, "--set=podSecurityContext.runAsUser=null", "--set=podSecurityContext.runAsGroup=null")
    security = only(openshift, "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_values_of_a_parent_chart_pass(helm: Helm) -> None:
    assert helm.template({"global": {"imageRegistry": "registry.example.com"}}) == helm.template()
