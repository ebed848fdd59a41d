"""Objects that the tests of the contract write and read, and what reads a watch."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from flipop_core.cluster import LEASES, KubeAPI, Query, ResourceType, Watch, WatchEvent
from flipop_core.errors import ClusterError

WIDGETS = ResourceType("tests.flipop.example", "v1", "widgets", "Widget")
GADGETS = ResourceType("tests.flipop.example", "v1", "gadgets", "Gadget")
WIDGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.tests.flipop.example"},
    "spec": {
        "group": WIDGETS.group,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            field: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            for field in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}

Document = dict[str, Any]


def decoded(raw: Any) -> Document:
    document: Document = json.loads(bytes(raw))
    return document


def widget(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> Document:
    metadata: Document = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": metadata, **fields}


def lease(name: str, **metadata: str) -> Document:
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": "me"},
    }


def node(name: str, **fields: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **fields}


def pod(name: str, **spec: Any) -> Document:
    spec = {"containers": [{"name": "main", "image": "none.invalid/none"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def create(server: KubeAPI, namespace: str, body: Document) -> Document:
    return decoded(server.create(WIDGETS, namespace, body))


def names(server: KubeAPI, query: Query) -> list[str]:
    return [decoded(item)["metadata"]["name"] for item in server.list_page(query).items]


class Recorder:
    """Reads a watch in a thread of its own."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.events: list[tuple[str, Document]] = []
        self.error: ClusterError | None = None
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for event in self.watch:
                self._take(event)
        except ClusterError as error:
            self.error = error

    def _take(self, event: WatchEvent) -> None:
        with self._news:
            self.events.append((event.type, decoded(event.object)))
            self._news.notify_all()

    def wait_for(self, count: int) -> list[tuple[str, str]]:
        """Return type and name of the first ``count`` events that are no bookmarks."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.told()) >= count, 30.0), self.events
            return [(kind, body["metadata"]["name"]) for kind, body in self.told()]

    def told(self) -> list[tuple[str, Document]]:
        return [event for event in self.events if event[0] != "BOOKMARK"]

    def wait_for_end(self, timeout_seconds: float) -> float:
        """Return how long the watch went on."""
        began = time.monotonic()
        self._thread.join(timeout_seconds)
        assert not self._thread.is_alive()
        return time.monotonic() - began
