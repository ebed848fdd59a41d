"""The Grafana dashboard as it looks: drawn with Grafana's own components, with what a real Prometheus has scraped."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import flipop_core
from tests.metrics.prometheus import Prometheus, Tools
from tests.page.chromium import Browser

from .conftest import BOARD
from .drawing import Seen, draw

PANELS = [panel["title"] for panel in BOARD["panels"] if panel["type"] != "row"]
GRAPHS = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "timeseries"]

# Grafana's: those of the demo, in the dark theme, and those of the run with trouble, in the light one.
GREEN, BLUE = "#73BF69", "#5794F2"
RED, ORANGE = "#E02F44", "#FF780A"

#: What is said where nothing is to be shown, and that is well.
DEMO_MESSAGES = {
    "Moves held back": "No move is held back",
    "Rate limit left": "The provider tells no rate limit",
}

DEMO_LEGENDS = {
    "DNS records": {"default/nodes nodes.example.com"},
    "Failover duration": {"median", "90 %", "99 %"},
    "Failovers by cause": {"cordoned", "node-gone", "node-not-ready", "pod-not-ready"},
    "Assignments": {"default/game", "default/ingress", "refused"},
    "Failed calls": {"memory AssignIP"},
    "Share of failed calls": {"memory"},
    "Credentials": {"memory dns", "memory ip"},
    "Reconciles": {"Account", "FloatingIPPool", "NodeDNSRecordSet", "Verification", "failed"},
    "Queue depth": {"waiting", "tried again"},
    "Longest wait": {"oldest key"},
    "Silence of watches": {"floatingippools", "nodes", "pods", "routedipissuers", "routedips"},
    "Writes to the API server": {"Event", "FloatingIPPool", "Node", "NodeDNSRecordSet", "failed"},
}

#: The unit at the y axis; panels that are not named here count, in whole numbers.
UNITS = {
    "Failover duration": r"\d+(\.\d+)? (ms|s)",
    "Calls": r"\d+(\.\d+)? req/s",
    "Failed calls": r"\d+(\.\d+)? req/s",
    "Duration of calls": r"\d+(\.\d+)? (ms|s)",
    "Share of failed calls": r"\d+%",
    "Rate limit left": r"\d+%",
    "Credentials": r"refused|accepted",
    "Reconciles": r"\d+(\.\d+)? ops/s",
    "Duration of reconciles": r"\d+(\.\d+)? (µs|ms|s)",
    "Wait in the queue": r"\d+(\.\d+)? (µs|ms|s)",
    "Longest wait": r"\d+(\.\d+)? (ms|s|mins?)",
    "Silence of watches": r"\d+ s|1 min",
    "Writes to the API server": r"\d+(\.\d+)? wr/s",
    "Memory": r"\d+ (B|MiB)",
    "CPU": r"\d+(\.\d+)?%",
}


@pytest.fixture(params=["demo", "troubled"])
def seen(request: pytest.FixtureRequest) -> dict[str, Seen]:
    """Return what is seen of each of the two runs."""
    found: dict[str, Seen] = request.getfixturevalue(request.param)
    return found


def test_every_panel_is_drawn(seen: Mapping[str, Seen], browser: Browser) -> None:
    assert list(seen) == PANELS
    assert {title: panel.error for title, panel in seen.items() if panel.error} == {}
    assert browser.messages == []


def test_every_panel_of_the_demo_has_data_or_says_why_not(demo: Mapping[str, Seen]) -> None:
    assert {title: panel.message for title, panel in demo.items() if panel.message} == DEMO_MESSAGES
    assert {title for title, panel in demo.items() if panel.blank} == set(DEMO_MESSAGES)


def test_every_panel_of_a_run_with_trouble_has_data(troubled: Mapping[str, Seen]) -> None:
    assert {title for title, panel in troubled.items() if panel.blank or panel.message} == set()


def test_nothing_is_cut(seen: Mapping[str, Seen]) -> None:
    assert {title: panel.cut for title, panel in seen.items() if panel.cut} == {}


def test_legends_name_each_series_in_few_words(seen: Mapping[str, Seen]) -> None:
    for title in GRAPHS:
        names = [series.name for series in seen[title].series]
        assert list(seen[title].legend) == names
        assert len(set(names)) == len(names) <= 10
        assert [name for name in names if len(name) > 40 or "{" in name or name != name.strip()] == [], title


@pytest.mark.parametrize("title", DEMO_LEGENDS)
def test_legends_of_the_demo(demo: Mapping[str, Seen], title: str) -> None:
    assert set(demo[title].legend) == DEMO_LEGENDS[title]


def test_axes_have_units_and_begin_at_nothing(seen: Mapping[str, Seen]) -> None:
    for title in GRAPHS:
        ticks = seen[title].ticks
        if seen[title].message:
            continue
        assert 2 <= len(ticks) <= 12, (title, ticks)
        assert len(set(ticks)) == len(ticks), (title, ticks)
        assert all(re.fullmatch(UNITS.get(title, r"\d+"), tick) for tick in ticks), (title, ticks)
        assert ticks[0].startswith(("0", "refused")), (title, ticks)


def test_the_overview_of_the_demo(demo: Mapping[str, Seen]) -> None:
    shown = {title: (panel.values[0].text, panel.values[0].color) for title, panel in demo.items() if panel.values}
    assert demo["Version"].values[0].title == flipop_core.__version__
    del shown["Version"]
    assert shown == {
        "Leader": ("leads", GREEN),
        "Active addresses": ("3", BLUE),
        "Addresses not serving": ("0", GREEN),
        "Unfulfilled addresses": ("0", GREEN),
        "Free nodes": ("2", GREEN),
    }


def test_the_overview_of_trouble_is_red(troubled: Mapping[str, Seen]) -> None:
    shown = {title: (panel.values[0].text, panel.values[0].color) for title, panel in troubled.items() if panel.values}
    assert shown["Addresses not serving"] == ("1", RED)
    assert shown["Unfulfilled addresses"] == ("1", ORANGE)


def test_the_table_tells_where_each_address_is(demo: Mapping[str, Seen]) -> None:
    table = demo["Addresses and their nodes"]
    assert table.columns == ("Namespace", "Pool", "Address", "Node", "DNS name", "Provider", "Provider ID")
    assert table.rows == 3


def test_what_is_wrong_with_a_dashboard_is_seen(tools: Tools, browser: Browser, page: str, tmp_path: Path) -> None:
    """What cannot be drawn, has no data, or does not fit must not pass for well."""
    graph = next(panel for panel in BOARD["panels"] if panel["title"] == "Memory")
    changes: dict[str, dict[str, Any]] = {
        "no such option": {},
        "no query": {"expr": "sum("},
        "no such variable": {"expr": "vector($nothing)"},
        "no data": {"expr": "vector(1) > 2"},
        "no name": {"legendFormat": ""},
        "long name": {"legendFormat": "a name that is much too long for a legend " * 6},
    }
    panels = [panel_like(graph, title, row, **change) for row, (title, change) in enumerate(changes.items())]
    panels[0]["fieldConfig"]["defaults"]["noSuchOption"] = 1
    with Prometheus(tools, tmp_path, "127.0.0.1:1") as asked:
        seen = draw(browser, page, {"panels": panels}, asked, seconds=60, picture=tmp_path / "wrong.png", theme="dark")
    browser.messages.clear()
    assert "noSuchOption" in seen["no such option"].error
    assert "parse error" in seen["no query"].error
    assert "nothing defines $nothing" in seen["no such variable"].error
    assert seen["no data"].message == "No data"
    assert seen["no data"].blank
    assert seen["no name"].legend == ("Value",)
    assert seen["long name"].cut


def panel_like(panel: Mapping[str, Any], title: str, row: int, **target: Any) -> dict[str, Any]:
    """Return a narrow panel that is as ``panel`` but for what is said of its target."""
    changed = copy.deepcopy(dict(panel))
    changed |= {"id": row, "title": title, "gridPos": {"x": 0, "y": row * 6, "w": 4, "h": 6}}
    changed["targets"][0] |= {"expr": "vector(1)", **target}
    return changed
