"""Faults that the server injects on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

KINDS = (
    "status",  # answer `status` with an error body, without effect
    "status_after_effect",  # the same, but the request had its effect
    "retry_after",  # 429 with retry-after: `seconds`
    "html_502",  # a proxy's page
    "drop_before",  # close the connection, without effect
    "drop_after_effect",  # close the connection after the effect
    "hang",  # no answer for `seconds`, then close; without effect
    "hang_after_effect",
    "cut_body",  # effect, then half of the body
    "drip",  # effect, then the body byte by byte, one each 50 ms
    "body",  # effect, then the raw text `text` with `status` instead of the real body
)
AFTER_EFFECT = frozenset({"status_after_effect", "drop_after_effect", "hang_after_effect", "cut_body", "drip", "body"})


class Fault(msgspec.Struct):
    """What happens to the next ``times`` requests of ``method`` (any when empty) whose path ``path`` is found in.

    Several methods are separated by ``|``. ``times`` below 0 means for ever. ``id`` and ``message`` make the error
    body; ``headers`` are added to the answer.
    """

    kind: str
    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 500
    id: str = "server_error"
    message: str = "Unexpected server-side error"
    text: str = ""
    seconds: float = 30.0
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        re.compile(self.path)


class Faults:
    """The script of faults; the first that matches a request is used up by it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._script: list[Fault] = []

    def add(self, method: str = "", path: str = "", *, kind: str, **details: Any) -> Fault:
        """Append a `Fault`; ``details`` are its other fields."""
        return self.add_all([{"method": method, "path": path, "kind": kind, **details}])[0]

    def add_all(self, script: list[Mapping[str, Any]]) -> list[Fault]:
        """Append several, each a mapping of the fields of `Fault`. Errors: msgspec.ValidationError."""
        faults = [msgspec.convert(fault, Fault) for fault in script]
        with self._lock:
            self._script.extend(faults)
        return faults

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._script.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault for this request, None when there is none."""
        with self._lock:
            for fault in self._script:
                named = not fault.method or method in fault.method.split("|")
                if fault.times and named and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None
