"""IP providers that each break one rule about creations. As `wrong`."""

from __future__ import annotations

from msgspec.structs import replace

from flipop_core import (
    AddressRecord,
    Created,
    CreateRequest,
    NodeInUse,
    OutcomeUnknown,
)
from flipop_core.testing import InMemoryIPProvider


class CreatesTwice(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        super().create(replace(request, provider_id=None))
        return super().create(request)


class CreatesElsewhere(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        return super().create(replace(request, region="sim2"))


class CreatesOnNoNode(InMemoryIPProvider):
    def create(self, request: CreateRequest) -> Created:
        return super().create(replace(request, provider_id=None))


class CreatesBesideAFullNode(InMemoryIPProvider):
    """Reports NodeInUse, and leaves an address behind."""

    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except NodeInUse:
            super().create(replace(request, provider_id=None))
            raise


class RepeatsCreation(InMemoryIPProvider):
    """Sends a creation again when its answer is lost."""

    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except OutcomeUnknown:
            return super().create(request)


class RepeatsCreationQuietly(InMemoryIPProvider):
    """The same, but reports the loss after all."""

    def create(self, request: CreateRequest) -> Created:
        try:
            return super().create(request)
        except OutcomeUnknown:
            super().create(replace(request, provider_id=None))
            raise


class FindsNothing(InMemoryIPProvider):
    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        return ()


class FindsEverything(InMemoryIPProvider):
    """Takes any address for the creation's, known or not."""

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        return tuple(self.list_addresses(()).values())


class IgnoresClaims(InMemoryIPProvider):
    """Compares with the known addresses although it has tags."""

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        return tuple(
            record for key, record in self.list_addresses(()).items() if key not in set(request.known_addresses)
        )
