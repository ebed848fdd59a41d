"""Makes HTML of the page's model. Templates escape all that they are given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

import msgspec

from flipop_core.runtime.page import words
from flipop_core.runtime.page.model import Page

_PACKAGE = "flipop_core.runtime.page"
_STATIC_TYPES = {
    "status.css": "text/css; charset=utf-8",
    "status.js": "text/javascript; charset=utf-8",
    "status.svg": "image/svg+xml",
}


class StaticFile(NamedTuple):
    """A file of the package, as it is served."""

    content_type: str
    body: bytes
    etag: str


class Renderer:
    """Renders pages. Thread-safe. The templates are read and compiled at once."""

    def __init__(self) -> None:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # not at the start of each process

        environment = Environment(
            loader=PackageLoader(_PACKAGE), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=False
        )
        for function in (
            words.span,
            words.duration,
            words.distance,
            words.until,
            words.timestamp,
            words.clock,
            words.parts,
        ):
            environment.filters[function.__name__] = function
        self._content = environment.get_template("content.html")
        self._page = environment.get_template("page.html")

    def content(self, page: Page, now: float) -> str:
        """Return what is inside of ``<main>``. ``now`` is Unix time."""
        return self._content.render(page=page, now=now)

    def page(self, page: Page, content: str, now: float, *, refresh: bool) -> bytes:
        """Return the document around what `content` has returned. ``refresh``: without scripts it reloads by itself."""
        return self._page.render(
            title=f"flipop: {page.headline}",
            content=content,
            etag=etag_of(page),
            now=round(now, 3),
            refresh=refresh,
        ).encode()


def etag_of(page: Page) -> str:
    """Return the entity tag of all pages that show the same, whatever the time."""
    return _etag(msgspec.json.encode(page))


def static_files() -> Mapping[str, StaticFile]:
    """Return the style sheet, the script and the icon by name."""
    directory = files(_PACKAGE) / "static"
    found = {}
    for name, content_type in _STATIC_TYPES.items():
        body = (directory / name).read_bytes()
        found[name] = StaticFile(content_type, body, _etag(body))
    return found


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'
