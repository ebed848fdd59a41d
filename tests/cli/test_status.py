"""`flipop status`: what the resources say of themselves, as tables and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flipop_core.errors import ConfigError, Forbidden
from flipop_core.resources.schema import custom_resource_definitions
from flipop_core.runtime import overview as module
from flipop_core.runtime.overview import overview
from flipop_core.testing.kubeapi import InMemoryKubeAPI

from .commandline import invoke

API_VERSION = "flipop.digitalocean.com/v1alpha1"
READY = {"type": "Ready", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def condition(status: str, reason: str, message: str) -> dict[str, Any]:
    return {**READY, "status": status, "reason": reason, "message": message}


def resource(kind: str, name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "edge"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


@pytest.fixture
def api() -> InMemoryKubeAPI:
    api = InMemoryKubeAPI()
    for crd in custom_resource_definitions():
        api.apply(crd)
    api.add_namespace("edge")
    return api


@pytest.fixture
def full(api: InMemoryKubeAPI, monkeypatch: pytest.MonkeyPatch) -> InMemoryKubeAPI:
    api.apply(
        resource(
            "FloatingIPPool",
            "web",
            {"provider": "digitalocean", "desiredIPs": 2},
            {
                "ips": {
                    "192.0.2.1": {"state": "active", "nodeName": "node-1"},
                    "192.0.2.2": {"state": "error", "error": "out of \x1b[31mreach"},
                },
                "desiredCount": 2,
                "activeCount": 1,
                "records": [{"provider": "cloudflare", "zone": "example.com", "name": "www.example.com", "type": "A"}],
                "conditions": [condition("False", "AddressError", "192.0.2.2: out of reach")],
            },
        )
    )
    api.apply(
        resource(
            "RoutedIP",
            "ingress",
            {"issuerRef": {"name": "main"}, "serviceRef": {"name": "ingress"}},
            {
                "address": "192.0.2.3",
                "state": "active",
                "assignedNode": "node-2",
                "ports": ["443/TCP"],
                "conditions": [condition("True", "AllActive", "1 of 1 addresses are active")],
            },
        )
    )
    api.apply(resource("NodeDNSRecordSet", "nodes", {"dnsRecordSet": {"zone": "a.b", "recordName": "n"}}, {}))

    def read(
        kubeconfig: str, context: str, namespace: str, names: tuple[str, ...], refused: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        assert (kubeconfig, context) == ("", "")
        return overview(api, namespace, names, refused)

    monkeypatch.setattr(module, "read_overview", read)
    return api


@pytest.mark.usefixtures("full")
class TestCommand:
    def test_tables(self) -> None:
        result = invoke("status")
        assert result.exit_code == 2
        rows = [line.split(maxsplit=5) for line in result.stdout.splitlines() if line.strip()]
        assert rows[1][:5] == ["edge/web", "(1/2)", "no", "192.0.2.1", "active"]
        assert "A www.example.com" in result.stdout
        assert "AddressError: 192.0.2.2: out of reach" in result.stdout
        assert ["edge/ingress", "yes", "192.0.2.3", "active", "node-2"] in [row[:5] for row in rows]
        assert ["edge/nodes", "unknown"] in [row[:2] for row in rows]
        assert "\x1b" not in result.output

    def test_json(self) -> None:
        shown = json.loads(invoke("status", "-o", "json").stdout)
        (pool,) = shown["pools"]
        assert pool["addresses"][0] == {"address": "192.0.2.1", "state": "active", "node": "node-1", "error": ""}
        assert pool["dns"] == [{"name": "www.example.com", "type": "A", "provider": "cloudflare"}]
        assert (pool["ready"], pool["reason"]) == (False, "AddressError")
        assert shown["routedIPs"][0]["service"] == "edge/ingress"
        assert shown["recordSets"][0]["ready"] is None

    def test_what_is_ready_exits_with_0(self) -> None:
        assert invoke("status", "ingress").exit_code == 0
        assert invoke("status", "-n", "other").exit_code == 0

    def test_an_unknown_name(self) -> None:
        result = invoke("status", "web", "missing")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == "flipop: there is no pool, RoutedIP or record set missing in any namespace\n"


def test_a_cluster_without_anything(api: InMemoryKubeAPI) -> None:
    assert overview(api) == {"pools": [], "routedIPs": [], "recordSets": []}


def test_what_may_not_be_listed_is_none_but_for_pools(api: InMemoryKubeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = api.list_page
    refused = {"routedips"}

    def list_page(query: Any, **arguments: Any) -> Any:
        if query.resource.plural in refused:
            raise Forbidden("no")
        return inner(query, **arguments)

    monkeypatch.setattr(api, "list_page", list_page)
    told: list[str] = []
    assert overview(api, refused=told)["routedIPs"] == []
    (right,) = told
    assert "the right to list them in all namespaces is missing" in right
    assert "kubectl auth can-i list routedips.flipop.digitalocean.com -A" in right
    refused.add("floatingippools")
    with pytest.raises(Forbidden):
        overview(api)


def test_a_cluster_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError):
        module.read_overview("/nonexistent/kubeconfig", "")
