"""Plugins: found, checked, and kept from harming each other."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec
import pytest

from flipop_core import (
    CredentialSpec,
    PluginLoadError,
    ProviderCapabilities,
    ProviderFactory,
    UnknownProvider,
    hookimpl,
)
from flipop_core.providers import IPProvider
from flipop_core.registry import PluginInfo, ProviderRegistry
from tests.support.plugins import discovered, factory, failing, offering, plugin


class Distribution(importlib.metadata.Distribution):
    """The installed distribution of a plugin."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Any:
        raise NotImplementedError


class Installed:
    """What importlib.metadata finds in the place of the real entry points."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.points: list[importlib.metadata.EntryPoint] = []
        monkeypatch.setattr(importlib.metadata, "entry_points", self._entry_points)

    def _entry_points(self, *, group: str) -> Sequence[importlib.metadata.EntryPoint]:
        assert group == "flipop"
        return self.points

    def add(self, name: str, module: ModuleType | None, distribution: str = "", version: str = "1.0") -> None:
        """Install a plugin; without a module, its entry point names one that does not exist."""
        path = f"installed_plugin_{len(self.points)}"
        if module is not None:
            self._monkeypatch.setitem(sys.modules, path, module)
        point = importlib.metadata.EntryPoint(name, path, "flipop")
        vars(point).update(dist=Distribution(distribution or f"flipop-{name}", version))
        self.points.append(point)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(monkeypatch)


def info_of(registry: ProviderRegistry, name: str) -> PluginInfo:
    (info,) = (info for info in registry.plugins if info.name == name)
    return info


class TestDiscovery:
    def test_the_installed_plugin_of_this_workspace(self) -> None:
        info = info_of(discovered({}), "digitalocean")
        assert (info.distribution, info.error) == ("flipop-do", None)
        assert info.version == importlib.metadata.version("flipop-do")
        assert [each.name for each in info.roles["ip"]] == ["digitalocean"]

    def test_finding_a_plugin_imports_no_sdk(self) -> None:
        import subprocess

        code = (
            "import sys; from flipop_core.registry import ProviderRegistry; r = ProviderRegistry(); r.discover();"
            "r.ip_factory('digitalocean'); print({'pydo', 'kubernetes', 'rich', 'structlog'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    def test_a_plugin_and_what_it_offers(self, installed: Installed) -> None:
        ip, dns = factory(), factory("zones")
        installed.add("mine", plugin(ip=offering(ip), dns=offering(dns, factory())), "flipop-mine", "2.3")
        registry = discovered()
        (info,) = registry.plugins
        assert (info.name, info.distribution, info.version, info.error) == ("mine", "flipop-mine", "2.3", None)
        assert dict(info.roles) == {"ip": (ip,), "dns": (dns, factory())}
        assert registry.ip_factory("cloud") is ip
        assert registry.dns_factory("zones") is dns

    def test_an_empty_answer_is_no_error(self, installed: Installed) -> None:
        installed.add("mine", plugin(ip=offering(), dns=offering(factory())))
        assert info_of(discovered(), "mine").error is None

    def test_only_the_first_discovery_does_anything(self, installed: Installed) -> None:
        installed.add("mine", plugin(ip=offering(factory())))
        registry = discovered()
        registry.discover()
        assert [info.error for info in registry.plugins] == [None]

    def test_a_damaged_distribution_without_name_and_version(self, installed: Installed) -> None:
        installed.add("mine", plugin(ip=offering(factory())))
        vars(installed.points[0]).update(dist=None)
        info = info_of(discovered(), "mine")
        assert (info.distribution, info.version, info.error) == ("", "", None)


class Broken(msgspec.Struct, frozen=True):
    """A plugin that fails, and what must be said of it."""

    module: ModuleType | None
    says: str


def _class_plugin() -> ModuleType:
    module = ModuleType("plugin")

    def flipop_ip_providers(region: str) -> object:
        return [region]

    module.flipop_ip_providers = hookimpl(flipop_ip_providers)  # type: ignore[attr-defined]  # made here
    return module


def _unmarked() -> ModuleType:
    module = ModuleType("plugin")
    module.flipop_ip_providers = offering(factory())  # type: ignore[attr-defined]  # made here
    return module


BROKEN = {
    "missing module": Broken(None, "cannot be imported: ModuleNotFoundError: No module named 'installed_plugin_1'"),
    "hook raises": Broken(plugin(ip=failing(RuntimeError("boom"))), "flipop_ip_providers failed: RuntimeError: boom"),
    "hook exits": Broken(plugin(ip=failing(SystemExit(3))), "flipop_ip_providers failed: SystemExit: 3"),
    "hook returns None": Broken(plugin(ip=lambda: None), "flipop_ip_providers returned NoneType, not a sequence"),
    "hook returns text": Broken(plugin(ip=lambda: "cloud"), "flipop_ip_providers returned str, not a sequence"),
    "hook returns a factory": Broken(plugin(ip=factory), "returned ProviderFactory, not a sequence"),
    "hook returns a generator": Broken(
        plugin(ip=lambda: (each for each in [factory()])), "returned generator, not a sequence"
    ),
    "hook takes arguments": Broken(_class_plugin(), "its hooks cannot be used: PluginValidationError"),
    "hook is unknown": Broken(plugin(flipop_ip_provider=offering()), "there is no hook 'flipop_ip_provider'"),
    "hook is not marked": Broken(_unmarked(), "implements no hook: mark a function named flipop_ip_providers"),
    "no factory": Broken(plugin(ip=offering("cloud")), "flipop_ip_providers: str is no ProviderFactory"),
    "name": Broken(
        plugin(ip=offering(msgspec.structs.replace(factory(), name=7))),
        "provider 7: its name must be lower-case letters",
    ),
    "empty name": Broken(plugin(ip=offering(factory(name=""))), "provider '': its name must be lower-case letters"),
    "summary": Broken(plugin(ip=offering(factory(summary=None))), "its summary must be a text"),
    "build": Broken(plugin(ip=offering(factory(build="Provider"))), "its build must be callable, not str"),
    "capabilities": Broken(plugin(ip=offering(factory(capabilities={}))), "must be ProviderCapabilities, not dict"),
    "capability type": Broken(
        plugin(ip=offering(factory(capabilities=ProviderCapabilities(max_ips_per_node="1")))),  # type: ignore[arg-type]  # on purpose
        "its capabilities are wrong: Expected `int`, got `str` - at `$.max_ips_per_node`",
    ),
    "capability value": Broken(
        plugin(ip=offering(factory(capabilities=ProviderCapabilities(max_concurrency=0)))),
        "its max_concurrency must be 1 or more",
    ),
    "credentials": Broken(plugin(ip=offering(factory(credentials="TOKEN"))), "must be a tuple of CredentialSpec"),
    "credential": Broken(plugin(ip=offering(factory(credentials=("TOKEN",)))), "must be CredentialSpec, not str"),
    "variable": Broken(
        plugin(ip=offering(factory(credentials=(CredentialSpec("MY TOKEN", "token"),)))),
        "its credential 'MY TOKEN' needs an environment variable's name",
    ),
    "endpoint variable": Broken(
        plugin(ip=offering(factory(endpoint_variable=None))),
        "its endpoint_variable must be the name of an environment variable, not None",
    ),
    "offered twice": Broken(plugin(ip=offering(factory("a"), factory("a"))), "ip provider 'a' is offered twice"),
    "taken": Broken(
        plugin(ip=offering(factory("first"))), "ip provider 'first' is already offered by plugin 'a-first'"
    ),
}


class TestIsolation:
    @pytest.mark.parametrize("case", BROKEN)
    def test_a_plugin_that_fails_is_recorded_and_harms_no_other(self, installed: Installed, case: str) -> None:
        first, last = factory("first"), factory("last")
        installed.add("a-first", plugin(ip=offering(first)))
        installed.add("broken", BROKEN[case].module, "flipop-broken", "0.9")
        installed.add("z-last", plugin(ip=offering(last)))
        registry = discovered()
        info = info_of(registry, "broken")
        assert isinstance(info.error, PluginLoadError)
        assert info.error.plugin == "broken"
        assert BROKEN[case].says in str(info.error)
        assert (info.distribution, info.version) == ("flipop-broken", "0.9")
        assert [each.error for each in registry.plugins if each.name != "broken"] == [None, None]
        assert registry.ip_factory("first") is first
        assert registry.ip_factory("last") is last
        assert isinstance(registry.ip_provider("first"), IPProvider)

    @pytest.mark.parametrize(
        ("failure", "says"),
        [
            ("raise RuntimeError('at import')", "cannot be imported: RuntimeError: at import"),
            ("raise SystemExit(1)", "cannot be imported: SystemExit: 1"),
            ("import a_missing_sdk", "No module named 'a_missing_sdk': reinstall or uninstall flipop-broken"),
            ("def (", "cannot be imported: SyntaxError"),
        ],
    )
    def test_a_module_that_fails_at_import(
        self, installed: Installed, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, failure: str, says: str
    ) -> None:
        (tmp_path / "installed_plugin_0.py").write_text(failure)
        monkeypatch.syspath_prepend(tmp_path)
        installed.add("broken", None)
        installed.add("good", plugin(ip=offering(factory())))
        registry = discovered()
        assert says in str(info_of(registry, "broken").error)
        assert registry.ip_factory("cloud").name == "cloud"

    def test_what_is_right_with_a_plugin_is_used(self, installed: Installed) -> None:
        installed.add("half", plugin(ip=offering(factory(), None), dns=failing(OSError("no")), firewall=lambda: 1))
        registry = discovered()
        info = info_of(registry, "half")
        assert str(info.error).count(";") == 2
        assert registry.ip_factory("cloud").name == "cloud"
        with pytest.raises(UnknownProvider):
            registry.dns_factory("cloud")

    def test_of_two_plugins_of_one_name_the_second_is_refused(self, installed: Installed) -> None:
        installed.add("twin", plugin(ip=offering(factory("one"))), "flipop-one")
        installed.add("twin", plugin(ip=offering(factory("two"))), "flipop-two")
        registry = discovered()
        assert [(info.distribution, info.error is None) for info in registry.plugins] == [
            ("flipop-one", True),
            ("flipop-two", False),
        ]
        assert "flipop-one has a plugin of that name too" in str(registry.plugins[1].error)
        assert registry.ip_factory("one").name == "one"

    def test_the_order_of_installation_does_not_decide_who_has_a_name(self, installed: Installed) -> None:
        installed.add("b", plugin(ip=offering(factory(summary="b"))))
        installed.add("a", plugin(ip=offering(factory(summary="a"))))
        assert discovered().ip_factory("cloud").summary == "a"

    def test_one_name_in_two_roles_is_no_conflict(self, installed: Installed) -> None:
        installed.add("a", plugin(ip=offering(factory())))
        installed.add("b", plugin(dns=offering(factory())))
        assert [info.error for info in discovered().plugins] == [None, None]

    def test_a_hook_of_a_later_version_may_be_optional(self, installed: Installed) -> None:
        module = plugin(ip=offering(factory()))
        module.flipop_later = hookimpl(lambda: None, optionalhook=True)  # type: ignore[attr-defined]  # made here
        installed.add("mine", module)
        assert info_of(discovered(), "mine").error is None


class TestRegister:
    def test_a_plugin_object(self) -> None:
        class Plugin:
            @hookimpl
            def flipop_ip_providers(self) -> Sequence[ProviderFactory]:
                return [factory()]

        registry = ProviderRegistry({})
        info = registry.register(Plugin(), name="demo")
        assert registry.plugins == (info,)
        assert registry.ip_factory("cloud") in info.factories

    def test_a_bad_one_is_refused_as_a_whole(self) -> None:
        registry = ProviderRegistry({})
        with pytest.raises(PluginLoadError, match="plugin 'demo': flipop_dns_providers failed"):
            registry.register(plugin(ip=offering(factory()), dns=failing(ValueError())), name="demo")
        assert registry.plugins == ()
        with pytest.raises(UnknownProvider):
            registry.ip_factory("cloud")

    def test_a_name_is_given_once(self) -> None:
        registry = ProviderRegistry({})
        registry.register(plugin(ip=offering(factory())), name="demo")
        with pytest.raises(PluginLoadError, match="registered already"):
            registry.register(plugin(ip=offering(factory("other"))), name="demo")
