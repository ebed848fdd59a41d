"""What the core sees of the plugin before it builds a provider."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pluggy

import flipop_do
from flipop_core import IPProvider, ProviderContext


def test_entry_point_is_a_pluggy_plugin() -> None:
    (entry_point,) = entry_points(group="flipop", name="digitalocean")
    manager = pluggy.PluginManager("flipop")
    manager.register(entry_point.load())
    ((factory,),) = manager.hook.flipop_ip_providers()
    assert factory.name == "digitalocean"
    assert [credential.variable for credential in factory.credentials] == ["DIGITALOCEAN_ACCESS_TOKEN"]
    assert factory.endpoint_variable == "DIGITALOCEAN_API_URL"
    assert factory.user_agent_variable == "DIGITALOCEAN_USER_AGENT"
    assert factory.capabilities is flipop_do.CAPABILITIES
    built = factory.build(ProviderContext({"DIGITALOCEAN_ACCESS_TOKEN": "t"}))
    assert isinstance(built, IPProvider)
    assert built.capabilities == factory.capabilities


def test_import_imports_no_sdk() -> None:
    code = (
        "import sys, flipop_do; flipop_do.flipop_ip_providers();"
        "print([name for name in ('pydo', 'azure', 'requests', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
