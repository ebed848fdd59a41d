"""The core's conformance kit, run through the official SDK against the HTTP DigitalOcean."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flipop_core import IPProvider, ProviderContext
from flipop_core.testing.conformance import FaultKind, IPProviderContract, IPProviderHarness
from flipop_core.testing.rules_assignment import AssignmentRules
from flipop_do import CREDENTIAL_VARIABLE, build_ip_provider
from flipop_do_testserver import DigitalOceanServer, Settings
from tests.support.faults import CONFORMANCE_KINDS

TOKEN, WRONG_TOKEN = "dop_v1_conformance_right", "dop_v1_conformance_wrong"
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


class Harness(IPProviderHarness):
    region = "nyc3"
    timeout_seconds = 1.2
    secrets = (TOKEN, WRONG_TOKEN)
    faults = frozenset(CONFORMANCE_KINDS)
    poll_seconds = 0.02

    def __init__(self, server: DigitalOceanServer) -> None:
        self.server = server
        self.account = server.account
        self.provider = self._new_provider(TOKEN)

    def _new_provider(self, token: str) -> IPProvider:
        context = ProviderContext(
            {CREDENTIAL_VARIABLE: token}, endpoint=self.server.url, timeout_seconds=self.timeout_seconds
        )
        return build_ip_provider(context)

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

    def with_wrong_credentials(self) -> IPProvider | None:
        return self._new_provider(WRONG_TOKEN)

    def without_scope(self) -> tuple[IPProvider, str] | None:
        self.server.settings.scopes = "reserved_ip:read,reserved_ip:update"
        return self.provider, "droplet:read"

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        seconds = retry_after_seconds if kind == "rate_limited" else 30.0
        method, path = REQUESTS[operation]
        self.server.faults.add(method, path, kind=CONFORMANCE_KINDS[kind], status=503, seconds=seconds)


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
