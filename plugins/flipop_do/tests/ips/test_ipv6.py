"""Reserved IPv6 addresses through the official SDK, over HTTP, against the stateful server."""

from __future__ import annotations

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
    QuotaExceeded,
    Rejected,
    Unsupported,
)
from flipop_do_testserver import DigitalOceanServer

from .nodes import node

UNKNOWN = "2001:db8:ffff::9"
ACTIONS = "/v2/reserved_ipv6/.*/actions$"


def request_for(region: str = "nyc3", known: tuple[str, ...] = (), provider_id: str | None = None) -> CreateRequest:
    return CreateRequest("claim", region=region, known_addresses=known, provider_id=provider_id, family="IPv6")


class TestReads:
    def test_an_account_without_ipv6_pays_nothing(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_address(ipv6=True)
        ip = server.account.add_address()
        assert set(provider.list_addresses([ip])) == {ip}
        assert set(provider.describe([ip])) == {ip}
        assert server.journal.count() == 2
        assert server.journal.count(path="ipv6") == 0

    @pytest.mark.parametrize("wanted", ["2001:db8::1", UNKNOWN])
    def test_a_wanted_ipv6_address_lists_all_of_them(
        self, provider: IPProvider, server: DigitalOceanServer, wanted: str
    ) -> None:
        droplet = server.account.add_droplet()
        ipv4 = server.account.add_address()
        held, free = server.account.add_address(droplet_id=droplet, ipv6=True), server.account.add_address(ipv6=True)
        assert provider.list_addresses([wanted]) == {
            ipv4: AddressRecord(ipv4, None, "nyc3"),
            held: AddressRecord(held, node(droplet), "nyc3"),
            free: AddressRecord(free, None, "nyc3"),
        }
        assert server.journal.count() == 2

    def test_they_are_listed_when_the_family_is_asked_for(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        ip = provider.create(request_for()).address
        assert set(provider.list_addresses([])) == set()
        assert set(provider.list_addresses([], families=("IPv4", "IPv6"))) == {ip}

    def test_follows_pages(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ips = {server.account.add_address(ipv6=True) for _ in range(201)}
        assert set(provider.list_addresses([], families=("IPv6",))) == ips
        assert server.journal.count("GET", "/v2/reserved_ipv6$") == 2

    def test_describe_reads_few_singly_and_many_by_list(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ips = [server.account.add_address(ipv6=True) for _ in range(5)]
        ipv4 = server.account.add_address()
        assert set(provider.describe([ips[0], UNKNOWN, ipv4])) == {ips[0], ipv4}
        assert server.journal.count("GET", "/v2/reserved_ipv6/") == 2
        server.journal.clear()
        assert set(provider.describe([*ips[:4], ipv4])) == {*ips, ipv4}
        assert server.journal.count() == 2

    def test_other_spellings_are_the_same_address(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address(ip="2001:db8:d0::a")
        assert set(provider.describe(["2001:0DB8:00D0:0:0:0:0:000A"])) == {ip}

    @pytest.mark.parametrize("text", ["{ip}", "{wrapped}"])
    def test_answers_with_and_without_the_documented_wrapper(
        self, provider: IPProvider, server: DigitalOceanServer, text: str
    ) -> None:
        flat = '{"ip":"2001:DB8:0::1","region_slug":"nyc3","droplet":{"id":7}}'
        body = flat if text == "{ip}" else f'{{"reserved_ipv6":{flat}}}'
        server.faults.add("GET", kind="body", status=200, text=body)
        assert provider.describe(["2001:db8::1"]) == {"2001:db8::1": AddressRecord("2001:db8::1", node(7), "nyc3")}


class TestCreate:
    def test_in_the_region(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        created = provider.create(request_for("ams3"))
        assert created.result == Applied()
        assert server.account.addresses()[created.address].region == "ams3"
        assert [entry.body for entry in server.journal.entries()] == [{"region_slug": "ams3"}]

    def test_never_on_a_node(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(Unsupported):
            provider.create(request_for(provider_id=node(server.account.add_droplet())))
        assert server.journal.count() == 0

    def test_no_other_family(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(Unsupported):
            provider.create(CreateRequest("claim", region="nyc3", family="IPv5"))
        assert server.journal.count() == 0

    def test_without_or_with_a_wrong_region(self, provider: IPProvider) -> None:
        for region in ("", "mars1"):
            with pytest.raises(Rejected):
                provider.create(request_for(region))

    def test_account_limit_is_its_own(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        for _ in range(3):
            server.account.add_address()
            provider.create(request_for())
        with pytest.raises(QuotaExceeded):
            provider.create(request_for())

    @pytest.mark.parametrize(
        ("kind", "made"), [("status", 0), ("drop_before", 0), ("drop_after_effect", 1), ("cut_body", 1)]
    )
    def test_lost_answer_is_sent_once_and_found_again(
        self, provider: IPProvider, server: DigitalOceanServer, kind: str, made: int
    ) -> None:
        foreign = server.account.add_address(ipv6=True)
        server.account.add_address()
        known = tuple(provider.list_addresses([], families=("IPv6",)))
        assert foreign in known
        server.account.add_address()  # a new IPv4 address is none of an IPv6 creation's
        server.faults.add("POST", kind=kind)
        with pytest.raises(OutcomeUnknown):
            provider.create(request_for(known=known))
        assert server.journal.count("POST") == 1
        found = provider.find_created(request_for(known=known))
        assert len(found) == made
        new = {ip for ip in server.account.addresses() if ":" in ip} - set(known)
        assert {record.address for record in found} == new

    def test_find_created_knows_regions_and_families(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.account.add_address("ams3", ipv6=True)
        server.account.add_address(droplet_id=server.account.add_droplet(), ipv6=True)
        second, first = (server.account.add_address(ip=f"2001:db8:d0::{end}") for end in ("10", "9"))
        assert [record.address for record in provider.find_created(request_for())] == [first, second]
        assert provider.find_created(CreateRequest("claim", region="nyc3")) == ()


class TestAssign:
    def test_one_call_then_in_progress_then_there(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.action_seconds = 60
        ip, droplet = server.account.add_address(ipv6=True), server.account.add_droplet()
        result = provider.assign(ip, node(droplet))
        assert isinstance(result, InProgress)
        assert [entry.body for entry in server.journal.entries()] == [{"type": "assign", "droplet_id": droplet}]
        under_way = AddressRecord(ip, None, "nyc3", in_progress=True)
        assert provider.describe([ip]) == {ip: under_way}
        assert provider.list_addresses([ip]) == {ip: under_way}
        server.account.move(ip, droplet)
        assert provider.describe([ip]) == {ip: AddressRecord(ip, node(droplet), "nyc3")}
        assert server.journal.count("GET", "/actions") == 0

    def test_an_action_without_effect_is_not_under_way_for_ever(
        self, provider: IPProvider, server: DigitalOceanServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flipop_do.inventory.PENDING_SECONDS", 0.0)
        server.settings.action_seconds = 60
        ip = server.account.add_address(ipv6=True)
        provider.assign(ip, node(server.account.add_droplet()))
        assert provider.describe([ip]) == {ip: AddressRecord(ip, None, "nyc3")}

    def test_unassign_and_back(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        ip = server.account.add_address(droplet_id=droplet, ipv6=True)
        assert provider.unassign(ip) == Applied()
        assert provider.describe([ip])[ip].provider_id is None
        assert provider.assign(ip, node(droplet)) == Applied()
        assert provider.describe([ip])[ip] == AddressRecord(ip, node(droplet), "nyc3")

    def test_unassigned_already(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        assert provider.unassign(server.account.add_address(ipv6=True)) == Applied()
        assert server.journal.count() == 2

    def test_one_address_of_each_family_on_a_node(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        ipv4, ipv6 = server.account.add_address(), server.account.add_address(ipv6=True)
        assert provider.assign(ipv4, node(droplet)) == Applied()
        assert provider.assign(ipv6, node(droplet)) == Applied()
        for other in (server.account.add_address(), server.account.add_address(ipv6=True)):
            with pytest.raises(NodeInUse):
                provider.assign(other, node(droplet))

    def test_already_there_is_applied(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        ip = server.account.add_address(droplet_id=droplet, ipv6=True)
        assert provider.assign(ip, node(droplet)) == Applied()
        assert server.journal.count("GET") == 1

    def test_a_node_that_holds_nothing_is_not_in_use_whatever_the_words(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        ip = server.account.add_address(droplet_id=server.account.add_droplet(), ipv6=True)
        server.faults.add("POST", kind="status", status=422, id="x", message="The address is already assigned.")
        with pytest.raises(Rejected):
            provider.assign(ip, node(server.account.add_droplet()))

    def test_pending_unknown_and_other_region(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip, droplet = server.account.add_address(ipv6=True), server.account.add_droplet()
        with pytest.raises(NotFound):
            provider.assign(UNKNOWN, node(droplet))
        with pytest.raises(Rejected, match="datacenter"):
            provider.assign(ip, node(server.account.add_droplet(region="ams3")))
        server.settings.action_seconds = 60
        server.account.assign(ip, droplet)
        with pytest.raises(Busy):
            provider.assign(ip, node(server.account.add_droplet()))


class TestDelete:
    def test_free_and_gone(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address(ipv6=True)
        assert provider.delete(ip) == Applied()
        assert provider.delete(ip) == Applied()
        assert server.account.addresses() == {}

    def test_an_assigned_one_is_refused(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        ip = server.account.add_address(droplet_id=server.account.add_droplet(), ipv6=True)
        with pytest.raises(Rejected, match="assigned"):
            provider.delete(ip)
        assert set(server.account.addresses()) == {ip}
