"""How Route 53 is offered, and what is imported for it."""

from __future__ import annotations

import subprocess
import sys

import flipop_aws
from flipop_core import DNSProvider, ProviderContext


def test_the_factory_builds_what_it_says() -> None:
    factories = flipop_aws.flipop_dns_providers()
    assert [factory.name for factory in factories] == ["aws"]
    built = factories[0].build(ProviderContext({}, endpoint="http://127.0.0.1:1"))
    assert isinstance(built, DNSProvider)
    assert built.capabilities == factories[0].capabilities


def test_the_sdk_is_imported_by_building_only() -> None:
    code = "import sys, flipop_aws; flipop_aws.flipop_dns_providers(); sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
