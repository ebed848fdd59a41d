"""What the core sees of the plugin before it builds a provider."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pluggy

import flipop_cloudflare
from flipop_cloudflare import CREDENTIAL_VARIABLE
from flipop_core import DNSProvider, ProviderContext


def test_the_entry_point_offers_the_provider() -> None:
    (entry_point,) = entry_points(group="flipop", name="cloudflare")
    manager = pluggy.PluginManager("flipop")
    manager.register(entry_point.load())
    ((factory,),) = manager.hook.flipop_dns_providers()
    shown = (factory.name, factory.endpoint_variable, factory.user_agent_variable)
    assert shown == ("cloudflare", "CLOUDFLARE_API_URL", "CLOUDFLARE_USER_AGENT")
    assert [(credential.variable, credential.required) for credential in factory.credentials] == [
        ("CLOUDFLARE_TOKEN", True)
    ]
    built = factory.build(ProviderContext({CREDENTIAL_VARIABLE: "token"}))
    assert isinstance(built, DNSProvider)
    assert built.capabilities is factory.capabilities is flipop_cloudflare.CAPABILITIES


def test_capabilities() -> None:
    declared = flipop_cloudflare.CAPABILITIES
    assert declared.record_types == ("A", "AAAA", "TXT")
    assert (declared.record_comments, declared.min_ttl_seconds) == (True, 60)


def test_the_sdk_is_imported_by_build_alone() -> None:
    code = (
        "import sys, flipop_cloudflare as plugin;"
        "(factory,) = plugin.flipop_dns_providers();"
        "loaded = lambda: sorted({'cloudflare', 'httpx', 'httpcore', 'pydantic'} & sys.modules.keys());"
        "print(loaded());"
        "from flipop_core import ProviderContext;"
        "factory.build(ProviderContext({'CLOUDFLARE_TOKEN': 't'}));"
        "print(loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["[]", "['cloudflare', 'httpcore', 'httpx', 'pydantic']"]
