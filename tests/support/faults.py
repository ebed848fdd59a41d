"""Faults that a stand-in injects on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from flipop_core.testing import FaultKind

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
CONFORMANCE_KINDS: Mapping[FaultKind, str] = {
    "rate_limited": "retry_after",
    "unavailable": "status",
    "lost_answer": "drop_after_effect",
    "hang": "hang",
}
"""What the conformance kit calls some of them."""

AFTER_EFFECT = frozenset({"status_after_effect", "drop_after_effect", "hang_after_effect", "cut_body", "drip", "body"})


class Fault(msgspec.Struct, kw_only=True):
    """What happens to some of the next requests.

    Those whose method matches ``method`` (any when empty) and in whose path ``path`` is found, both regular
    expressions. ``times``: how many, after the first ``skip``; below 0 means for ever. ``message`` goes into the error
    body; ``headers`` are added to the answer. The stand-in of one API adds what else its error bodies have.
    """

    kind: str
    method: str = ""
    path: str = ""
    times: int = 1
    skip: int = 0
    status: int = 500
    message: str = "Unexpected server-side error"
    text: str = ""
    seconds: float = 30.0
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        re.compile(self.method)
        re.compile(self.path)


F = TypeVar("F", bound=Fault)


class Faults(Generic[F]):
    """The script of faults, all of the type ``kind``; the first that matches a request is used up by it."""

    def __init__(self, kind: type[F]) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._script: list[F] = []

    def add(self, method: str = "", path: str = "", *, kind: str, **details: Any) -> F:
        """Append a fault; ``details`` are its other fields."""
        return self.add_all([{"method": method, "path": path, "kind": kind, **details}])[0]

    def add_all(self, script: list[Mapping[str, Any]]) -> list[F]:
        """Append several, each a mapping of the fields of a fault. Errors: msgspec.ValidationError."""
        faults = [msgspec.convert(fault, self._kind) for fault in script]
        with self._lock:
            self._script.extend(faults)
        return faults

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._script.clear()

    def take(self, method: str, path: str) -> F | None:
        """Return the fault for this request, None when there is none."""
        with self._lock:
            for fault in self._script:
                if fault.times and re.fullmatch(fault.method or ".*", method) and re.search(fault.path, path):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None
