"""The command line: what it accepts, prints and returns, in this process and as a process of its own."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import structlog
import yaml
from click.testing import CliRunner, Result

import flipop_core
from flipop_core import CredentialSpec, ProviderFactory, hookimpl
from flipop_core.cli import cli
from flipop_core.config import Settings
from flipop_core.errors import ConfigError
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.schema import custom_resource_definitions, to_yaml

SNAPSHOT = Path(__file__).parent / "snapshots" / "help.txt"
TOKEN = "dop_v1_0123456789abcdef"
ENVIRON = {"DIGITALOCEAN_ACCESS_TOKEN": None, "NO_COLOR": None, "COLUMNS": "100", "KUBECONFIG": None}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hook, show = list(root.handlers), root.level, threading.excepthook, warnings.showwarning
    yield
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)
    root.handlers[:], threading.excepthook, warnings.showwarning = handlers, hook, show
    root.setLevel(level)


def invoke(*arguments: str, **environ: str) -> Result:
    return CliRunner(env=ENVIRON | environ).invoke(cli, arguments, prog_name="flipop", terminal_width=100)


class Controller:
    """Stands where the commands find the controller, and keeps what they hand over."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.registry = ProviderRegistry({})
        self.runs = 0
        self.asked: tuple[str, tuple[str, ...]] = ("", ())
        self.code = 0
        self.plans: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.signals: Sequence[int] = ()
        self.stopped = False

    def run_controller(self, settings: Settings, registry: ProviderRegistry, stop: threading.Event) -> int:
        self.settings, self.registry, self.runs = settings, registry, self.runs + 1
        if self.error is not None:
            raise self.error
        for number in self.signals:
            os.kill(os.getpid(), number)
            self.stopped = stop.wait(10)
        return self.code

    def make_plans(
        self, settings: Settings, registry: ProviderRegistry, namespace: str, names: tuple[str, ...]
    ) -> list[dict[str, Any]]:
        self.settings, self.registry, self.asked = settings, registry, (namespace, names)
        if self.error is not None:
            raise self.error
        return self.plans


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    stand_in = Controller()
    module = ModuleType("flipop_core.runtime.process")
    vars(module).update(run_controller=stand_in.run_controller, make_plans=stand_in.make_plans)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return stand_in


def install(monkeypatch: pytest.MonkeyPatch, *plugins: tuple[str, ModuleType | None]) -> None:
    """Let these be the installed plugins; one without a module cannot be imported."""
    points = []
    for index, (name, module) in enumerate(plugins):
        path = f"command_line_plugin_{index}"
        if module is not None:
            monkeypatch.setitem(sys.modules, path, module)
        points.append(importlib.metadata.EntryPoint(name, path, "flipop"))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: points if group == "flipop" else [])


def offering(*factories: ProviderFactory, dns: tuple[ProviderFactory, ...] = ()) -> ModuleType:
    module = ModuleType("plugin")
    vars(module).update(
        flipop_ip_providers=hookimpl(_returning(factories)), flipop_dns_providers=hookimpl(_returning(dns))
    )
    return module


def _returning(value: object) -> Any:
    return lambda: value


def factory(name: str, *credentials: CredentialSpec) -> ProviderFactory:
    return ProviderFactory(name, f"the {name}", credentials, build=lambda context: object())


class TestHelp:
    def test_is_the_pinned_one(self) -> None:
        commands = [[], *([name] for name in sorted(cli.commands))]
        text = "\n".join(
            f"$ flipop {' '.join([*command, '--help'])}\n{invoke(*command, '-h').output}" for command in commands
        )
        if os.environ.get("FLIPOP_UPDATE_SNAPSHOTS"):
            SNAPSHOT.write_text(text, encoding="utf-8")
        assert text == SNAPSHOT.read_text(encoding="utf-8"), "meant? FLIPOP_UPDATE_SNAPSHOTS=1 pytest " + __file__

    def test_each_command_teaches_by_example(self) -> None:
        for name, command in cli.commands.items():
            assert name == "version" or f"flipop {name}" in (command.epilog or ""), name

    def test_each_example_is_accepted(self, controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
        """Parse the examples without running them."""
        epilogs = [cli.epilog or "", *(command.epilog or "" for command in cli.commands.values())]
        examples = [
            line.strip().partition("  ")[0].partition(" |")[0].split()[1:]
            for epilog in epilogs
            for line in epilog.splitlines()
            if line.startswith("  flipop")
        ]
        assert len(examples) > 10
        for name, *arguments in examples:
            cli.commands[name].make_context(name, arguments, parent=click.Context(cli))


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["bogus"],
            ["--bogus"],
            ["plan", "--bogus"],
            ["plan", "-o", "xml"],
            ["run", "extra"],
            ["run", "--debug=maybe"],
        ],
    )
    def test_wrong_usage_exits_with_1_since_2_is_an_answer(self, arguments: list[str]) -> None:
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "Error: " in result.stderr

    def test_version(self) -> None:
        result = invoke("version")
        assert result.output.startswith(f"flipop {flipop_core.__version__} (Python 3.")

    def test_the_command_is_quick_to_import(self) -> None:
        heavy = {"kubernetes", "pydo", "rich", "structlog", "prometheus_client", "yaml", "urllib3", "asyncio"}
        code = f"import sys, flipop_core.cli; print(sorted({heavy} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


class TestRun:
    def test_no_command_is_run_with_the_defaults_of_the_original(self, controller: Controller) -> None:
        result = invoke()
        assert (result.exit_code, controller.runs) == (0, 1)
        assert controller.settings == Settings()

    @pytest.mark.parametrize("command", [[], ["run"]])
    def test_the_flags_of_the_original(self, controller: Controller, command: list[str]) -> None:
        flags = ["--kubeconfig", "/k", "--debug", "--metrics-bind-addr", "127.0.0.1:0", "--keep-last-record"]
        assert invoke(*command, *flags).exit_code == 0
        assert controller.settings == Settings(kubeconfig="/k", debug=True, metrics_bind_addr="127.0.0.1:0")

    @pytest.mark.parametrize(
        ("flags", "debug"),
        [
            (["--debug=true", "--keep-last-record=true"], True),
            (["--debug=1"], True),
            (["--debug=false", "--keep-last-record=F"], False),
            (["--kubeconfig=", "--metrics-bind-addr=:8080"], False),
        ],
    )
    @pytest.mark.parametrize("command", [[], ["run"]])
    def test_flags_as_go_spells_them(
        self, controller: Controller, command: list[str], flags: list[str], debug: bool
    ) -> None:
        assert invoke(*command, *flags).exit_code == 0
        assert controller.settings == Settings(debug=debug)

    @pytest.mark.parametrize("flag", [["--metrics-bind-addr="], ["--metrics-bind-addr", ""]])
    def test_an_empty_address_serves_no_metrics(self, controller: Controller, flag: list[str]) -> None:
        assert invoke(*flag).exit_code == 0
        assert controller.settings.metrics_bind_addr == ""

    def test_flags_before_the_command_hold_unless_given_again(self, controller: Controller) -> None:
        assert (
            invoke("--debug", "--kubeconfig", "/root", "--metrics-bind-addr=:1", "run", "--kubeconfig=/own").exit_code
            == 0
        )
        assert controller.settings == Settings(debug=True, kubeconfig="/own", metrics_bind_addr=":1")

    def test_flags_of_its_own(self, controller: Controller) -> None:
        flags = "--context c --cluster-name prod --recheck-seconds 60 --lease-namespace ns --no-leader-election"
        assert invoke("run", *flags.split()).exit_code == 0
        assert controller.settings == Settings(
            context="c", cluster_name="prod", recheck_seconds=60, namespace="ns", leader_election=False
        )

    def test_the_registry_has_the_installed_plugins(self, controller: Controller) -> None:
        invoke()
        assert controller.registry.ip_factory("digitalocean").name == "digitalocean"

    def test_a_bad_value_is_one_line(self, controller: Controller) -> None:
        result = invoke("--metrics-bind-addr", "8080")
        assert (result.exit_code, controller.runs, result.stdout) == (1, 0, "")
        assert result.stderr.startswith("flipop: metrics_bind_addr: '8080': write HOST:PORT")
        assert result.stderr.count("\n") == 1

    def test_an_error_is_one_line_without_a_credential(self, controller: Controller) -> None:
        controller.error = ConfigError(f"cannot use {TOKEN}")
        result = invoke("run", DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        assert (result.exit_code, result.stderr) == (1, "flipop: cannot use ***\n")

    @pytest.mark.parametrize("arguments", [["run", "--debug"], ["--debug", "run"], ["--debug"]])
    def test_with_debug_an_error_has_its_traceback(self, controller: Controller, arguments: list[str]) -> None:
        controller.error = ConfigError(f"cannot use {TOKEN}")
        result = invoke(*arguments, DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        first, last = result.stderr.splitlines()
        assert json.loads(first)["exception"].endswith("ConfigError: cannot use ***")
        assert (result.exit_code, last) == (1, "flipop: cannot use ***")

    def test_a_defect_is_logged_with_its_traceback(self, controller: Controller) -> None:
        controller.error = ZeroDivisionError(f"with {TOKEN}")
        result = invoke("run", DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        line = json.loads(result.stderr)
        assert (result.exit_code, line["level"]) == (1, "fatal")
        assert line["exception"].endswith("ZeroDivisionError: with ***")

    def test_the_controllers_exit_code_is_the_commands(self, controller: Controller) -> None:
        controller.code = 3
        assert invoke("run").exit_code == 3

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_stops_it(self, controller: Controller, number: signal.Signals) -> None:
        controller.signals = [number]
        before = signal.getsignal(number)
        result = invoke("run", DIGITALOCEAN_ACCESS_TOKEN=TOKEN)
        assert (result.exit_code, controller.stopped) == (0, True)
        assert json.loads(result.stderr)["signal"] == number.name
        assert signal.getsignal(number) is before
        assert not any(thread.name == "signals" for thread in threading.enumerate())

    def test_a_plugin_that_fails_is_logged_and_the_others_run(
        self, controller: Controller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(monkeypatch, ("good", offering(factory("cloud"))), ("bad", None))
        result = invoke("run")
        line = json.loads(result.stderr)
        assert (result.exit_code, controller.runs) == (0, 1)
        assert (line["level"], line["plugin"]) == ("error", "bad")
        assert "No module named" in line["error"]

    def test_without_any_provider_it_does_not_start(
        self, controller: Controller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install(monkeypatch)
        result = invoke("run")
        assert (result.exit_code, controller.runs) == (1, 0)
        assert result.stderr.startswith("flipop: no provider is installed: pip install 'flipop-core[digitalocean]'")

    def test_without_any_credential_it_says_so(self, controller: Controller) -> None:
        result = invoke("run")
        line = json.loads(result.stderr)
        assert (result.exit_code, line["level"]) == (0, "warning")
        assert line["missing"] == ["CLOUDFLARE_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"]


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
        assert (result.exit_code, json.loads(result.stdout)) == (code, {"pools": plans, "recordSets": []})

    def test_what_is_asked_for(self, controller: Controller) -> None:
        controller.plans = [IDLE, BUSY]
        assert invoke("--kubeconfig", "/k", "plan", "-n", "default", "web", "idle", "--context=c").exit_code == 2
        assert controller.asked == ("default", ("web", "idle"))
        assert controller.settings == Settings(kubeconfig="/k", context="c", metrics_bind_addr="")

    def test_a_pool_that_does_not_exist_is_an_error(self, controller: Controller) -> None:
        controller.plans = [IDLE]
        result = invoke("plan", "-n", "default", "idle", "wbe")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.endswith("flipop: there is no pool or record set wbe in namespace default\n")

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
            "roles": ["ip", "dns"],
        }
        assert {"name": "digitalocean", "distribution": "flipop-do", "version": version, "error": None} in described[
            "plugins"
        ]

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

    def test_nothing_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        assert invoke("providers").stdout == "No provider is installed: pip install 'flipop-core[digitalocean]'\n"


class TestCRDs:
    def test_are_printed_for_kubectl(self) -> None:
        result = invoke("crds")
        assert (result.exit_code, result.stdout) == (0, to_yaml(*custom_resource_definitions()))
        assert [crd["kind"] for crd in yaml.safe_load_all(result.stdout)] == ["CustomResourceDefinition"] * 2

    def test_are_written_one_to_a_file(self, tmp_path: Path) -> None:
        directory = tmp_path / "new" / "crds"
        result = invoke("crds", "--output-dir", str(directory))
        files = [directory / "floatingippools.yaml", directory / "nodednsrecordsets.yaml"]
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
        assert invoke("demo", "--speed", "0").exit_code == 1


FLIPOP = str(Path(sys.executable).with_name("flipop"))

# A controller that waits until it is stopped, and one that does not stop.
STAND_IN = """
import sys, threading, types
def run_controller(settings, registry, stop):
    print("running", flush=True)
    (stop if {clean} else threading.Event()).wait()
    return 0
module = types.ModuleType("flipop_core.runtime.process")
module.run_controller = run_controller
sys.modules[module.__name__] = module
sys.argv = ["flipop", "run"]
from flipop_core.cli import main
main()
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start(processes: list[subprocess.Popen[str]], *, clean: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STAND_IN.format(clean=clean)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"DIGITALOCEAN_ACCESS_TOKEN": TOKEN},
    )
    processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


class TestProcess:
    def test_the_installed_command(self) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "DIGITALOCEAN_ACCESS_TOKEN"}
        done = subprocess.run(
            [FLIPOP, "providers", "-o", "json"], capture_output=True, text=True, env=environ, check=True
        )
        assert "digitalocean" in {provider["name"] for provider in json.loads(done.stdout)["providers"]}
        assert done.stderr == ""

    def test_a_reader_that_leaves_is_no_traceback(self) -> None:
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([FLIPOP, "crds"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (1, "")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_one_signal_ends_it_cleanly(self, processes: list[subprocess.Popen[str]], number: signal.Signals) -> None:
        process = start(processes, clean=True)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
        line = json.loads(stderr)
        assert (process.returncode, line["level"], line["signal"]) == (0, "info", number.name)

    def test_a_second_signal_ends_it_at_once(self, processes: list[subprocess.Popen[str]]) -> None:
        process = start(processes, clean=False)
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stderr.readline())["msg"].startswith("stopping")
        time.sleep(0.1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
        line = json.loads(stderr)
        assert (process.returncode, line["level"], line["signal"]) == (1, "warning", "SIGINT")
