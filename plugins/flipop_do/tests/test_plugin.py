"""What the core sees of the plugin before it builds a provider."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pluggy
import pytest

import flipop_do
from flipop_core import DNSProvider, IPProvider, ProviderContext, ProviderFactory


@pytest.fixture
def manager() -> pluggy.PluginManager:
    (entry_point,) = entry_points(group="flipop", name="digitalocean")
    manager = pluggy.PluginManager("flipop")
    manager.register(entry_point.load())
    return manager


def test_ip_factory(manager: pluggy.PluginManager) -> None:
    ((factory,),) = manager.hook.flipop_ip_providers()
    assert factory.capabilities is flipop_do.CAPABILITIES
    assert isinstance(built_by(factory), IPProvider)


def test_dns_factory(manager: pluggy.PluginManager) -> None:
    ((factory,),) = manager.hook.flipop_dns_providers()
    assert factory.capabilities is flipop_do.DNS_CAPABILITIES
    assert factory.capabilities.min_ttl_seconds == 30
    assert factory.capabilities.record_types == ("A", "AAAA", "TXT")
    assert not factory.capabilities.record_comments
    assert isinstance(built_by(factory), DNSProvider)


def built_by(factory: ProviderFactory) -> object:
    assert factory.name == "digitalocean"
    assert [credential.variable for credential in factory.credentials] == ["DIGITALOCEAN_ACCESS_TOKEN"]
    assert factory.endpoint_variable == "DIGITALOCEAN_API_URL"
    assert factory.user_agent_variable == "DIGITALOCEAN_USER_AGENT"
    built = factory.build(ProviderContext({"DIGITALOCEAN_ACCESS_TOKEN": "secret"}))
    assert isinstance(built, IPProvider | DNSProvider)
    assert built.capabilities == factory.capabilities
    assert "secret" not in repr(built)
    return built


def test_import_imports_no_sdk() -> None:
    code = (
        "import sys, flipop_do; flipop_do.flipop_ip_providers(); flipop_do.flipop_dns_providers();"
        "print([name for name in ('pydo', 'azure', 'requests', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
