"""The core's conformance kit, run through the SDK against EC2 over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from flipop_aws import build_ip_provider, flipop_ip_providers
from flipop_aws_testserver import AWSServer, Settings
from flipop_core import IPProvider, ProviderContext
from flipop_core.testing.conformance import FaultKind, IPProviderContract, IPProviderHarness
from tests.support.faults import CONFORMANCE_KINDS

POOL, POOL_CIDR = "ipv4pool-ec2-0123456789abcdef0", "203.0.113.0/28"
WRONG_KEY, WRONG_SECRET = "AKIAWRONGWRONGWRONG0", "wrong-secret-9876543210"

ACTIONS = {
    "verify": "ec2:DescribeAddresses",
    "list_addresses": "ec2:DescribeAddresses",
    "describe": "ec2:DescribeAddresses",
    "node_limits": "ec2:DescribeInstances",
    "find_created": "ec2:DescribeAddresses",
    "create": "ec2:AllocateAddress",
    "assign": "ec2:AssociateAddress",
    "unassign": "ec2:DisassociateAddress",
    "delete": "ec2:ReleaseAddress",
}


class Harness(IPProviderHarness):
    region = "us-east-1"
    timeout_seconds = 2.0
    faults = frozenset(CONFORMANCE_KINDS)
    marks_creations = True
    poll_seconds = 0.02

    def __init__(self, server: AWSServer) -> None:
        self.server = server
        self.account = server.account
        self.secrets = (os.environ["AWS_SECRET_ACCESS_KEY"], WRONG_SECRET)
        (self.factory,) = flipop_ip_providers()
        self.provider = self._new_provider()

    def _new_provider(self, key: str = "", secret: str = "") -> IPProvider:
        given = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret} if key else {}
        return build_ip_provider(
            ProviderContext(given, region=self.region, endpoint=self.server.url, timeout_seconds=self.timeout_seconds)
        )

    def node_ids(self, count: int) -> list[str]:
        return [self.account.add_instance().provider_id for _ in range(count)]

    def foreign_node_id(self) -> str:
        return "digitalocean://123456"

    def make_address(self) -> str:
        return self.account.add_address(self.region)

    def unknown_address(self) -> str:
        return "203.0.113.200"

    def settle(self, address: str) -> None:
        """Return at once: EC2 has no operations under way."""

    def other_region_node_id(self) -> str | None:
        return self.account.add_instance(zone="eu-west-1a").provider_id

    def unknown_node_id(self) -> str | None:
        return "aws:///us-east-1a/i-0123456789abcdef0"

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        if provider_id is None:
            self.account.take_off(address)
        else:
            self.account.put(address, provider_id.rpartition("/")[2])
        return True

    def limited_node_id(self, limit: int) -> str | None:
        return self.account.add_instance(private_addresses=limit).provider_id

    def set_tags(self, address: str, tags: Mapping[str, str]) -> bool:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        self.server.admin("ec2").create_tags(Resources=[self.account.allocation_id(address)], Tags=pairs)
        return True

    def address_pool(self) -> str | None:
        self.account.add_pool(POOL, POOL_CIDR)
        return POOL

    def is_of_pool(self, address: str, pool: str) -> bool:
        found = self.account.elastic_ips.find(address)
        return found is not None and found.pool == pool

    def exhaust_quota(self) -> bool:
        self.make_address()
        self.server.settings.address_limit = len(self.account.addresses(self.region))
        return True

    def with_wrong_credentials(self) -> IPProvider | None:
        return self._new_provider(WRONG_KEY, WRONG_SECRET)

    def without_scope(self) -> tuple[IPProvider, str] | None:
        self.server.settings.denied = "ec2:DescribeInstances"
        return self.provider, "ec2:DescribeInstances"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        action = ACTIONS[operation]
        if kind == "rate_limited":
            # The kit unassigns what is unassigned, which sends the read alone.
            action = ACTIONS["describe"] if operation == "unassign" else action
            self.server.throttle(action, retry_after_seconds=retry_after_seconds)
        else:
            self.server.fail(action, CONFORMANCE_KINDS[kind], status=503)


class TestElasticIPs(IPProviderContract):
    @pytest.fixture
    def harness(self) -> Iterator[Harness]:
        settings = Settings(access_key_id=os.environ["AWS_ACCESS_KEY_ID"], address_limit=0)
        with AWSServer(settings) as server:
            yield Harness(server)
        assert server.violations == []
