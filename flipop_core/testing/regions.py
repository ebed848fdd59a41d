"""One region of the simulated cloud, seen as an account of its own: nothing of another region exists in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from flipop_core.errors import NotFound, Rejected
from flipop_core.model import AddressRecord, Applied, Created, CreateRequest, MutationResult
from flipop_core.testing.cloud import PROVIDER, InMemoryCloud


class CloudRegion:
    """What the service of one ``region`` answers to a provider: as `InMemoryCloud`, of this region alone."""

    def __init__(self, cloud: InMemoryCloud, region: str) -> None:
        self._cloud = cloud
        self._region = region

    def records(self) -> Mapping[str, AddressRecord]:
        """Return the addresses of the region."""
        return {a: record for a, record in self._cloud.records().items() if record.region == self._region}

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Return how many addresses each of these machines can hold; those of other regions are unknown here."""
        return self._cloud.node_limits([each for each in provider_ids if self._cloud.region_of(each) == self._region])

    def create(self, request: CreateRequest) -> Created:
        """Create an address in the region."""
        if request.region not in ("", self._region):
            raise self._rejected("create", f"region {request.region}")
        if request.provider_id is not None:
            self._check_node(request.provider_id, "create")
        return self._cloud.create(msgspec.structs.replace(request, region=self._region))

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Return the addresses of the region that a creation may have made."""
        found = self._cloud.find_created(msgspec.structs.replace(request, region=self._region))
        return tuple(record for record in found if record.region == self._region)

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put an address on a node, both of the region."""
        self._check_node(provider_id, "assign")
        self._check_address(address, "assign")
        return self._cloud.assign(address, provider_id)

    def unassign(self, address: str) -> MutationResult:
        """Take an address of the region off its node."""
        self._check_address(address, "unassign")
        return self._cloud.unassign(address)

    def delete(self, address: str) -> MutationResult:
        """Delete an address of the region; one of another region does not exist here, which is no error."""
        return self._cloud.delete(address) if address in self.records() else Applied()

    def _check_address(self, address: str, operation: str) -> None:
        if address not in self.records():
            raise NotFound(f"no address {address} in {self._region}", provider=PROVIDER, operation=operation)

    def _check_node(self, provider_id: str, operation: str) -> None:
        region = self._cloud.region_of(provider_id)
        if region and region != self._region:
            raise self._rejected(operation, f"{provider_id} in {region}")

    def _rejected(self, operation: str, what: str) -> Rejected:
        return Rejected(f"{what} is not of region {self._region}", provider=PROVIDER, operation=operation)
