"""What the firewall provider makes of faults, missing scopes, and changes at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from flipop_core import (
    AccessDenied,
    Busy,
    Firewall,
    FirewallProvider,
    FirewallRule,
    InProgress,
    OutcomeUnknown,
    ProviderError,
    RateLimited,
    Unavailable,
)
from flipop_do_testserver import DigitalOceanServer

from .scenes import HTTP, HTTPS, made, new_provider, node, raw, requests


class TestErrors:
    @pytest.mark.parametrize("has", ["droplet:read", "firewall:read"])
    def test_missing_scope_is_named(self, provider: FirewallProvider, server: DigitalOceanServer, has: str) -> None:
        firewall = made(server, provider, raw("80"))
        server.settings.scopes = has
        lacks = "firewall:read" if has == "droplet:read" else "firewall:update"
        with pytest.raises(AccessDenied, match=lacks):
            provider.add_rules(firewall, [HTTPS])
        assert len(server.firewalls.named("web").inbound_rules) == 1

    @pytest.mark.parametrize(
        ("has", "words"),
        [
            ("firewall:read", "droplet:read, without .* applied to no droplet"),
            ("droplet:read", "the scope firewall:read"),
            ("domain:read", "the scopes firewall:read and droplet:read"),
        ],
    )
    def test_verify_names_the_scopes(
        self, provider: FirewallProvider, server: DigitalOceanServer, has: str, words: str
    ) -> None:
        provider.verify()
        assert requests(server) == ["GET firewalls", "GET droplets"]
        assert {entry.query for entry in server.journal.entries()} == {"per_page=1&page=1"}
        server.settings.scopes = has
        with pytest.raises(AccessDenied, match=words):
            provider.verify()

    @pytest.mark.parametrize("kind", ["status", "status_after_effect", "drop_before", "drop_after_effect", "html_502"])
    def test_lost_answers_end_exact(self, provider: FirewallProvider, server: DigitalOceanServer, kind: str) -> None:
        droplet = server.account.add_droplet()
        firewall = made(server, provider, raw("22"))
        changes: list[Callable[[], object]] = [
            lambda: provider.add_rules(firewall, [HTTP]),
            lambda: provider.add_nodes(firewall, [node(droplet)]),
            lambda: provider.remove_rules(firewall, [FirewallRule("tcp", 22)]),
        ]
        for change in changes:
            server.journal.clear()
            server.faults.add("POST|DELETE", kind=kind)
            with pytest.raises(OutcomeUnknown):
                change()
            assert server.journal.count() == 2
            change()
        read = provider.get_firewall("web")
        assert (read.rules, read.provider_ids) == ((HTTP,), (node(droplet),))
        assert len(server.firewalls.named("web").inbound_rules) == 1

    def test_rate_limit_of_the_read_changes_nothing(
        self, provider: FirewallProvider, server: DigitalOceanServer
    ) -> None:
        firewall = made(server, provider, raw("22"))
        server.faults.add("GET", kind="retry_after", seconds=17)
        with pytest.raises(RateLimited) as caught:
            provider.add_rules(firewall, [HTTP])
        assert caught.value.retry_after_seconds == 17
        assert requests(server) == [f"GET {firewall.id}"]

    @pytest.mark.parametrize(("method", "kind"), [("GET", Unavailable), ("POST", OutcomeUnknown)])
    def test_hang_is_cut(self, server: DigitalOceanServer, method: str, kind: type[ProviderError]) -> None:
        provider = new_provider(server, timeout_seconds=0.4)
        firewall = made(server, provider, raw("22"))
        server.faults.add(method, kind="hang")
        start = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            provider.add_rules(firewall, [HTTP])
        assert type(caught.value) is kind
        assert time.monotonic() - start < 10

    def test_no_write_without_time_for_its_answer(self, server: DigitalOceanServer) -> None:
        provider = new_provider(server, timeout_seconds=1.0)
        firewall = made(server, provider, raw("22"))
        server.settings.latency_seconds = 0.8
        with pytest.raises(Unavailable, match="no time is left to change it"):
            provider.add_rules(firewall, [HTTP])
        assert requests(server) == [f"GET {firewall.id}"]


def test_second_change_in_flight_is_busy_and_not_sent(provider: FirewallProvider, server: DigitalOceanServer) -> None:
    firewall = made(server, provider, raw("22"))
    other = server.firewalls.add("other")
    server.settings.latency_seconds = 60
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(provider.add_rules(firewall, [HTTP])))
    thread.start()
    deadline = time.monotonic() + 30
    while server.journal.count() == 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    try:
        with pytest.raises(Busy, match=f"firewall {firewall.id} is under way"):
            provider.add_nodes(firewall, ["digitalocean://1"])
        assert server.journal.count() == 1
        server.settings.latency_seconds = 0.0
        assert isinstance(provider.add_rules(Firewall(other, "other"), [HTTP]), InProgress)
    finally:
        server.stopping.set()
        thread.join()
    assert results == [InProgress(firewall.id, 2.0)]
