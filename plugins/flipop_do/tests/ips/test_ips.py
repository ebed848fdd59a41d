"""The mutations of the provider through the official SDK, over HTTP, against the stateful server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_core import (
    AddressRecord,
    Applied,
    Busy,
    CreateRequest,
    InProgress,
    IPProvider,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    QuotaExceeded,
    Rejected,
)
from flipop_do import CAPABILITIES, CREDENTIAL_VARIABLE, build_ip_provider
from flipop_do_testserver import DigitalOceanServer

from .nodes import UNKNOWN_ADDRESS, node


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_provider_satisfies_the_protocol(provider: IPProvider) -> None:
    assert isinstance(provider, IPProvider)
    assert provider.capabilities is CAPABILITIES
    assert CAPABILITIES.atomic_reassign
    assert CAPABILITIES.create_on_node
    assert (CAPABILITIES.max_ips_per_node, CAPABILITIES.address_families) == (1, ("IPv4", "IPv6"))


class TestCreate:
    def test_in_region(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        created = provider.create(CreateRequest("claim", region="ams3"))
        assert created.result == Applied()
        assert server.account.addresses()[created.address].region == "ams3"
        assert [entry.body for entry in server.journal.entries()] == [{"region": "ams3"}]

    def test_in_the_context_region(self, server: DigitalOceanServer) -> None:
        context = ProviderContext({CREDENTIAL_VARIABLE: "t"}, endpoint=server.url, region="fra1")
        created = build_ip_provider(context).create(CreateRequest("claim"))
        assert server.account.addresses()[created.address].region == "fra1"

    def test_on_a_node(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 0.05
        droplet = server.account.add_droplet()
        created = provider.create(CreateRequest("claim", region="nyc3", provider_id=node(droplet)))
        assert isinstance(created.result, InProgress)
        assert int(created.result.token) in server.account.actions
        wait_for(lambda: provider.describe([created.address])[created.address].provider_id == node(droplet))
        assert [entry.body for entry in server.journal.entries("POST")] == [{"droplet_id": droplet}]

    def test_on_a_node_that_takes_it_at_once(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        assert provider.create(CreateRequest("claim", provider_id=node(droplet))).result == Applied()

    def test_node_in_use(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        server.account.add_address(droplet_id=droplet)
        with pytest.raises(NodeInUse):
            provider.create(CreateRequest("claim", provider_id=node(droplet)))

    def test_node_with_a_pending_event(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 60
        droplet = server.account.add_droplet()
        server.account.assign(server.account.add_address(), droplet)
        with pytest.raises(Busy):
            provider.create(CreateRequest("claim", provider_id=node(droplet)))

    @pytest.mark.parametrize(
        "request_", [CreateRequest("c", region="mars1"), CreateRequest("c"), CreateRequest("c", provider_id=node(7))]
    )
    def test_bad_region_or_node(self, provider: IPProvider, request_: CreateRequest) -> None:
        with pytest.raises(Rejected):
            provider.create(request_)

    def test_account_limit(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        for _ in range(3):
            provider.create(CreateRequest("claim", region="nyc3"))
        with pytest.raises(QuotaExceeded, match="limit"):
            provider.create(CreateRequest("claim", region="nyc3"))

    @pytest.mark.parametrize(
        ("kind", "made"),
        [
            ("status", 0),
            ("html_502", 0),
            ("drop_before", 0),
            ("status_after_effect", 1),
            ("drop_after_effect", 1),
            ("cut_body", 1),
        ],
    )
    @pytest.mark.parametrize("on_node", [False, True])
    def test_lost_answer_is_sent_once_and_found_again(
        self, provider: IPProvider, server: DigitalOceanServer, kind: str, made: int, *, on_node: bool
    ) -> None:
        server.settings.action_seconds = 0.2
        droplet = server.account.add_droplet()
        server.account.add_address()
        known = tuple(provider.list_addresses([]))
        request = CreateRequest(
            "claim", region="nyc3", provider_id=node(droplet) if on_node else None, known_addresses=known
        )
        server.faults.add("POST", kind=kind)
        with pytest.raises(OutcomeUnknown):
            provider.create(request)
        assert server.journal.count("POST") == 1
        found = provider.find_created(request)
        assert len(found) == made
        assert {record.address for record in found} == set(server.account.addresses()) - set(known)


class TestAssign:
    def test_one_call_then_in_progress_then_there(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 0.05
        ip, droplet = server.account.add_address(), server.account.add_droplet()
        result = provider.assign(ip, node(droplet))
        assert isinstance(result, InProgress)
        assert int(result.token) in server.account.actions
        assert server.journal.count() == 1
        wait_for(lambda: provider.describe([ip])[ip] == AddressRecord(ip, node(droplet), "nyc3"))

    def test_completed_at_once(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip, droplet = server.account.add_address(), server.account.add_droplet()
        assert provider.assign(ip, node(droplet)) == Applied()
        assert server.journal.count() == 1

    def test_moves_from_another_node(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        first, second = server.account.add_droplet(), server.account.add_droplet()
        ip = server.account.add_address(droplet_id=first)
        provider.assign(ip, node(second))
        assert server.account.holder(ip) == second

    def test_byoip(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 0.05
        server.account.add_prefix("192.0.2.0/28")
        droplet = server.account.add_droplet()
        assert isinstance(provider.assign("192.0.2.3", node(droplet)), InProgress)
        wait_for(lambda: provider.describe(["192.0.2.3"])["192.0.2.3"].provider_id == node(droplet))
        assert server.journal.count("GET", "actions") == 0

    @pytest.mark.parametrize("ip", ["", "192.0.2.3"])
    def test_already_there_is_applied_with_one_read(
        self, provider: IPProvider, server: DigitalOceanServer, ip: str
    ) -> None:
        server.account.add_prefix("192.0.2.0/28")
        droplet = server.account.add_droplet()
        ip = ip or server.account.add_address()
        server.account.move(ip, droplet)
        assert provider.assign(ip, node(droplet)) == Applied()
        assert server.journal.count("POST") == 1
        assert server.journal.count("GET") == (2 if ip == "192.0.2.3" else 1)
        assert server.account.holder(ip) == droplet

    def test_node_in_use(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        server.account.add_address(droplet_id=droplet)
        ip = server.account.add_address()
        with pytest.raises(NodeInUse) as caught:
            provider.assign(ip, node(droplet))
        assert (caught.value.provider, caught.value.operation) == ("digitalocean", "assign")
        assert caught.value.request_id
        assert server.journal.count() == 2

    def test_node_in_use_whatever_the_words(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        server.account.add_address(droplet_id=droplet)
        ip = server.account.add_address()
        server.faults.add("POST", kind="status", status=422, id="unprocessable_entity", message="No.")
        with pytest.raises(NodeInUse):
            provider.assign(ip, node(droplet))

    def test_node_in_use_by_a_byoip_address(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_prefix("192.0.2.0/28")
        droplet = server.account.add_droplet()
        server.account.move("192.0.2.1", droplet)
        with pytest.raises(NodeInUse):
            provider.assign(server.account.add_address(), node(droplet))

    @pytest.mark.parametrize("pending", ["address", "droplet"])
    def test_pending_event(self, provider: IPProvider, server: DigitalOceanServer, pending: str) -> None:
        server.settings.action_seconds = 60
        first, second = server.account.add_droplet(), server.account.add_droplet()
        ip, other = server.account.add_address(), server.account.add_address()
        server.account.assign(ip, first)
        with pytest.raises(Busy):
            provider.assign(ip if pending == "address" else other, node(second if pending == "address" else first))
        assert server.journal.count() == 1

    def test_other_region(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(Rejected, match="datacenter"):
            provider.assign(server.account.add_address("ams3"), node(server.account.add_droplet()))

    def test_unknown_address_or_node(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(NotFound):
            provider.assign(UNKNOWN_ADDRESS, node(server.account.add_droplet()))
        with pytest.raises(NotFound):
            provider.assign(server.account.add_address(), node(4711))

    def test_action_that_ends_in_an_error_at_once(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.failing_actions = 1
        with pytest.raises(OutcomeUnknown):
            provider.assign(server.account.add_address(), node(server.account.add_droplet()))

    @pytest.mark.parametrize(
        "provider_id",
        [
            "",
            "1",
            "digitalocean://",
            "digitalocean://0",
            "digitalocean://1/2",
            "digitalocean://-1",
            "digitalocean://\u0661",
            "digitalocean:// 1",
            "digitalocean://12x",
            f"digitalocean://{10**30}",
            "aws:///us-east-1a/i-1",
        ],
    )
    def test_foreign_provider_id(self, provider: IPProvider, server: DigitalOceanServer, provider_id: str) -> None:
        with pytest.raises(Rejected):
            provider.assign(UNKNOWN_ADDRESS, provider_id)
        with pytest.raises(Rejected):
            provider.create(CreateRequest("claim", provider_id=provider_id))
        with pytest.raises(Rejected):
            provider.find_created(CreateRequest("claim", provider_id=provider_id))
        assert server.journal.count("POST") == 0

    @pytest.mark.parametrize("address", ["", "x", "2001:db8::1%eth0", "2001:db8::g", "198.18.0.1/../2", "198.18.0.01"])
    def test_what_is_no_address(self, provider: IPProvider, server: DigitalOceanServer, address: str) -> None:
        for mutate in (provider.unassign, provider.delete, lambda ip: provider.assign(ip, node(1))):
            with pytest.raises(Rejected):
                mutate(address)
        assert server.journal.count() == 0


class TestUnassignAndDelete:
    def test_unassign(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 0.05
        ip = server.account.add_address(droplet_id=server.account.add_droplet())
        assert isinstance(provider.unassign(ip), InProgress)
        assert server.journal.count() == 1
        wait_for(lambda: provider.describe([ip])[ip] == AddressRecord(ip, None, "nyc3"))

    def test_unassigned_already(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        assert provider.unassign(server.account.add_address()) == Applied()
        assert server.journal.count() == 2

    def test_unassign_refused_for_another_reason(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address(droplet_id=server.account.add_droplet())
        server.faults.add("POST", kind="status", status=422, id="unprocessable_entity", message="No.")
        with pytest.raises(Rejected):
            provider.unassign(ip)

    def test_unassign_pending_and_unknown(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 60
        ip = server.account.add_address()
        server.account.assign(ip, server.account.add_droplet())
        with pytest.raises(Busy):
            provider.unassign(ip)
        with pytest.raises(NotFound):
            provider.unassign(UNKNOWN_ADDRESS)

    def test_delete_free_assigned_and_gone(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        free = server.account.add_address()
        assigned = server.account.add_address(droplet_id=server.account.add_droplet())
        for ip in (free, assigned, free):
            assert provider.delete(ip) == Applied()
        assert server.account.addresses() == {}
        assert server.journal.count() == 3

    def test_delete_pending_and_byoip(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 60
        ip = server.account.add_address()
        server.account.assign(ip, server.account.add_droplet())
        with pytest.raises(Busy):
            provider.delete(ip)
        server.account.add_prefix("192.0.2.0/28")
        with pytest.raises(Rejected):
            provider.delete("192.0.2.1")

    def test_delete_believes_no_proxy(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address()
        server.faults.add("DELETE", kind="body", status=404, text="<h1>404</h1>")
        with pytest.raises(OutcomeUnknown):
            provider.delete(ip)


class TestThreads:
    def test_second_mutation_in_flight_is_busy_and_not_sent(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        server.settings.latency_seconds = 60
        ip, other = server.account.add_address(), server.account.add_address()
        first, second = server.account.add_droplet(), server.account.add_droplet()
        results: list[object] = []
        thread = threading.Thread(target=lambda: results.append(provider.assign(ip, node(first))))
        thread.start()
        wait_for(lambda: server.journal.count() == 1)
        blocked: list[Callable[[], object]] = [
            lambda: provider.assign(ip, node(second)),
            lambda: provider.assign(other, node(first)),
            lambda: provider.unassign(ip),
            lambda: provider.delete(ip),
            lambda: provider.create(CreateRequest("claim", provider_id=node(first))),
        ]
        try:
            for mutate in blocked:
                with pytest.raises(Busy, match="under way"):
                    mutate()
            assert server.journal.count() == 1
        finally:
            server.stopping.set()
            thread.join()
        assert results == [Applied()]
        assert provider.unassign(ip) == Applied()

    def test_16_threads_share_one_provider(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        pairs = [(server.account.add_address(), server.account.add_droplet()) for _ in range(16)]

        def work(pair: tuple[str, int]) -> None:
            ip, droplet = pair
            for _ in range(8):
                assert provider.assign(ip, node(droplet)) == Applied()
                assert provider.describe([ip])[ip].provider_id == node(droplet)
                assert provider.unassign(ip) == Applied()
                assert provider.describe([ip])[ip].provider_id is None

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, pairs))
        assert server.journal.count() == 16 * 8 * 4
