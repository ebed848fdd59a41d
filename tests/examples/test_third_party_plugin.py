"""The example of a third-party plugin: built, installed beside the core, found, conforming, and at work."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from zipfile import ZipFile

from .installed import EXAMPLE, Environment


def test_wheel_has_the_plugin_alone(installed: Environment) -> None:
    with ZipFile(installed.directory / f"wheel-of-{EXAMPLE.name}" / "flipop_nimbus-0.1.0-py3-none-any.whl") as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names} == {"flipop_nimbus", "flipop_nimbus-0.1.0.dist-info"}
    assert "flipop_nimbus/py.typed" in names


def test_flipop_finds_it(installed: Environment, tmp_path: Path) -> None:
    described = json.loads(installed.run("flipop", "providers", "-o", "json", cwd=tmp_path, NIMBUS_TOKEN="a-token"))
    assert "flipop-nimbus" in json.dumps(described)
    shown = installed.run("flipop", "providers", cwd=tmp_path, NIMBUS_TOKEN="a-token")
    assert re.search(r"^nimbus +nimbus \(flipop-nimbus 0\.1\.0\) +yes +- +- +NIMBUS_TOKEN set", shown, re.MULTILINE)
    assert "a-token" not in shown + json.dumps(described)


def test_listing_it_imports_no_http_client(installed: Environment, tmp_path: Path) -> None:
    code = (
        "import sys; from flipop_core.registry import ProviderRegistry; registry = ProviderRegistry({}); "
        "registry.discover(); print(registry.ip_factory('nimbus').summary, 'httpx' in sys.modules)"
    )
    assert installed.run("python", "-c", code, cwd=tmp_path) == "Nimbus floating IPs on servers False\n"


def test_its_own_tests_pass(installed: Environment, sources: Path) -> None:
    out = installed.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=sources)
    assert re.search(r"^\d+ passed, \d+ skipped in", out, re.MULTILINE), out
    assert set(re.findall(r"not exercised: (.*)", out)) == {
        "the provider does not declare node_limits",
        "the provider does not declare address_pools",
        "the provider does not declare create_on_node",
    }


def test_an_address_follows_its_node(installed: Environment, sources: Path) -> None:
    out = installed.run("python", "tryout.py", cwd=sources)
    told = [line for line in out.splitlines() if re.match(r"203|node-", line)]
    address = told[0].split()[0]
    first, second = re.findall(r"is on (node-[12])", out)
    assert {first, second} == {"node-1", "node-2"}
    assert told == [
        f"{address} was created and is on {first}",
        f"{first} is not ready any more",
        f"{address} is on {second}",
    ]


def test_it_imports_public_names_only() -> None:
    for path in (EXAMPLE / "flipop_nimbus").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flipop_core"):
                assert node.module == "flipop_core", f"{path.name} imports {node.module}"
