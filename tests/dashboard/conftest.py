"""The browser, the page that draws, and two runs that it draws: the demo, and one with all kinds of trouble."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flipop_core.demo.director import Director
from flipop_core.demo.stage import Stage
from tests.metrics.prometheus import Prometheus, Tools, scraped
from tests.metrics.scene import until
from tests.metrics.trouble import trouble
from tests.page.chromium import Browser, launched
from tests.tools.tool import needed

from .bundle import find_page
from .drawing import Seen, draw, served

BOARD = json.loads((Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "flipop.json").read_text())
_SPEED = 10.0
_SETTLE_SCRAPES = 6


@pytest.fixture(scope="session")
def page() -> Iterator[str]:
    """Return the address of the page."""
    with served(needed(find_page)) as address:
        yield address


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return the browser."""
    with launched(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="session")
def tools() -> Tools:
    """Prometheus and promtool, fetched if need be."""
    return Tools.fetched()


@pytest.fixture(scope="session")
def demo(tools: Tools, page: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Play one round of the demo, and return what is seen of it on the dashboard."""
    directory = tmp_path_factory.mktemp("demo")
    with Stage(_SPEED, "127.0.0.1:0") as stage, Prometheus(tools, directory, f"127.0.0.1:{stage.server_port}") as asked:
        until(lambda: scraped(asked) >= 1, "a first scrape")
        director = Director(stage, lambda line: None, threading.Event(), pause_seconds=0.0)
        director.play(1)
        assert not director.failures
        _settle(asked)
        return draw(browser, page, BOARD, asked, picture=directory / "demo.png", theme="dark")


@pytest.fixture(scope="session")
def troubled(tools: Tools, page: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Let much happen, and return what is seen of it on the dashboard, in the light theme."""
    directory = tmp_path_factory.mktemp("trouble")
    with trouble(tools, directory) as asked:
        _settle(asked)
        return draw(browser, page, BOARD, asked, picture=directory / "trouble.png", theme="light")


def _settle(asked: Prometheus) -> None:
    seen = scraped(asked)
    until(lambda: scraped(asked) >= seen + _SETTLE_SCRAPES, "scrapes of what happened")
