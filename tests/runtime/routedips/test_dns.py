"""RoutedIPs in a whole controller: whose credentials their DNS record sets are kept with."""

from __future__ import annotations

from types import SimpleNamespace

from flipop_core.cluster import ROUTED_IPS
from flipop_core.hookspecs import hookimpl
from flipop_core.providers import CredentialSpec, ProviderFactory
from flipop_core.testing.cloud import InMemoryCloud
from tests.runtime.routedrig import RoutedRig

from .test_accounts import TwoAccounts, name_secret

ZONE = "example.com"
WWW = {"zone": ZONE, "recordName": "www", "reclaimPolicy": "Delete"}


def values(cloud: InMemoryCloud) -> tuple[str, ...]:
    found = cloud.zones.record_sets(ZONE).get((f"www.{ZONE}", "A"))
    return found.values if found is not None else ()


def published(rig: RoutedRig) -> TwoAccounts:
    """Have a RoutedIP served and published; only the issuer's Secret has credentials."""
    accounts = TwoAccounts(rig)
    rig.cloud.zones.add_zone(ZONE)
    rig.secret("one", MEMORY_TOKEN="one")
    name_secret(rig, "one")
    rig.service("a")
    rig.routed_ip(dnsRecordSet=WWW)
    rig.start()
    address = rig.until_active("a")
    rig.until(lambda: values(rig.cloud) == (address,), "in DNS")
    rig.until(lambda: rig.condition().get("status") == "True", "ready")
    return accounts


def test_the_issuers_credentials_serve_for_dns_of_the_same_provider(rig: RoutedRig) -> None:
    published(rig)
    rig.restart()
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)
    assert values(rig.cloud) == ()


def test_a_record_set_that_is_not_wanted_any_more_is_removed_with_the_credentials_that_made_it(rig: RoutedRig) -> None:
    published(rig)
    rig.stop()
    rig.secret("renewed", MEMORY_TOKEN="one")
    name_secret(rig, "renewed")
    rig.edit(ROUTED_IPS, "web", dnsRecordSet=None)
    rig.start()
    rig.until(lambda: values(rig.cloud) == (), "removed", skipping=True)


def test_a_secret_of_another_name_goes_on_with_the_same_record_set(rig: RoutedRig) -> None:
    accounts = published(rig)
    before = values(rig.cloud)
    rig.secret("renewed", MEMORY_TOKEN="renewed")
    accounts.tokens["renewed"] = rig.cloud
    rig.cloud.config = type(rig.cloud.config)(token="renewed")
    name_secret(rig, "renewed")
    rig.until(lambda: rig.status()["records"][0]["provider"] == "memory@edge/renewed", "it follows", skipping=True)
    rig.until(lambda: rig.condition().get("status") == "True", "ready", skipping=True)
    assert values(rig.cloud) == before
    assert not rig.calls("delete_record_set")


def test_the_dns_credentials_follow_the_secret(rig: RoutedRig) -> None:
    accounts = published(rig)
    accounts.tokens["new"] = rig.cloud
    rig.cloud.config = type(rig.cloud.config)(token="new")
    rig.secret("one", MEMORY_TOKEN="new")
    rig.edit(ROUTED_IPS, "web", dnsRecordSet={"recordName": "other"})
    rig.until(lambda: rig.condition().get("status") == "True" and not values(rig.cloud), "renamed", skipping=True)
    assert (f"other.{ZONE}", "A") in rig.cloud.zones.record_sets(ZONE)


def test_another_dns_provider_has_the_environments_credentials_and_says_so(rig: RoutedRig) -> None:
    TwoAccounts(rig)
    credential = CredentialSpec("ZONES_TOKEN", "the token")
    zones = ProviderFactory("zones", "zones", (credential,), lambda context: context)
    rig.plugins["zones"] = SimpleNamespace(flipop_dns_providers=hookimpl(lambda: [zones]))
    rig.secret("one", MEMORY_TOKEN="one", ZONES_TOKEN="secret")
    name_secret(rig, "one")
    rig.service("a")
    rig.routed_ip(dnsRecordSet={"provider": "zones", "zone": "example.com", "recordName": "www"})
    rig.start()
    rig.until_active("a")
    message = rig.until_reason("ProviderNotConfigured")
    for part in ("ZONES_TOKEN", "environment", "Secret edge/one"):
        assert part in message
