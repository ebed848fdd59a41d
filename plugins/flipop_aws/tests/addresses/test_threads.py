"""One provider in several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from flipop_aws.inflight import InFlight
from flipop_aws_testserver import Account, AWSServer
from flipop_core import Applied, Busy, CreateRequest, IPProvider


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_second_mutation_in_flight_is_busy_and_not_sent(
    provider: IPProvider, server: AWSServer, account: Account
) -> None:
    node, other = account.add_instance(), account.add_instance()
    address, another = account.add_address(), account.add_address()
    provider.list_addresses([])
    server.journal.clear()
    server.settings.latency_seconds = 1.0
    results: list[object] = []
    first = threading.Thread(target=lambda: results.append(provider.assign(address, node.provider_id)))
    first.start()
    wait_for(lambda: bool(server.entries()))
    blocked: list[Callable[[], object]] = [
        lambda: provider.assign(another, node.provider_id),
        lambda: provider.assign(address, other.provider_id),
        lambda: provider.unassign(address),
        lambda: provider.delete(address),
    ]
    for mutate in blocked:
        with pytest.raises(Busy, match="under way"):
            mutate()
    server.settings.latency_seconds = 0.0
    first.join()
    assert results == [Applied()]
    assert server.actions() == {"ec2:DescribeInstances": 1, "ec2:AssociateAddress": 1}
    assert provider.unassign(address) == Applied()


def test_two_creations_of_one_claim_make_one_address(provider: IPProvider, server: AWSServer, account: Account) -> None:
    server.settings.latency_seconds = 0.2
    request, gate = CreateRequest("claim-1", region="us-east-1"), threading.Barrier(2)

    def create() -> object:
        gate.wait()
        try:
            return provider.create(request).address
        except Busy as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        made = [each.result() for each in [pool.submit(create) for _ in range(2)]]
    assert len(account.addresses()) == 1
    assert account.addresses().keys() >= {each for each in made if isinstance(each, str)}


def test_16_threads_share_one_provider(provider: IPProvider, account: Account) -> None:
    pairs = [(account.add_address(), account.add_instance()) for _ in range(16)]

    def work(number: int) -> None:
        address, node = pairs[number]
        for _ in range(3):
            assert provider.assign(address, node.provider_id) == Applied()
            assert provider.describe([address])[address].provider_id == node.provider_id
            assert provider.unassign(address) == Applied()
            assert provider.describe([address])[address].provider_id is None

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


def test_names_are_held_together_or_not_at_all() -> None:
    flights = InFlight()
    with flights.hold("assign", "a", "b"):
        with pytest.raises(Busy, match="b"), flights.hold("assign", "c", "b"):
            pass
        with flights.hold("assign", "c"):
            pass
    with pytest.raises(LookupError), flights.hold("assign", "a"):
        raise LookupError
    with flights.hold("assign", "a", "b"):
        pass
