"""What tests run on: a simulated cloud and cluster, a clock, scripted faults, and the conformance kit for plugins.

``docs/versioning.md`` says what is promised of them.
"""

from __future__ import annotations

from flipop_core.testing.clock import Clock, FakeClock, Sleep
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.conformance import DNSProviderContract, FirewallProviderContract, IPProviderContract
from flipop_core.testing.dns_harness import DNSProviderHarness
from flipop_core.testing.faults import Call, Fault, FaultScript
from flipop_core.testing.firewall_harness import FirewallProviderHarness
from flipop_core.testing.firewalls import InMemoryFirewalls
from flipop_core.testing.harness import FaultKind, IPProviderHarness
from flipop_core.testing.kubeapi import InMemoryKubeAPI
from flipop_core.testing.providers import (
    InMemoryDNSProvider,
    InMemoryFirewallProvider,
    InMemoryIPProvider,
    in_memory_factories,
)
from flipop_core.testing.zones import InMemoryZones

__all__ = [
    # time and faults
    "Clock",
    "Sleep",
    "FakeClock",
    "Call",
    "Fault",
    "FaultScript",
    # the simulated cloud
    "CloudConfig",
    "InMemoryCloud",
    "InMemoryZones",
    "InMemoryFirewalls",
    "InMemoryIPProvider",
    "InMemoryDNSProvider",
    "InMemoryFirewallProvider",
    "in_memory_factories",
    # the simulated cluster
    "InMemoryKubeAPI",
    # the conformance kit
    "FaultKind",
    "DNSProviderContract",
    "DNSProviderHarness",
    "FirewallProviderContract",
    "FirewallProviderHarness",
    "IPProviderContract",
    "IPProviderHarness",
]
