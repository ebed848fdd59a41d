"""Pages of lists, as an API server answers them, in JSON or in protobuf."""

from __future__ import annotations

import msgspec

from flipop_core.cluster import ListPage
from flipop_core.errors import ClusterUnavailable
from flipop_core.runtime.kubehttp import PROTOBUF_MAGIC


class _ListMetadata(msgspec.Struct):
    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    continue_token: str | None = msgspec.field(default=None, name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: tuple[msgspec.Raw, ...] | None = None


_LIST = msgspec.json.Decoder(_List)


def read_list(action: str, body: bytearray) -> ListPage:
    """Read the answer to a list; raises ClusterUnavailable, which begins with ``action``, when it is none."""
    if body.startswith(PROTOBUF_MAGIC):
        return _protobuf_page(action, body)
    try:
        answer = _LIST.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _no_list(action, error) from error
    metadata = answer.metadata
    return ListPage(answer.items or (), metadata.resource_version or "", metadata.continue_token or "")


def _protobuf_page(action: str, body: bytearray) -> ListPage:
    from flipop_core.runtime.protobuf import DecodeError, read_page

    try:
        return read_page(body)
    except DecodeError as error:
        raise _no_list(action, error) from error


def _no_list(action: str, error: Exception) -> ClusterUnavailable:
    return ClusterUnavailable(f"{action}: the answer is no list: {error}")
