"""The page about metrics, and that a scrape has what it lists: no more, no less, and well-formed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flipop_core.runtime.metricdefs import GROUPS, Definition
from flipop_core.runtime.metricsdoc import main, page

from .prometheus import Tools
from .scene import Scene

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
DEFINITIONS = [definition for definitions in GROUPS.values() for definition in definitions]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Scene() as running:
        running.pool(desiredIPs=2)
        running.record_set()
        address = running.until_active(2)[0]
        running.api.set_node_ready(running.holder(address), False)
        running.until(lambda: running.value("flipop_failover_duration_seconds_count"), "a failover")
        yield running


def test_the_page_is_what_the_code_generates(tmp_path: Path) -> None:
    assert PAGE.read_text() == page(), f"python -m flipop_core.runtime.metricsdoc {PAGE}"
    assert main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == page()


def test_the_page_lists_each_metric_once() -> None:
    for definition in DEFINITIONS:
        assert page().count(f"| `{definition.name}` |") == 1
    assert len({definition.name for definition in DEFINITIONS}) == len(DEFINITIONS)


def test_a_scrape_has_the_metrics_of_the_page_and_no_others(scene: Scene) -> None:
    shown = {name for name in scene.families() if name.startswith("flipop_")}
    assert shown == {definition.name.removesuffix("_total") for definition in DEFINITIONS}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_a_family_is_as_defined(scene: Scene, definition: Definition) -> None:
    family = scene.families()[definition.name.removesuffix("_total")]
    assert family.type == {"untyped": "unknown"}.get(definition.type, definition.type)
    assert family.documentation == definition.help
    for sample in family.samples:
        assert set(sample.labels) - {"le"} == set(definition.labels)


def test_the_process_is_measured_too(scene: Scene) -> None:
    assert scene.value("process_resident_memory_bytes") > 1_000_000


def test_promtool_finds_nothing_wrong(scene: Scene, tools: Tools) -> None:
    assert tools.check("check", "metrics", stdin=scene.scrape()) == ""
