"""The plugin API's version: which plugins are used, and what is said of the others."""

from __future__ import annotations

from types import ModuleType

import pytest

from flipop_core import PLUGIN_API_VERSION, PluginLoadError, UnknownProvider, versions
from flipop_core.registry import ProviderRegistry
from flipop_core.versions import plugin_api_problem
from tests.support.plugins import discovered, factory, offering, plugin


class Range:
    """What this core offers, for one test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def set(self, oldest: str, newest: str) -> None:
        self._monkeypatch.setattr(versions, "OLDEST_PLUGIN_API_VERSION", oldest)
        self._monkeypatch.setattr(versions, "PLUGIN_API_VERSION", newest)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Range:
    return Range(monkeypatch)


def declaring(version: object) -> ModuleType:
    module = plugin(ip=offering(factory()))
    module.flipop_api_version = version  # type: ignore[attr-defined]  # as a plugin's source would
    return module


@pytest.mark.parametrize("version", ["1.0", "1.3", "2.0", "2.10"])
def test_versions_in_the_range_are_used(offered: Range, version: str) -> None:
    offered.set("1.0", "2.10")
    registry = ProviderRegistry({})
    registry.register(declaring(version), name="mine")
    assert registry.ip_factory("cloud").name == "cloud"


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("2.11", "too new: it was written for plugin API 2.11, and this flipop-core offers 2.10: upgrade flipop-core"),
        ("10.0", "too new: it was written for plugin API 10.0"),
        ("1.9", "too old: it was written for plugin API 1.9, and this flipop-core offers 2.10 and takes plugins from "),
        ("0.1", "takes plugins from 2.0 on: upgrade the plugin"),
        (1.0, r'its flipop_api_version is 1.0: it must be a text such as "2.10"'),
        ("1", r"its flipop_api_version is '1': it must be a text"),
        ("v2.1", "must be a text"),
        ("2.1.0", "must be a text"),
        ("02.1", "must be a text"),
        ("2.\uff11", "must be a text"),
        (None, "is None: it must be a text"),
        ("9" * 5000 + ".0", "9: it must be a text"),
    ],
)
def test_others_are_refused_as_a_whole(offered: Range, version: object, says: str) -> None:
    offered.set("2.0", "2.10")
    registry = ProviderRegistry({})
    with pytest.raises(PluginLoadError, match="plugin 'mine': it") as caught:
        registry.register(declaring(version), name="mine")
    assert says in str(caught.value)
    with pytest.raises(UnknownProvider):
        registry.ip_factory("cloud")


def test_one_that_declares_nothing_was_written_for_the_first(offered: Range) -> None:
    module = plugin(ip=offering(factory()))
    ProviderRegistry({}).register(module, name="mine")
    offered.set("2.0", "2.0")
    with pytest.raises(PluginLoadError, match=r"too old: it was written for plugin API 1\.0"):
        ProviderRegistry({}).register(module, name="mine")


def test_no_hook_of_a_refused_plugin_is_called(offered: Range) -> None:
    called: list[str] = []

    def hook() -> list[object]:
        called.append("hook")
        return []

    module = plugin(ip=hook)
    module.flipop_api_version = "99.0"  # type: ignore[attr-defined]  # as a plugin's source would
    with pytest.raises(PluginLoadError):
        ProviderRegistry({}).register(module, name="mine")
    assert called == []


def test_an_attribute_that_raises_is_the_plugins_fault() -> None:
    class Odd:
        @property
        def flipop_api_version(self) -> str:
            raise RuntimeError("odd")

    assert plugin_api_problem(Odd()) == "its flipop_api_version cannot be read: RuntimeError: odd"


def test_the_distribution_to_upgrade_is_named(offered: Range) -> None:
    offered.set("2.0", "2.0")
    assert plugin_api_problem(declaring("1.0"), "flipop-mine").endswith("upgrade flipop-mine")
    assert plugin_api_problem(declaring("3.0"), "flipop-mine").endswith("an older release of flipop-mine")


def test_the_plugins_of_this_workspace_declare_the_present_one() -> None:
    infos = discovered({}).plugins
    assert {info.name for info in infos} >= {"aws", "cloudflare", "digitalocean"}
    import flipop_aws
    import flipop_cloudflare
    import flipop_do

    for module in (flipop_aws, flipop_cloudflare, flipop_do):
        assert module.flipop_api_version == PLUGIN_API_VERSION
    assert [info.error for info in infos] == [None] * len(infos)
