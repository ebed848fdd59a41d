"""RoutedIPIssuers: whether one can be used, what is to be mended, who uses it, and that it outlives its users."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from flipop_core.cluster import ROUTED_IP_ISSUERS, ROUTED_IPS, SECRETS
from flipop_core.errors import Forbidden
from flipop_core.hookspecs import hookimpl
from flipop_core.providers import ProviderFactory
from flipop_core.resources.types import RECLAIM_FINALIZER
from flipop_core.testing.cloud import CloudConfig

from .routedrig import NAMESPACE, RoutedRig

REFERENCE = {"namespace": NAMESPACE, "name": "token"}


@pytest.fixture
def rig() -> Iterator[RoutedRig]:
    rig = RoutedRig(CloudConfig(token="good-token"))
    rig.environ["MEMORY_TOKEN"] = "good-token"
    rig.service("a")
    yield rig
    rig.stop()
    assert not rig.breaches


def until_issuer(rig: RoutedRig, reason: str, *, skipping: bool = False) -> str:
    """Wait for the reason of the issuer's Ready condition, and return the message."""
    rig.until(lambda: rig.issuer_condition().get("reason") == reason, f"the issuer is {reason}", skipping=skipping)
    condition = rig.issuer_condition()
    assert condition["status"] == ("True" if reason == "Usable" else "False")
    assert condition["observedGeneration"] == rig.object("main", ROUTED_IP_ISSUERS)["metadata"]["generation"]
    return condition["message"]


def finalizers(rig: RoutedRig) -> list[str]:
    found: list[str] = rig.object("main", ROUTED_IP_ISSUERS)["metadata"].get("finalizers", [])
    return found


def without_firewalls(rig: RoutedRig) -> object:
    """Return a plugin of a provider ``plain`` that has addresses and no firewalls."""
    (factory,) = rig.plugins["memory"].flipop_ip_providers()  # type: ignore[attr-defined]  # it is the in-memory plugin
    assert isinstance(factory, ProviderFactory)
    plain = replace(factory, name="plain")
    return SimpleNamespace(flipop_ip_providers=hookimpl(lambda: [plain]))


def test_one_that_can_be_used_says_so_and_asks_for_nothing_more(rig: RoutedRig) -> None:
    rig.issuer()
    rig.start()
    assert until_issuer(rig, "Usable") == "0 RoutedIPs use it"
    rig.until_quiet()
    assert finalizers(rig) == []
    assert not rig.status("main", ROUTED_IP_ISSUERS).get("routedIPCount")
    assert not rig.calls("create", "get_firewall")


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"provider": "nowhere"}, "UnknownProvider", ("nowhere", "memory")),
        ({"nodePortRange": "9-1"}, "InvalidSpec", ("spec.nodePortRange", "9-1")),
        ({"perNodeIPLimit": -1}, "InvalidSpec", ("perNodeIPLimit",)),
    ],
)
def test_what_is_wrong_with_its_spec_is_named_until_it_is_edited(
    rig: RoutedRig, spec: dict[str, Any], reason: str, words: tuple[str, ...]
) -> None:
    rig.issuer(**spec)
    rig.routed_ip()
    rig.start()
    message = until_issuer(rig, reason)
    assert all(word in message for word in words)
    rig.until(lambda: rig.condition().get("status") == "False", "the RoutedIP says so too")
    assert not rig.calls("create")
    rig.edit(ROUTED_IP_ISSUERS, "main", **{field: None for field in spec if field != "provider"}, provider="memory")
    until_issuer(rig, "Usable")
    rig.until_active("a")


def test_a_provider_without_firewalls_is_one_for_issuers_that_name_none(rig: RoutedRig) -> None:
    rig.plugins["plain"] = without_firewalls(rig)
    rig.strict = False
    rig.issuer(provider="plain")
    rig.routed_ip()
    rig.start()
    assert "'plain' as firewall provider" in until_issuer(rig, "UnknownProvider")
    rig.until(lambda: "firewall provider" in rig.condition().get("message", ""), "the RoutedIP says so too")
    assert not rig.calls("assign")
    rig.edit(ROUTED_IP_ISSUERS, "main", routedIPFirewallName="")
    until_issuer(rig, "Usable")
    rig.until_active("a")


def test_addresses_are_given_back_though_the_provider_has_no_firewalls_any_more(rig: RoutedRig) -> None:
    rig.plugins["plain"] = without_firewalls(rig)
    rig.strict = False
    rig.issuer(provider="plain", routedIPFirewallName="")
    rig.routed_ip()
    rig.start()
    rig.until_active("a")
    rig.edit(ROUTED_IP_ISSUERS, "main", routedIPFirewallName="edge-fw")
    until_issuer(rig, "UnknownProvider")
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert not rig.cloud.records()


def test_a_secret_that_is_missing_is_named_and_found_once_it_is_there(rig: RoutedRig) -> None:
    rig.issuer(credentialsSecretRef=REFERENCE)
    rig.routed_ip()
    rig.start()
    assert "there is no Secret edge/token" in until_issuer(rig, "CredentialsUnavailable")
    rig.until(lambda: "edge/token" in rig.condition().get("message", ""), "the RoutedIP says so too")
    rig.secret("token", MEMORY_TOKEN="good-token")
    until_issuer(rig, "Usable", skipping=True)
    rig.until_active("a", skipping=True)


def test_a_secret_that_may_not_be_read_names_the_permission(rig: RoutedRig) -> None:
    rig.secret("token", MEMORY_TOKEN="good-token")
    rig.api.fail_next("get", SECRETS, Forbidden("no", status=403), times=1)
    rig.issuer(credentialsSecretRef=REFERENCE)
    rig.start()
    assert "verb get on secrets in namespace edge" in until_issuer(rig, "CredentialsUnavailable")
    until_issuer(rig, "Usable", skipping=True)


def test_a_secret_without_what_the_provider_needs_names_the_keys(rig: RoutedRig) -> None:
    rig.secret("token", OTHER="x")
    rig.issuer(credentialsSecretRef=REFERENCE)
    rig.start()
    message = until_issuer(rig, "CredentialsIncomplete")
    assert "spec.credentialsSecretRef" in message
    assert "add MEMORY_TOKEN" in message
    rig.secret("token", MEMORY_TOKEN="good-token")
    until_issuer(rig, "Usable", skipping=True)


def test_a_secret_that_changes_is_noticed_without_any_routed_ip(rig: RoutedRig) -> None:
    rig.secret("token", MEMORY_TOKEN="good-token")
    rig.issuer(credentialsSecretRef=REFERENCE)
    rig.start(recheck_seconds=0.2)
    until_issuer(rig, "Usable")
    rig.secret("token", OTHER="x")
    until_issuer(rig, "CredentialsIncomplete")


def test_one_whose_secret_loses_what_it_needs_keeps_serving_with_what_it_had(rig: RoutedRig) -> None:
    rig.secret("token", MEMORY_TOKEN="good-token")
    rig.issuer(credentialsSecretRef=REFERENCE)
    rig.routed_ip()
    rig.start()
    rig.until_active("a")
    rig.secret("token", OTHER="x")
    until_issuer(rig, "CredentialsIncomplete", skipping=True)
    rig.endpoints("b")
    rig.until_active("b", skipping=True)


def test_it_lists_its_users_and_has_a_finalizer_while_there_are_any(rig: RoutedRig) -> None:
    rig.issuer()
    rig.start()
    until_issuer(rig, "Usable")
    rig.routed_ip("web")
    rig.routed_ip("api")
    users = [f"{NAMESPACE}/api", f"{NAMESPACE}/web"]
    rig.until(lambda: rig.status("main", ROUTED_IP_ISSUERS).get("routedIPs") == users, "its users")
    assert rig.status("main", ROUTED_IP_ISSUERS)["routedIPCount"] == 2
    rig.until(lambda: finalizers(rig) == [RECLAIM_FINALIZER], "the finalizer")
    rig.issuer("second")
    rig.edit(ROUTED_IPS, "web", issuerRef={"name": "second"})
    rig.until(lambda: rig.status("main", ROUTED_IP_ISSUERS).get("routedIPs") == users[:1], "one user")
    rig.delete("api")
    rig.until(lambda: finalizers(rig) == [], "no finalizer", skipping=True)


def test_one_in_use_is_not_deleted_before_its_users(rig: RoutedRig) -> None:
    rig.issuer()
    rig.routed_ip()
    rig.start()
    rig.until_active("a")
    rig.until(lambda: finalizers(rig) == [RECLAIM_FINALIZER], "the finalizer")
    rig.delete("main", ROUTED_IP_ISSUERS)
    assert f"1 RoutedIPs still use it, {NAMESPACE}/web first" in until_issuer(rig, "InUse")
    rig.endpoints("b")
    rig.until_active("b")
    rig.delete()
    rig.until(rig.gone, "the RoutedIP gone", skipping=True)
    rig.until(lambda: rig.gone("main", ROUTED_IP_ISSUERS), "the issuer gone")
    assert not rig.cloud.records()


def test_an_issuer_that_comes_late_wakes_its_routed_ips(rig: RoutedRig) -> None:
    rig.routed_ip()
    rig.start()
    assert "no RoutedIPIssuer" in rig.until_reason("IssuerNotFound")
    rig.issuer()
    rig.until_active("a")


def test_the_finalizer_stays_where_routed_ips_cannot_be_listed(rig: RoutedRig) -> None:
    rig.issuer()
    rig.api._writes.patch(ROUTED_IP_ISSUERS, "", "main", {"metadata": {"finalizers": [RECLAIM_FINALIZER]}})
    rig.api.fail_next("list", ROUTED_IPS, Forbidden("no", status=403), times=1000)
    rig.start()
    until_issuer(rig, "Usable")
    rig.until_quiet()
    assert finalizers(rig) == [RECLAIM_FINALIZER]
