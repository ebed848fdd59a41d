"""`flipop providers --verify`: which providers it asks, what it prints and returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from flipop_core import AccessDenied, CredentialSpec, ProviderCapabilities, ProviderContext, ProviderFactory, hookimpl
from flipop_core.testing import InMemoryCloud, InMemoryDNSProvider, InMemoryIPProvider
from flipop_do_testserver import DigitalOceanServer

from .commandline import TOKEN, install, invoke

VARIABLE = "CLOUD_TOKEN"


def plugin(name: str, ip: Exception | None = None, dns: Exception | None = None) -> ModuleType:
    """A plugin whose IP and DNS provider raise these errors in `verify`."""

    def factory(provider: type[Any], error: Exception | None) -> ProviderFactory:
        def build(context: ProviderContext) -> object:
            cloud = InMemoryCloud()
            if error is not None:
                cloud.faults.add("verify", error=error)
            return provider(cloud)

        return ProviderFactory(name, name, (CredentialSpec(VARIABLE, "token"),), build, ProviderCapabilities())

    module = ModuleType("plugin")
    vars(module).update(
        flipop_ip_providers=hookimpl(lambda: [factory(InMemoryIPProvider, ip)]),
        flipop_dns_providers=hookimpl(lambda: [factory(InMemoryDNSProvider, dns)]),
    )
    return module


def test_good_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("cloud", plugin("cloud")))
    result = invoke("providers", "--verify", CLOUD_TOKEN=TOKEN)
    header, row = (line.split() for line in result.stdout.splitlines())
    assert result.exit_code == 0
    assert header[-2:] == ["CREDENTIALS", "VERIFIED"]
    assert row[-6:] == [VARIABLE, "set", "ip", "yes,", "dns", "yes"]


def test_what_is_not_set_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("cloud", plugin("cloud", AccessDenied("no"))))
    result = invoke("providers", "--verify")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[-1] == "-"


def test_one_refusal_among_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = AccessDenied(f"the token {TOKEN} lacks zone:read", provider="bad", operation="verify")
    install(monkeypatch, ("good", plugin("good")), ("bad", plugin("bad", dns=denied)))
    result = invoke("providers", "--verify", CLOUD_TOKEN=TOKEN)
    assert result.exit_code == 1
    *_, title, refusal = result.stdout.splitlines()
    assert (title, refusal) == ("NOT VERIFIED", "bad dns: bad verify: the token *** lacks zone:read")
    result = invoke("providers", "--verify", "-o", "json", CLOUD_TOKEN=TOKEN)
    assert result.exit_code == 1
    verified = {row["name"]: row["verified"] for row in json.loads(result.stdout)["providers"]}
    good = {"ok": True, "error": None}
    refused = {"ok": False, "error": "bad verify: the token *** lacks zone:read"}
    assert verified == {"good": {"ip": good, "dns": good}, "bad": {"ip": good, "dns": refused}}


def test_a_defect_of_a_plugin_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("cloud", plugin("cloud", ip=KeyError(TOKEN))))
    result = invoke("providers", "--verify", CLOUD_TOKEN=TOKEN)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "cloud ip: KeyError in the provider plugin"
    assert TOKEN not in result.output


def test_without_the_option_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ("cloud", plugin("cloud", AccessDenied("no"))))
    result = invoke("providers", CLOUD_TOKEN=TOKEN)
    assert result.exit_code == 0
    assert "VERIFIED" not in result.stdout
    described = json.loads(invoke("providers", "-o", "json", CLOUD_TOKEN=TOKEN).stdout)
    assert all("verified" not in row for row in described["providers"])


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running
    assert running.violations == []


def test_over_http(server: DigitalOceanServer) -> None:
    variables = {"DIGITALOCEAN_ACCESS_TOKEN": TOKEN, "DIGITALOCEAN_API_URL": server.url, "NO_PROXY": "127.0.0.1"}
    assert invoke("providers", "--verify", **variables).exit_code == 0
    asked = {entry.path for entry in server.journal.entries()}
    assert {"/v2/reserved_ips", "/v2/droplets", "/v2/domains"} <= asked
    assert server.journal.count("GET") == server.journal.count()
    server.settings.scopes = "reserved_ip:read,domain:read"
    result = invoke("providers", "--verify", **variables)
    assert result.exit_code == 1
    assert "digitalocean ip: digitalocean verify: the token lacks the scope droplet:read" in result.stdout
    server.settings.token = "another"
    result = invoke("providers", "--verify", **variables)
    assert result.stdout.count("the token in DIGITALOCEAN_ACCESS_TOKEN is mistyped, has expired or was revoked") >= 2
    server.settings.token = ""
    assert TOKEN not in result.output
