"""EC2's reads lag behind its writes: what this process did itself is not undone or done twice for that."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flipop_aws import recent
from flipop_aws_testserver import Account, AWSServer
from flipop_core import (
    AccessDenied,
    AddressRecord,
    Applied,
    Busy,
    CreateRequest,
    IPProvider,
    NodeInUse,
    OutcomeUnknown,
    Rejected,
    Unavailable,
)

LONG = 60.0
TAGS = {"flipop.digitalocean.com/claim": "claim-1", "flipop.digitalocean.com/pool": "ns/pool"}
REQUEST = CreateRequest("claim-1", region="us-east-1", owner="ns/pool")


class TestAllocation:
    @pytest.fixture(autouse=True)
    def _lag(self, server: AWSServer) -> None:
        server.settings.allocation_lag_seconds = LONG

    def test_created_address_is_not_absent(self, provider: IPProvider) -> None:
        address = provider.create(REQUEST).address
        record = AddressRecord(address, None, "us-east-1", tags=tuple(sorted(TAGS.items())))
        assert provider.describe([address]) == {address: record}
        assert provider.list_addresses([]) == {address: record}
        assert provider.find_created(REQUEST) == (record,)
        assert provider.describe(["203.0.113.1"]) == {}

    def test_same_claim_is_allocated_once(
        self, provider: IPProvider, account: Account, calls: Callable[[], list[str]]
    ) -> None:
        created = provider.create(REQUEST)
        assert provider.create(REQUEST) == created
        assert calls().count("AllocateAddress") == 1
        assert account.addresses().keys() == {created.address}

    def test_created_address_can_be_used_at_once(
        self, provider: IPProvider, account: Account, calls: Callable[[], list[str]]
    ) -> None:
        node, address = account.add_instance(), provider.create(REQUEST).address
        calls()
        assert provider.assign(address, node.provider_id) == Applied()
        assert calls() == ["DescribeInstances", "AssociateAddress"]
        assert provider.unassign(address) == Applied()
        assert account.holder(address) is None
        assert provider.delete(address) == Applied()
        assert account.addresses() == {}
        assert provider.describe([address]) == {}

    def test_created_address_that_is_not_known_everywhere_yet_is_tried_again_soon(
        self, provider: IPProvider, server: AWSServer, account: Account
    ) -> None:
        node, address = account.add_instance(), provider.create(REQUEST).address
        server.fail("ec2:AssociateAddress", "status", status=400, code="InvalidAllocationID.NotFound", times=2)
        with pytest.raises(Busy, match="not known everywhere yet"):
            provider.assign(address, node.provider_id)
        assert provider.assign(address, node.provider_id) == Applied()
        assert account.holder(address) == (node.id, node.private_addresses[0])

    def test_lost_allocation_is_not_believed_to_have_made_nothing(
        self, provider: IPProvider, server: AWSServer, account: Account
    ) -> None:
        server.settings.allocation_lag_seconds = 0.5
        server.fail("ec2:AllocateAddress", "drop_after_effect")
        with pytest.raises(OutcomeUnknown):
            provider.create(REQUEST)
        with pytest.raises(Unavailable, match="would not show yet"):
            provider.find_created(REQUEST)
        with pytest.raises(Busy, match="not sent"):
            provider.create(REQUEST)
        (address,) = account.addresses()
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            try:
                found = provider.find_created(REQUEST)
            except Unavailable:
                time.sleep(0.05)
                continue
            break
        assert [record.address for record in found] == [address]
        assert provider.create(REQUEST).address == address
        assert server.actions()["ec2:AllocateAddress"] == 1

    def test_attempt_that_made_nothing_is_forgotten_in_time(
        self, provider: IPProvider, server: AWSServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.fail("ec2:AllocateAddress", "drop_before")
        with pytest.raises(OutcomeUnknown):
            provider.create(REQUEST)
        with pytest.raises(Unavailable):
            provider.find_created(REQUEST)
        assert provider.find_created(CreateRequest("claim-2", region="us-east-1")) == ()
        monkeypatch.setattr(recent, "SECONDS", 0.0)
        assert provider.find_created(REQUEST) == ()
        provider.create(REQUEST)


class TestAssociation:
    @pytest.fixture(autouse=True)
    def _lag(self, server: AWSServer) -> None:
        server.settings.association_lag_seconds = LONG

    def test_full_instance_is_full_though_it_does_not_show(self, provider: IPProvider, account: Account) -> None:
        node, first, second = account.add_instance(), account.add_address(), account.add_address()
        provider.assign(first, node.provider_id)
        with pytest.raises(NodeInUse, match=first):
            provider.assign(second, node.provider_id)
        assert account.holder(first) == (node.id, node.private_addresses[0])

    def test_second_address_goes_beside_the_first(self, provider: IPProvider, account: Account) -> None:
        node = account.add_instance(private_addresses=2)
        first, second = account.add_address(), account.add_address()
        provider.assign(first, node.provider_id)
        provider.assign(second, node.provider_id)
        assert [account.holder(each) for each in (first, second)] == [
            (node.id, private) for private in node.private_addresses
        ]

    def test_place_that_was_left_is_free(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        node, other = account.add_instance(), account.add_instance()
        first, second = account.add_address(), account.add_address()
        server.settings.association_lag_seconds = 0.0
        provider.assign(first, node.provider_id)
        server.settings.association_lag_seconds = LONG
        provider.assign(first, other.provider_id)
        assert provider.describe([first])[first].provider_id == node.provider_id
        provider.assign(second, node.provider_id)
        assert account.holder(first) == (other.id, other.private_addresses[0])
        assert account.holder(second) == (node.id, node.private_addresses[0])

    def test_there_and_back(self, provider: IPProvider, account: Account) -> None:
        node, other, address = account.add_instance(), account.add_instance(), account.add_address()
        for target in (node, other, node, other):
            assert provider.assign(address, target.provider_id) == Applied()
            assert account.holder(address) == (target.id, target.private_addresses[0])

    def test_unassign_what_was_just_assigned(self, provider: IPProvider, account: Account) -> None:
        node, other, address = account.add_instance(), account.add_instance(), account.add_address()
        provider.assign(address, node.provider_id)
        provider.assign(address, other.provider_id)
        assert provider.unassign(address) == Applied()
        assert account.holder(address) is None
        assert provider.unassign(address) == Applied()

    def test_delete_what_was_just_assigned(self, provider: IPProvider, account: Account) -> None:
        node, address = account.add_instance(), account.add_address()
        provider.assign(address, node.provider_id)
        with pytest.raises(Rejected, match="still associated"):
            provider.delete(address)
        assert account.holder(address) == (node.id, node.private_addresses[0])

    def test_delete_what_was_just_unassigned(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        node, address = account.add_instance(), account.add_address()
        server.settings.association_lag_seconds = 0.0
        provider.assign(address, node.provider_id)
        server.settings.association_lag_seconds = LONG
        provider.unassign(address)
        assert provider.delete(address) == Applied()
        assert account.addresses() == {}


def test_delete_what_somebody_else_just_took(provider: IPProvider, account: Account) -> None:
    node, other, address = account.add_instance(), account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    provider.unassign(address)
    account.put(address, other.id)
    with pytest.raises(Rejected, match="still associated"):
        provider.delete(address)
    assert account.holder(address) == (other.id, other.private_addresses[0])


def test_unassign_what_somebody_else_just_moved(provider: IPProvider, account: Account) -> None:
    node, other, address = account.add_instance(), account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    account.put(address, other.id)
    assert provider.unassign(address) == Applied()
    assert account.holder(address) is None


def test_assign_what_somebody_else_just_moved(provider: IPProvider, account: Account) -> None:
    node, other, address = account.add_instance(), account.add_instance(), account.add_address()
    provider.assign(address, node.provider_id)
    account.put(address, other.id)
    assert provider.assign(address, node.provider_id) == Applied()
    assert account.holder(address) == (node.id, node.private_addresses[0])


class TestForeignInterface:
    def test_its_address_stays(self, provider: IPProvider, account: Account) -> None:
        node, interface, address = account.add_instance(), account.add_interface(), account.add_address()
        account.put(address, interface)
        assert provider.list_addresses([])[address].provider_id == f"aws-interface:///{interface}"
        with pytest.raises(Rejected, match=f"{interface}, which is no instance's"):
            provider.assign(address, node.provider_id)
        with pytest.raises(Rejected, match=f"{interface}, which is no instance's"):
            provider.unassign(address)
        with pytest.raises(Rejected, match="still associated"):
            provider.delete(address)
        holder = account.holder(address)
        assert holder is not None
        assert holder[0] == interface

    def test_its_address_is_free_again_once_it_is_left(self, provider: IPProvider, account: Account) -> None:
        node, address = account.add_instance(), account.add_address()
        account.put(address, account.add_interface())
        provider.list_addresses([])
        account.take_off(address)
        assert provider.assign(address, node.provider_id) == Applied()
        assert account.holder(address) == (node.id, node.private_addresses[0])


class TestDisruptedZone:
    """EC2 then refuses every read of instances that does not name those of other zones."""

    def test_limits_stay_known(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        nodes = [account.add_instance(private_addresses=number).provider_id for number in (1, 2, 3)]
        before = provider.node_limits(nodes)
        assert before == dict(zip(nodes, (1, 2, 3), strict=True))
        server.fail("ec2:DescribeInstances", "status", status=503, times=-1)
        assert provider.node_limits(nodes) == before
        server.faults.clear()
        assert provider.node_limits(nodes[:1]) == {nodes[0]: 1}

    def test_limits_that_were_never_read(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        server.fail("ec2:DescribeInstances", "status", status=503, times=-1)
        with pytest.raises(Unavailable):
            provider.node_limits([account.add_instance().provider_id])

    def test_other_failures_are_told(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        nodes = [account.add_instance().provider_id]
        provider.node_limits(nodes)
        server.settings.denied = "ec2:DescribeInstances"
        with pytest.raises(AccessDenied):
            provider.node_limits(nodes)

    def test_an_instance_is_read_by_its_id(self, provider: IPProvider, account: Account, server: AWSServer) -> None:
        node, address = account.add_instance(), account.add_address()
        provider.assign(address, node.provider_id)
        (read,) = server.entries("DescribeInstances")
        assert read.parameters == {"InstanceId.1": node.id}

    def test_zones_of_nodes_need_no_read(
        self, provider: IPProvider, account: Account, calls: Callable[[], list[str]]
    ) -> None:
        node, address = account.add_instance(), account.add_address()
        account.put(address, node.id)
        provider.node_limits([node.provider_id])
        calls()
        assert provider.list_addresses([])[address].provider_id == node.provider_id
        assert calls() == ["DescribeAddresses"]
