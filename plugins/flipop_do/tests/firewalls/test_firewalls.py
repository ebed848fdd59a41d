"""The firewall provider through the official SDK, over HTTP, against the stateful server."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import pluggy
import pytest

import flipop_do
from flipop_core import (
    Applied,
    Firewall,
    FirewallProvider,
    FirewallRule,
    InProgress,
    NotFound,
    ProviderContext,
    QuotaExceeded,
    Rejected,
    Unavailable,
)
from flipop_do_testserver import DigitalOceanServer

from .scenes import ANYWHERE, DNS, HTTP, HTTPS, UNKNOWN, made, node, raw, requests

SSH = {"protocol": "tcp", "ports": "22", "sources": {"tags": ["office"], "addresses": ["10.1.2.3"]}}


def test_factory() -> None:
    (entry_point,) = entry_points(group="flipop", name="digitalocean")
    manager = pluggy.PluginManager("flipop")
    manager.register(entry_point.load())
    ((factory,),) = manager.hook.flipop_firewall_providers()
    assert factory.name == "digitalocean"
    assert [credential.variable for credential in factory.credentials] == ["DIGITALOCEAN_ACCESS_TOKEN"]
    assert (factory.endpoint_variable, factory.user_agent_variable) == (
        "DIGITALOCEAN_API_URL",
        "DIGITALOCEAN_USER_AGENT",
    )
    built = factory.build(ProviderContext({"DIGITALOCEAN_ACCESS_TOKEN": "secret"}))
    assert isinstance(built, FirewallProvider)
    assert built.capabilities is factory.capabilities is flipop_do.FIREWALL_CAPABILITIES
    assert built.capabilities.opens_node_ports
    assert "secret" not in repr(built)


class TestGet:
    def test_by_name_is_one_call(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        server.firewalls.add("web-2", [raw("1")])
        identity = server.firewalls.add("web", [raw("all", "udp"), raw("8000-9000"), SSH], [droplet], tags=["k8s"])
        office = FirewallRule("tcp", 22, 0, ("10.1.2.3/32",))
        rules = (office, FirewallRule("tcp", 8000, 9000), FirewallRule("udp", 1, 65535))
        assert provider.get_firewall("web") == Firewall(identity, "web", rules, (node(droplet),))
        assert requests(server) == ["GET firewalls"]

    def test_by_id_is_one_call(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        identity = server.firewalls.add("web")
        assert provider.get_firewall(identity).name == "web"
        assert requests(server) == [f"GET {identity}"]

    def test_name_that_looks_like_an_id(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        identity = server.firewalls.add(UNKNOWN.id)
        assert provider.get_firewall(UNKNOWN.id).id == identity
        assert requests(server) == [f"GET {UNKNOWN.id}", "GET firewalls"]

    def test_follows_pages(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        for number in range(201):
            server.firewalls.add(f"web-{number}")
        assert provider.get_firewall("web-200").name == "web-200"
        assert server.journal.count() == 2

    @pytest.mark.parametrize("name", ["web", "", "Web", "we", UNKNOWN.id])
    def test_unknown_name(self, provider: FirewallProvider, server: DigitalOceanServer, name: str) -> None:
        server.firewalls.add("web-1")
        server.firewalls.add("web2")
        with pytest.raises(NotFound, match=f"{name}: create it"):
            provider.get_firewall(name)

    def test_several_of_a_name(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        ids = [server.firewalls.add("web") for _ in range(2)]
        with pytest.raises(Rejected, match=f"2 firewalls are named web.*{ids[0]}, {ids[1]}"):
            provider.get_firewall("web")

    def test_droplets_under_way_and_failed(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        good, bad = server.account.add_droplet(), server.account.add_droplet()
        firewall = made(server, provider, raw("22"), droplet_ids=[good])
        server.settings.firewall_seconds = 60
        provider.add_nodes(firewall, [node(bad)])
        read = provider.get_firewall("web")
        assert (read.provider_ids, read.in_progress) == ((node(good), node(bad)), True)
        server.firewalls.put(firewall.id, droplet_ids=[good])
        server.settings.firewall_seconds, server.settings.failing_firewall_changes = 0.0, 1
        provider.add_nodes(firewall, [node(bad)])
        read = provider.get_firewall("web")
        assert (read.provider_ids, read.in_progress) == ((node(good),), False)
        assert not server.firewalls.admits(bad, "tcp", 22)
        # Added again, it comes behind the firewall after all.
        server.journal.clear()
        assert isinstance(provider.add_nodes(firewall, [node(bad), node(good)]), InProgress)
        assert server.journal.entries("POST")[0].body == {"droplet_ids": [bad]}
        assert provider.get_firewall("web").provider_ids == (node(good), node(bad))
        assert server.firewalls.admits(bad, "tcp", 22)

    def test_body_that_is_not_as_documented(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        server.faults.add("GET", kind="body", status=200, text='{"firewalls":[{"name":"web"}]}')
        with pytest.raises(Unavailable, match="not what the API documents"):
            provider.get_firewall("web")
        server.violations.clear()


class TestCalls:
    def test_change_is_one_read_and_one_write(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        first, second = server.account.add_droplet(), server.account.add_droplet()
        firewall = made(server, provider, raw("22"))
        changes: list[tuple[Callable[[], object], str, object]] = [
            (
                lambda: provider.add_rules(firewall, [HTTP, DNS, HTTP]),
                "POST rules",
                {"inbound_rules": [raw("80"), raw("53", "udp")]},
            ),
            (
                lambda: provider.add_nodes(firewall, [node(second), node(first)]),
                "POST droplets",
                {"droplet_ids": [first, second]},
            ),
            (
                lambda: provider.remove_rules(firewall, [HTTPS, DNS]),
                "DELETE rules",
                {"inbound_rules": [{**raw("53", "udp"), "action": "allow"}]},
            ),
            (
                lambda: provider.remove_nodes(firewall, [node(second), "digitalocean://4711"]),
                "DELETE droplets",
                {"droplet_ids": [second]},
            ),
        ]
        for change, write, body in changes:
            server.journal.clear()
            assert change() == InProgress(firewall.id, 2.0)
            assert requests(server) == [f"GET {firewall.id}", write]
            assert server.journal.entries()[1].body == body
            server.journal.clear()
            assert change() == Applied()
            assert requests(server) == [f"GET {firewall.id}"]
        assert server.firewalls.admits(first, "tcp", 80)

    def test_nothing_to_do_beside_what_is_under_way(
        self, provider: FirewallProvider, server: DigitalOceanServer
    ) -> None:
        firewall = made(server, provider, raw("80"), droplet_ids=[server.account.add_droplet()])
        server.settings.firewall_seconds = 60
        for _ in range(2):
            assert provider.add_rules(firewall, [HTTPS]) == InProgress(firewall.id, 2.0)
        assert server.journal.count("POST") == 1

    @pytest.mark.parametrize("given", [["digitalocean://0"], ["digitalocean://12x"], ["", "digitalocean://1"]])
    def test_arguments_are_checked_before_any_call(
        self, provider: FirewallProvider, server: DigitalOceanServer, given: list[str]
    ) -> None:
        for change in (provider.add_nodes, provider.remove_nodes):
            with pytest.raises(Rejected, match="digitalocean://<droplet id>"):
                change(UNKNOWN, given)
        with pytest.raises(Rejected, match=r"'10\.0\.0\.1/8' is no CIDR"):
            provider.add_rules(UNKNOWN, [FirewallRule("tcp", 80, 0, ("10.0.0.1/8",))])
        assert server.journal.count() == 0

    def test_id_that_is_none(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        with pytest.raises(NotFound, match="'web'"):
            provider.add_rules(Firewall("web", "web"), [HTTP])
        assert server.journal.count() == 0


class TestRules:
    def test_foreign_rule_with_more_sources_stays(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        theirs = [
            raw("80", sources={"addresses": [*ANYWHERE["addresses"], "10.0.0.0/8"]}),
            raw("80", sources={**ANYWHERE, "tags": ["office"]}),
            SSH,
        ]
        firewall = made(server, provider, *theirs)
        before = server.firewalls.named("web").inbound_rules
        assert provider.remove_rules(firewall, [HTTP, FirewallRule("tcp", 22, 0, ("10.1.2.3/32",))]) == Applied()
        assert requests(server) == [f"GET {firewall.id}"]
        provider.add_rules(firewall, [HTTP])
        assert len(server.firewalls.named("web").inbound_rules) == 4
        provider.remove_rules(firewall, [HTTP])
        assert server.firewalls.named("web").inbound_rules == before

    def test_rule_is_removed_as_it_stands(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        standing = {**raw("080-0080", "TCP", {"addresses": ["::/0", "0.0.0.0/0"], "tags": []}), "note": "kept"}
        firewall = made(server, provider, standing)
        assert firewall.rules == (HTTP,)
        provider.remove_rules(firewall, [HTTP])
        assert server.firewalls.named("web").inbound_rules == []

    def test_last_rule(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        firewall = made(server, provider, raw("80"), raw("443"), outbound_rules=[])
        with pytest.raises(Rejected, match=r"firewall web: a firewall keeps its last rule: add an outbound rule"):
            provider.remove_rules(firewall, [HTTP, HTTPS])
        assert len(server.firewalls.named("web").inbound_rules) == 2
        provider.remove_rules(firewall, [HTTP])
        assert provider.get_firewall("web").rules == (HTTPS,)

    def test_limit(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        firewall = made(server, provider, *(raw(str(1000 + number)) for number in range(48)))
        with pytest.raises(QuotaExceeded, match="49 rules of 50, and 2 more"):
            provider.add_rules(firewall, [HTTP, HTTPS])
        assert isinstance(provider.add_rules(firewall, [HTTP]), InProgress)
        # Another refusal of the same request is none of the limit.
        server.firewalls.put(firewall.id, inbound_rules=[])
        server.faults.add("POST", kind="status", status=422, message="invalid address")
        with pytest.raises(Rejected, match="invalid address"):
            provider.add_rules(firewall, [HTTP])

    def test_rule_that_somebody_adds_in_between(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        firewall = made(server, provider, raw("80"))
        before = f'{{"firewall":{{"id":"{firewall.id}","name":"web","inbound_rules":[]}}}}'
        server.faults.add("GET", kind="body", status=200, text=before)
        assert provider.add_rules(firewall, [HTTP]) == Applied()
        assert requests(server) == [f"GET {firewall.id}", "POST rules", f"GET {firewall.id}"]

    def test_refusal_with_the_words_of_a_taken_node(
        self, provider: FirewallProvider, server: DigitalOceanServer
    ) -> None:
        firewall = made(server, provider, raw("80"))
        server.faults.add("POST", kind="status", status=422, message="firewall already has this rule")
        with pytest.raises(Rejected, match="already has this rule"):
            provider.add_rules(firewall, [HTTPS])


class TestNodes:
    def test_limit(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        droplets = [server.account.add_droplet() for _ in range(12)]
        firewall = made(server, provider, raw("80"), droplet_ids=droplets[:9])
        with pytest.raises(QuotaExceeded, match=r"9 droplets of 10, and 3 more .* use another one"):
            provider.add_nodes(firewall, [node(number) for number in droplets])
        assert isinstance(provider.add_nodes(firewall, [node(number) for number in droplets[:10]]), InProgress)
        assert len(provider.get_firewall("web").provider_ids) == 10

    @pytest.mark.parametrize("status", [404, 422])
    def test_unknown_droplet_is_named(
        self, provider: FirewallProvider, server: DigitalOceanServer, status: int
    ) -> None:
        droplet = server.account.add_droplet()
        firewall = made(server, provider, raw("80"))
        server.faults.add("POST", kind="status", status=status, id="not_found", message="no such droplet")
        with pytest.raises(NotFound, match=r"firewall web: no droplet digitalocean://4711 \(HTTP"):
            provider.add_nodes(firewall, [node(droplet), "digitalocean://4711"])
        assert provider.get_firewall("web").provider_ids == ()

    def test_droplets_that_cannot_be_looked_up_are_not_called_missing(
        self, provider: FirewallProvider, server: DigitalOceanServer
    ) -> None:
        droplet = server.account.add_droplet()
        firewall = made(server, provider, raw("80"))
        server.settings.scopes = "firewall:read,firewall:update"
        server.faults.add("POST", kind="status", status=422, message="odd")
        with pytest.raises(Rejected, match="odd"):
            provider.add_nodes(firewall, [node(droplet)])

    def test_firewall_that_goes_in_between(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        text = f'{{"firewall":{{"id":"{UNKNOWN.id}","droplet_ids":[7]}}}}'
        changes: list[Callable[[], object]] = [
            lambda: provider.add_rules(UNKNOWN, [HTTP]),
            lambda: provider.remove_nodes(UNKNOWN, ["digitalocean://7"]),
        ]
        for change in changes:
            server.faults.add("GET", kind="body", status=200, text=text)
            with pytest.raises(NotFound, match=f"no firewall {UNKNOWN.id}"):
                change()
        assert [entry.split()[0] for entry in requests(server)] == ["GET", "POST", "GET", "GET", "DELETE", "GET"]

    def test_droplet_that_leaves_in_between(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        firewall = made(server, provider, raw("80"))
        before = f'{{"firewall":{{"id":"{firewall.id}","droplet_ids":[{droplet}]}}}}'
        server.faults.add("GET", kind="body", status=200, text=before)
        assert provider.remove_nodes(firewall, [node(droplet)]) == Applied()
        assert server.journal.entries("DELETE")[0].status == 422

    def test_droplet_by_tag_is_added_by_its_id(self, provider: FirewallProvider, server: DigitalOceanServer) -> None:
        droplet = server.account.add_droplet()
        firewall = made(server, provider, raw("80"), tags=["k8s"])
        assert firewall.provider_ids == ()
        provider.add_nodes(firewall, [node(droplet)])
        provider.remove_nodes(firewall, [node(droplet)])
        assert provider.get_firewall("web").provider_ids == ()
        assert server.firewalls.named("web").tags == ["k8s"]
