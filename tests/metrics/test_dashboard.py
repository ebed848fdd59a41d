"""The Grafana dashboard: each expression, asked of a real Prometheus that scrapes a running controller, has data."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .prometheus import JOB, Prometheus, Tools
from .trouble import trouble

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "flipop.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in BOARD["templating"]["list"]}

#: What Grafana puts in for its own variables; the scrape interval is half a second.
RANGE = "1m"


class Query(NamedTuple):
    panel: str
    reference: str
    expression: str

    def with_variables(self, **values: str) -> str:
        whole = {"job": ".*", "namespace": ".*", "pool": ".*", "__rate_interval": RANGE, "__range": RANGE, **values}
        return re.sub(r"\$(\w+)", lambda found: whole[found[1]], self.expression)


QUERIES = [Query(panel["title"], target["refId"], target["expr"]) for panel in PANELS for target in panel["targets"]]


@pytest.fixture(scope="module")
def prometheus(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the metrics of a run in which much has happened."""
    with trouble(tools, tmp_path_factory.mktemp("prometheus"), DEPLOY / "prometheus" / "alerts.yaml") as running:
        yield running


def has_data(result: list[dict[str, Any]]) -> bool:
    return any(not math.isnan(float(each["value"][1])) for each in result)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel} {query.reference}")
def test_an_expression_has_data(prometheus: Prometheus, query: Query) -> None:
    found = prometheus.query(query.with_variables())
    assert has_data(found), (query.with_variables(), found)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.panel} {query.reference}")
def test_variables_choose(prometheus: Prometheus, query: Query) -> None:
    """What names a variable follows it: with a value that nothing has there is nothing, or 0."""
    names = [name for name in ("job", "namespace", "pool") if f"${name}" in query.expression]
    assert names, "the panel follows no variable"
    for name in names:
        found = prometheus.query(query.with_variables(**{name: "nothing-has-this"}))
        assert not any(float(each["value"][1]) for each in found if has_data([each])), found


def test_values_of_the_overview(prometheus: Prometheus) -> None:
    shown = {query.panel: prometheus.value(query.with_variables()) for query in QUERIES[:5]}
    assert shown["Leader"] == 1.0
    assert shown["Active addresses"] == 3.0
    assert shown["Unfulfilled addresses"] == 1.0  # the account's limit
    of_pool = {
        query.panel: prometheus.value(query.with_variables(namespace="default", pool="web")) for query in QUERIES[:5]
    }
    assert of_pool["Active addresses"] == 2.0
    assert of_pool["Unfulfilled addresses"] == 0.0


def test_failovers_are_counted_by_cause(prometheus: Prometheus) -> None:
    counts = prometheus.query("sum by (cause) (flipop_failover_duration_seconds_count) > 0")
    assert {each["metric"]["cause"]: float(each["value"][1]) for each in counts} == {
        "node-not-ready": 2.0,
        "pod-not-ready": 1.0,
    }


def test_the_variables_have_values(prometheus: Prometheus) -> None:
    values = {}
    for name in ("job", "namespace", "pool"):
        definition = re.fullmatch(r"label_values\((.*), (\w+)\)", VARIABLES[name]["query"]["query"])
        assert definition, VARIABLES[name]
        selector = Query("", "", definition[1]).with_variables()
        values[name] = prometheus.label_values(definition[2], selector)
    assert values == {"job": {JOB}, "namespace": {"default", "other"}, "pool": {"web", "held", "greedy"}}


def test_the_annotation_has_data(prometheus: Prometheus) -> None:
    (annotation,) = [each for each in BOARD["annotations"]["list"] if "expr" in each]
    assert has_data(prometheus.query(Query("", "", annotation["expr"]).with_variables()))


def test_the_form_of_the_dashboard() -> None:
    assert BOARD["schemaVersion"] >= 39
    assert VARIABLES["datasource"]["type"] == "datasource"
    rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Failover", "Provider calls", "Controller health"]
    identifiers = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    for panel in PANELS:
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {
            "${datasource}"
        }


def test_each_panel_says_what_it_shows() -> None:
    assert [panel["title"] for panel in PANELS if not panel["description"].endswith(".")] == []
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]


#: What dashboards and alerts for digitalocean/flipop ask.
ORIGINALS_QUERIES = [
    'sum by (namespace, name) (flipop_floatingippoolcontroller_ip_state{state="active"})',
    'flipop_floatingippoolcontroller_ip_state{state!="active"}',
    "flipop_floatingippoolcontroller_unfulfilled_ips > 0",
    'flipop_floatingippoolcontroller_node_status{status="available"}',
    'sum by (provider) (flipop_floatingippoolcontroller_node_status{status="assigned"})',
    "sum by (ip, node) (flipop_floatingippoolcontroller_ip_node)",
    "sum by (ip) (increase(flipop_floatingippoolcontroller_ip_assignments[1m])) > 0",
    "sum by (name) (rate(flipop_floatingippoolcontroller_ip_assignment_errors[1m])) > 0",
    'sum(flipop_nodednsrecordset_records{dns="nodes.example.com"})',
    'sum by (provider, call) (rate(flipop_providers_calls_total{outcome="success"}[1m])) > 0',
    'sum by (kind) (rate(flipop_providers_calls_total{outcome="error"}[1m])) > 0',
    "histogram_quantile(0.9, sum by (le, call) (rate(flipop_providers_call_duration_seconds_bucket[1m])))",
    'sum(rate(flipop_providers_call_duration_seconds_bucket{le="1"}[1m])) > 0',
    "sum(rate(flipop_providers_call_duration_seconds_sum[1m])) "
    "/ sum(rate(flipop_providers_call_duration_seconds_count[1m]))",
]


@pytest.mark.parametrize("expression", ORIGINALS_QUERIES)
def test_queries_for_the_original_have_data(prometheus: Prometheus, expression: str) -> None:
    assert has_data(prometheus.query(expression)), expression


def test_alerts_that_should_be_pending_are(prometheus: Prometheus) -> None:
    deadline = time.monotonic() + 30.0
    expected = {"FlipopIPsUnfulfilled", "FlipopMovesHeld"}
    while not expected <= prometheus.alerts():
        assert time.monotonic() < deadline, prometheus.alerts()
        time.sleep(0.1)
    assert not prometheus.alerts() & {"FlipopNoLeader", "FlipopWatchStale", "FlipopCredentialsRefused"}
