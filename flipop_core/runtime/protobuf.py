"""Kubernetes' protobuf, as far as it is read here: lists, watches, pods, and the Status of a failed request.

Pods are by far the most that is read. As protobuf they take the API server half the CPU of JSON, and 40 % less room.
Field numbers are those of ``generated.proto`` in k8s.io/api/core/v1 and k8s.io/apimachinery; none ever changes. What is
not named here is skipped. This module is imported when pods are watched, since the library takes 15 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from flipop_core.cluster import ListPage, WatchEvent
from flipop_core.model import PodView
from flipop_core.runtime.kubehttp import PROTOBUF_MAGIC

__all__ = ["DecodeError", "decode_pod", "pod_identifier", "read_event", "read_page", "status_as_json"]

_PACKAGE = "flipop"
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Time": {"seconds": (1, "int64")},
    "ListMeta": {"resource_version": (2, "string"), "continue_token": (3, "string")},
    "List": {"metadata": (1, "ListMeta"), "items": (2, "repeated bytes")},
    "Cause": {"reason": (1, "string")},
    "Details": {"causes": (4, "repeated Cause"), "retry_after_seconds": (5, "int32")},
    "Status": {"message": (3, "string"), "reason": (4, "string"), "details": (5, "Details"), "code": (6, "int32")},
    # What these wrap is declared as bytes; on the wire a message within a message is the same.
    "UnknownList": {"raw": (2, "List")},
    "UnknownStatus": {"raw": (2, "Status")},
    "Unknown": {"raw": (2, "bytes")},
    "RawExtension": {"raw": (1, "bytes")},
    "WatchEvent": {"type": (1, "string"), "object": (2, "RawExtension")},
    "ObjectMeta": {
        "name": (1, "string"),
        "namespace": (3, "string"),
        "uid": (5, "string"),
        "resource_version": (6, "string"),
        "deletion": (9, "Time"),
    },
    "PodSpec": {"node_name": (10, "string")},
    "Condition": {"type": (1, "string"), "status": (2, "string"), "last_transition": (4, "Time")},
    "PodStatus": {"phase": (1, "string"), "conditions": (2, "repeated Condition")},
    "Pod": {"metadata": (1, "ObjectMeta"), "spec": (2, "PodSpec"), "status": (3, "PodStatus")},
}
_FIELD = descriptor_pb2.FieldDescriptorProto


def _classes() -> dict[str, Any]:
    """Return the class of each message."""
    file = descriptor_pb2.FileDescriptorProto(name="flipop.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            *repeated, type_name = kind.split()
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            if type_name in _MESSAGES:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{type_name}"
            else:
                field.type = _FIELD.Type.Value(f"TYPE_{type_name.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    messages = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _MESSAGES}
    return {name: message_factory.GetMessageClass(message) for name, message in messages.items()}


_CLASSES = _classes()
_POD = _CLASSES["Pod"]
_EVENT = _CLASSES["WatchEvent"]


def read_page(body: bytes | bytearray) -> ListPage:
    """Read an answer to a list; raises DecodeError."""
    page = _unwrapped("UnknownList", body)
    items = tuple(map(msgspec.Raw, page.items))
    return ListPage(items, page.metadata.resource_version, page.metadata.continue_token, protobuf=True)


def read_event(frame: bytes) -> WatchEvent:
    """Read an event of a watch; raises DecodeError. The Status of an ERROR is JSON."""
    event = _EVENT.FromString(frame)
    body = event.object.raw
    if event.type == "ERROR":
        return WatchEvent(event.type, msgspec.Raw(status_as_json(body)))
    return WatchEvent(event.type, msgspec.Raw(_unwrapped("Unknown", body)), protobuf=True)


def status_as_json(body: bytes) -> bytes:
    """Return the Status of a failed request in JSON; raises DecodeError."""
    status = _unwrapped("UnknownStatus", body)
    details = {
        "causes": [{"reason": cause.reason} for cause in status.details.causes],
        "retryAfterSeconds": status.details.retry_after_seconds or None,
    }
    return msgspec.json.encode(
        {"message": status.message, "reason": status.reason, "code": status.code, "details": details}
    )


def _unwrapped(envelope: str, body: bytes | bytearray) -> Any:
    return _CLASSES[envelope].FromString(memoryview(body)[len(PROTOBUF_MAGIC) :]).raw


def decode_pod(raw: msgspec.Raw) -> PodView:
    """Return the view of a Pod, as `flipop_core.runtime.decode.decode_pod` does; raises DecodeError."""
    pod = _POD.FromString(memoryview(raw))
    metadata, status = pod.metadata, pod.status
    if not metadata.name:
        raise DecodeError("a pod without a name")
    ready, since = False, 0
    for condition in status.conditions:
        if condition.type == "Ready":
            ready = status.phase == "Running" and condition.status == "True"
            since = condition.last_transition.seconds
            break
    return PodView(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        node_name=intern(pod.spec.node_name),
        ready=ready,
        deleting=metadata.HasField("deletion"),
        unready_since=0.0 if ready else float(since),
    )


def pod_identifier(raw: msgspec.Raw) -> tuple[str, str, str]:
    """Return a Pod's namespace, name and resourceVersion; raises DecodeError."""
    metadata = _POD.FromString(memoryview(raw)).metadata
    return metadata.namespace, metadata.name, metadata.resource_version
