"""What the conformance kit cannot know: the odd answers of this API, and how the plugin declares itself."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points

import pytest
from flipop_core import AccessDenied, ConfigError, CreateRequest, ProviderContext, RateLimited, Rejected

import flipop_nimbus
from flipop_nimbus import CREDENTIAL_VARIABLE
from flipop_nimbus.client import Client
from flipop_nimbus.floatingips import PAGE_SIZE, FloatingIPs
from flipop_nimbus_testserver import Fault, NimbusServer, Project

TOKEN = "nimbus-token"


@pytest.fixture
def server() -> Iterator[NimbusServer]:
    with NimbusServer(Project(), TOKEN) as server:
        yield server


@pytest.fixture
def provider(server: NimbusServer) -> Iterator[FloatingIPs]:
    provider = FloatingIPs(Client(ProviderContext({CREDENTIAL_VARIABLE: TOKEN}, endpoint=server.url)))
    yield provider
    provider.close()


def test_entry_point_is_the_plugin() -> None:
    (point,) = entry_points(group="flipop", name="nimbus")
    assert point.load() is flipop_nimbus


@pytest.mark.parametrize("token", ["", "  ", "two\nlines", "nön-ascii"])
def test_unusable_token(token: str) -> None:
    with pytest.raises(ConfigError, match=CREDENTIAL_VARIABLE) as caught:
        Client(ProviderContext({CREDENTIAL_VARIABLE: token}))
    assert not token.strip() or token not in str(caught.value)


def test_all_pages_are_read(server: NimbusServer, provider: FloatingIPs) -> None:
    made = {server.project.add_address() for _ in range(2 * PAGE_SIZE + 1)}
    assert provider.list_addresses(()).keys() == made


def test_owner_fits_into_a_label(server: NimbusServer, provider: FloatingIPs) -> None:
    created = provider.create(CreateRequest("claim-1", region="north", owner="default/web", cluster="c1"))
    labels = server.project.addresses()[created.address].labels
    assert labels == {"flipop-claim": "claim-1", "flipop-owner": "default.web", "flipop-cluster": "c1"}


def test_ipv6_is_rejected(provider: FloatingIPs) -> None:
    with pytest.raises(Rejected, match="IPv6"):
        provider.create(CreateRequest("claim-1", region="north", family="IPv6"))


def test_missing_scope_to_write_is_named(server: NimbusServer, provider: FloatingIPs) -> None:
    server.scopes.discard("floating_ips:write")
    with pytest.raises(AccessDenied, match="floating_ips:write"):
        provider.create(CreateRequest("claim-1", region="north"))


def test_error_names_provider_and_operation(server: NimbusServer, provider: FloatingIPs) -> None:
    server.fail_next(Fault("GET", "", "rate_limited", 3.0))
    with pytest.raises(RateLimited, match=r"^nimbus verify: HTTP 429 rate_limit_exceeded: slow down$"):
        provider.verify()
