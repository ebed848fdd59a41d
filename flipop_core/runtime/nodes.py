"""Write the annotation of a node; remove it only while it still says what we put there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from flipop_core.cluster import NODES, KubeAPI
from flipop_core.errors import FlipopError, ObjectNotFound
from flipop_core.model import IPV4_ANNOTATION, IPV6_ANNOTATION, NodeView
from flipop_core.plan.actions import AnnotateNode
from flipop_core.runtime.writer import WRITE_TIMEOUT_SECONDS, Writer


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata


_NODE = msgspec.json.Decoder(_Node)


class NodeAnnotator:
    """Annotates nodes through the writer, one write a node at a time."""

    def __init__(self, api: KubeAPI, writer: Writer) -> None:
        self._api = api
        self._writer = writer
        self._done: dict[tuple[str, bool], tuple[AnnotateNode, NodeView | None]] = {}

    def submit(self, action: AnnotateNode, seen: NodeView | None, done: Callable[[FlipopError | None], None]) -> bool:
        """Start the write; ``done`` gets its error, or None. A node that is gone needs no annotation.

        ``seen`` is the node as the watch shows it. What was written since it showed that is not written again. Returns
        False while another write of the node is under way.
        """
        slot = (action.node, ":" in (action.address or action.previous))
        last = self._done.get(slot)
        if last is not None and seen is not None and last[0] == action and last[1] is seen:
            return True

        def ended(_: bytes | None, error: FlipopError | None) -> None:
            if error is None:
                self._done[slot] = (action, seen)
            done(None if isinstance(error, ObjectNotFound) else error)

        return self._writer.submit(("node", *slot), NODES.kind, lambda: self._write(action), ended)

    def _write(self, action: AnnotateNode) -> bytes | None:
        annotation = IPV6_ANNOTATION if ":" in (action.address or action.previous) else IPV4_ANNOTATION
        if action.address:
            return self._patch(action.node, {"annotations": {annotation: action.address}})
        body = self._api.get(NODES, "", action.node, timeout_seconds=WRITE_TIMEOUT_SECONDS)
        metadata = _NODE.decode(body).metadata
        if (metadata.annotations or {}).get(annotation) != action.previous:
            return None  # somebody else's by now
        return self._patch(
            action.node, {"annotations": {annotation: None}, "resourceVersion": metadata.resource_version}
        )

    def _patch(self, node: str, metadata: dict[str, object]) -> bytes:
        return self._api.merge_patch(NODES, "", node, {"metadata": metadata}, timeout_seconds=WRITE_TIMEOUT_SECONDS)
