"""A plugin as somebody else writes one: only public names, checked by mypy --strict and pyright."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from flipop_core import (
    PLUGIN_API_VERSION,
    AddressRecord,
    Applied,
    ConfigError,
    Created,
    CreateRequest,
    CredentialSpec,
    InProgress,
    IPProvider,
    MutationResult,
    NotFound,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    RateLimited,
    hookimpl,
)

flipop_api_version: Final = "1.0"

CAPABILITIES = ProviderCapabilities(atomic_reassign=True, max_ips_per_node=1, create_on_node=True)


class Addresses:
    """The addresses of one account."""

    def __init__(self, token: str, timeout_seconds: float) -> None:
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._records: dict[str, AddressRecord] = {}

    @property
    def capabilities(self) -> ProviderCapabilities:
        return CAPABILITIES

    def verify(self) -> None:
        if not self._token:
            raise ConfigError("there is no token")

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        return self._records

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {address: self._records[address] for address in addresses if address in self._records}

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        return {}

    def create(self, request: CreateRequest) -> Created:
        raise RateLimited("slow down", retry_after_seconds=1.0)

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        return ()

    def assign(self, address: str, provider_id: str) -> MutationResult:
        if address not in self._records:
            raise NotFound(f"no address {address}")
        return InProgress("action 1", poll_after_seconds=0.5)

    def unassign(self, address: str) -> MutationResult:
        return Applied()

    def delete(self, address: str) -> MutationResult:
        return Applied()


def build(context: ProviderContext) -> IPProvider:
    """Return the provider of one account."""
    return Addresses(context.credentials["EXAMPLE_TOKEN"], context.timeout_seconds)


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Offer it."""
    credential = CredentialSpec("EXAMPLE_TOKEN", "API token")
    return [ProviderFactory("example", "An example", (credential,), build, CAPABILITIES)]


api_version: str = PLUGIN_API_VERSION
