"""What was asked of the server, and what it answered."""

from __future__ import annotations

import re
import threading
from typing import Any

import msgspec


class Entry(msgspec.Struct):
    """One request. ``time`` is monotonic seconds; ``status`` is 0 until an answer is sent and for one never sent."""

    time: float
    method: str
    path: str
    query: str = ""
    body: Any = None
    status: int = 0
    fault: str = ""
    user_agent: str = ""


class Journal:
    """All requests to the API since the start or the last `clear`, in order of arrival."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Append a request."""
        with self._lock:
            self._entries.append(entry)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def entries(self, method: str = "", path: str = "") -> list[Entry]:
        """Return the requests of ``method`` (any when empty) whose path ``path`` (a regular expression) is found in."""
        with self._lock:
            entries = list(self._entries)
        return [entry for entry in entries if method in {"", entry.method} and re.search(path, entry.path)]

    def count(self, method: str = "", path: str = "") -> int:
        """Return how many requests `entries` has."""
        return len(self.entries(method, path))
