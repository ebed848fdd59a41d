"""Creating addresses, finding them again, and giving them back."""

from __future__ import annotations

import pytest

from flipop_aws_testserver import Account, AWSServer
from flipop_core import (
    Applied,
    CreateRequest,
    IPProvider,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    Rejected,
    Unavailable,
)

PREFIX = "flipop.digitalocean.com"
IPV4_POOL, IPAM_POOL = "ipv4pool-ec2-0123456789abcdef0", "ipam-pool-0123456789abcdef0"


def test_tags(account: Account, provider: IPProvider, request_: CreateRequest) -> None:
    address = provider.create(request_).address
    tags = {f"{PREFIX}/pool": "ns/pool", f"{PREFIX}/cluster": "production", f"{PREFIX}/claim": "claim-1"}
    assert account.addresses() == {address: tags}
    assert dict(provider.describe([address])[address].tags) == tags


def test_empty_tags_are_left_out(account: Account, provider: IPProvider) -> None:
    address = provider.create(CreateRequest("claim-2", region="us-east-1")).address
    assert account.addresses()[address] == {f"{PREFIX}/claim": "claim-2"}


def test_names_that_are_longer_than_a_tag_are_cut(account: Account, provider: IPProvider) -> None:
    owner, cluster = f"{'n' * 63}/{'p' * 253}", "c" * 300
    request = CreateRequest("claim-3", region="us-east-1", owner=owner, cluster=cluster)
    address = provider.create(request).address
    tags = account.addresses()[address]
    assert {key: len(value) for key, value in tags.items()} == {
        f"{PREFIX}/pool": 256,
        f"{PREFIX}/cluster": 256,
        f"{PREFIX}/claim": 7,
    }
    assert tags[f"{PREFIX}/pool"].startswith(f"{'n' * 63}/ppp")
    assert [found.address for found in provider.find_created(request)] == [address]


@pytest.mark.parametrize(
    "code", ["InsufficientAddressCapacity", "InsufficientFreeAddressesInAddressPool", "InsufficientCidrBlocks"]
)
def test_pool_that_is_used_up(
    account: Account, provider: IPProvider, request_: CreateRequest, server: AWSServer, code: str
) -> None:
    server.fail("ec2:AllocateAddress", "status", status=400, code=code)
    with pytest.raises(QuotaExceeded, match=code):
        provider.create(request_)
    assert account.addresses() == {}


def test_same_claim_is_created_once(account: Account, provider: IPProvider, request_: CreateRequest) -> None:
    first = provider.create(request_)
    assert provider.create(request_) == first
    assert len(account.addresses()) == 1


def test_lost_answer(account: Account, provider: IPProvider, request_: CreateRequest, server: AWSServer) -> None:
    server.fail("ec2:AllocateAddress", "drop_after_effect")
    with pytest.raises(OutcomeUnknown):
        provider.create(request_)
    (address,) = account.addresses()
    assert [found.address for found in provider.find_created(request_)] == [address]
    assert provider.create(request_).address == address
    assert list(account.addresses()) == [address]
    assert len(server.entries("AllocateAddress")) == 1


@pytest.mark.parametrize("kind", ["drop_before", "html_502", "status"])
def test_failed_creation_is_sent_once(
    account: Account, provider: IPProvider, request_: CreateRequest, server: AWSServer, kind: str
) -> None:
    server.fail("ec2:AllocateAddress", kind, status=500)
    with pytest.raises(OutcomeUnknown):
        provider.create(request_)
    assert len(server.entries("AllocateAddress")) == 1
    assert account.addresses() == {}
    # Reads lag behind: that nothing shows does not yet say that there is nothing.
    with pytest.raises(Unavailable):
        provider.find_created(request_)
    assert len(server.entries("AllocateAddress")) == 1


def test_nothing_is_found_of_what_another_process_did_not_create(provider: IPProvider, request_: CreateRequest) -> None:
    assert provider.find_created(request_) == ()


def test_quota(account: Account, provider: IPProvider, request_: CreateRequest, server: AWSServer) -> None:
    server.settings.address_limit = 1
    account.add_address("us-east-1")
    with pytest.raises(QuotaExceeded, match="AddressLimitExceeded"):
        provider.create(request_)
    assert len(account.addresses()) == 1


@pytest.mark.parametrize(("pool", "parameter"), [(IPV4_POOL, "PublicIpv4Pool"), (IPAM_POOL, "IpamPoolId")])
def test_pool(account: Account, provider: IPProvider, server: AWSServer, pool: str, parameter: str) -> None:
    account.add_pool(pool, "203.0.113.0/30")
    created = provider.create(CreateRequest("claim-1", region="us-east-1", address_pool=pool))
    assert created.address == "203.0.113.1"
    (entry,) = server.entries("AllocateAddress")
    assert entry.parameters[parameter] == pool
    assert {"PublicIpv4Pool", "IpamPoolId"} & entry.parameters.keys() == {parameter}


def test_pool_that_does_not_exist(account: Account, provider: IPProvider) -> None:
    with pytest.raises(Rejected, match=IPV4_POOL):
        provider.create(CreateRequest("claim-1", region="us-east-1", address_pool=IPV4_POOL))
    assert account.addresses() == {}


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (CreateRequest("claim-1", region="us-east-1", family="IPv6"), "IPv6"),
        (CreateRequest("claim-1", region="eu-west-1"), "eu-west-1"),
    ],
)
def test_what_cannot_be_created(provider: IPProvider, server: AWSServer, request_: CreateRequest, word: str) -> None:
    with pytest.raises(Rejected, match=word):
        provider.create(request_)
    assert server.entries() == []


def test_region_may_be_left_out(account: Account, provider: IPProvider) -> None:
    address = provider.create(CreateRequest("claim-1")).address
    assert address in account.addresses("us-east-1")


def test_deletion_of_a_held_address_is_refused(account: Account, provider: IPProvider, server: AWSServer) -> None:
    node, address = account.add_instance(), account.add_address()
    account.put(address, node.id)
    with pytest.raises(Rejected, match="associated"):
        provider.delete(address)
    assert server.entries("ReleaseAddress") == []
    assert account.holder(address) == (node.id, node.private_addresses[0])


def test_deletion_that_another_one_overtook(account: Account, provider: IPProvider, server: AWSServer) -> None:
    address = account.add_address()
    server.fail("ec2:ReleaseAddress", "status", status=400, code="InvalidAllocationID.NotFound")
    assert provider.delete(address) == Applied()


def test_unassignment_that_another_one_overtook(account: Account, provider: IPProvider, server: AWSServer) -> None:
    node, address = account.add_instance(), account.add_address()
    account.put(address, node.id)
    server.fail("ec2:DisassociateAddress", "status", status=400, code="InvalidAssociationID.NotFound")
    assert provider.unassign(address) == Applied()


def test_address_that_was_released_and_allocated_again(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    account.take_off(address)
    account.remove_address(address)
    account.add_address("us-east-1", address)
    provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])


def test_address_that_was_released(account: Account, provider: IPProvider) -> None:
    node, address = account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    account.remove_address(address)
    with pytest.raises(NotFound, match=address):
        provider.assign(address, node.provider_id)
    assert provider.describe([address]) == {}
