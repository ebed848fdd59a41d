"""The simulated cloud's tags, limits, families and address pools, and its regions as accounts of their own."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from flipop_core.errors import ConfigError, NodeInUse, NotFound, Rejected
from flipop_core.model import CreateRequest
from flipop_core.providers import IPProvider, ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.providers import in_memory_factories

CAPABILITIES = ProviderCapabilities(
    max_ips_per_node=2,
    address_families=("IPv4", "IPv6"),
    create_on_node=True,
    node_limits=True,
    address_tags=True,
    address_pools=True,
)
CONFIG = CloudConfig(capabilities=CAPABILITIES, regions=("east", "west"), regional=True, address_pools=("byoip",))


@pytest.fixture
def cloud() -> InMemoryCloud:
    return InMemoryCloud(CONFIG)


def registry_of(cloud: InMemoryCloud, environ: Mapping[str, str] | None = None) -> ProviderRegistry:
    registry = ProviderRegistry(environ or {})
    registry.register(in_memory_factories(cloud), name="memory")
    return registry


def account(cloud: InMemoryCloud, region: str) -> IPProvider:
    return registry_of(cloud).ip_provider("memory", region=region)


def test_a_region_has_nothing_of_another(cloud: InMemoryCloud) -> None:
    east, west = account(cloud, "east"), account(cloud, "west")
    node = cloud.add_node("n1", region="east", capacity=3)
    assert node == "memory://east/n1"
    address = cloud.add_address(region="east")
    assert list(east.list_addresses([])) == [address]
    assert west.list_addresses([address]) == {}
    assert west.describe([address]) == {}
    assert east.node_limits([node, "memory://east/gone"]) == {node: 3}
    assert west.node_limits([node]) == {}
    with pytest.raises(Rejected, match="in east is not of region west"):
        west.assign(address, node)
    for call in (west.unassign, lambda each: west.assign(each, "memory://west/n2")):
        with pytest.raises(NotFound, match="in west"):
            call(address)
    west.delete(address)
    assert list(cloud.records()) == [address]
    east.assign(address, node)
    assert cloud.records()[address].provider_id == node
    east.unassign(address)
    east.delete(address)
    assert not cloud.records()


def test_a_creation_is_made_and_found_in_its_region(cloud: InMemoryCloud) -> None:
    east, west = account(cloud, "east"), account(cloud, "west")
    request = CreateRequest("c1")
    address = west.create(request).address
    assert cloud.records()[address].region == "west"
    assert [record.address for record in west.find_created(request)] == [address]
    assert east.find_created(request) == ()
    with pytest.raises(Rejected, match="region east"):
        west.create(CreateRequest("c2", region="east"))
    with pytest.raises(Rejected, match="n1 in east"):
        west.create(CreateRequest("c3", provider_id=cloud.add_node("n1", region="east")))


def test_where_the_region_comes_from(cloud: InMemoryCloud) -> None:
    with pytest.raises(ConfigError, match="set MEMORY_REGION"):
        registry_of(cloud).ip_provider("memory")
    given = registry_of(cloud, {"MEMORY_REGION": "west"}).ip_provider("memory")
    assert given.create(CreateRequest("c")).address in account(cloud, "west").list_addresses([])
    factory = registry_of(cloud).ip_factory("memory")
    assert factory.region_of is not None
    assert [factory.region_of(each) for each in ("memory://east/n1", "memory://n1", "aws:///east/n1", "")] == [
        "east",
        "",
        "",
        "",
    ]
    plain = registry_of(InMemoryCloud()).ip_factory("memory")
    assert plain.region_of is None


def test_tags_are_given_replaced_and_set_by_a_creation(cloud: InMemoryCloud) -> None:
    east = account(cloud, "east")
    address = cloud.add_address(region="east", tags={"team": "web", "env": "prod"})
    assert east.describe([address])[address].tags == (("env", "prod"), ("team", "web"))
    cloud.set_tags(address, {})
    assert east.describe([address])[address].tags == ()
    created = east.create(CreateRequest("c1", owner="web/a", cluster="blue")).address
    assert east.describe([created])[created].tags == (("claim", "c1"), ("cluster", "blue"), ("owner", "web/a"))
    bare = InMemoryCloud()
    untagged = bare.create(CreateRequest("c1", region="sim1")).address
    assert bare.records()[untagged].tags == ()


def test_a_creation_keeps_to_the_family_and_room_is_by_family(cloud: InMemoryCloud) -> None:
    east = account(cloud, "east")
    node = cloud.add_node("n1", region="east", capacity=1)
    first = east.create(CreateRequest("c1", provider_id=node)).address
    second = east.create(CreateRequest("c2", family="IPv6", provider_id=node)).address
    assert (first, second) == ("192.0.2.1", "2001:db8::1")
    for family in ("IPv4", "IPv6"):
        with pytest.raises(NodeInUse):
            east.create(CreateRequest("c3", family=family, provider_id=node))


def test_without_tags_only_an_address_of_the_family_is_found() -> None:
    cloud = InMemoryCloud(msgspec.structs.replace(CONFIG, tags=False, regional=False))
    four, six = (cloud.add_address(each, region="east") for each in ("192.0.2.9", "2001:db8::9"))
    for family, address in (("IPv4", four), ("IPv6", six)):
        found = cloud.find_created(CreateRequest("c", region="east", family=family))
        assert [record.address for record in found] == [address]


def test_address_pools(cloud: InMemoryCloud) -> None:
    east = account(cloud, "east")
    address = east.create(CreateRequest("c1", address_pool="byoip")).address
    assert cloud.address_pool_of(address) == "byoip"
    assert cloud.address_pool_of(east.create(CreateRequest("c2")).address) == ""
    with pytest.raises(Rejected, match="'other'"):
        east.create(CreateRequest("c3", address_pool="other"))
