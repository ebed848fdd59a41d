"""The simulated cloud's own rules, its DNS, and its plugin. What every IP provider must do is in test_conformance."""

from __future__ import annotations

import pluggy
import pytest
from msgspec.structs import replace

from flipop_core import (
    AccessDenied,
    AddressRecord,
    Applied,
    Busy,
    Created,
    CreateRequest,
    DNSProvider,
    FirewallProvider,
    InProgress,
    IPProvider,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    QuotaExceeded,
    RecordSet,
    Rejected,
    Unavailable,
    hookspecs,
)
from flipop_core.testing import (
    CloudConfig,
    FakeClock,
    InMemoryCloud,
    InMemoryDNSProvider,
    InMemoryIPProvider,
    in_memory_factories,
)

ZONE = "example.com"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def cloud_of(clock: FakeClock, config: CloudConfig | None = None) -> InMemoryCloud:
    return InMemoryCloud(config, clock=clock, sleep=clock.advance)


@pytest.fixture
def cloud(clock: FakeClock) -> InMemoryCloud:
    cloud = cloud_of(clock)
    cloud.zones.add_zone(ZONE)
    return cloud


@pytest.fixture
def slow_cloud(clock: FakeClock) -> InMemoryCloud:
    """Assignments take five seconds."""
    return cloud_of(clock, CloudConfig(action_seconds=5.0))


@pytest.fixture
def dns(cloud: InMemoryCloud) -> InMemoryDNSProvider:
    return InMemoryDNSProvider(cloud)


# Asynchronous operations


def test_an_assignment_takes_its_time(slow_cloud: InMemoryCloud, clock: FakeClock) -> None:
    provider, node, address = InMemoryIPProvider(slow_cloud), slow_cloud.add_node("a"), slow_cloud.add_address()
    assert provider.assign(address, node) == InProgress("action-1", poll_after_seconds=5.0)
    pending = AddressRecord(address, region="sim1", in_progress=True)
    assert provider.describe([address]) == {address: pending}
    clock.advance(4.9)
    assert provider.describe([address]) == {address: pending}
    clock.advance(0.1)
    assert provider.describe([address]) == {address: AddressRecord(address, provider_id=node, region="sim1")}


def test_address_and_nodes_of_a_pending_operation_are_busy(slow_cloud: InMemoryCloud, clock: FakeClock) -> None:
    provider = InMemoryIPProvider(slow_cloud)
    source, target, other = (slow_cloud.add_node(name) for name in ("source", "target", "other"))
    moving = slow_cloud.add_address(provider_id=source)
    free = slow_cloud.add_address()
    provider.assign(moving, target)
    for call in (
        lambda: provider.assign(moving, other),
        lambda: provider.unassign(moving),
        lambda: provider.delete(moving),
        lambda: provider.assign(free, target),
        lambda: provider.assign(free, source),
        lambda: provider.create(CreateRequest("claim", provider_id=target)),
    ):
        with pytest.raises(Busy, match="action-1"):
            call()
    assert isinstance(provider.assign(free, other), InProgress)
    clock.advance(5.0)
    assert {record.address: record.provider_id for record in slow_cloud.records().values()} == {
        moving: target,
        free: other,
    }
    assert provider.unassign(moving) == InProgress("action-3", poll_after_seconds=5.0)
    with pytest.raises(Busy, match="action-3"):
        provider.assign(slow_cloud.add_address(), target)


def test_a_creation_on_a_node_is_in_progress_and_already_found(slow_cloud: InMemoryCloud, clock: FakeClock) -> None:
    for tags in (True, False):
        slow_cloud.config = replace(slow_cloud.config, tags=tags)
        provider, node = InMemoryIPProvider(slow_cloud), slow_cloud.add_node(f"node-{tags}")
        request = CreateRequest("claim", provider_id=node)
        created = provider.create(request)
        assert isinstance(created.result, InProgress)
        record = AddressRecord(created.address, region="sim1", in_progress=True)
        assert provider.find_created(request) == (record,)
        clock.advance(5.0)
        assert provider.find_created(request) == (replace(record, provider_id=node, in_progress=False),)


def test_a_destroyed_node_frees_its_addresses_and_ends_operations(slow_cloud: InMemoryCloud, clock: FakeClock) -> None:
    provider, node = InMemoryIPProvider(slow_cloud), slow_cloud.add_node("a")
    held, coming = slow_cloud.add_address(provider_id=slow_cloud.add_node("b")), slow_cloud.add_address()
    provider.assign(coming, node)
    slow_cloud.remove_node(node)
    slow_cloud.remove_node("memory://b")
    clock.advance(5.0)
    assert [(record.provider_id, record.in_progress) for record in slow_cloud.records().values()] == [
        (None, False),
        (None, False),
    ]
    with pytest.raises(NotFound, match="memory://a"):
        provider.assign(held, node)
    assert slow_cloud.nodes() == {}


# Rules of the account


def test_without_tags_a_creation_is_found_by_comparison(clock: FakeClock) -> None:
    cloud = cloud_of(clock, CloudConfig(tags=False, regions=("sim1", "sim2")))
    provider, node = InMemoryIPProvider(cloud), cloud.add_node("a")
    before = cloud.add_address()
    request = CreateRequest("claim", region="sim1", known_addresses=(before,))
    assert provider.find_created(request) == ()
    created = provider.create(request).address
    cloud.add_address(region="sim2")
    cloud.add_address(provider_id=node)
    stranger = cloud.add_address()
    assert [record.address for record in provider.find_created(request)] == [created, stranger]
    assert cloud.claim_of(created) == ""


def test_with_tags_a_creation_is_found_wherever_it_went(cloud: InMemoryCloud) -> None:
    provider, node = InMemoryIPProvider(cloud), cloud.add_node("a")
    request = CreateRequest("claim", region="sim1")
    created = provider.create(request)
    assert created == Created("192.0.2.1", Applied())
    assert cloud.claim_of("192.0.2.1") == "claim"
    cloud.move_address("192.0.2.1", node)
    assert provider.find_created(request) == (AddressRecord("192.0.2.1", provider_id=node, region="sim1"),)
    assert provider.find_created(replace(request, claim="other")) == ()


def test_what_a_creation_is_refused_for(clock: FakeClock) -> None:
    cloud = cloud_of(clock, CloudConfig(address_limit=1))
    provider, node = InMemoryIPProvider(cloud), cloud.add_node("a")
    for request, error, message in (
        (CreateRequest("claim", region="mars"), Rejected, "no region 'mars'"),
        (CreateRequest("claim"), Rejected, "no region ''"),
        (CreateRequest("claim", provider_id="memory://b"), Rejected, "no node memory://b"),
        (CreateRequest("claim", provider_id="aws:///i-1"), Rejected, "'aws:///i-1' is no provider ID"),
    ):
        with pytest.raises(error, match=message):
            provider.create(request)
    provider.create(CreateRequest("claim", provider_id=node))
    with pytest.raises(NodeInUse, match=r"memory://a holds 192\.0\.2\.1"):
        provider.create(CreateRequest("claim", provider_id=node))
    with pytest.raises(QuotaExceeded, match="has 1 addresses"):
        provider.create(CreateRequest("claim", region="sim1"))
    cloud.config = replace(cloud.config, capabilities=ProviderCapabilities())
    with pytest.raises(Rejected, match="cannot be created on a node"):
        provider.create(CreateRequest("claim", provider_id=node))


def test_addresses_come_in_order_and_never_again(cloud: InMemoryCloud) -> None:
    cloud.add_address("192.0.2.2")
    provider = InMemoryIPProvider(cloud)
    assert [cloud.add_address() for _ in range(2)] == ["192.0.2.1", "192.0.2.3"]
    provider.delete("192.0.2.3")
    more = [cloud.add_address() for _ in range(760)]
    assert (more[0], more[250], more[251], more[505], more[-1]) == (
        "192.0.2.4",
        "192.0.2.254",
        "198.51.100.1",
        "203.0.113.1",
        "100.64.0.1",
    )
    assert len(set(more)) == len(more)


def test_hand_made_changes_are_checked(cloud: InMemoryCloud) -> None:
    cloud.add_node("a")
    cloud.add_address("2001:DB8::1")
    with pytest.raises(ValueError, match="address 2001:db8::1 exists"):
        cloud.add_address("2001:db8:0::1")
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        cloud.add_address("192.0.2")
    with pytest.raises(ValueError, match="node memory://a exists"):
        cloud.add_node("a")
    with pytest.raises(ValueError, match="no region 'mars'"):
        cloud.add_node("b", region="mars")
    with pytest.raises(ValueError, match="no node memory://b"):
        cloud.move_address("2001:db8::1", "memory://b")
    cloud.remove_address("2001:db8::1")
    with pytest.raises(KeyError):
        cloud.remove_address("2001:db8::1")
    assert cloud.records() == {}


def test_a_nodes_own_capacity_holds(cloud: InMemoryCloud) -> None:
    provider = InMemoryIPProvider(cloud)
    none, two = cloud.add_node("none", capacity=0), cloud.add_node("two", capacity=2)
    first, second, third = (cloud.add_address() for _ in range(3))
    with pytest.raises(NodeInUse, match="holds all it can"):
        provider.assign(first, none)
    assert provider.assign(first, two) == provider.assign(second, two) == Applied()
    with pytest.raises(NodeInUse, match=r"holds 192\.0\.2\.1, 192\.0\.2\.2"):
        provider.assign(third, two)


def test_calls_take_the_latency_and_end_at_the_timeout(clock: FakeClock) -> None:
    cloud = cloud_of(clock, CloudConfig(latency_seconds=2.0))
    address, node = cloud.add_address(), cloud.add_node("a")
    patient, hasty = InMemoryIPProvider(cloud), InMemoryIPProvider(cloud, timeout_seconds=1.0)
    patient.describe([address])
    assert clock() == 1002.0
    with pytest.raises(Unavailable, match="memory describe: no answer within 1 s"):
        hasty.describe([address])
    with pytest.raises(OutcomeUnknown, match="memory assign: no answer within 1 s"):
        hasty.assign(address, node)
    assert clock() == 1004.0


def test_the_journal_has_every_call_with_its_arguments(cloud: InMemoryCloud) -> None:
    provider, node, address = InMemoryIPProvider(cloud), cloud.add_node("a"), cloud.add_address()
    provider.assign(address, node)
    with pytest.raises(NotFound):
        provider.unassign("192.0.2.99")
    provider.list_addresses({address})
    assert [(call.operation, dict(call.arguments), call.failed, call.executed) for call in cloud.faults.calls()] == [
        ("assign", {"address": address, "provider_id": node}, False, True),
        ("unassign", {"address": "192.0.2.99"}, True, True),
        ("list_addresses", {"wanted": (address,), "families": ("IPv4",)}, False, True),
    ]


# DNS


def a_record(*values: str, ttl_seconds: int = 60, name: str = "www.example.com") -> RecordSet:
    return RecordSet(name, "A", ttl_seconds, values)


def test_a_record_set_is_kept_normal_and_written_only_when_it_differs(
    dns: InMemoryDNSProvider, cloud: InMemoryCloud
) -> None:
    assert dns.get_record_set(ZONE, "www.example.com", "A") is None
    wanted = RecordSet("WWW.example.com.", "A", 5, ("192.0.2.9", "192.0.2.10", "192.0.2.9"))
    assert dns.ensure_record_set("Example.com.", wanted) == Applied()
    kept = a_record("192.0.2.10", "192.0.2.9", ttl_seconds=30)
    assert dns.normalize(wanted) == kept
    assert dns.get_record_set(ZONE, "www.example.com", "A") == kept
    dns.ensure_record_set(ZONE, kept)
    assert cloud.zones.writes == 1
    dns.ensure_record_set(ZONE, replace(kept, ttl_seconds=31))
    assert cloud.zones.writes == 2


def test_other_names_and_types_stay(dns: InMemoryDNSProvider, cloud: InMemoryCloud) -> None:
    text = RecordSet("www.example.com", "TXT", 300, ("owner",))
    cloud.zones.put_record_set(ZONE, text)
    cloud.zones.put_record_set(ZONE, a_record("192.0.2.1", name=ZONE))
    dns.ensure_record_set(ZONE, a_record("192.0.2.2"))
    dns.ensure_record_set(ZONE, RecordSet("www.example.com", "AAAA", 60, ("2001:DB8:0::1",)))
    assert dns.delete_record_set(ZONE, "www.example.com", "A") == Applied()
    assert dns.delete_record_set(ZONE, "www.example.com", "A") == Applied()
    assert cloud.zones.record_sets(ZONE) == {
        ("www.example.com", "TXT"): text,
        (ZONE, "A"): a_record("192.0.2.1", name=ZONE),
        ("www.example.com", "AAAA"): RecordSet("www.example.com", "AAAA", 60, ("2001:db8::1",)),
    }
    assert cloud.zones.writes == 3


@pytest.mark.parametrize(
    ("record_set", "message"),
    [
        (a_record("192.0.2.1", name="alias.example.com"), "alias.example.com is a CNAME"),
        (a_record("192.0.2.1", name="www.example.org"), "not in zone example.com"),
        (a_record("192.0.2.1", name="wwwexample.com"), "not in zone example.com"),
        (a_record("2001:db8::1"), "'2001:db8::1' is no value of an A record"),
        (a_record(), "needs a value"),
        (RecordSet("www.example.com", "MX", 60, ("10 mail",)), "no records of type MX"),
    ],
)
def test_what_a_record_set_is_rejected_for(
    dns: InMemoryDNSProvider, cloud: InMemoryCloud, record_set: RecordSet, message: str
) -> None:
    cloud.zones.put_record_set(ZONE, RecordSet("alias.example.com", "CNAME", 60, ("www.example.com",)))
    with pytest.raises(Rejected, match=message):
        dns.ensure_record_set(ZONE, record_set)
    assert cloud.zones.writes == 0


def test_an_unknown_zone_is_not_found(dns: InMemoryDNSProvider, cloud: InMemoryCloud) -> None:
    for call in (
        lambda: dns.get_record_set("example.org", "www.example.org", "A"),
        lambda: dns.ensure_record_set("example.org", a_record("192.0.2.1", name="www.example.org")),
        lambda: dns.delete_record_set("example.org", "www.example.org", "A"),
    ):
        with pytest.raises(NotFound, match=r"no zone example\.org"):
            call()
    with pytest.raises(ValueError, match="exists"):
        cloud.zones.add_zone("Example.com.")


def test_dns_calls_meet_faults(dns: InMemoryDNSProvider, cloud: InMemoryCloud) -> None:
    cloud.faults.add("ensure_record_set", after_effect=True)
    cloud.faults.add("get_record_set", delay_seconds=60.0)
    with pytest.raises(OutcomeUnknown, match="memory ensure_record_set"):
        dns.ensure_record_set(ZONE, a_record("192.0.2.1"))
    with pytest.raises(Unavailable, match="memory get_record_set"):
        dns.get_record_set(ZONE, "www.example.com", "A")
    assert dns.get_record_set(ZONE, "www.example.com", "A") == a_record("192.0.2.1")


# The plugin


def factories_of(cloud: InMemoryCloud) -> tuple[ProviderFactory, ProviderFactory, ProviderFactory]:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(in_memory_factories(cloud))
    manager.check_pending()
    ((addresses,),) = manager.hook.flipop_ip_providers()
    ((zones,),) = manager.hook.flipop_dns_providers()
    ((firewalls,),) = manager.hook.flipop_firewall_providers()
    return addresses, zones, firewalls


def test_the_plugin_offers_the_cloud_as_memory(cloud: InMemoryCloud) -> None:
    addresses, zones, firewalls = factories_of(cloud)
    for factory in (addresses, zones, firewalls):
        assert (factory.name, factory.summary) == ("memory", "simulated cloud in this process")
        assert factory.capabilities == cloud.config.capabilities
        assert [credential.required for credential in factory.credentials] == [False]
    provider, names = addresses.build(ProviderContext({})), zones.build(ProviderContext({}))
    assert isinstance(provider, IPProvider)
    assert isinstance(names, DNSProvider)
    assert provider.create(CreateRequest("claim", region="sim1")).address in cloud.records()
    names.ensure_record_set(ZONE, a_record("192.0.2.1"))
    assert cloud.zones.writes == 1
    guard = firewalls.build(ProviderContext({}))
    assert isinstance(guard, FirewallProvider)
    cloud.firewalls.add_firewall("web")
    assert guard.get_firewall("web").name == "web"


def test_the_plugin_hands_credentials_and_timeout_on(clock: FakeClock) -> None:
    cloud = cloud_of(clock, CloudConfig(token="right", latency_seconds=2.0))
    addresses, _, _ = factories_of(cloud)
    (credential,) = addresses.credentials
    assert credential.required
    right = addresses.build(ProviderContext({credential.variable: "right"}))
    wrong = addresses.build(ProviderContext({credential.variable: "wrong"}))
    hasty = addresses.build(ProviderContext({credential.variable: "right"}, timeout_seconds=1.0))
    assert isinstance(right, InMemoryIPProvider)
    assert isinstance(wrong, InMemoryIPProvider)
    assert isinstance(hasty, InMemoryIPProvider)
    assert right.list_addresses(()) == {}
    with pytest.raises(AccessDenied):
        wrong.list_addresses(())
    with pytest.raises(Unavailable):
        hasty.list_addresses(())
    assert "right" not in f"{cloud.config!r} {cloud.config!s} {right!r} {cloud!r}"
