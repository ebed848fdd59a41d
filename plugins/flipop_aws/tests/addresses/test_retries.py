"""What is sent again: reads of EC2, within the time that one call may take, and never a change."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flipop_aws_testserver import Account, AWSServer
from flipop_core import CreateRequest, IPProvider, OutcomeUnknown, ProviderError, Unavailable


@pytest.mark.parametrize("kind", ["status", "drop_before", "html_502"])
def test_read_is_repeated_once(account: Account, provider: IPProvider, server: AWSServer, kind: str) -> None:
    address = account.add_address()
    server.fail("ec2:DescribeAddresses", kind, status=500)
    assert provider.list_addresses([]).keys() == {address}
    assert len(server.entries()) == 2


def test_read_that_keeps_failing_is_unavailable(provider: IPProvider, server: AWSServer) -> None:
    server.fail("ec2:DescribeAddresses", "status", status=503, times=9)
    with pytest.raises(Unavailable):
        provider.list_addresses([])
    assert len(server.entries()) == 2


def test_read_that_hangs_ends_in_time(new_provider: Callable[..., IPProvider], server: AWSServer) -> None:
    provider = new_provider(timeout_seconds=4.0)
    server.fail("ec2:DescribeAddresses", "hang", times=9)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        provider.list_addresses([])
    assert time.monotonic() - started < 7


def test_short_calls_are_not_repeated(new_provider: Callable[..., IPProvider], server: AWSServer) -> None:
    server.fail("ec2:DescribeAddresses", "status", status=500)
    with pytest.raises(Unavailable):
        new_provider(timeout_seconds=1.0).list_addresses([])
    assert len(server.entries()) == 1


CHANGES: dict[str, Callable[[IPProvider, str, str], object]] = {
    "ec2:AllocateAddress": lambda provider, address, node: provider.create(CreateRequest("claim-9")),
    "ec2:AssociateAddress": lambda provider, address, node: provider.assign(address, node),
    "ec2:DisassociateAddress": lambda provider, address, node: provider.unassign(address),
    "ec2:ReleaseAddress": lambda provider, address, node: provider.delete(address),
}


@pytest.mark.parametrize("kind", ["status", "drop_before", "html_502", "drop_after_effect", "throttle"])
@pytest.mark.parametrize("action", CHANGES)
def test_change_is_sent_once(account: Account, provider: IPProvider, server: AWSServer, action: str, kind: str) -> None:
    node, other, address = account.add_instance(), account.add_instance(), account.add_address()
    if action == "ec2:DisassociateAddress":
        account.put(address, other.id)
    if kind == "throttle":
        server.throttle(action, times=9)
    else:
        server.fail(action, kind, status=500, times=9)
    with pytest.raises(ProviderError) as caught:
        CHANGES[action](provider, address, node.provider_id)
    assert isinstance(caught.value, OutcomeUnknown) == (kind != "throttle")
    assert len(server.entries(action)) == 1


def test_change_that_hangs_is_sent_once_and_ends_in_time(
    account: Account, new_provider: Callable[..., IPProvider], server: AWSServer
) -> None:
    provider = new_provider(timeout_seconds=2.0)
    server.fail("ec2:AllocateAddress", "hang", times=9)
    started = time.monotonic()
    with pytest.raises(OutcomeUnknown):
        provider.create(CreateRequest("claim-1", region="us-east-1"))
    assert time.monotonic() - started < 15
    assert len(server.entries("AllocateAddress")) == 1
