"""RoutedIPs in a whole controller: several accounts of one provider, and other credentials."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

from flipop_core.cluster import EVENTS, ROUTED_IP_ISSUERS, ROUTED_IPS, SECRETS
from flipop_core.hookspecs import hookimpl
from flipop_core.providers import CredentialSpec, ProviderContext, ProviderFactory
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.providers import InMemoryDNSProvider, InMemoryFirewallProvider, InMemoryIPProvider
from tests.runtime.routedrig import FIREWALL, NAMESPACE, RoutedRig


class TwoAccounts:
    """A plugin of one provider with an account for each token: the rig's cloud, and ``other``."""

    def __init__(self, rig: RoutedRig) -> None:
        self.tokens = {"one": rig.cloud, "two": InMemoryCloud(CloudConfig(token="two"))}
        self.other = self.tokens["two"]
        self.built: dict[str, list[weakref.ref[object]]] = {}
        rig.cloud.config = CloudConfig(token="one")
        rig._guard(self.other)
        rig.plugins["memory"] = SimpleNamespace(
            flipop_ip_providers=hookimpl(lambda: [self._factory(InMemoryIPProvider)]),
            flipop_firewall_providers=hookimpl(lambda: [self._factory(InMemoryFirewallProvider)]),
            flipop_dns_providers=hookimpl(lambda: [self._factory(InMemoryDNSProvider)]),
        )

    def in_use(self, token: str) -> int:
        """Return how many providers of a token somebody still holds."""
        gc.collect()
        return sum(each() is not None for each in self.built[token])

    def _factory(
        self, provider: type[InMemoryIPProvider | InMemoryFirewallProvider | InMemoryDNSProvider]
    ) -> ProviderFactory:
        def build(context: ProviderContext) -> object:
            token = context.credentials["MEMORY_TOKEN"]
            built = provider(self.tokens[token], token=token)
            self.built.setdefault(token, []).append(weakref.ref(built))
            return built

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
    rig.until(lambda: not accounts.in_use("one"))
    assert accounts.in_use("one-new")


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


def switching(rig: RoutedRig) -> tuple[TwoAccounts, str]:
    """Have a RoutedIP served in one account, and another account of the provider that has none of its addresses."""
    accounts = TwoAccounts(rig)
    rig.cloud.delete(rig.cloud.add_address())
    accounts.other.firewalls.add_firewall(FIREWALL)
    for token in ("one", "two"):
        rig.secret(token, MEMORY_TOKEN=token)
    name_secret(rig, "one")
    rig.service("a")
    rig.routed_ip()
    rig.start()
    return accounts, rig.until_active("a")


def name_secret(rig: RoutedRig, name: str) -> None:
    rig.issuer(credentialsSecretRef={"namespace": NAMESPACE, "name": name})


def test_the_address_of_an_account_that_is_named_no_more_is_not_lost(rig: RoutedRig) -> None:
    accounts, address = switching(rig)
    rig.until_quiet()
    name_secret(rig, "two")
    message = rig.until_reason("AccountChanged")
    assert address in message
    assert "edge/one" in message
    rig.delete()
    rig.until(lambda: rig.object()["metadata"].get("deletionTimestamp"), "being deleted")
    rig.restart()
    rig.skip()
    rig.until_quiet()
    assert rig.object()["metadata"]["finalizers"]
    assert rig.condition()["reason"] == "AccountChanged"
    assert not rig.calls("delete")
    assert not accounts.other.faults.calls("delete")
    name_secret(rig, "one")
    rig.until(rig.gone, "given back", skipping=True)
    assert rig.cloud.records() == {}


def test_a_secret_of_another_name_for_the_same_account_changes_nothing(rig: RoutedRig) -> None:
    _, address = switching(rig)
    rig.secret("renewed", MEMORY_TOKEN="one")
    name_secret(rig, "renewed")
    annotation = "flipop.digitalocean.com/allocated-account"
    rig.until(
        lambda: rig.object()["metadata"]["annotations"].get(annotation) == "memory@edge/renewed",
        "it follows",
        skipping=True,
    )
    rig.delete("one", SECRETS)
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.delete()
    rig.until(rig.gone, "given back", skipping=True)
    assert address not in rig.cloud.records()


def test_an_address_that_a_secrets_new_account_does_not_have_is_not_told_to_be_deleted(rig: RoutedRig) -> None:
    accounts, address = switching(rig)
    rig.until_quiet()
    rig.secret("one", MEMORY_TOKEN="two")
    rig.until(lambda: rig.condition().get("reason") == "AddressNotFound", "the other account", skipping=True)
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert accounts.other.records() == {}

    def told(reason: str) -> list[str]:
        return [event["note"] for event in rig.api.read_all(EVENTS) if event["reason"] == reason]

    (note,) = rig.until(lambda: told("AddressNotFound"), "an event")
    assert note.startswith(f"{address} was to be given back")
    assert told("AddressDeleted") == []


def test_what_is_wrong_is_told_in_the_words_of_routed_ips(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip(routedIP="2001:db8::1")
    rig.start()
    assert "spec.routedIP" in rig.until_reason("Unsupported")
    assert "spec.ips" not in rig.condition()["message"]
