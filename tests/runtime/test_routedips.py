"""RoutedIPs in a whole controller: the order of all steps, under faults, restarts and in company."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from flipop_core.cluster import NODES, ROUTED_IP_ISSUERS, ROUTED_IPS, SECRETS
from flipop_core.errors import (
    AccessDenied,
    ClusterUnavailable,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unavailable,
)
from flipop_core.hookspecs import hookimpl
from flipop_core.providers import CredentialSpec, ProviderContext, ProviderFactory
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.providers import InMemoryFirewallProvider, InMemoryIPProvider

from .routedrig import FIREWALL, FIREWALL_CHANGES, MUTATIONS, NAMESPACE, RoutedRig, rules

FAULTS: dict[str, Callable[[], ProviderError]] = {
    "Unavailable": lambda: Unavailable("away"),
    "RateLimited": lambda: RateLimited("slow down", retry_after_seconds=30.0),
    "AccessDenied": lambda: AccessDenied("no"),
    "QuotaExceeded": lambda: QuotaExceeded("full"),
    "lost": lambda: OutcomeUnknown("lost"),
}


@pytest.fixture
def rig() -> Iterator[RoutedRig]:
    rig = RoutedRig()
    yield rig
    rig.stop()
    assert not rig.breaches


def serve(rig: RoutedRig, *ready: str) -> str:
    """Have one RoutedIP served on the first of the nodes, and return its address."""
    rig.service(*(ready or ("a",)))
    rig.issuer()
    rig.routed_ip()
    rig.start()
    return rig.until_active(skipping=True)


def succeeded(rig: RoutedRig, *operations: str) -> list[str]:
    return [call.operation for call in rig.calls(*operations) if call.finished and not call.failed]


# -- the order -----------------------------------------------------------------------------------------------------


def test_the_firewall_is_opened_before_the_address_comes(rig: RoutedRig) -> None:
    serve(rig, "a", "b")
    assert rig.steps() == ["create", "add_rules", "add_nodes", "assign"]
    assert rig.firewall() == ({443}, set(rig.held().values()))


def test_a_failover_admits_the_new_node_first_and_lets_the_old_one_go_last(rig: RoutedRig) -> None:
    address = serve(rig, "a")
    before = len(rig.steps())
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert rig.steps(before) == ["add_nodes", "assign", "remove_nodes"]
    assert rig.held() == {address: "b"}


def test_the_address_stays_on_a_node_that_is_fit(rig: RoutedRig) -> None:
    serve(rig, "b")
    rig.endpoints("a", "b", "c")
    rig.until_quiet()
    assert set(rig.held().values()) == {"b"}


def test_new_ports_are_opened_before_old_ones_are_closed(rig: RoutedRig) -> None:
    serve(rig)
    before = len(rig.steps())
    rig.service("a", ports=(8443,))
    rig.until_firewall({8443}, "a")
    steps = rig.steps(before)
    assert steps.index("add_rules") < steps.index("remove_rules")
    assert "assign" not in steps
    rig.until(lambda: rig.status()["ports"] == ["8443/TCP"], "the ports in the status")


def test_with_post_allow_the_address_moves_first(rig: RoutedRig) -> None:
    rig.strict = False
    rig.service("a")
    rig.issuer(firewallPostAllow=True)
    rig.routed_ip()
    rig.start()
    rig.until_active("a")
    rig.until_firewall({443}, "a")
    before = len(rig.steps())
    assert [step for step in rig.steps() if step in ("assign", "add_rules", "add_nodes")][1:] == [
        "add_rules",
        "add_nodes",
    ] or rig.steps() == ["create", "add_rules", "add_nodes"]
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert rig.steps(before) == ["assign", "add_nodes", "remove_nodes"]


def test_what_others_added_stays(rig: RoutedRig) -> None:
    rig.cloud.firewalls.put_rules(FIREWALL, rules(22, 443))
    rig.cloud.firewalls.put_nodes(FIREWALL, ["memory://a", "memory://c"])
    serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({22, 443}, "abc")
    rig.delete()
    rig.until(rig.gone, "gone")
    rig.until_quiet()
    assert rig.firewall() == ({22, 443}, {"a", "c"})


def test_a_firewall_that_takes_effect_later_is_waited_for(rig: RoutedRig) -> None:
    rig.cloud.firewalls.action_seconds = 0.3
    serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.until_firewall({443}, "b", skipping=True)


def test_a_firewall_that_is_missing_keeps_the_address_from_moving(rig: RoutedRig) -> None:
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    message = rig.until_reason("FirewallNotFound")
    assert FIREWALL in message
    assert "assign" not in rig.steps()
    rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.until_active("a", skipping=True)


def test_an_edit_tries_a_missing_firewall_at_once(rig: RoutedRig) -> None:
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    rig.until_reason("FirewallNotFound")
    rig.until_quiet()
    rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.edit(ROUTED_IPS, "web", routedIPReclaimPolicy="Retain")
    rig.until_active("a")


def test_a_former_firewall_is_cleaned_once_the_new_one_is_open(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.cloud.firewalls.add_firewall("other")
    rig.edit(ROUTED_IPS, "web", routedIPFirewallName="other")
    rig.until(lambda: rig.firewall("other") == ({443}, {"a"}), "the new one is open")
    rig.until_firewall((), "")
    changes = [(call.operation, call.arguments["firewall"]) for call in rig.calls(*FIREWALL_CHANGES)][2:]
    assert changes == [
        ("add_rules", "other"),
        ("add_nodes", "other"),
        ("remove_rules", FIREWALL),
        ("remove_nodes", FIREWALL),
    ]
    rig.until(lambda: [each["name"] for each in rig.status()["firewallEntries"]] == ["other"], "the record")


def test_a_former_firewall_that_is_gone_is_forgotten(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.cloud.firewalls.add_firewall("other")
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.edit(ROUTED_IPS, "web", routedIPFirewallName="other")
    rig.until(
        lambda: [each["name"] for each in rig.status().get("firewallEntries", [])] == ["other"], "", skipping=True
    )
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)


def test_a_node_that_is_gone_is_replaced(rig: RoutedRig) -> None:
    serve(rig, "a", "b")
    (node,) = rig.held().values()
    rig.cloud.remove_node(f"memory://{node}")
    rig.api.delete_object(NODES, node)
    other = ({"a", "b"} - {node}).pop()
    rig.until_active(other, skipping=True)
    rig.until_firewall({443}, other, skipping=True)


def test_a_node_that_the_firewall_does_not_take_is_passed_over(rig: RoutedRig) -> None:
    rig.cloud.faults.add(
        "add_nodes",
        error=QuotaExceeded("that node has too many firewalls"),
        times=None,
        match=lambda call: call.arguments["provider_ids"] == ("memory://a",),
    )
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    rig.until(lambda: rig.calls("add_nodes"), "a call for a")
    rig.endpoints("a", "b")
    rig.until_active("b")
    assert set(rig.held().values()) == {"b"}


def test_nothing_is_called_at_rest_but_one_read_of_each_at_the_recheck(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start(recheck_seconds=60.0)
    rig.until_active("a")
    rig.until_quiet()
    before, version = len(rig.calls()), rig.api.resource_version
    assert rig.manager is not None
    for _ in range(3):
        with rig.manager.lock:
            rig.manager.routing.queue_all()
        rig.until_quiet(0.1)
    assert len(rig.calls()) == before
    rig.skip(61.0)
    rig.until(lambda: len(rig.calls("get_firewall")) >= 2, "a read of the firewall")
    rig.until_quiet()
    assert {call.operation for call in rig.calls()[before:]} <= {"get_firewall", "list_addresses"}
    assert len(rig.calls()) <= before + 2
    assert rig.api.resource_version == version


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("operation", ["get_firewall", "assign", *FIREWALL_CHANGES])
def test_a_fault_at_any_step_stops_what_follows_and_is_got_over(rig: RoutedRig, operation: str, kind: str) -> None:
    rig.cloud.faults.add(operation, error=FAULTS[kind](), times=2, after_effect=kind == "lost")
    address = serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.until_firewall({443}, "b", skipping=True)
    rig.service("b", ports=(8443,))
    rig.until_firewall({8443}, "b", skipping=True)
    assert rig.held() == {address: "b"}
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()
    assert not rig.cloud.faults.pending


@pytest.mark.parametrize("crash_after", range(1, 12))
def test_a_restart_between_any_two_changes_is_harmless(rig: RoutedRig, crash_after: int) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()

    def goes_on(done: Callable[[], object]) -> None:
        def crash_or_done() -> bool:
            if not crashed and len(rig.steps()) >= crash_after:
                crashed.append(True)
                rig.restart()
            return bool(done())

        rig.until(crash_or_done, skipping=True)

    crashed: list[bool] = []
    goes_on(lambda: rig.status().get("assignedNode") == "a" and rig.status().get("state") == "active")
    rig.endpoints("b")
    goes_on(lambda: rig.status().get("assignedNode") == "b" and rig.firewall() == ({443}, {"b"}))
    assert len(rig.cloud.records()) == 1
    rig.delete()
    goes_on(rig.gone)
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()
    assert crashed or len(rig.steps()) < crash_after


def test_a_record_whose_answer_is_lost_is_settled(rig: RoutedRig) -> None:
    serve(rig, "a")
    for applied in (True, False):
        target = "b" if applied else "c"
        rig.api.fail_next("patch", ROUTED_IPS, ClusterUnavailable("lost"), applied=applied)
        rig.endpoints(target)
        rig.until_active(target, skipping=True)
        rig.until_firewall({443}, target, skipping=True)
        until_recorded(rig, {f"memory://{target}"})


def until_recorded(rig: RoutedRig, nodes: set[str]) -> None:
    rig.until(lambda: recorded(rig) == ({443}, nodes), "the record", skipping=True)


def recorded(rig: RoutedRig, name: str = "web") -> tuple[set[int], set[str]]:
    entries = rig.status(name).get("firewallEntries", [])
    ports = {rule["port"] for each in entries for rule in each["rules"]}
    return ports, {node for each in entries for node in each["nodes"]}


def test_leadership_lost_and_regained(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.until_quiet()
    assert rig.manager is not None
    rig.manager._stopped_leading()
    before = len(rig.calls())
    rig.endpoints("b")
    rig.cloud.firewalls.put_nodes(FIREWALL, [])
    rig.until_quiet()
    assert len(rig.calls()) == before
    rig.manager._started_leading()
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert {"get_firewall", "list_addresses"} <= {call.operation for call in rig.calls()[before:]}


# -- company -------------------------------------------------------------------------------------------------------


def pair(rig: RoutedRig, **second: object) -> None:
    """Have two RoutedIPs served, of one service and one firewall, on two nodes."""
    rig.service("a", "b")
    rig.issuer()
    rig.routed_ip("web")
    rig.routed_ip("web2", **second)  # type: ignore[arg-type]  # fields of the spec
    rig.start()
    rig.until_active(name="web", skipping=True)
    rig.until_active(name="web2", skipping=True)
    rig.until_firewall({443}, "ab", skipping=True)
    rig.until_quiet()


def test_two_of_one_firewall_get_a_node_each_and_leave_each_other_what_they_need(rig: RoutedRig) -> None:
    pair(rig)
    assert set(rig.held().values()) == {"a", "b"}
    left = rig.status("web2")["assignedNode"]
    rig.delete("web")
    rig.until(rig.gone, "gone", skipping=True)
    rig.until_firewall({443}, left)
    rig.until(lambda: recorded(rig, "web2") == ({443}, {f"memory://{left}"}), "what is left is on its record")
    rig.delete("web2")
    rig.until(lambda: rig.gone("web2"), "gone", skipping=True)
    assert rig.firewall() == (set(), set())


@pytest.mark.parametrize("attempt", range(3))
def test_two_that_go_at_once_leave_nothing(rig: RoutedRig, attempt: int) -> None:
    pair(rig)
    rig.delete("web")
    rig.delete("web2")
    rig.until(lambda: rig.gone("web") and rig.gone("web2"), "both gone", skipping=True)
    assert rig.firewall() == (set(), set())


def test_two_whose_port_changes_at_once_leave_nothing_of_the_old_one(rig: RoutedRig) -> None:
    pair(rig)
    rig.service("a", "b", ports=(8443,))
    rig.until_firewall({8443}, "ab", skipping=True)
    rig.until(lambda: recorded(rig, "web")[0] == recorded(rig, "web2")[0] == {8443}, "records", skipping=True)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_firewall_that_two_call_by_different_names_is_one(rig: RoutedRig, restarts: bool) -> None:
    firewall_id = rig.cloud.firewalls.firewall(FIREWALL).id
    pair(rig, routedIPFirewallName=firewall_id)
    left = rig.status("web2")["assignedNode"]
    if restarts:
        rig.stop()
    rig.delete("web")
    if restarts:
        rig.start()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == ({443}, {left})
    rig.delete("web2")
    rig.until(lambda: rig.gone("web2"), "gone", skipping=True)
    assert rig.firewall() == (set(), set())


def test_the_second_claimant_of_an_address_is_told_of_the_first(rig: RoutedRig) -> None:
    address = rig.cloud.add_address()
    rig.service("a", "b")
    rig.issuer()
    rig.routed_ip("web", routedIP=address)
    rig.start()
    rig.until_active(name="web")
    rig.routed_ip("web2", routedIP=address)
    assert "web" in rig.until_reason("AddressError", "web2")
    assert len(rig.calls("assign")) == 1


def test_issuers_edit_moves_all_to_its_firewall(rig: RoutedRig) -> None:
    pair(rig)
    rig.cloud.firewalls.add_firewall("other")
    rig.edit(ROUTED_IP_ISSUERS, "main", routedIPFirewallName="other")
    rig.until(lambda: rig.firewall("other") == ({443}, {"a", "b"}), "the new one is open", skipping=True)
    rig.until_firewall((), "", skipping=True)


# -- deletion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(5))
def test_one_deleted_at_any_stage_of_its_making_leaves_nothing(rig: RoutedRig, steps: int) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    if steps == 0:
        rig.delete()
        assert rig.gone()
        rig.start()
        rig.until_quiet()
        assert not rig.steps()
        return
    rig.start()
    rig.until(lambda: len(rig.steps()) >= steps, f"{steps} changes")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    rig.until_quiet()
    assert rig.firewall() == (set(), set())
    assert not rig.cloud.records()


def test_one_that_retains_its_address_leaves_it_where_it_is_and_cleans_the_firewall(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer(routedIPReclaimPolicy="Retain")
    rig.routed_ip()
    rig.start()
    address = rig.until_active("a")
    rig.until_quiet()
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.held() == {address: "a"}
    assert rig.firewall() == (set(), set())


def test_one_without_a_ready_endpoint_is_deleted_all_the_same(rig: RoutedRig) -> None:
    serve(rig)
    rig.endpoints()
    rig.until_reason("NoReadyEndpoint")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert rig.firewall() == (set(), set())
    assert not [step for step in rig.steps() if step not in MUTATIONS]


# -- accounts ------------------------------------------------------------------------------------------------------


class TwoAccounts:
    """A plugin of one provider with an account for each token: the rig's cloud, and ``other``."""

    def __init__(self, rig: RoutedRig) -> None:
        self.tokens = {"one": rig.cloud, "two": InMemoryCloud(CloudConfig(token="two"))}
        self.other = self.tokens["two"]
        rig.cloud.config = CloudConfig(token="one")
        rig._guard(self.other)
        rig.plugins["memory"] = SimpleNamespace(
            flipop_ip_providers=hookimpl(lambda: [self._factory(InMemoryIPProvider)]),
            flipop_firewall_providers=hookimpl(lambda: [self._factory(InMemoryFirewallProvider)]),
        )

    def _factory(self, provider: type[InMemoryIPProvider | InMemoryFirewallProvider]) -> ProviderFactory:
        def build(context: ProviderContext) -> object:
            token = context.credentials["MEMORY_TOKEN"]
            return provider(self.tokens[token], token=token)

        credential = CredentialSpec("MEMORY_TOKEN", "the token")
        return ProviderFactory("memory", "two clouds", (credential,), build, self.other.config.capabilities)


def two_accounts(rig: RoutedRig) -> tuple[TwoAccounts, str, str]:
    """Have a RoutedIP served in each of two accounts of one provider; return them and their addresses."""
    accounts = TwoAccounts(rig)
    rig.node("x", cloud=accounts.other)
    accounts.other.add_address()  # what the other account hands out is not what the first one does
    accounts.other.firewalls.add_firewall(FIREWALL)
    for name, token in (("main", "one"), ("second", "two")):
        rig.secret(token, MEMORY_TOKEN=token)
        rig.issuer(name, credentialsSecretRef={"namespace": NAMESPACE, "name": token})
    rig.service("a")
    rig.service("x", name="api", ports=(8443,))
    rig.routed_ip("web")
    rig.routed_ip("api", issuer="second", service="api")
    rig.start()
    return accounts, rig.until_active("a"), rig.until_active("x", "api")


def touched(cloud: InMemoryCloud) -> set[object]:
    """Return the addresses that were changed in an account."""
    return {call.arguments["address"] for call in cloud.faults.calls("assign", "unassign", "delete")}


def test_two_accounts_of_one_provider_never_touch_each_others_addresses(rig: RoutedRig) -> None:
    accounts, mine, theirs = two_accounts(rig)
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert accounts.other.firewalls.firewall(FIREWALL).provider_ids == ("memory://x",)
    for name in ("web", "api"):
        rig.delete(name)
    rig.until(lambda: rig.gone("web") and rig.gone("api"), "gone", skipping=True)
    assert touched(rig.cloud) == {mine}
    assert touched(accounts.other) == {theirs}
    assert rig.firewall() == (set(), set())
    assert not accounts.other.firewalls.firewall(FIREWALL).rules
    assert list(accounts.other.records()) == ["192.0.2.1"]


def test_new_credentials_are_used_without_a_restart_and_the_old_ones_no_more(rig: RoutedRig) -> None:
    accounts, address, _ = two_accounts(rig)
    rig.until_quiet()
    accounts.tokens["one-new"] = rig.cloud
    rig.cloud.config = CloudConfig(token="one-new")
    rig.secret("one", MEMORY_TOKEN="one-new")
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.until_firewall({443}, "b", skipping=True)
    assert rig.held() == {address: "b"}


def test_a_former_firewall_of_another_account_is_cleaned_after_a_restart(rig: RoutedRig) -> None:
    accounts, _, theirs = two_accounts(rig)
    rig.until_quiet()
    rig.stop()
    accounts.other.firewalls.add_firewall("third")
    rig.secret("copy", MEMORY_TOKEN="two")
    rig.edit(ROUTED_IP_ISSUERS, "second", credentialsSecretRef={"namespace": NAMESPACE, "name": "copy"})
    rig.edit(ROUTED_IPS, "api", routedIPFirewallName="third")
    rig.start()
    rig.until(lambda: not accounts.other.firewalls.firewall(FIREWALL).rules, "the former one", skipping=True)
    assert accounts.other.firewalls.firewall("third").provider_ids == ("memory://x",)
    assert accounts.other.records()[theirs].provider_id == "memory://x"


def test_a_former_firewall_whose_secret_is_gone_holds_up_nothing_but_itself(rig: RoutedRig) -> None:
    accounts, _, _ = two_accounts(rig)
    rig.until_quiet()
    rig.stop()
    rig.node("y", cloud=accounts.other)
    accounts.other.firewalls.add_firewall("third")
    rig.secret("copy", MEMORY_TOKEN="two")
    rig.delete("two", SECRETS)
    rig.edit(ROUTED_IP_ISSUERS, "second", credentialsSecretRef={"namespace": NAMESPACE, "name": "copy"})
    rig.edit(ROUTED_IPS, "api", routedIPFirewallName="third")
    rig.start()
    rig.endpoints("y", name="api")
    rig.until_active("y", "api", skipping=True)
    rig.until(lambda: "edge/two" in rig.condition("api").get("message", ""), "what is in the way", skipping=True)
    rig.secret("two", MEMORY_TOKEN="two")
    rig.until(lambda: not accounts.other.firewalls.firewall(FIREWALL).rules, "the former one", skipping=True)
