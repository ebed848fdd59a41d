"""The core's conformance kit, run through the official SDK against the HTTP DigitalOcean."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flipop_core.testing.conformance import IPProviderContract, IPProviderHarness
from flipop_core.testing.rules_assignment import AssignmentRules
from flipop_do import flipop_ip_providers
from flipop_do_testserver import DigitalOceanServer, Settings

from .served import TOKEN, ServedAccount

LIST, ONE, ACTIONS = r"/v2/reserved_ips$", r"/v2/reserved_ips/[\d.]+$", r"/actions$"
REQUESTS = {
    "list_addresses": ("GET", LIST),
    "find_created": ("GET", LIST),
    "describe": ("GET", ONE),
    "create": ("POST", LIST),
    "assign": ("POST", ACTIONS),
    "unassign": ("POST", ACTIONS),
    "delete": ("DELETE", ONE),
    "verify": ("GET", r"/v2/(reserved_ips|droplets)$"),
}


class Harness(ServedAccount, IPProviderHarness):
    region = "nyc3"
    offer = staticmethod(flipop_ip_providers)
    narrow, missing = "reserved_ip:read,reserved_ip:update", "droplet:read"

    def __init__(self, server: DigitalOceanServer) -> None:
        super().__init__(server)
        self.account = server.account

    def request(self, operation: str) -> tuple[str, str]:
        return REQUESTS[operation]

    def node_ids(self, count: int) -> list[str]:
        return [f"digitalocean://{self.account.add_droplet(region=self.region)}" for _ in range(count)]

    def foreign_node_id(self) -> str:
        return "aws:///us-east-1a/i-0123456789abcdef0"

    def make_address(self) -> str:
        return self.account.add_address(self.region)

    def unknown_address(self) -> str:
        return "203.0.113.200"

    def settle(self, address: str) -> None:
        deadline = time.monotonic() + self.settle_seconds
        while (found := self.account.addresses().get(address)) and found.action_id is not None:
            assert time.monotonic() < deadline
            time.sleep(self.poll_seconds)

    def other_region_node_id(self) -> str | None:
        return f"digitalocean://{self.account.add_droplet(region='ams3')}"

    def unknown_node_id(self) -> str | None:
        return "digitalocean://999999"

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        self.account.move(address, None if provider_id is None else int(provider_id.removeprefix("digitalocean://")))
        return True

    def exhaust_quota(self) -> bool:
        self.make_address()
        self.server.settings.reserved_ip_limit = len(self.account.addresses())
        return True


class TestDigitalOcean(IPProviderContract):
    @pytest.fixture(params=[0.0, 0.1], ids=["at-once", "asynchronous"])
    def harness(self, request: pytest.FixtureRequest) -> Iterator[Harness]:
        settings = Settings(action_seconds=request.param, reserved_ip_limit=0, token=TOKEN)
        with DigitalOceanServer(settings) as server:
            yield Harness(server)
        assert server.violations == []


class IPv6Harness(Harness):
    def make_address(self) -> str:
        return self.account.add_address(self.region, ipv6=True)

    def unknown_address(self) -> str:
        return "2001:db8:ffff::200"


class TestReservedIPv6(AssignmentRules):
    """The rules that do not create: the kit's creations are of IPv4 addresses."""

    @pytest.fixture(params=[0.0, 0.1], ids=["at-once", "asynchronous"])
    def harness(self, request: pytest.FixtureRequest) -> Iterator[IPv6Harness]:
        settings = Settings(action_seconds=request.param, reserved_ip_limit=0, token=TOKEN)
        with DigitalOceanServer(settings) as server:
            yield IPv6Harness(server)
        assert server.violations == []
