"""The commands `plan`, `providers`, `crds` and `demo`: what they print and return."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from flipop_core import CredentialSpec
from flipop_core.config import Settings
from flipop_core.errors import ConfigError
from flipop_core.resources.schema import custom_resource_definitions, to_yaml

from .commandline import TOKEN, Controller, factory, install, invoke, offering

IDLE: dict[str, Any] = {"pool": "default/idle", "actions": [], "holds": []}
BUSY: dict[str, Any] = {
    "pool": "default/web",
    "actions": [
        {"action": "assign", "address": "192.0.2.1", "summary": "assign 192.0.2.1 to node a"},
        {"action": "annotate", "summary": "annotate node a with 192.0.2.1\x1b[2J"},
    ],
    "holds": [{"reason": "NoFreeNode", "message": "no node is free", "address": "192.0.2.2"}],
}
FAILED: dict[str, Any] = {"pool": "default/bad", "actions": [], "holds": [], "error": "spec.match: bad"}


class TestPlan:
    def test_nothing_to_do(self, controller: Controller) -> None:
        controller.plans = [IDLE]
        result = invoke("plan")
        assert (result.exit_code, result.stdout) == (
            0,
            "default/idle: nothing to do\n\n1 resource, 0 actions to take.\n",
        )

    def test_no_pool(self, controller: Controller) -> None:
        result = invoke("plan")
        assert (result.exit_code, result.stdout) == (0, "There is no pool and no record set.\n")

    def test_something_to_do(self, controller: Controller) -> None:
        controller.plans = [IDLE, BUSY]
        result = invoke("plan")
        assert result.exit_code == 2
        assert result.stdout == (
            "default/idle: nothing to do\n"
            "default/web:\n"
            "  assign 192.0.2.1 to node a\n"
            "  annotate node a with 192.0.2.1\\x1b[2J\n"
            "  held: 192.0.2.2: no node is free (NoFreeNode)\n"
            "\n"
            "2 resources, 2 actions to take.\n"
        )

    def test_a_pool_that_cannot_be_planned(self, controller: Controller) -> None:
        controller.plans = [BUSY, FAILED]
        result = invoke("plan")
        assert result.exit_code == 1
        assert "default/bad: error: spec.match: bad\n" in result.stdout

    @pytest.mark.parametrize(("plans", "code"), [([], 0), ([IDLE], 0), ([IDLE, BUSY], 2), ([BUSY, FAILED], 1)])
    def test_json(self, controller: Controller, plans: list[dict[str, Any]], code: int) -> None:
        controller.plans = plans
        result = invoke("plan", "-o", "json")
        assert (result.exit_code, json.loads(result.stdout)) == (
            code,
            {"pools": plans, "routedIPs": [], "recordSets": []},
        )

    def test_what_is_asked_for(self, controller: Controller) -> None:
        controller.plans = [IDLE, BUSY]
        assert invoke("--kubeconfig", "/k", "plan", "-n", "default", "web", "idle", "--context=c").exit_code == 2
        assert controller.asked == ("default", ("web", "idle"))
        assert controller.settings == Settings(kubeconfig="/k", context="c", metrics_bind_addr="")

    def test_a_pool_that_does_not_exist_is_an_error(self, controller: Controller) -> None:
        controller.plans = [IDLE]
        result = invoke("plan", "-n", "default", "idle", "wbe")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.endswith("flipop: there is no pool, RoutedIP or record set wbe in namespace default\n")

    def test_an_unreachable_cluster_is_one_line(self, controller: Controller) -> None:
        controller.error = ConfigError("no cluster")
        result = invoke("plan", DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", "flipop: no cluster\n")


class TestProviders:
    def test_an_unset_credential(self) -> None:
        result = invoke("providers")
        header, *rows = (line.rstrip() for line in result.stdout.splitlines())
        (row,) = (line for line in rows if line.startswith("digitalocean"))
        version = importlib.metadata.version("flipop-do")
        assert result.exit_code == 0
        assert header.split() == ["PROVIDER", "PLUGIN", "IP", "DNS", "FIREWALL", "CREDENTIALS"]
        assert f"digitalocean (flipop-do {version})" in row
        assert row.endswith("DIGITALOCEAN_ACCESS_TOKEN not set")

    def test_a_set_one_is_not_shown(self) -> None:
        result = invoke("providers", DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        assert "DIGITALOCEAN_ACCESS_TOKEN set" in result.stdout
        assert TOKEN not in result.output

    def test_json(self) -> None:
        described = json.loads(invoke("providers", "-o", "json", DIGITALOCEAN_ACCESS_TOKEN=TOKEN).stdout)
        version = importlib.metadata.version("flipop-do")
        (provider,) = (row for row in described["providers"] if row["name"] == "digitalocean")
        (credential,) = provider.pop("credentials")
        assert provider.pop("summary")
        assert credential.pop("summary")
        assert credential == {"variable": "DIGITALOCEAN_ACCESS_TOKEN", "required": True, "set": True}
        assert provider == {
            "name": "digitalocean",
            "plugin": "digitalocean",
            "distribution": "flipop-do",
            "version": version,
            "roles": ["ip", "dns", "firewall"],
        }
        (plugin,) = (row for row in described["plugins"] if row["name"] == "digitalocean")
        assert plugin == {
            "name": "digitalocean",
            "distribution": "flipop-do",
            "version": version,
            "error": None,
            "warning": None,
        }

    def test_roles_and_credentials_of_one_name_are_one_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        token, zone = CredentialSpec("CLOUD_TOKEN", "token"), CredentialSpec("CLOUD_ZONE", "zone", required=False)
        install(
            monkeypatch,
            ("mine", offering(factory("cloud", token), factory("free"), dns=(factory("cloud", token, zone),))),
        )
        result = invoke("providers", CLOUD_TOKEN="set-to-this")
        rows = [line.split() for line in result.stdout.splitlines()[1:]]
        assert rows == [
            ["cloud", "mine", "yes", "yes", "-", "CLOUD_TOKEN", "set"],
            ["CLOUD_ZONE", "not", "set,", "optional"],
            ["free", "mine", "yes", "-", "-", "none"],
        ]
        assert "set-to-this" not in result.output

    def test_a_failing_plugin_is_listed_with_its_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch, ("good", offering(factory("cloud"))), ("bad[red]", None))
        result = invoke("providers")
        assert result.exit_code == 0
        *_, failed, line = result.stdout.splitlines()
        assert failed == "FAILED"
        assert line.startswith("bad[red]: plugin 'bad[red]': cannot be imported: ModuleNotFoundError: ")
        assert "cloud" in result.stdout
        described = json.loads(invoke("providers", "-o", "json").stdout)
        assert {plugin["name"]: bool(plugin["error"]) for plugin in described["plugins"]} == {
            "good": False,
            "bad[red]": True,
        }

    def test_a_slow_plugin_works_and_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("flipop_core.registry.SLOW_SECONDS", 0.0)
        install(monkeypatch, ("heavy", offering(factory("cloud"))))
        result = invoke("providers")
        assert result.exit_code == 0
        first, *_, slow, line = result.stdout.splitlines()
        assert first.split()[0] == "PROVIDER"
        assert slow == "SLOW"
        assert re.fullmatch(r"heavy: took \d+\.\d s to load, which every command waits for: .*", line)
        (described,) = json.loads(invoke("providers", "-o", "json").stdout)["plugins"]
        assert described["error"] is None
        assert described["warning"].startswith("took ")

    def test_nothing_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        assert invoke("providers").stdout == "No provider is installed: pip install 'flipop-core[digitalocean]'\n"


class TestCRDs:
    def test_are_printed_for_kubectl(self) -> None:
        result = invoke("crds")
        assert (result.exit_code, result.stdout) == (0, to_yaml(*custom_resource_definitions()))
        assert [crd["kind"] for crd in yaml.safe_load_all(result.stdout)] == ["CustomResourceDefinition"] * 4

    def test_are_written_one_to_a_file(self, tmp_path: Path) -> None:
        directory = tmp_path / "new" / "crds"
        result = invoke("crds", "--output-dir", str(directory))
        plurals = ("floatingippools", "nodednsrecordsets", "routedips", "routedipissuers")
        files = [directory / f"{plural}.yaml" for plural in plurals]
        assert result.stdout.splitlines() == [str(file) for file in files]
        for file, crd in zip(files, custom_resource_definitions(), strict=True):
            assert file.read_text(encoding="utf-8") == to_yaml(crd)

    def test_a_directory_that_cannot_be_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        result = invoke("crds", "--output-dir", str(tmp_path / "file" / "crds"))
        assert result.exit_code == 1
        assert result.stderr.startswith("flipop: --output-dir: ")
        assert result.stderr.count("\n") == 1


class TestDemo:
    @pytest.mark.parametrize(("arguments", "expected"), [([], (False, 1.0)), (["--once", "--speed", "4"], (True, 4.0))])
    def test_options_are_passed_on(
        self, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: tuple[bool, float]
    ) -> None:
        got: list[tuple[bool, float]] = []

        def run_demo(*, once: bool, speed: float) -> int:
            got.append((once, speed))
            return 0

        module = ModuleType("flipop_core.demo")
        vars(module).update(run_demo=run_demo)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        assert invoke("demo", *arguments).exit_code == 0
        assert got == [expected]

    def test_time_does_not_stand_still(self) -> None:
        assert invoke("demo", "--speed", "0").exit_code == 2
