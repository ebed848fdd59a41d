"""What the core sees of the IP provider before it builds one."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pluggy
import pytest

import flipop_aws
from flipop_core import IPProvider, ProviderContext, ProviderFactory


@pytest.fixture
def factory() -> ProviderFactory:
    (entry_point,) = entry_points(group="flipop", name="aws")
    manager = pluggy.PluginManager("flipop")
    manager.register(entry_point.load())
    ((found,),) = manager.hook.flipop_ip_providers()
    assert isinstance(found, ProviderFactory)
    return found


def test_factory(factory: ProviderFactory) -> None:
    assert factory.name == "aws"
    assert factory.capabilities is flipop_aws.CAPABILITIES
    assert not any(credential.required for credential in factory.credentials)
    built = factory.build(
        ProviderContext({"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}, region="us-east-1")
    )
    assert isinstance(built, IPProvider)
    assert built.capabilities is flipop_aws.CAPABILITIES
    assert "hidden" not in repr(built)
    assert "us-east-1" in repr(built)


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("us-east-1a", "us-east-1"),
        ("eu-central-2c", "eu-central-2"),
        ("ap-southeast-10b", "ap-southeast-10"),
        ("us-gov-west-1a", "us-gov-west-1"),
        ("cn-north-1b", "cn-north-1"),
        ("us-iso-east-1a", "us-iso-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
        ("eu-west-2-wl2-man-wlz1", "eu-west-2"),
    ],
)
def test_region_of_a_node(factory: ProviderFactory, zone: str, region: str) -> None:
    assert factory.region_of is not None
    assert factory.region_of(f"aws:///{zone}/i-0123456789abcdef0") == region


@pytest.mark.parametrize(
    "other",
    ["", "digitalocean://1", "aws:///us-east-1a/fargate-ip-10-0-0-1", "aws:///i-0123456789abcdef0", "aws:///x/i-0"],
)
def test_region_of_what_is_no_instance(factory: ProviderFactory, other: str) -> None:
    assert factory.region_of is not None
    assert factory.region_of(other) == ""


def test_import_imports_no_sdk() -> None:
    code = (
        "import sys, flipop_aws; flipop_aws.flipop_ip_providers()[0].region_of('aws:///us-east-1a/i-0');"
        "print([name for name in ('boto3', 'botocore', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
