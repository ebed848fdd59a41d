"""The conformance kit: a provider that passes it behaves as the controller relies on.

An author inherits the contract of the provider's role and gives it one fixture, ``harness``::

    class TestMyProvider(IPProviderContract):
        @pytest.fixture
        def harness(self):
            with my_harness() as harness:
                yield harness

A harness holds the provider and the account, real or simulated, that it works on: `IPProviderHarness`,
`DNSProviderHarness` or `FirewallProviderHarness`, which say for each member what it is for. What has no default must be
supplied; of the rest, each one more lets more rules be exercised. A rule that the harness cannot exercise is reported
as skipped, with the reason. The fixture is used once per test, so that each meets a new account.

Each test states one rule of `flipop_core.providers` and checks behaviour, not shape. Among them, of an `IPProvider`:

=========================================  ===========================================================================
a repeated assign changes nothing          ``test_repeated_assign_is_applied``
a reassignment is seen by describe         ``test_reassign_moves_the_address``, ``test_reads_see_foreign_changes``
an unknown address is NotFound             ``test_unknown_address_is_not_found``, ``test_unknown_address_is_absent``
429 is RateLimited with its seconds        ``test_rate_limit_tells_its_seconds``
a lost answer is OutcomeUnknown            ``test_lost_answer_is_unknown``, ``test_mutation_answered_5xx_is_unknown``
a creation is found after a lost answer    ``test_lost_creation_is_found``, ``test_lost_creation_on_a_node_is_found``
time limits are kept                       ``test_hang_ends_within_the_timeout``
eight threads at once                      ``test_eight_threads_assign_eight_addresses``
no secret in a repr or an error            ``test_secrets_stay_secret``
declared capabilities are true             ``test_capabilities_are_constant``, ``test_node_limits_are_true``,
                                           ``test_tags_are_read``, ``test_create_takes_the_address_from_its_pool``,
                                           ``test_create_puts_the_address_on_the_node``,
                                           ``test_full_node_is_in_use``, ``test_every_declared_family_can_be_created``
what a vendor tells of its limit is told   ``test_rate_limit_is_reported`` (of a `flipop_core.ReportsRateLimit`)
=========================================  ===========================================================================

The kit itself needs no pytest, only what runs it does. All providers that come with flipop pass it.
"""

from __future__ import annotations

from flipop_core.testing.dns_harness import DNSProviderHarness
from flipop_core.testing.dns_rules import RecordSetRules
from flipop_core.testing.dns_rules_faults import RecordSetFaultRules
from flipop_core.testing.firewall_harness import FirewallProviderHarness
from flipop_core.testing.firewall_rules import FirewallRules
from flipop_core.testing.firewall_rules_faults import FirewallFaultRules, FirewallVerificationRules
from flipop_core.testing.harness import FaultKind, IPProviderHarness
from flipop_core.testing.rules_assignment import AssignmentRules
from flipop_core.testing.rules_capabilities import CapabilityRules, DeclarationRules
from flipop_core.testing.rules_creation import CreationRules
from flipop_core.testing.rules_faults import FaultRules
from flipop_core.testing.rules_reports import ReportRules
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


class IPProviderContract(
    AssignmentRules, CreationRules, CapabilityRules, FaultRules, AddressVerificationRules, ReportRules
):
    """The rules of `flipop_core.IPProvider`. Inherit it and give it a fixture ``harness``, an `IPProviderHarness`."""


class DNSProviderContract(RecordSetRules, DeclarationRules, RecordSetFaultRules, RecordVerificationRules, ReportRules):
    """The rules of `flipop_core.DNSProvider`. Inherit it and give it a fixture ``harness``, a `DNSProviderHarness`."""


class FirewallProviderContract(
    FirewallRules, DeclarationRules, FirewallFaultRules, FirewallVerificationRules, ReportRules
):
    """The rules of `flipop_core.FirewallProvider`.

    Inherit it and give it a fixture ``harness``, a `FirewallProviderHarness`.
    """
