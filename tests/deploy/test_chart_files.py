"""The chart's files: in step with what they are made from, with the code, and with each other."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import flipop_core
from tests.tools import manifests
from tests.tools.chart_values import described_values
from tests.tools.helm import find_helm
from tests.tools.tool import needed

from .charts import CHART, DEPLOY, VALUE_SETS, Helm

REGENERATE = "run `make manifests`"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("name", [*manifests.COPIES.values(), "crds"])
def test_the_charts_copies_are_what_they_were_copied_from(name: str) -> None:
    kept = CHART / "files" / name
    for path, text in manifests.copies().items():
        if kept in (path, path.parent):
            assert path.read_text() == text, f"{path}: {REGENERATE}"


def test_the_chart_has_no_other_files() -> None:
    kept = {path for path in (CHART / "files").rglob("*") if path.is_file()}
    assert kept == set(manifests.copies()), REGENERATE


def test_the_table_of_values_is_that_of_the_values() -> None:
    for path, text in manifests.readme().items():
        assert path.read_text() == text, REGENERATE


@pytest.mark.parametrize("name", ["rbac.yaml", "workload.yaml"])
def test_the_plain_manifests_are_what_the_chart_makes(helm: Helm, name: str) -> None:
    assert (DEPLOY / name).read_text() == manifests.plain_manifests(needed(find_helm))[DEPLOY / name], REGENERATE


def test_each_value_is_described() -> None:
    values = described_values((CHART / "values.yaml").read_text())
    assert len(values) > 50
    assert [value.path for value in values if not value.description] == []


def leaves(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, found in schema.get("properties", {}).items():
        part = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        if part.get("properties") and isinstance(part["properties"], dict):
            yield from leaves(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_the_schema_has_each_value_and_no_other() -> None:
    described = {value.path for value in described_values((CHART / "values.yaml").read_text())}
    known = set(leaves(SCHEMA)) - {"global"}  # Helm's own, for charts of charts
    missing = [path for path in described if not any(leaf == path or leaf.startswith(f"{path}.") for leaf in known)]
    assert missing == []
    unknown = [leaf for leaf in known if not any(leaf == path or leaf.startswith(f"{path}.") for path in described)]
    assert unknown == []


def open_objects(schema: Any, path: str = "") -> Iterator[str]:
    """Yield where an object with known properties lets others pass."""
    if isinstance(schema, dict):
        conditional = any(part in path for part in ("/if", "/then"))
        passes = schema.get("additionalProperties", True) is not False
        if "properties" in schema and passes and not conditional and path != "/definitions/volume":
            yield path
        for name, part in schema.items():
            yield from open_objects(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from open_objects(part, f"{path}/{number}")


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    # A volume has one of some thirty sources, which the API server knows.
    found = [path for path in open_objects(SCHEMA) if not path.endswith("/properties")]
    assert found == []


def test_the_chart_has_the_version_of_the_controller() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == flipop_core.__version__


@pytest.mark.parametrize("value_set", [None, *VALUE_SETS])
def test_lint_finds_nothing(helm: Helm, value_set: str | None) -> None:
    values = [] if value_set is None else [f"--values={CHART}/ci/{value_set}-values.yaml"]
    said = helm.succeed("lint", "--strict", str(CHART), *values)
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_the_package_has_what_it_needs_and_no_more(helm: Helm, tmp_path: Path) -> None:
    helm.succeed("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("flipop-*.tgz")
    with tarfile.open(package) as archive:
        names = set(archive.getnames())
    assert {"flipop/files/alerts.yaml", "flipop/files/dashboard.json", "flipop/values.schema.json"} <= names
    assert {f"flipop/files/crds/{path.name}" for path in (DEPLOY / "crds").iterdir()} <= names
    assert not any(name.startswith("flipop/ci/") for name in names)
    assert helm.succeed("template", "flipop", str(package), "--namespace", "flipop") == helm.rendered()
