"""Providers: built once, checked, tried again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog

from flipop_core import (
    ConfigError,
    CredentialSpec,
    PluginLoadError,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    Rejected,
    UnknownProvider,
)
from flipop_core.providers import DNSProvider, FirewallProvider, IPProvider
from flipop_core.registry import ProviderRegistry
from tests.support.plugins import TOKEN, Provider, discovered, factory, failing, offering, plugin


def registry_with(built: ProviderFactory, environ: dict[str, str] | None = None) -> ProviderRegistry:
    registry = ProviderRegistry({"CLOUD_TOKEN": TOKEN} if environ is None else environ, timeout_seconds=3.5)
    hook = offering(built)
    registry.register(plugin(ip=hook, dns=hook, firewall=hook), name="mine")
    return registry


class TestProviders:
    def test_the_context_comes_from_the_environment(self) -> None:
        built = factory(endpoint_variable="CLOUD_API_URL", user_agent_variable="CLOUD_USER_AGENT")
        environ = {"CLOUD_TOKEN": TOKEN, "CLOUD_API_URL": "https://stand-in", "CLOUD_USER_AGENT": "me/1", "HOME": "/"}
        provider = registry_with(built, environ).ip_provider("cloud")
        assert isinstance(provider, Provider)
        context = provider.context
        assert context is not None
        assert dict(context.credentials) == {"CLOUD_TOKEN": TOKEN}
        assert (context.endpoint, context.user_agent, context.timeout_seconds) == ("https://stand-in", "me/1", 3.5)
        assert TOKEN not in repr(context)

    def test_each_role_is_built_once(self) -> None:
        registry = registry_with(factory())
        assert registry.ip_provider("cloud") is registry.ip_provider("cloud")
        assert isinstance(registry.dns_provider("cloud"), DNSProvider)
        assert isinstance(registry.firewall_provider("cloud"), FirewallProvider)

    def test_each_region_has_its_own_where_the_factory_tells_regions(self) -> None:
        registry = registry_with(factory(region_of=lambda provider_id: "east"))
        east, west = registry.ip_provider("cloud", region="east"), registry.ip_provider("cloud", region="west")
        assert isinstance(east, Provider)
        assert isinstance(west, Provider)
        assert east is registry.ip_provider("cloud", region="east")
        assert east is not west
        assert [each.context.region for each in (east, west) if each.context is not None] == ["east", "west"]
        plain = registry_with(factory())
        assert plain.ip_provider("cloud", region="east") is plain.ip_provider("cloud")

    def test_given_credentials_replace_those_of_the_environment(self) -> None:
        registry = registry_with(factory())
        other = registry.firewall_provider("cloud", credentials={"CLOUD_TOKEN": "another token", "HOME": "/"})
        assert isinstance(other, Provider)
        assert other.context is not None
        assert dict(other.context.credentials) == {"CLOUD_TOKEN": "another token"}
        assert other is registry.firewall_provider("cloud", credentials={"HOME": "/", "CLOUD_TOKEN": "another token"})
        assert other is not registry.firewall_provider("cloud")
        with pytest.raises(ConfigError, match="CLOUD_TOKEN in its Secret"):
            registry.dns_provider("cloud", credentials={})

    def test_what_replaced_credentials_built_is_let_go(self) -> None:
        registry = registry_with(factory())
        replaced = registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "the first token"})
        let_go = weakref.ref(replaced)
        lasting = weakref.ref(registry.ip_provider("cloud"))
        present = registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "the second token"})
        del replaced
        gc.collect()
        assert let_go() is None
        assert lasting() is registry.ip_provider("cloud")
        assert present is registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "the second token"})
        again = registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "the first token"})
        assert isinstance(again, Provider)
        assert again.context is not None
        assert dict(again.context.credentials) == {"CLOUD_TOKEN": "the first token"}

    def test_a_provider_that_cannot_be_referred_to_weakly_is_kept(self) -> None:
        class Bare:
            """As `Provider`, without a place for weak references."""

            __slots__ = ("_inner",)

            def __init__(self, inner: Provider) -> None:
                self._inner = inner

            def __getattr__(self, name: str) -> object:
                return getattr(self._inner, name)

        registry = registry_with(factory(build=lambda context: Bare(Provider(context))))
        first = id(registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "a token"}))
        assert first == id(registry.ip_provider("cloud", credentials={"CLOUD_TOKEN": "a token"}))

    def test_a_secret_without_any_credential_is_no_leave_to_use_others(self) -> None:
        own_chain = CredentialSpec("CLOUD_KEY", "key, instead of the SDK's own chain", required=False)
        registry = registry_with(factory(credentials=(own_chain,)), {"CLOUD_KEY": "of the environment"})
        assert registry.ip_provider("cloud") is not None
        with pytest.raises(ConfigError, match="none of its credentials in its Secret: set CLOUD_KEY"):
            registry.ip_provider("cloud", credentials={"OTHER": "value"})

    def test_many_threads_build_once(self) -> None:
        built: list[Provider] = []
        together = threading.Barrier(8)

        def build(context: ProviderContext) -> Provider:
            time.sleep(0.02)
            built.append(Provider(context))
            return built[-1]

        registry = registry_with(factory(build=build))

        def ask() -> object:
            together.wait(10)
            return registry.ip_provider("cloud")

        with ThreadPoolExecutor(8) as pool:
            providers = [future.result(10) for future in [pool.submit(ask) for _ in range(8)]]
        assert len(built) == 1
        assert set(map(id, providers)) == {id(built[0])}

    def test_a_slow_build_keeps_no_other_waiting(self) -> None:
        started, go_on = threading.Event(), threading.Event()

        def build(context: ProviderContext) -> Provider:
            started.set()
            assert go_on.wait(10)
            return Provider(context)

        registry = registry_with(factory(build=build))
        registry.register(plugin(ip=offering(factory("quick"))), name="quick")
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(registry.ip_provider, "cloud")
            assert started.wait(10)
            assert registry.ip_provider("quick") is not None
            assert not slow.done()
            go_on.set()
            assert slow.result(10) is registry.ip_provider("cloud")

    @pytest.mark.parametrize("role", ["ip", "dns", "firewall"])
    def test_an_unknown_name_tells_the_known_ones(self, role: str) -> None:
        registry = registry_with(factory())
        for kind in ("factory", "provider"):
            with pytest.raises(UnknownProvider) as caught:
                getattr(registry, f"{role}_{kind}")("clout")
            assert (caught.value.name, caught.value.role, caught.value.known) == ("clout", role, ("cloud",))

    def test_a_missing_credential_is_named_and_may_come_later(self) -> None:
        environ = {"CLOUD_TOKEN": " \n"}
        registry = registry_with(factory(), environ)
        for _ in range(2):
            with pytest.raises(
                ConfigError, match=r"'cloud' lacks CLOUD_TOKEN \(API token\): set CLOUD_TOKEN"
            ) as caught:
                registry.ip_provider("cloud")
            assert not isinstance(caught.value, PluginLoadError)
        environ["CLOUD_TOKEN"] = TOKEN
        assert registry.ip_provider("cloud") is registry.ip_provider("cloud")

    def test_a_bad_endpoint_is_the_users_to_mend(self) -> None:
        registry = registry_with(factory(endpoint_variable="URL"), {"CLOUD_TOKEN": TOKEN, "URL": "nowhere"})
        with pytest.raises(ConfigError, match="URL: 'nowhere': write https://"):
            registry.ip_provider("cloud")

    def test_a_build_that_fails_is_tried_again(self) -> None:
        outcomes: list[Exception | None] = [ImportError("no SDK"), None]

        def build(context: ProviderContext) -> Provider:
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome
            return Provider(context)

        registry = registry_with(factory(build=build))
        with pytest.raises(
            PluginLoadError, match="plugin 'mine': ip provider 'cloud' cannot be built: ImportError: no SDK"
        ):
            registry.ip_provider("cloud")
        assert isinstance(registry.ip_provider("cloud"), Provider)

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (ConfigError(f"bad token {TOKEN}"), ConfigError),
            (ValueError(f"bad token {TOKEN}"), PluginLoadError),
            (Rejected(f"bad token {TOKEN}"), PluginLoadError),
            (SystemExit(f"bad token {TOKEN}"), PluginLoadError),
        ],
    )
    def test_an_error_of_a_build_shows_no_credential(self, error: BaseException, expected: type[ConfigError]) -> None:
        registry = registry_with(factory(build=failing(error)))
        with pytest.raises(expected) as caught:
            registry.ip_provider("cloud")
        assert type(caught.value) is expected
        assert "bad token ***" in str(caught.value)
        assert TOKEN not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_a_config_error_of_a_build_is_passed_on(self) -> None:
        error = ConfigError("the region is missing")
        with pytest.raises(ConfigError) as caught:
            registry_with(factory(build=failing(error))).ip_provider("cloud")
        assert caught.value is error

    def test_an_object_that_lacks_methods_is_refused(self) -> None:
        class Half:
            capabilities = ProviderCapabilities()
            assign = unassign = describe = create = delete = Provider._call
            find_created = "not callable"

        registry = registry_with(factory(build=lambda context: Half()))
        with pytest.raises(
            PluginLoadError, match="is no IPProvider: Half has no verify, list_addresses, node_limits, find_created"
        ):
            registry.ip_provider("cloud")
        with pytest.raises(PluginLoadError, match="is no DNSProvider"):
            registry.dns_provider("cloud")
        with pytest.raises(PluginLoadError, match="is no FirewallProvider"):
            registry.firewall_provider("cloud")

    @pytest.mark.parametrize(
        ("built", "says"),
        [
            (None, "NoneType has no verify, list_addresses"),
            (object(), "its capabilities are NoneType"),
            (Provider, "it is the class Provider, not an object"),
        ],
    )
    def test_what_is_no_provider_at_all_is_refused(self, built: object, says: str) -> None:
        with pytest.raises(PluginLoadError, match=f"is no IPProvider: .*{says}"):
            registry_with(factory(build=lambda context: built)).ip_provider("cloud")

    def test_capabilities_of_another_type_are_refused(self) -> None:
        class Wrong(Provider):
            capabilities = (1,)  # type: ignore[assignment]  # on purpose

        with pytest.raises(PluginLoadError, match="its capabilities are tuple, not ProviderCapabilities"):
            registry_with(factory(build=Wrong)).ip_provider("cloud")

    def test_a_property_that_raises_is_the_plugins_fault(self) -> None:
        class Raising(Provider):
            @property
            def capabilities(self) -> ProviderCapabilities:  # type: ignore[override]  # raises instead
                raise RuntimeError(f"no capabilities with {TOKEN}")

        with pytest.raises(PluginLoadError, match=r"RuntimeError: no capabilities with \*\*\*"):
            registry_with(factory(build=Raising)).ip_provider("cloud")

    def test_the_real_plugin_is_built(self) -> None:
        registry = discovered({"DIGITALOCEAN_ACCESS_TOKEN": TOKEN, "DIGITALOCEAN_API_URL": "http://127.0.0.1:1"})
        provider = registry.ip_provider("digitalocean")
        assert isinstance(provider, IPProvider)
        assert provider.capabilities == registry.ip_factory("digitalocean").capabilities

    def test_plain_http_is_warned_of_once_by_each_registry(self) -> None:
        built = factory(endpoint_variable="URL", build=failing(ValueError("not yet")))
        environ = {"CLOUD_TOKEN": TOKEN, "URL": "http://proxy.internal"}
        for _ in range(2):
            registry = registry_with(built, environ)
            with structlog.testing.capture_logs() as lines:
                for _ in range(3):
                    with pytest.raises(PluginLoadError):
                        registry.ip_provider("cloud")
            assert [(line["variable"], line["host"]) for line in lines] == [("URL", "proxy.internal")]
