"""`flipop run`: its flags, its errors, its signals."""

from __future__ import annotations

import gc
import json
import signal
import threading

import pytest

from flipop_core.config import Settings
from flipop_core.errors import ConfigError

from .commandline import TOKEN, Controller, factory, install, invoke, offering


class TestRun:
    def test_no_command_is_run_with_the_defaults_of_the_original(self, controller: Controller) -> None:
        result = invoke()
        assert (result.exit_code, controller.runs) == (0, 1)
        assert controller.settings == Settings()

    @pytest.mark.parametrize("error", [None, ConfigError("no cluster")])
    def test_nothing_is_collected_until_the_controller_runs(
        self, controller: Controller, error: ConfigError | None
    ) -> None:
        controller.error = error
        invoke("run")
        assert not controller.collected
        assert gc.isenabled()

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
        assert (result.exit_code, controller.runs, result.stdout) == (2, 0, "")
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
