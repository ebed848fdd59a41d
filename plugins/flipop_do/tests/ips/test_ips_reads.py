"""The reads of the provider through the official SDK, over HTTP, against the stateful server."""

from __future__ import annotations

import pytest

from flipop_core import (
    AddressRecord,
    CreateRequest,
    IPProvider,
    OutcomeUnknown,
    Unavailable,
)
from flipop_do_testserver import DigitalOceanServer

from .nodes import UNKNOWN_ADDRESS, node


class TestListAddresses:
    def test_empty_account(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        assert provider.list_addresses([]) == {}
        assert server.journal.count() == 1

    def test_100_addresses_cost_one_call(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplets = [server.account.add_droplet() for _ in range(40)]
        ips = [server.account.add_address(droplet_id=droplet) for droplet in droplets]
        ips += [server.account.add_address("ams3") for _ in range(60)]
        records = provider.list_addresses(ips)
        assert set(records) == set(ips)
        assert records[ips[0]] == AddressRecord(ips[0], node(droplets[0]), "nyc3")
        assert records[ips[99]] == AddressRecord(ips[99], None, "ams3")
        assert server.journal.count() == 1

    def test_follows_pages(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ips = {server.account.add_address() for _ in range(401)}
        assert set(provider.list_addresses([])) == ips
        assert server.journal.count("GET", "/v2/reserved_ips$") == 3

    def test_unknown_wanted_address_has_no_record(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address()
        assert set(provider.list_addresses([ip, UNKNOWN_ADDRESS, "not an address"])) == {ip}
        assert server.journal.count() == 2

    def test_few_byoip_addresses_are_read_singly(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_prefix("192.0.2.0/28", "ams3")
        droplet = server.account.add_droplet(region="ams3")
        server.account.move("192.0.2.1", droplet)
        records = provider.list_addresses(["192.0.2.1", "192.0.2.2"])
        assert records["192.0.2.1"] == AddressRecord("192.0.2.1", node(droplet), "ams3")
        assert records["192.0.2.2"] == AddressRecord("192.0.2.2", None, "ams3")
        assert server.journal.count() == 3

    def test_many_byoip_addresses_are_read_by_prefix(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_prefix("192.0.2.0/26")
        server.account.add_prefix("198.51.100.0/24", "ams3")
        droplets = [server.account.add_droplet() for _ in range(30)]
        wanted = [f"192.0.2.{number}" for number in range(1, 41)]
        for ip, droplet in zip(wanted, droplets, strict=False):
            server.account.move(ip, droplet)
        server.account.move("192.0.2.50", server.account.add_droplet())
        records = provider.list_addresses([*wanted, UNKNOWN_ADDRESS])
        assert set(records) == {*wanted, "192.0.2.50"}
        assert records[wanted[0]] == AddressRecord(wanted[0], node(droplets[0]), "nyc3")
        assert records[wanted[39]] == AddressRecord(wanted[39], None, "nyc3")
        assert [entry.path.split("/")[-1] for entry in server.journal.entries()] == [
            "reserved_ips",
            "byoip_prefixes",
            "ips",
        ]

    def test_byoip_without_the_scope_is_read_singly(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_prefix("192.0.2.0/28")
        server.faults.add("GET", "byoip", kind="status", status=403, id="forbidden", message="missing scope")
        wanted = [f"192.0.2.{number}" for number in range(1, 6)]
        assert set(provider.list_addresses(wanted)) == set(wanted)

    def test_byoip_holder_that_is_not_a_number_is_read_singly(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        server.account.add_prefix("192.0.2.0/28")
        droplet = server.account.add_droplet()
        server.account.move("192.0.2.1", droplet)
        odd = '{"ips":[{"byoip":"192.0.2.1","region":"nyc3","resource":"do:droplet:fa3c10b-58cc"}],"links":{}}'
        server.faults.add("GET", "/ips$", kind="body", status=200, text=odd)
        records = provider.list_addresses([f"192.0.2.{number}" for number in range(1, 6)])
        assert records["192.0.2.1"].provider_id == node(droplet)
        assert server.journal.count("GET", "/192.0.2.1$") == 1


class TestDescribe:
    def test_few_are_read_singly(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address()
        assert provider.describe([ip, UNKNOWN_ADDRESS]) == {ip: AddressRecord(ip, None, "nyc3")}
        assert server.journal.count("GET", "/v2/reserved_ips/") == 2

    def test_many_are_listed(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ips = [server.account.add_address() for _ in range(10)]
        assert set(provider.describe(ips)) == set(ips)
        assert server.journal.count() == 1

    def test_locked_is_in_progress(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 60
        ip, droplet = server.account.add_address(), server.account.add_droplet()
        server.account.assign(ip, droplet)
        assert provider.describe([ip])[ip] == AddressRecord(ip, None, "nyc3", in_progress=True)

    def test_proxy_404_is_not_the_answer_not_found(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address()
        server.faults.add("GET", kind="body", status=404, text="<h1>404</h1>")
        with pytest.raises(Unavailable):
            provider.describe([ip])


class TestFindCreated:
    def test_in_region_ignores_known_foreign_and_assigned(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        known = server.account.add_address()
        request = CreateRequest("claim", region="nyc3", known_addresses=(known,))
        assert provider.find_created(request) == ()
        server.account.add_address("ams3")
        server.account.add_address(droplet_id=server.account.add_droplet())
        mine = [server.account.add_address(ip="198.18.9.20"), server.account.add_address(ip="198.18.9.3")]
        assert [record.address for record in provider.find_created(request)] == sorted(mine, reverse=True)

    def test_on_a_node_the_held_one_first_then_unassigned_newcomers(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        droplet, other = server.account.add_droplet(), server.account.add_droplet()
        known = server.account.add_address()
        request = CreateRequest("claim", region="nyc3", provider_id=node(droplet), known_addresses=(known,))
        assert provider.find_created(request) == ()
        server.account.add_address("ams3")
        server.account.add_address(droplet_id=other)
        stranded = server.account.add_address()
        server.settings.action_seconds, server.settings.reserved_ip_limit = 60, 0
        arriving = server.account.create(None, server.account.add_droplet())[0].ip
        held = server.account.add_address(droplet_id=droplet)
        assert [record.address for record in provider.find_created(request)] == [held, stranded, arriving]

    @pytest.mark.parametrize("request_region", ["nyc3", ""])
    def test_on_a_node_an_address_whose_assignment_failed_is_not_lost(
        self, provider: IPProvider, server: DigitalOceanServer, request_region: str
    ) -> None:
        server.settings.failing_actions = 1
        droplet = server.account.add_droplet()
        request = CreateRequest("claim", region=request_region, provider_id=node(droplet))
        server.faults.add("POST", kind="drop_after_effect")
        with pytest.raises(OutcomeUnknown):
            provider.create(request)
        (address,) = server.account.addresses()
        assert provider.find_created(request) == (AddressRecord(address, None, "nyc3"),)
