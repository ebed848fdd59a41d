"""Reading many addresses and instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flipop_aws.client import Client, Purpose
from flipop_aws_testserver import Account, AWSServer
from flipop_core import IPProvider

MANY = 230
"""More than the 200 values that a filter takes."""


def test_many_addresses_are_one_read(account: Account, provider: IPProvider, calls: Callable[[], list[str]]) -> None:
    made = {account.add_address() for _ in range(MANY)}
    assert provider.list_addresses([]).keys() == made
    assert calls() == ["DescribeAddresses"]


def test_more_addresses_than_a_filter_takes(account: Account, provider: IPProvider) -> None:
    made = [account.add_address() for _ in range(MANY)]
    assert provider.describe([*made, "203.0.113.200"]).keys() >= set(made)


def test_more_instances_than_a_filter_takes(
    account: Account, provider: IPProvider, calls: Callable[[], list[str]]
) -> None:
    nodes = [account.add_instance().provider_id for _ in range(MANY)]
    assert provider.node_limits(nodes) == dict.fromkeys(nodes, 1)
    assert calls() == ["DescribeInstances"]


def test_instance_that_does_not_exist_has_no_entry(account: Account, provider: IPProvider) -> None:
    node = account.add_instance().provider_id
    unknown = "aws:///us-east-1a/i-0123456789abcdef0"
    assert provider.node_limits([node, unknown, "gce://project/zone/name"]) == {node: 1}


def test_ipv6_addresses_are_none_of_its(provider: IPProvider, server: AWSServer) -> None:
    assert provider.describe(["2001:db8::1"]) == {}
    assert server.entries() == []


def test_tags_are_shown(account: Account, provider: IPProvider) -> None:
    address = account.add_address("us-east-1", tags={"team": "edge", "a": "b"})
    assert provider.list_addresses([])[address].tags == (("a", "b"), ("team", "edge"))


def test_carrier_address_of_a_wavelength_zone_is_none_of_its(
    account: Account, provider: IPProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EC2 lists it with the others, without a public address."""
    address, call = account.add_address(), Client.call
    carrier = {"AllocationId": "eipalloc-0c", "CarrierIp": "155.146.10.1", "NetworkInterfaceId": "eni-0c"}

    def with_carrier(client: Client, purpose: Purpose, method: str, **arguments: Any) -> Any:
        answer = call(client, purpose, method, **arguments)
        if method == "describe_addresses":
            return {**answer, "Addresses": [carrier, *answer["Addresses"]]}
        return answer

    monkeypatch.setattr(Client, "call", with_carrier)
    assert provider.list_addresses([]).keys() == {address}
    assert provider.describe([address]).keys() == {address}
