"""IP providers whose declared capabilities are not true, each breaking one rule. As `wrong`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from flipop_core import (
    AddressRecord,
    Created,
    CreateRequest,
    MutationResult,
    NotFound,
    ProviderCapabilities,
    RateLimited,
    Rejected,
)
from flipop_core.testing import InMemoryIPProvider


class ChangingCapabilities(InMemoryIPProvider):
    """Declares something else after each read of its capabilities."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        self._capabilities = replace(self._capabilities, max_concurrency=self._capabilities.max_concurrency + 1)
        return self._capabilities


class CreatesOneFamily(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        return super().create(replace(request, family="IPv4"))


class RefusesIPv6(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        if request.family == "IPv6":
            raise Rejected("no IPv6 here")
        return super().create(request)


class HasNoLimits(InMemoryIPProvider):
    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        return {}


class LimitsWhatItDoesNotKnow(InMemoryIPProvider):
    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(provider_ids, 1) | dict(super().node_limits(provider_ids))


class FailsForUnknownNodes(InMemoryIPProvider):
    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        limits = super().node_limits(provider_ids)
        if limits.keys() != set(provider_ids):
            raise NotFound("no such node")
        return limits


class TellsLimitsItDoesNotKeep(InMemoryIPProvider):
    """Makes room on a full node by taking an address off it."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        held = [each for each, record in self.list_addresses(()).items() if record.provider_id == provider_id]
        if len(held) >= self.node_limits([provider_id]).get(provider_id, 1):
            self.unassign(held[0])
        return super().assign(address, provider_id)


class FailedLimitsAreUsual(InMemoryIPProvider):
    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        try:
            return super().node_limits(provider_ids)
        except RateLimited:
            return {}


class DescribesWithoutTags(InMemoryIPProvider):
    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {key: replace(record, tags=()) for key, record in super().describe(addresses).items()}


class KeepsTheFirstTags(InMemoryIPProvider):
    """Remembers the tags that it read first."""

    _tags: Mapping[str, tuple[tuple[str, str], ...]] = {}

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        records = super().describe(addresses)
        self._tags = {key: record.tags for key, record in records.items()} | dict(self._tags)
        return {key: replace(record, tags=self._tags[key]) for key, record in records.items()}


class UnsortedTags(InMemoryIPProvider):
    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {key: replace(record, tags=record.tags[::-1]) for key, record in super().describe(addresses).items()}


class TagsEverythingAlike(InMemoryIPProvider):
    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        tags = tuple(sorted({tag for record in self.list_addresses(()).values() for tag in record.tags}))
        return {key: replace(record, tags=tags) for key, record in super().describe(addresses).items()}


class IgnoresPools(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        return super().create(replace(request, address_pool=""))


class PrefersAPool(InMemoryIPProvider):
    """Takes from a pool what is asked for from none."""

    def create(self, request: CreateRequest) -> Created:
        return super().create(replace(request, address_pool=request.address_pool or "byoip"))


class UnknownPoolIsNotFound(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except Rejected as error:
            raise NotFound(error.message) from error


class CreatesBesideAnUnknownPool(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except Rejected:
            super().create(replace(request, address_pool=""))
            raise


WRONG: dict[str, list[type[InMemoryIPProvider]]] = {
    "test_capabilities_are_constant": [ChangingCapabilities],
    "test_create_takes_the_address_from_its_pool": [IgnoresPools, PrefersAPool],
    "test_every_declared_family_can_be_created": [CreatesOneFamily, RefusesIPv6],
    "test_node_limits_are_true": [
        HasNoLimits,
        LimitsWhatItDoesNotKnow,
        FailsForUnknownNodes,
        TellsLimitsItDoesNotKeep,
    ],
    "test_node_limits_tell_a_rate_limit": [FailedLimitsAreUsual],
    "test_tags_are_read": [DescribesWithoutTags, KeepsTheFirstTags, UnsortedTags, TagsEverythingAlike],
    "test_unknown_pool_is_rejected": [IgnoresPools, UnknownPoolIsNotFound, CreatesBesideAnUnknownPool],
}
