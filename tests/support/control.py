"""``/_test/…``: drives a stand-in that runs as a process of its own. Bodies and answers are JSON.

====  =================  ==============================================================
GET   /_test/journal     all requests since the start or the last reset, as `Entry`
GET   /_test/violations  what broke the API's document: nothing, if all is well
POST  /_test/faults      a list of faults, each the fields of the API's fault
POST  /_test/settings    some fields of the settings
POST  /_test/reset       forgets journal, faults, violations and rate limits
====  =================  ==============================================================

A stand-in adds its own paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.support.httpserver import APIServer

Handler = Callable[[Any], object]
Routes = Mapping[tuple[str, str], Handler]


class Control:
    """Answers the control requests of ``server``; ``settings`` is a msgspec struct that may be changed.

    ``routes`` are the stand-in's own paths, and ``also_reset`` is called by a reset.
    """

    def __init__(
        self, server: APIServer[Any], settings: msgspec.Struct, routes: Routes, *, also_reset: Callable[[], None]
    ) -> None:
        self._also_reset = also_reset
        self._server = server
        self._settings = settings
        self._routes: dict[tuple[str, str], Handler] = {
            ("GET", "/_test/journal"): lambda _: server.journal.entries(),
            ("GET", "/_test/violations"): lambda _: server.violations,
            ("POST", "/_test/faults"): server.faults.add_all,
            ("POST", "/_test/settings"): self._change_settings,
            ("POST", "/_test/reset"): self._reset,
            **routes,
        }

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Return status and JSON body; 400 says what was wrong with the request."""
        handler = self._routes.get((method, path))
        if handler is None:
            return 404, b'{"error":"no such control path"}'
        try:
            return 200, msgspec.json.encode(handler(body))
        except (LookupError, TypeError, ValueError) as error:
            return 400, msgspec.json.encode({"error": f"{type(error).__name__}: {error}"})

    def _change_settings(self, body: dict[str, Any]) -> object:
        kind = type(self._settings)
        unknown = body.keys() - set(kind.__struct_fields__)
        if unknown:
            raise ValueError(f"no such setting: {', '.join(sorted(unknown))}")
        changed = msgspec.convert({**msgspec.to_builtins(self._settings), **body}, kind, strict=True)
        for name in body:
            setattr(self._settings, name, getattr(changed, name))
        return self._settings

    def _reset(self, _: Any) -> object:
        self._server.journal.clear()
        self._server.faults.clear()
        self._server.violations.clear()
        self._also_reset()
        return {}
