"""Servers with a status page, and the browser that looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from flipop_core.runtime.page.app import Facts, StatusPage
from flipop_core.runtime.server import StatusServer

from .chromium import Browser, launched
from .pagefacts import FactsBox

Serve = Callable[[Facts], "Served"]


class Served:
    """A server of a page made from ``box``. ``url`` is its root, without the slash."""

    def __init__(self, facts: Facts) -> None:
        self.box = FactsBox(facts)
        page = StatusPage(self.box, monotonic=time.monotonic, wall=time.time)
        self.server = StatusServer(
            "127.0.0.1", 0, registry=CollectorRegistry(), healthy=lambda: "", ready=lambda: "", page=page
        )
        self.url = f"http://127.0.0.1:{self.server.port}"
        self.closed = False

    def close(self) -> None:
        """Stop serving. Idempotent."""
        if not self.closed:
            self.closed = True
            self.server.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that serves facts until the test ends."""
    served: list[Served] = []

    def begin(facts: Facts) -> Served:
        served.append(Served(facts))
        return served[-1]

    yield begin
    for each in served:
        each.close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return the browser of this session."""
    profile: Path = tmp_path_factory.mktemp("chromium")
    with launched(profile) as browser:
        yield browser


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """Return the browser with nothing open, no wish of the user's set, and nothing noted."""
    chromium.go("about:blank")
    chromium.scripts(enabled=True)
    chromium.view()
    chromium.messages.clear()
    chromium.requests.clear()
    yield chromium
    chromium.scripts(enabled=True)
    chromium.go("about:blank")
