"""DNS providers that each break one rule of the contract, so that the conformance kit can be seen to find them out."""

from __future__ import annotations

import time

from msgspec.structs import replace

from flipop_core import (
    AccessDenied,
    Applied,
    MutationResult,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    RateLimited,
    RecordSet,
    Rejected,
    Unavailable,
)
from flipop_core.testing import InMemoryDNSProvider

Scope = frozenset[str] | None


class _Wrong(InMemoryDNSProvider):
    """What the wrong ones do behind the service's back."""

    def put(self, zone: str, record_set: RecordSet) -> None:
        self._cloud.zones.put_record_set(zone, record_set)
        self._cloud.zones.writes += 1

    def present(self, zone: str, record_set: RecordSet) -> RecordSet | None:
        wanted = self.normalize(record_set)
        return self._cloud.zones.record_sets(zone).get((wanted.name, wanted.type))


class ChangingCapabilities(InMemoryDNSProvider):
    @property
    def capabilities(self) -> ProviderCapabilities:
        self._capabilities = replace(self._capabilities, max_concurrency=self._capabilities.max_concurrency + 1)
        return self._capabilities


class UnknownTypes(InMemoryDNSProvider):
    @property
    def capabilities(self) -> ProviderCapabilities:
        return replace(self._capabilities, record_types=("A", "MX"))


class AbsentIsEmpty(InMemoryDNSProvider):
    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        return super().get_record_set(zone, name, record_type) or RecordSet(name, record_type, 60)


class EnsureDoesNothing(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        return Applied()


class EnsureReturnsNone(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        super().ensure_record_set(zone, record_set, scope=scope)
        return None  # type: ignore[return-value]  # wrong on purpose


class IgnoresTTL(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        return super().ensure_record_set(zone, replace(record_set, ttl_seconds=300), scope=scope)


class KeepsFirstTTL(_Wrong):
    """Sets the TTL of a new record set only."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        present = self.present(zone, record_set)
        if present is not None:
            record_set = replace(record_set, ttl_seconds=present.ttl_seconds)
        return super().ensure_record_set(zone, record_set, scope=scope)


class RefusesWildcards(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        if record_set.name.startswith("*"):
            raise Rejected("no wildcards")
        return super().ensure_record_set(zone, record_set, scope=scope)


class OnlyAdds(_Wrong):
    """Never removes a stale value."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        return super().ensure_record_set(zone, record_set, scope=frozenset())


class WritesAlways(_Wrong):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        self._cloud.zones.writes += 1
        return super().ensure_record_set(zone, record_set, scope=scope)


class DeletesAlways(_Wrong):
    """Sends a deletion of what is not there."""

    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        self._cloud.zones.writes += 1
        return super().delete_record_set(zone, name, record_type, scope=scope)


class ClearsTheName(_Wrong):
    """Removes every other type of the name."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        for record_type in set(self.capabilities.record_types) - {record_set.type}:
            super().delete_record_set(zone, record_set.name, record_type)
        return super().ensure_record_set(zone, record_set, scope=scope)


class IgnoresScope(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        return super().ensure_record_set(zone, record_set)


class ClaimsForeignValues(_Wrong):
    """Leaves foreign values in the record set, but writes them anew, with its own TTL."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        result = super().ensure_record_set(zone, record_set, scope=scope)
        present = self.present(zone, record_set)
        if present is not None:
            self.put(zone, replace(present, ttl_seconds=record_set.ttl_seconds))
        return result


class StripsForeignComments(_Wrong):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        result = super().ensure_record_set(zone, record_set, scope=scope)
        present = self.present(zone, record_set)
        if present is not None and scope is not None:
            self.put(zone, replace(present, comments=("",) * len(present.values)))
        return result


class DeleteDoesNothing(InMemoryDNSProvider):
    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        return Applied()


class DeleteOfGoneIsNotFound(InMemoryDNSProvider):
    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        if self.get_record_set(zone, name, record_type) is None:
            raise NotFound(f"no {record_type} {name}")
        return super().delete_record_set(zone, name, record_type, scope=scope)


class DeleteIgnoresScope(InMemoryDNSProvider):
    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        return super().delete_record_set(zone, name, record_type)


class EmptyScopeIsNone(InMemoryDNSProvider):
    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        return super().delete_record_set(zone, name, record_type, scope=scope or None)


class NormalizesNothing(InMemoryDNSProvider):
    def normalize(self, record_set: RecordSet) -> RecordSet:
        return record_set


class NormalizesTTLOnly(InMemoryDNSProvider):
    def normalize(self, record_set: RecordSet) -> RecordSet:
        return replace(super().normalize(record_set), values=record_set.values)


class QuotesTexts(InMemoryDNSProvider):
    """Shows TXT values as the wire has them."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        found = super().get_record_set(zone, name, record_type)
        if found is None or record_type != "TXT":
            return found
        return replace(found, values=tuple(f'"{value}"' for value in found.values))


class CutsTexts(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        cut = replace(record_set, values=tuple(value[:255] for value in record_set.values))
        return super().ensure_record_set(zone, cut, scope=scope)


class DropsComments(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        return super().ensure_record_set(zone, replace(record_set, comments=()), scope=scope)


class ClearsComments(InMemoryDNSProvider):
    """Takes "no comments given" for "no comments"."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        comments = record_set.comments or ("",) * len(record_set.values)
        return super().ensure_record_set(zone, replace(record_set, comments=comments), scope=scope)


class SortsValuesAlone(InMemoryDNSProvider):
    """Sorts the values and leaves the comments in their order."""

    def normalize(self, record_set: RecordSet) -> RecordSet:
        return replace(record_set, values=tuple(sorted(record_set.values)))


class CutsComments(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        cut = replace(record_set, comments=tuple(comment[:100] for comment in record_set.comments))
        return super().ensure_record_set(zone, cut, scope=scope)


class UnknownZoneIsEmpty(InMemoryDNSProvider):
    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except NotFound:
            return None


class UnknownZoneIsRejected(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        try:
            return super().ensure_record_set(zone, record_set, scope=scope)
        except NotFound as error:
            raise Rejected(error.message) from error


class AppendsTheZone(InMemoryDNSProvider):
    """Takes any name for one below the zone, as some APIs do."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        name = self.normalize(record_set).name
        if name != zone and not name.endswith(f".{zone}"):
            record_set = replace(record_set, name=f"{name}.{zone}")
        return super().ensure_record_set(zone, record_set, scope=scope)


class OverwritesCNAMEs(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        super().delete_record_set(zone, record_set.name, "CNAME")
        return super().ensure_record_set(zone, record_set, scope=scope)


class CNAMEsAreNotNamed(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        try:
            return super().ensure_record_set(zone, record_set, scope=scope)
        except Rejected as error:
            raise Rejected("refused") from error


class NothingMeansNone(InMemoryDNSProvider):
    """Takes a record set without values for one to delete."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        if not record_set.values:
            return self.delete_record_set(zone, record_set.name, record_set.type, scope=scope)
        return super().ensure_record_set(zone, record_set, scope=scope)


class SkipsUnusableValues(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        kept = tuple(value for value in record_set.values if record_set.type != "A" or ":" not in value)
        return super().ensure_record_set(zone, replace(record_set, values=kept), scope=scope)


class ReadsFromACache(InMemoryDNSProvider):
    """Remembers what it read, and forgets it only when it writes itself."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        cache: dict[tuple[str, str], RecordSet | None] = self.__dict__.setdefault("cache", {})
        if (name, record_type) not in cache:
            cache[name, record_type] = super().get_record_set(zone, name, record_type)
        return cache[name, record_type]

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        self.__dict__.pop("cache", None)
        super().ensure_record_set(zone, record_set, scope=scope)
        self.get_record_set(zone, record_set.name, record_set.type)
        return Applied()


class NotThreadSafe(InMemoryDNSProvider):
    """Keeps the arguments of a call in the object, as a shared request does."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        self.argument = record_set
        time.sleep(0.05)
        return super().ensure_record_set(zone, self.argument, scope=scope)


class RateLimitedWithoutSeconds(InMemoryDNSProvider):
    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except RateLimited as error:
            raise RateLimited(error.message, retry_after_seconds=0.0) from error


class WaitsWhenRateLimited(InMemoryDNSProvider):
    """Sits a rate limit out, and reports it after all."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except RateLimited:
            time.sleep(2 * self._timeout_seconds + 1.1)
            raise


class RepeatsWhenRateLimited(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        try:
            return super().ensure_record_set(zone, record_set, scope=scope)
        except RateLimited:
            super().ensure_record_set(zone, record_set, scope=scope)
            raise


class LossIsUnavailable(InMemoryDNSProvider):
    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        try:
            return super().ensure_record_set(zone, record_set, scope=scope)
        except OutcomeUnknown as error:
            raise Unavailable(error.message) from error


class DuplicatesAfterLoss(_Wrong):
    """Adds the values to what is there, once more after a lost answer."""

    def ensure_record_set(self, zone: str, record_set: RecordSet, *, scope: Scope = None) -> MutationResult:
        present = self.present(zone, record_set)
        result = super().ensure_record_set(zone, record_set, scope=scope)
        if present is not None:
            self.put(zone, replace(present, values=tuple(sorted(present.values + record_set.values))))
        return result


class RepeatsWhenUnavailable(InMemoryDNSProvider):
    """Sends a deletion again when it is answered 5xx, and reports the failure of the first."""

    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        try:
            return super().delete_record_set(zone, name, record_type, scope=scope)
        except OutcomeUnknown:
            super().delete_record_set(zone, name, record_type, scope=scope)
            raise


class FailedReadIsNone(InMemoryDNSProvider):
    """Takes "no answer" for "no record"."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except Unavailable:
            return None


class WaitsTooLong(InMemoryDNSProvider):
    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except Unavailable:
            time.sleep(2 * self._timeout_seconds + 1.0)
            raise


class DenialIsRejected(InMemoryDNSProvider):
    def delete_record_set(self, zone: str, name: str, record_type: str, *, scope: Scope = None) -> MutationResult:
        try:
            return super().delete_record_set(zone, name, record_type, scope=scope)
        except AccessDenied as error:
            raise Rejected(error.message) from error


class ShowsSecretsInRepr(InMemoryDNSProvider):
    def __repr__(self) -> str:
        return f"InMemoryDNSProvider(token={self._token!r})"


class ShowsSecretsInCause(InMemoryDNSProvider):
    """The error itself is clean; the one that it was raised from quotes the request's headers."""

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        try:
            return super().get_record_set(zone, name, record_type)
        except NotFound as error:
            raise error from ValueError({"Authorization": f"Bearer {self._token}"})
