"""Draws a dashboard in the browser, with the answers of a Prometheus, and tells what is seen in its panels."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from tests.metrics.prometheus import SCRAPE_SECONDS, Prometheus
from tests.page.chromium import Browser

WIDTH = 1600
"""Of the window, in CSS pixels: that of a usual screen beside Grafana's menu."""

_FIRST_SCRAPE = "min(min_over_time(timestamp(flipop_leader)[10m:500ms]))"
_LAST_SCRAPE = "max(max_over_time(timestamp(flipop_leader)[10m:500ms]))"
_RATE_SECONDS = 8.0
"""Over how long rates are taken: longer than Grafana would, since scrapes come late where many tests run."""


class Series(msgspec.Struct, frozen=True):
    """One series: its name, as the legend has it, and its last value with the unit."""

    name: str
    last: str


class Value(msgspec.Struct, frozen=True):
    """One big value; ``color`` is ``#rrggbb``."""

    text: str
    title: str
    color: str = ""


class Seen(msgspec.Struct, frozen=True):
    """What is seen in one panel.

    ``message`` is what stands there in place of data, ``blank`` that no series has a value. ``ticks`` are the labels
    of the y axis, ``legend`` its texts, ``cut`` the texts that do not fit.
    """

    error: str = ""
    message: str = ""
    blank: bool = False
    series: tuple[Series, ...] = ()
    ticks: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    columns: tuple[str, ...] = ()
    rows: int = 0
    legend: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serve the files of ``directory`` inside the block; yields the address without the slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=directory))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, name="files")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def draw(
    browser: Browser,
    page: str,
    board: Mapping[str, Any],
    asked: Prometheus,
    *,
    picture: Path,
    theme: str,
    seconds: float | None = None,
) -> dict[str, Seen]:
    """Draw what ``asked`` has scraped, or the last ``seconds`` whatever it has, and return what is seen, by panel.

    ``page`` is the address of the page, ``picture`` a file to be written, ``theme`` ``dark`` or ``light``.
    """
    now = time.time()
    view = {
        "prometheus": asked.url,
        "from": asked.value(_FIRST_SCRAPE) if seconds is None else now - seconds,
        "to": asked.value(_LAST_SCRAPE) if seconds is None else now,
        "scrapeSeconds": SCRAPE_SECONDS,
        "rateSeconds": _RATE_SECONDS,
        "variables": dict.fromkeys(("job", "namespace", "pool"), ".*"),
        "theme": theme,
    }
    browser.view(WIDTH, 900, scheme=theme)
    browser.go(f"{page}/index.html")
    seen = browser.run(f"draw({json.dumps(board)}, {json.dumps(view)})")
    browser.screenshot(picture)
    return msgspec.convert(seen, dict[str, Seen])
