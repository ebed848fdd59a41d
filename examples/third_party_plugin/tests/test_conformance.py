"""The core's conformance kit, run through the plugin against the stand-in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest
from flipop_core import IPProvider, ProviderContext
from flipop_core.testing.conformance import FaultKind, IPProviderContract, IPProviderHarness

from flipop_nimbus import CREDENTIAL_VARIABLE, flipop_ip_providers
from flipop_nimbus.client import Client
from flipop_nimbus.floatingips import FloatingIPs
from flipop_nimbus_testserver import Fault, NimbusServer, Project

TOKEN, WRONG_TOKEN = "nimbus-conformance-right", "nimbus-conformance-wrong"
LIST, ACTIONS, ONE = r"/floating_ips$", r"/actions/", r"/floating_ips/\d+$"
WRITES = {
    "create": ("POST", LIST),
    "assign": ("POST", ACTIONS),
    "unassign": ("POST", ACTIONS),
    "delete": ("DELETE", ONE),
}


class Harness(IPProviderHarness):
    """The provider, and the project that the stand-in holds."""

    region = "north"
    timeout_seconds = 0.5
    secrets = (TOKEN, WRONG_TOKEN)
    faults: frozenset[FaultKind] = frozenset(("rate_limited", "unavailable", "lost_answer", "hang"))
    marks_creations = True
    poll_seconds = 0.02

    def __init__(self, server: NimbusServer) -> None:
        self.server = server
        self.project = server.project
        self.providers: list[FloatingIPs] = []
        (self.factory,) = flipop_ip_providers()
        self.provider = self._new_provider(TOKEN)

    def _new_provider(self, token: str) -> FloatingIPs:
        context = ProviderContext(
            {CREDENTIAL_VARIABLE: token}, endpoint=self.server.url, timeout_seconds=self.timeout_seconds
        )
        self.providers.append(FloatingIPs(Client(context)))
        return self.providers[-1]

    def close(self) -> None:
        for provider in self.providers:
            provider.close()

    def node_ids(self, count: int) -> list[str]:
        return [f"nimbus://{self.project.add_server(self.region)}" for _ in range(count)]

    def foreign_node_id(self) -> str:
        return "aws:///us-east-1a/i-0123456789abcdef0"

    def unknown_node_id(self) -> str | None:
        return "nimbus://999999"

    def other_region_node_id(self) -> str | None:
        return f"nimbus://{self.project.add_server('south')}"

    def make_address(self) -> str:
        return self.project.add_address(self.region)

    def unknown_address(self) -> str:
        return "198.51.100.200"

    def settle(self, address: str) -> None:
        deadline = time.monotonic() + self.settle_seconds
        while (found := self.project.addresses().get(address)) and found.ends_at is not None:
            assert time.monotonic() < deadline
            time.sleep(self.poll_seconds)

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        self.project.move(address, None if provider_id is None else int(provider_id.removeprefix("nimbus://")))
        return True

    def set_tags(self, address: str, tags: Mapping[str, str]) -> bool:
        self.project.set_labels(address, tags)
        return True

    def exhaust_quota(self) -> bool:
        self.project.limit = len(self.project.addresses())
        return True

    def with_wrong_credentials(self) -> IPProvider | None:
        return self._new_provider(WRONG_TOKEN)

    def without_scope(self) -> tuple[IPProvider, str] | None:
        self.server.scopes.discard("floating_ips:read")
        return self.provider, "floating_ips:read"

    def announce_rate_limit(self, limit: int) -> bool:
        self.server.request_limit = limit
        return True

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        method, path = WRITES.get(operation, ("GET", LIST))
        if (operation, kind) == ("unassign", "rate_limited"):
            method, path = "GET", LIST  # the kit unassigns what is unassigned, which sends the read alone
        self.server.fail_next(Fault(method, path, kind, retry_after_seconds))


class TestNimbus(IPProviderContract):
    """Every rule, with actions that are done at once, and with such that take their time."""

    @pytest.fixture(params=[0.0, 0.05], ids=["at-once", "asynchronous"])
    def harness(self, request: pytest.FixtureRequest) -> Iterator[Harness]:
        with NimbusServer(Project(request.param), TOKEN) as server:
            harness = Harness(server)
            yield harness
            harness.close()
