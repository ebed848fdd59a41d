"""Both API servers, the in-memory one and a real one, and a namespace, a node and watches of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import NODES, KubeAPI, Query, ResourceType
from flipop_core.errors import ObjectNotFound
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.cluster import ControlPlane

from .objects import (
    WIDGET_DEFINITION,
    Recorder,
    decoded,
)


@pytest.fixture(scope="module")
def real_api(control_plane: ControlPlane) -> Iterator[HTTPKubeAPI]:
    control_plane.apply(WIDGET_DEFINITION)
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(control_plane.admin_kubeconfig)))
    yield api
    api.close()


@pytest.fixture(params=["memory", "real"])
def server(request: pytest.FixtureRequest) -> KubeAPI:
    if request.param == "real":
        api: KubeAPI = request.getfixturevalue("real_api")
        return api
    memory = InMemoryKubeAPI()
    memory.apply(WIDGET_DEFINITION)
    return memory


@pytest.fixture
def namespace(server: KubeAPI) -> str:
    namespaces = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "contract-"}}
    name: str = decoded(server.create(namespaces, "", body))["metadata"]["name"]
    return name


@pytest.fixture
def node_name(server: KubeAPI, namespace: str) -> Iterator[str]:
    """The name of a node that belongs to one test alone."""
    name = f"node-{namespace}"
    yield name
    try:
        server.delete(NODES, "", name)
    except ObjectNotFound:
        return


@pytest.fixture
def watching(server: KubeAPI) -> Iterator[Any]:
    recorders: list[Recorder] = []

    def start(query: Query, resource_version: str = "", timeout_seconds: int = 25) -> Recorder:
        version = resource_version or server.list_page(query).resource_version
        recorder = Recorder(server.watch(query, resource_version=version, timeout_seconds=timeout_seconds))
        recorders.append(recorder)
        return recorder

    yield start
    for recorder in recorders:
        recorder.watch.close()
        recorder.wait_for_end(5.0)
