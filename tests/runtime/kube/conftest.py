"""A scripted API server, kubeconfigs that name it, and clients connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration

from .answers import (
    EMPTY_LIST,
    SECRET,
    Connect,
    WriteKubeconfig,
    answering,
)
from .scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answering(200, EMPTY_LIST)) as running:
        yield running


@pytest.fixture
def kubeconfig(tmp_path: Path, server: ScriptedServer) -> WriteKubeconfig:
    def write(user: dict[str, Any] | None = None, *, name: str = "config", **cluster: Any) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server.url, **cluster}}],
            "users": [{"name": "u", "user": {} if user is None else user}],
            "contexts": [
                {"name": "first", "context": {"cluster": "c", "user": "u", "namespace": "its-own"}},
                {"name": "second", "context": {"cluster": "c", "user": "u"}},
                {"name": "nobody", "context": {"cluster": "c", "user": ""}},
            ],
            "current-context": "first",
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


@pytest.fixture
def connect(kubeconfig: WriteKubeconfig) -> Iterator[Connect]:
    apis: list[HTTPKubeAPI] = []

    def make(user: dict[str, Any] | None = None, *, path: str = "", **options: Any) -> HTTPKubeAPI:
        path = path or kubeconfig(user)
        apis.append(HTTPKubeAPI(lambda: load_kube_configuration(path), **options))
        return apis[-1]

    yield make
    for api in apis:
        api.close()


@pytest.fixture
def api(connect: Connect) -> HTTPKubeAPI:
    return connect({"token": SECRET})
