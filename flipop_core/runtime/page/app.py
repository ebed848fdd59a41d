"""Answers the requests for the status page.

The page's script asks for the content every two seconds, and is told 304 while nothing has changed. Server-sent events
would hold one of the server's few threads for as long as each browser is open, and so keep the probes from theirs.
What is served is made at most once a second, by one thread at a time, however many ask; the others get the last one.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from flipop_core.runtime.history import History
from flipop_core.runtime.page.model import Page, Process, page_model
from flipop_core.runtime.page.render import Renderer, StaticFile, etag_of, static_files

Overview = Mapping[str, Sequence[Mapping[str, Any]]]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]

FRESH_SECONDS = 1.0
"""For how long what was made is served."""

_FIRST_SECONDS = 0.5
_GZIP_FROM_BYTES = 1400
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"

SECURITY_HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""Sent with every answer: nothing inline, nothing from elsewhere, in no frame."""


class Facts(NamedTuple):
    """What a page is made from, at one moment."""

    overview: Overview
    process: Process
    history: History


class _Made(NamedTuple):
    """What was made of the facts at ``now`` (Unix time), until it is made again at ``made_at`` + a second."""

    overview: Overview
    page: Page
    etag: str
    content: str
    now: float
    made_at: float


class StatusPage:
    """A WSGI application for `paths`. ``facts`` is quick; ``monotonic`` and ``wall`` are clocks in seconds."""

    def __init__(
        self, facts: Callable[[], Facts], *, monotonic: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._facts = facts
        self._monotonic = monotonic
        self._wall = wall
        self._static = {f"/{name}": file for name, file in static_files().items()}
        self._answers: Mapping[str, Callable[[dict[str, Any], _Made], _Body]] = {
            "/": self._document,
            "/status/content": self._fragment,
            "/api/status": self._json,
        }
        self._making = threading.Lock()
        self._made: _Made | None = None

    @cached_property
    def _renderer(self) -> Renderer:
        """Made for the first page: most processes are asked for metrics alone. `_making` is held then."""
        return Renderer()

    @property
    def paths(self) -> frozenset[str]:
        """The paths that it answers."""
        return frozenset((*self._answers, *self._static))

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer a GET or HEAD request for one of `paths`."""
        path = environ.get("PATH_INFO", "")
        static = self._static.get(path)
        if static is not None:
            return _respond(environ, start_response, _of_file(static))
        made = self._fresh()
        if made is None:
            headers = [("Content-Type", "text/plain; charset=utf-8"), ("Retry-After", "1"), *SECURITY_HEADERS]
            start_response("503 Service Unavailable", headers)
            return [b"the page is being made: try again\n"]
        return _respond(environ, start_response, self._answers[path](environ, made))

    def _fresh(self) -> _Made | None:
        """Return what was made within the last second, or what there is while another thread makes it."""
        made = self._made
        if made is not None and self._monotonic() - made.made_at < FRESH_SECONDS:
            return made
        wait = _FIRST_SECONDS if made is None else 0.0
        if not self._making.acquire(timeout=wait):
            return made
        try:
            last = self._made
            if last is None or last is made:
                self._made = self._make()
            return self._made
        finally:
            self._making.release()

    def _make(self) -> _Made:
        facts = self._facts()
        page = page_model(facts.overview, facts.process, facts.history)
        now, etag = self._wall(), etag_of(page)
        content = self._renderer.content(page, now)
        return _Made(facts.overview, page, etag, content, now, self._monotonic())

    def _document(self, environ: dict[str, Any], made: _Made) -> _Body:
        refresh = environ.get("QUERY_STRING") != "refresh=off"
        return _Body(_HTML, self._renderer.page(made.page, made.content, made.now, refresh=refresh))

    def _fragment(self, environ: dict[str, Any], made: _Made) -> _Body:
        del environ
        return _Body(_HTML, made.content.encode(), made.etag, extra=(("X-Now", f"{made.now:.3f}"),))

    def _json(self, environ: dict[str, Any], made: _Made) -> _Body:
        del environ
        return _Body(_JSON, json.dumps(made.overview, ensure_ascii=False).encode() + b"\n")


class _Body(NamedTuple):
    content_type: str
    content: bytes
    etag: str = ""
    caching: str = "no-store"
    extra: tuple[tuple[str, str], ...] = ()


def _of_file(file: StaticFile) -> _Body:
    return _Body(file.content_type, file.body, file.etag, caching="no-cache")


def _respond(environ: Mapping[str, Any], start_response: StartResponse, body: _Body) -> Iterable[bytes]:
    headers = [("Cache-Control", body.caching), ("Vary", "Accept-Encoding"), *body.extra, *SECURITY_HEADERS]
    if body.etag:
        headers.append(("ETag", body.etag))
        if body.etag in _tags(environ.get("HTTP_IF_NONE_MATCH", "")):
            start_response("304 Not Modified", headers)
            return []
    content = body.content
    if len(content) >= _GZIP_FROM_BYTES and _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
        content = gzip.compress(content, compresslevel=5, mtime=0)
        headers.append(("Content-Encoding", "gzip"))
    headers += [("Content-Type", body.content_type), ("Content-Length", str(len(content)))]
    start_response("200 OK", headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [content]


def _tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in header.split(",")]


def _takes_gzip(header: str) -> bool:
    for coding in header.split(","):
        name, _, parameters = coding.partition(";")
        if name.strip().lower() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
