"""The conformance kit: a provider that passes it behaves as the controller relies on.

An author writes a harness for the provider (`IPProviderHarness`) and a test class::

    class TestMyProvider(IPProviderContract):
        @pytest.fixture
        def harness(self):
            with my_harness() as harness:
                yield harness

A DNS provider likewise has `DNSProviderHarness` and `DNSProviderContract`, a firewall provider
`FirewallProviderHarness` and `FirewallProviderContract`.

Each test states one rule of `flipop_core.providers` and checks behaviour, not shape. A rule that the harness cannot
exercise is reported as skipped with the reason. The kit itself needs no pytest.
"""

from __future__ import annotations

from flipop_core.providers import IPProvider
from flipop_core.testing.dns_harness import DNSProviderHarness
from flipop_core.testing.dns_rules import RecordSetRules
from flipop_core.testing.dns_rules_faults import RecordSetFaultRules
from flipop_core.testing.firewall_harness import FirewallProviderHarness
from flipop_core.testing.firewall_rules import FirewallRules
from flipop_core.testing.firewall_rules_faults import FirewallFaultRules, FirewallVerificationRules
from flipop_core.testing.harness import FaultKind, IPProviderHarness, expect, expect_equal
from flipop_core.testing.rules_assignment import AssignmentRules
from flipop_core.testing.rules_creation import CreationRules
from flipop_core.testing.rules_faults import FaultRules
from flipop_core.testing.rules_verify import AddressVerificationRules, RecordVerificationRules

__all__ = [
    "DNSProviderContract",
    "DNSProviderHarness",
    "FaultKind",
    "FirewallProviderContract",
    "FirewallProviderHarness",
    "IPProviderContract",
    "IPProviderHarness",
]


class IPProviderContract(AssignmentRules, CreationRules, FaultRules, AddressVerificationRules):
    """The rules of `IPProvider`. Inherit it and give it a fixture ``harness``."""

    def test_capabilities_are_constant(self, harness: IPProviderHarness) -> None:
        """The capabilities can be read without a call, are sound, and stay the same."""
        provider = harness.provider
        expect(isinstance(provider, IPProvider), f"{type(provider).__name__} has every method of IPProvider")
        before = provider.capabilities
        expect(before.max_ips_per_node >= 1, f"max_ips_per_node is positive: {before!r}")
        expect(before.max_concurrency >= 1, f"max_concurrency is positive: {before!r}")
        families = set(before.address_families)
        expect(bool(families) and families <= {"IPv4", "IPv6"}, f"address_families are of IPv4, IPv6: {before!r}")
        provider.describe([harness.make_address()])
        expect_equal(provider.capabilities, before, "capabilities are constant for the life of the object")


class DNSProviderContract(RecordSetRules, RecordSetFaultRules, RecordVerificationRules):
    """The rules of `DNSProvider`. Inherit it and give it a fixture ``harness``."""


class FirewallProviderContract(FirewallRules, FirewallFaultRules, FirewallVerificationRules):
    """The rules of `FirewallProvider`. Inherit it and give it a fixture ``harness``."""
