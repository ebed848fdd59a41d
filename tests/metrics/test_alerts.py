"""The alert rules: promtool accepts them, each has its texts, and each is tested."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.runtime.metricdefs import GROUPS

from .prometheus import Tools

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "alerts.yaml"
TESTS = Path(__file__).with_name("alerts_test.yaml")
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]


def test_promtool_accepts_the_rules(tools: Tools) -> None:
    assert f"{len(ALERTS)} rules found" in tools.check("check", "rules", "--lint-fatal", str(RULES))


def test_the_alerts_fire_when_they_should(tools: Tools, tmp_path: Path) -> None:
    for path in (RULES, TESTS):
        shutil.copy(path, tmp_path)
    tools.check("test", "rules", TESTS.name, directory=tmp_path)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_is_tested_to_fire_and_says_what_to_do(alert: dict[str, Any]) -> None:
    cases = yaml.safe_load(TESTS.read_text())["tests"]
    expected = [
        sample.get("labels", "")
        for case in cases
        for check in case.get("promql_expr_test", ())
        for sample in check["exp_samples"]
    ]
    assert any(f'alertname="{alert["alert"]}", alertstate="firing"' in labels for labels in expected)
    assert alert["for"]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}


def test_alerts_use_metrics_that_exist() -> None:
    known = {definition.name for definitions in GROUPS.values() for definition in definitions}
    for alert in ALERTS:
        used = set(re.findall(r"\bflipop_[a-z_]+\b", alert["expr"])) - {"flipop_"}
        assert {re.sub("_bucket$", "", name) for name in used} <= known, alert["alert"]
