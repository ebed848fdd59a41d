"""The command line in this process: invoked, with a stand-in for the controller and with plugins of the test's own."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flipop_core import CredentialSpec, ProviderFactory, hookimpl
from flipop_core.cli import cli
from flipop_core.config import Settings
from flipop_core.registry import ProviderRegistry

TOKEN = "dop_v1_0123456789abcdef"
ENVIRON = {"DIGITALOCEAN_ACCESS_TOKEN": None, "NO_COLOR": None, "COLUMNS": "100", "KUBECONFIG": None}


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
        self.collected = True

    def run_controller(self, settings: Settings, registry: ProviderRegistry, stop: threading.Event) -> int:
        self.settings, self.registry, self.runs = settings, registry, self.runs + 1
        self.collected = gc.isenabled()
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
