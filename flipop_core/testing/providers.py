"""Providers for the simulated cloud, and the plugin that registers them under the name ``memory``.

They keep the contracts of `flipop_core.providers` to the letter and pass the conformance kit, so that a test or a demo
that runs on them shows what a real provider would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import msgspec

from flipop_core.errors import ConfigError, OutcomeUnknown, Unavailable
from flipop_core.hookspecs import hookimpl
from flipop_core.model import AddressRecord, Created, CreateRequest, MutationResult
from flipop_core.providers import (
    CredentialSpec,
    Firewall,
    FirewallRule,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    RateLimit,
    RecordSet,
)
from flipop_core.testing.cloud import PROVIDER, CloudConfig, CloudNode, InMemoryCloud
from flipop_core.testing.firewalls import InMemoryFirewalls
from flipop_core.testing.regions import CloudRegion
from flipop_core.testing.zones import InMemoryZones, normal_record_set

__all__ = [
    "CloudConfig",
    "CloudNode",
    "InMemoryCloud",
    "InMemoryDNSProvider",
    "InMemoryFirewallProvider",
    "InMemoryFirewalls",
    "InMemoryIPProvider",
    "InMemoryPlugin",
    "InMemoryZones",
    "in_memory_factories",
]

CREDENTIAL_VARIABLE = "MEMORY_TOKEN"
REGION_VARIABLE = "MEMORY_REGION"
SUMMARY = "simulated cloud in this process"

T = TypeVar("T")


class _Client:
    """One caller of the simulated cloud: each call takes the latency, meets the faults and is authorized."""

    def __init__(self, cloud: InMemoryCloud, *, timeout_seconds: float = 7.0, token: str = "") -> None:
        self._cloud = cloud
        self._capabilities = cloud.config.capabilities
        self._timeout_seconds = timeout_seconds
        self._token = token
        self._rate_limit: RateLimit | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(timeout_seconds={self._timeout_seconds!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What the cloud's configuration declared when the provider was made."""
        return self._capabilities

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer told of the rate limit. See `flipop_core.ReportsRateLimit`."""
        return self._rate_limit

    def verify(self) -> None:
        """Check that the token is accepted."""
        self._read("verify", {}, lambda: None)

    def _read(self, operation: str, arguments: Mapping[str, object], effect: Callable[[], T]) -> T:
        return self._call(operation, arguments, effect, Unavailable)

    def _mutate(self, operation: str, arguments: Mapping[str, object], effect: Callable[[], T]) -> T:
        return self._call(operation, arguments, effect, OutcomeUnknown)

    def _call(
        self,
        operation: str,
        arguments: Mapping[str, object],
        effect: Callable[[], T],
        lost: type[Unavailable | OutcomeUnknown],
    ) -> T:
        def authorized() -> T:
            self._rate_limit = self._cloud.admit(operation) or self._rate_limit
            self._cloud.authorize(self._token, operation)
            return effect()

        return self._cloud.faults.run(
            operation,
            arguments,
            authorized,
            latency_seconds=self._cloud.config.latency_seconds,
            timeout_seconds=self._timeout_seconds,
            lost=lambda message: lost(message, provider=PROVIDER, operation=operation),
        )


class InMemoryIPProvider(_Client):
    """`IPProvider` of the simulated cloud. Its methods' names are the operations of the fault script.

    ``timeout_seconds`` bounds each call, in seconds of the cloud's clock for latency and delays, in real ones for a
    hang. ``token`` is checked against the cloud's. ``region`` is the only one it serves, empty for all of them.
    """

    def __init__(
        self, cloud: InMemoryCloud, *, timeout_seconds: float = 7.0, token: str = "", region: str = ""
    ) -> None:
        super().__init__(cloud, timeout_seconds=timeout_seconds, token=token)
        self._account = CloudRegion(cloud, region) if region else cloud

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all addresses of the account, which the wanted ones, and those of all families, are among."""
        arguments = {"wanted": tuple(wanted), "families": tuple(families)}
        return self._read("list_addresses", arguments, self._account.records)

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few addresses."""
        asked = tuple(addresses)

        def effect() -> Mapping[str, AddressRecord]:
            records = self._account.records()
            return {address: records[address] for address in asked if address in records}

        return self._read("describe", {"addresses": asked}, effect)

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Read how many addresses these nodes can hold."""
        asked = tuple(provider_ids)
        return self._read("node_limits", {"provider_ids": asked}, lambda: self._account.node_limits(asked))

    def create(self, request: CreateRequest) -> Created:
        """Create an address, tagged with the claim if the cloud has tags."""
        return self._mutate("create", {"request": request}, lambda: self._account.create(request))

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Read what an earlier creation of the request may have made."""
        return self._read("find_created", {"request": request}, lambda: self._account.find_created(request))

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put an address on a node."""
        arguments = {"address": address, "provider_id": provider_id}
        return self._mutate("assign", arguments, lambda: self._account.assign(address, provider_id))

    def unassign(self, address: str) -> MutationResult:
        """Take an address off its node."""
        return self._mutate("unassign", {"address": address}, lambda: self._account.unassign(address))

    def delete(self, address: str) -> MutationResult:
        """Delete an address for good."""
        return self._mutate("delete", {"address": address}, lambda: self._account.delete(address))


class InMemoryDNSProvider(_Client):
    """`DNSProvider` of the simulated cloud. Its methods' names are the operations of the fault script."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Read one record set."""
        arguments = {"zone": zone, "name": name, "record_type": record_type}
        return self._read("get_record_set", arguments, lambda: self._cloud.zones.get(zone, name, record_type))

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Make one record set so, in one step."""
        arguments = {"zone": zone, "record_set": record_set, "scope": scope}

        def effect() -> MutationResult:
            return self._cloud.zones.ensure(zone, record_set, self._capabilities, scope=scope)

        return self._mutate("ensure_record_set", arguments, effect)

    def delete_record_set(
        self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Remove one record set, or those of its values that are in ``scope``."""
        arguments = {"zone": zone, "name": name, "record_type": record_type, "scope": scope}

        def effect() -> MutationResult:
            return self._cloud.zones.delete(zone, name, record_type, scope=scope)

        return self._mutate("delete_record_set", arguments, effect)

    def normalize(self, record_set: RecordSet) -> RecordSet:
        """Return the set as the cloud keeps it."""
        return normal_record_set(record_set, self._capabilities)


class InMemoryFirewallProvider(_Client):
    """`FirewallProvider` of the simulated cloud. Its methods' names are the operations of the fault script."""

    def get_firewall(self, name: str) -> Firewall:
        """Read the firewall of that name or ID."""
        return self._read("get_firewall", {"name": name}, lambda: self._cloud.firewalls.get(name))

    def add_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Add rules, in one step."""
        asked = tuple(rules)
        arguments = {"firewall": firewall.name, "rules": asked}
        return self._mutate("add_rules", arguments, lambda: self._cloud.firewalls.add_rules(firewall.id, asked))

    def remove_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Remove rules, in one step."""
        asked = tuple(rules)
        arguments = {"firewall": firewall.name, "rules": asked}
        return self._mutate("remove_rules", arguments, lambda: self._cloud.firewalls.remove_rules(firewall.id, asked))

    def add_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Apply the firewall to nodes, in one step."""
        asked = tuple(provider_ids)
        arguments = {"firewall": firewall.name, "provider_ids": asked}
        return self._mutate("add_nodes", arguments, lambda: self._cloud.firewalls.add_nodes(firewall.id, asked))

    def remove_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Stop applying the firewall to nodes, in one step."""
        asked = tuple(provider_ids)
        arguments = {"firewall": firewall.name, "provider_ids": asked}
        return self._mutate("remove_nodes", arguments, lambda: self._cloud.firewalls.remove_nodes(firewall.id, asked))


class InMemoryPlugin:
    """A plugin that offers one simulated cloud as IP, DNS and firewall provider ``memory``."""

    def __init__(self, cloud: InMemoryCloud) -> None:
        self._cloud = cloud

    @hookimpl
    def flipop_ip_providers(self) -> Sequence[ProviderFactory]:
        """Offer the cloud's addresses."""
        if not self._cloud.config.regional:
            return (self._factory(InMemoryIPProvider),)
        region = CredentialSpec(REGION_VARIABLE, "the region of pools that name none", required=False)
        factory = self._factory(InMemoryIPProvider)
        return (
            msgspec.structs.replace(
                factory,
                credentials=(*factory.credentials, region),
                build=self._build_region,
                region_of=self._cloud.region_of,
            ),
        )

    @hookimpl
    def flipop_dns_providers(self) -> Sequence[ProviderFactory]:
        """Offer the cloud's zones."""
        return (self._factory(InMemoryDNSProvider),)

    @hookimpl
    def flipop_firewall_providers(self) -> Sequence[ProviderFactory]:
        """Offer the cloud's firewalls."""
        return (self._factory(InMemoryFirewallProvider),)

    def _build_region(self, context: ProviderContext) -> object:
        region = context.region or context.credentials.get(REGION_VARIABLE, "")
        if region not in self._cloud.config.regions:
            known = ", ".join(self._cloud.config.regions)
            raise ConfigError(f"no region {region!r}: name one of {known} in spec.region or set {REGION_VARIABLE}")
        token = context.credentials.get(CREDENTIAL_VARIABLE, "")
        return InMemoryIPProvider(self._cloud, timeout_seconds=context.timeout_seconds, token=token, region=region)

    def _factory(self, provider: type[_Client]) -> ProviderFactory:
        def build(context: ProviderContext) -> object:
            token = context.credentials.get(CREDENTIAL_VARIABLE, "")
            return provider(self._cloud, timeout_seconds=context.timeout_seconds, token=token)

        required = bool(self._cloud.config.token)
        credential = CredentialSpec(
            CREDENTIAL_VARIABLE, "the token that the simulated cloud accepts", required=required
        )
        return ProviderFactory(PROVIDER, SUMMARY, (credential,), build, self._cloud.config.capabilities)


def in_memory_factories(cloud: InMemoryCloud) -> InMemoryPlugin:
    """Return a plugin object to register with a plugin manager: it offers ``cloud`` as provider ``memory``."""
    return InMemoryPlugin(cloud)
