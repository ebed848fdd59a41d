"""The in-memory API server, and reflectors of its nodes that are stopped after the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flipop_core.cluster import KubeAPI, Query
from flipop_core.model import NodeView
from flipop_core.runtime.backoff import Backoff
from flipop_core.runtime.decode import decode_node, node_identity
from flipop_core.runtime.reflector import Reflector
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from tests.controlplane.api import wait_for

from .listeners import ALL_NODES, Changes, Start


@pytest.fixture
def api() -> InMemoryKubeAPI:
    return InMemoryKubeAPI()


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def start(api: InMemoryKubeAPI, changes: Changes) -> Iterator[Start]:
    reflectors: list[Reflector[NodeView]] = []

    def make(
        query: Query = ALL_NODES, *, server: KubeAPI = api, synced: bool = True, **options: Any
    ) -> Reflector[NodeView]:
        options = {"backoff": Backoff(0.01, 0.1), "on_change": changes, "decode": decode_node, **options}
        reflector = Reflector(server, query, identity=node_identity, **options)
        reflectors.append(reflector)
        reflector.start()
        if synced:
            assert reflector.wait_synced(5)
        return reflector

    yield make
    for reflector in reflectors:
        reflector.stop()
    wait_for(lambda: not any(reflector.running for reflector in reflectors), message="the reflectors' end")
