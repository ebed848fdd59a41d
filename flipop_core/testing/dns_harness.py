"""What the author of a DNS provider supplies for the conformance kit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from flipop_core.providers import DNSProvider, ProviderFactory, RecordSet
from flipop_core.testing.harness import FaultKind, expect, not_exercised

T = TypeVar("T")


class DNSProviderHarness(Protocol):
    """A `DNSProvider` together with the zone, real or simulated, that it works on. Made anew for each test.

    Subclass it. What has no default must be supplied. The defaults of the rest say "this cannot be offered", and the
    tests of the rules concerned are then skipped with that reason, so that a report shows what was not exercised.
    """

    provider: DNSProvider
    """The provider under test."""

    zone: str
    """The zone's name, in lower case without the trailing dot."""

    timeout_seconds: float
    """The ``ProviderContext.timeout_seconds`` that the provider was built with. A second or less keeps tests quick."""

    secrets: tuple[str, ...] = ()
    """The credentials, as texts that must not show up anywhere."""

    faults: frozenset[FaultKind] = frozenset()
    """The kinds of faults that `fail_next` can make."""

    factory: ProviderFactory | None = None
    """What the plugin's hook offers for this provider."""

    max_ttl_seconds: int | None = None
    """The greatest TTL that the provider keeps, None for no limit."""

    def record_sets(self) -> Mapping[tuple[str, str], RecordSet]:
        """Return the zone's record sets by name and type, read without the provider's help."""
        ...

    def put_record_set(self, record_set: RecordSet) -> None:
        """Make one record set of the zone exactly so, comments included, without the provider's help."""
        ...

    def unknown_zone(self) -> str:
        """Return the name of a zone that is not in the account."""
        ...

    def ttl_seconds(self, name: str, record_type: str, value: str) -> int:
        """Return the TTL of one record. Override it where the records of a set can differ."""
        del value
        return self.record_sets()[name, record_type].ttl_seconds

    def put_cname(self, name: str, target: str) -> bool:
        """Make the name a CNAME, without the provider's help. False: cannot be done."""
        del name, target
        return False

    def writes(self) -> int | None:
        """Return how many requests to change something the service has got so far. None: it does not say."""
        return None

    def with_wrong_credentials(self) -> DNSProvider | None:
        """Return a provider like the one under test with credentials that are refused (also part of `secrets`)."""
        return None

    def without_scope(self) -> tuple[DNSProvider, str] | None:
        """Return a provider whose credentials lack a permission to read, and how the vendor names that permission."""
        return None

    def announce_rate_limit(self, limit: int) -> bool:
        """Let the service admit so many requests from now on, and its answers say so and how many they leave.

        False: its answers tell of no limit. Only of interest for a provider that is a `ReportsRateLimit` too.
        """
        del limit
        return False

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        """Let the next request of that `DNSProvider` method go wrong once; of a mutation, the one that changes.

        ``retry_after_seconds`` is what the answer ``rate_limited`` says.
        """
        del retry_after_seconds
        raise AssertionError(f"{type(self).__name__} declares {kind!r} in `faults` and has no fail_next({operation!r})")


def need_dns_fault(harness: DNSProviderHarness, kind: FaultKind) -> None:
    """Skip the test unless the harness can make that kind of fault."""
    if kind not in harness.faults:
        not_exercised(f"the harness cannot make the fault {kind!r}")


def in_time(harness: DNSProviderHarness, operation: str, call: Callable[[], T]) -> T:
    """Return what ``call`` returns; AssertionError when it took over twice the provider's timeout and a second."""
    limit_seconds = 2 * harness.timeout_seconds + 1.0
    start = time.monotonic()
    answer = call()
    took = time.monotonic() - start
    expect(took <= limit_seconds, f"{operation} took {took:.1f} s, over {limit_seconds:g} s")
    return answer
