"""Providers that each break one rule of the contract, so that the conformance kit can be seen to find them out."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from flipop_core import (
    AddressRecord,
    Applied,
    Busy,
    Created,
    CreateRequest,
    InProgress,
    MutationResult,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.testing import InMemoryIPProvider


class AssignDoesNothing(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        return Applied()


class AssignReturnsNone(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        super().assign(address, provider_id)
        return None  # type: ignore[return-value]  # wrong on purpose


class ListHidesHolders(InMemoryIPProvider):
    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        return {
            key: replace(record, provider_id=None)
            for key, record in super().list_addresses(wanted, families=families).items()
        }


class ListsOnlyWanted(InMemoryIPProvider):
    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        return {
            key: record for key, record in super().list_addresses(wanted, families=families).items() if key in wanted
        }


class RepeatedAssignIsBusy(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        record = self.describe([address]).get(address)
        if record is not None and record.provider_id == provider_id:
            raise Busy("already assigned")
        return super().assign(address, provider_id)


class NeverReassigns(InMemoryIPProvider):
    """Keeps an address on the node that holds it, and says Applied."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        record = self.describe([address]).get(address)
        if record is not None and record.provider_id is not None:
            return Applied()
        return super().assign(address, provider_id)


class UnassignDoesNothing(InMemoryIPProvider):
    def unassign(self, address: str) -> MutationResult:
        return Applied()


class UnassignOfUnassignedFails(InMemoryIPProvider):
    def unassign(self, address: str) -> MutationResult:
        record = self.describe([address]).get(address)
        if record is not None and record.provider_id is None:
            raise Rejected("not assigned")
        return super().unassign(address)


class DeleteOfGoneIsNotFound(InMemoryIPProvider):
    def delete(self, address: str) -> MutationResult:
        if address not in self.describe([address]):
            raise NotFound(f"no address {address}")
        return super().delete(address)


class DeleteOnlyUnassigns(InMemoryIPProvider):
    def delete(self, address: str) -> MutationResult:
        return self.unassign(address)


class InventsRecords(InMemoryIPProvider):
    """Answers "unassigned" where it should answer "not found"."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {address: AddressRecord(address) for address in addresses} | dict(super().describe(addresses))


class FailsForUnknown(InMemoryIPProvider):
    """Lets one unknown address spoil the read of the others."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        records = super().describe(addresses)
        return records if len(records) == len(set(addresses)) else {}


class NotFoundIsRejected(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except NotFound as error:
            raise Rejected(error.message) from error


class ForeignIdIsNotFound(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except Rejected as error:
            raise NotFound(error.message) from error


class ForeignIdIsNotNamed(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except Rejected as error:
            raise Rejected("malformed provider ID") from error


class ForeignIdIsForeignException(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        if not provider_id.startswith("memory://"):
            raise ValueError(provider_id)
        return super().assign(address, provider_id)


class IgnoresRegions(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except Rejected:
            if provider_id in self._cloud.nodes():
                self._cloud.move_address(address, provider_id)
                return Applied()
            raise


class HidesRegions(InMemoryIPProvider):
    """Says of addresses of one region that they can be used everywhere."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {key: replace(record, region="") for key, record in super().describe(addresses).items()}


class IgnoresHolders(InMemoryIPProvider):
    """Puts an address on a node that holds another one already."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except NodeInUse:
            self._cloud.move_address(address, provider_id)
            return Applied()


class DeclaresTooMuchRoom(InMemoryIPProvider):
    """Declares one address per node more than the cloud takes."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        return replace(self._capabilities, max_ips_per_node=self._capabilities.max_ips_per_node + 1)


class DeclaresAHundred(InMemoryIPProvider):
    """Declares more addresses per node than anybody tries, of a cloud that takes few."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        return replace(self._capabilities, max_ips_per_node=100)


class SwapsFullNodes(InMemoryIPProvider):
    """Says NodeInUse rightly, and throws the holder out."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except NodeInUse:
            for record in self._cloud.records().values():
                if record.provider_id == provider_id:
                    self._cloud.move_address(record.address, None)
            raise


class DescribesFromACache(InMemoryIPProvider):
    """Remembers what it read, and forgets it only when it writes itself."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        cache: dict[str, AddressRecord] = self.__dict__.setdefault("cache", {})
        known = dict(super().describe(addresses)) | {key: cache[key] for key in addresses if key in cache}
        cache.update({key: record for key, record in known.items() if not record.in_progress})
        return known

    def assign(self, address: str, provider_id: str) -> MutationResult:
        self.__dict__.pop("cache", None)
        return super().assign(address, provider_id)


class HidesProgress(InMemoryIPProvider):
    """Says that nothing is in progress while the address is not there yet."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        return {key: replace(record, in_progress=False) for key, record in super().describe(addresses).items()}


class PendingIsRejected(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except Busy as error:
            raise Rejected(error.message) from error


class NamelessOperations(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        result = super().assign(address, provider_id)
        return InProgress("", 0.0) if isinstance(result, InProgress) else result


class LossIsUnavailable(InMemoryIPProvider):
    """Reports a lost answer as if nothing had been sent."""

    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except OutcomeUnknown as error:
            raise Unavailable(error.message) from error

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except OutcomeUnknown as error:
            raise Unavailable(error.message) from error


class QuotaIsRejected(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except QuotaExceeded as error:
            raise Rejected(error.message) from error


class RateLimitedWithoutSeconds(InMemoryIPProvider):
    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except RateLimited as error:
            raise RateLimited(error.message, retry_after_seconds=0.0) from error


class WaitsWhenRateLimited(InMemoryIPProvider):
    """Sits a rate limit out, and reports it after all."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except RateLimited:
            time.sleep(2 * self._timeout_seconds + 1.1)
            raise


class RepeatsWhenRateLimited(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except RateLimited:
            super().create(request)
            raise


class RepeatsAssign(InMemoryIPProvider):
    """Sends an assign again when it is answered 5xx, and reports the failure of the first."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except OutcomeUnknown:
            super().assign(address, provider_id)
            raise


class LossOfDeleteIsApplied(InMemoryIPProvider):
    def delete(self, address: str) -> MutationResult:
        try:
            return super().delete(address)
        except OutcomeUnknown:
            return Applied()


class FailedReadIsEmpty(InMemoryIPProvider):
    """Takes "no answer" for "no address"."""

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        try:
            return super().describe(addresses)
        except Unavailable:
            return {}


class FailedFindIsEmpty(InMemoryIPProvider):
    """Takes "no answer" for "nothing was created", so that another address is."""

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        try:
            return super().find_created(request)
        except Unavailable:
            return ()


class FailedUnassignIsApplied(InMemoryIPProvider):
    def unassign(self, address: str) -> MutationResult:
        try:
            return super().unassign(address)
        except OutcomeUnknown:
            return Applied()


class RepeatsDelete(InMemoryIPProvider):
    """Sends a delete again when it is not answered, and reports the failure of the first."""

    def delete(self, address: str) -> MutationResult:
        try:
            return super().delete(address)
        except OutcomeUnknown:
            super().delete(address)
            raise


class WaitsTooLongToUnassign(InMemoryIPProvider):
    def unassign(self, address: str) -> MutationResult:
        try:
            return super().unassign(address)
        except OutcomeUnknown:
            time.sleep(2 * self._timeout_seconds + 1.1)
            raise


class WaitsTooLong(InMemoryIPProvider):
    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        try:
            return super().describe(addresses)
        except Unavailable:
            time.sleep(2 * self._timeout_seconds + 1.0)
            raise


class NotThreadSafe(InMemoryIPProvider):
    """Keeps the arguments of a call in the object, as a shared request does."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        self.arguments = (address, provider_id)
        time.sleep(0.05)
        return super().assign(*self.arguments)


class ChecksThenActs(InMemoryIPProvider):
    """Looks whether the node is free, and only then acts."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        if any(record.provider_id == provider_id for record in self._cloud.records().values()):
            raise NodeInUse(f"{provider_id} is taken")
        time.sleep(0.05)
        self._cloud.move_address(address, provider_id)
        return Applied()


class DenialIsRejected(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except ProviderError as error:
            raise Rejected(error.message) from error


class ShowsSecretsInRepr(InMemoryIPProvider):
    def __repr__(self) -> str:
        return f"InMemoryIPProvider(token={self._token!r})"


class LogsSecrets(InMemoryIPProvider):
    """Logs with what it asks."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        logging.getLogger(__name__).info("assign", extra={"headers": {"Authorization": f"Bearer {self._token}"}})
        return super().assign(address, provider_id)


class ShowsSecretsInCause(InMemoryIPProvider):
    """The error itself is clean; the one that it was raised from quotes the request's headers."""

    def assign(self, address: str, provider_id: str) -> MutationResult:
        try:
            return super().assign(address, provider_id)
        except NotFound as error:
            raise error from ValueError({"Authorization": f"Bearer {self._token}"})
