"""Conformance rules of errors, timeouts, threads and credentials."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from flipop_core.errors import (
    AccessDenied,
    Busy,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_core.model import AddressRecord, Applied, InProgress
from flipop_core.providers import IPProvider
from flipop_core.testing.harness import (
    FaultKind,
    IPProviderHarness,
    all_at_once,
    assign,
    attempt,
    everything,
    expect,
    expect_equal,
    holds,
    keeps_secrets,
    need_fault,
    need_secrets,
    node_capacity,
    not_exercised,
    raises,
    record_of,
    request_for,
    succeeds,
)

RETRY_AFTER_SECONDS = 7.0
THREADS = 8


class FaultRules:
    """Rules of what a provider does when something goes wrong."""

    def test_rate_limit_tells_its_seconds(self, harness: IPProviderHarness) -> None:
        """A 429 raises RateLimited with the seconds asked for, at once: nothing is done, repeated or waited for."""
        need_fault(harness, "rate_limited")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        request = request_for(harness)
        for operation, call in _calls(harness, address, node).items():
            harness.fail_next(operation, "rate_limited", retry_after_seconds=RETRY_AFTER_SECONDS)
            with _TimeLimit(harness, operation):
                error = raises(RateLimited, call, f"a rate limit met by {operation} is RateLimited")
            off = abs(error.retry_after_seconds - RETRY_AFTER_SECONDS)
            expect(off <= 1.5, f"{operation} was told {RETRY_AFTER_SECONDS:g} s and says {error.retry_after_seconds:g}")
        holds(harness, address, None, "rate-limited operations")
        made = set(everything(harness.provider)) - set(request.known_addresses)
        expect_equal(made, set(), "what a rate-limited creation made")

    def test_lost_answer_is_unknown(self, harness: IPProviderHarness) -> None:
        """A mutation whose answer is lost raises OutcomeUnknown, and a read then tells what became of it."""
        need_fault(harness, "lost_answer")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        provider = harness.provider
        harness.fail_next("assign", "lost_answer")
        raises(OutcomeUnknown, lambda: provider.assign(address, node), "a lost answer to assign is OutcomeUnknown")
        holds(harness, address, node, "an assign whose answer was lost")
        harness.fail_next("unassign", "lost_answer")
        raises(OutcomeUnknown, lambda: provider.unassign(address), "a lost answer to unassign is OutcomeUnknown")
        holds(harness, address, None, "an unassign whose answer was lost")
        harness.fail_next("delete", "lost_answer")
        raises(OutcomeUnknown, lambda: provider.delete(address), "a lost answer to delete is OutcomeUnknown")
        expect_equal(record_of(harness, address), None, "what a delete whose answer was lost left")

    def test_mutation_answered_5xx_is_unknown(self, harness: IPProviderHarness) -> None:
        """A mutation that is answered 5xx raises OutcomeUnknown and is not sent again."""
        need_fault(harness, "unavailable")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        harness.fail_next("assign", "unavailable")
        raises(OutcomeUnknown, lambda: harness.provider.assign(address, node), "assign answered 5xx is OutcomeUnknown")
        holds(harness, address, None, "an assign that was answered 5xx")
        for operation, call, holder in _removals(harness, address, node):
            harness.fail_next(operation, "unavailable")
            raises(OutcomeUnknown, call, f"{operation} answered 5xx is OutcomeUnknown")
            holds(harness, address, holder, f"{operation} that was answered 5xx")

    def test_read_answered_5xx_is_unavailable(self, harness: IPProviderHarness) -> None:
        """A read that is answered 5xx raises Unavailable, or answers rightly at a second attempt."""
        need_fault(harness, "unavailable")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        assign(harness, address, node)
        for operation, read in _address_reads(harness.provider, address).items():
            harness.fail_next(operation, "unavailable")
            _expect_read(operation, read, address, node)
        created, find = _creation(harness)
        harness.fail_next("find_created", "unavailable")
        _expect_found(find, created)

    def test_hang_ends_within_the_timeout(self, harness: IPProviderHarness) -> None:
        """An unanswered request ends within the timeout: OutcomeUnknown for a mutation, Unavailable for a read."""
        need_fault(harness, "hang")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        provider = harness.provider
        harness.fail_next("assign", "hang")
        with _TimeLimit(harness, "assign"):
            raises(OutcomeUnknown, lambda: provider.assign(address, node), "an assign that hangs is OutcomeUnknown")
        harness.fail_next("create", "hang")
        request = request_for(harness)
        with _TimeLimit(harness, "create"):
            raises(OutcomeUnknown, lambda: provider.create(request), "a creation that hangs is OutcomeUnknown")
        for operation, read in _address_reads(provider, address).items():
            harness.fail_next(operation, "hang")
            with _TimeLimit(harness, operation):
                _expect_read(operation, read, address, None)
        holds(harness, address, None, "an assign that hung")
        for operation, call, holder in _removals(harness, address, node):
            harness.fail_next(operation, "hang")
            with _TimeLimit(harness, operation):
                raises(OutcomeUnknown, call, f"{operation} that hangs is OutcomeUnknown")
            holds(harness, address, holder, f"{operation} that hung")
        made = set(everything(harness.provider)) - set(request.known_addresses)
        expect_equal(made, set(), "what a creation that hung made")
        created, find = _creation(harness)
        harness.fail_next("find_created", "hang")
        with _TimeLimit(harness, "find_created"):
            _expect_found(find, created)

    def test_eight_threads_assign_eight_addresses(self, harness: IPProviderHarness) -> None:
        """Calls from several threads at once do not disturb one another."""
        addresses, nodes = [harness.make_address() for _ in range(THREADS)], harness.node_ids(THREADS)
        pairs = list(zip(addresses, nodes, strict=True))
        answers = all_at_once([partial(harness.provider.assign, address, node) for address, node in pairs])
        for (address, node), answer in zip(pairs, answers, strict=True):
            expect(isinstance(answer, Applied | InProgress), f"assigning {address} to {node} in a thread: {answer!r}")
        for address, node in pairs:
            holds(harness, address, node, "assign from eight threads")
        reads = all_at_once([partial(record_of, harness, address) for address in addresses])
        for (address, node), record in zip(pairs, reads, strict=True):
            right = isinstance(record, AddressRecord) and (record.address, record.provider_id) == (address, node)
            expect(right, f"describing {address}, on {node}, in a thread: {record!r}")

    def test_threads_never_overfill_a_node(self, harness: IPProviderHarness) -> None:
        """More addresses than a node takes, assigned at once: the rest get NodeInUse or Busy and stay unassigned."""
        capacity, (node,) = node_capacity(harness), harness.node_ids(1)
        addresses = [harness.make_address() for _ in range(capacity + 1)]
        answers = all_at_once([partial(harness.provider.assign, address, node) for address in addresses])
        accepted = {
            address: answer
            for address, answer in zip(addresses, answers, strict=True)
            if not isinstance(answer, NodeInUse | Busy)
        }
        for answer in accepted.values():
            expect(isinstance(answer, Applied | InProgress), f"assigning to a contested node: {answer!r}")
        expect(1 <= len(accepted) <= capacity, f"{len(accepted)} of {len(addresses)} accepted by a node of {capacity}")
        for address in addresses:
            holds(harness, address, node if address in accepted else None, "assign to a contested node")

    def test_wrong_credentials_are_access_denied(self, harness: IPProviderHarness) -> None:
        """With refused credentials every call raises AccessDenied and has no effect."""
        denied = harness.with_wrong_credentials()
        if denied is None:
            not_exercised("the harness has no credentials that are refused")
        address, (node,) = harness.make_address(), harness.node_ids(1)
        for operation, call in _calls(harness, address, node, provider=denied).items():
            raises(AccessDenied, call, f"{operation} with refused credentials is AccessDenied")
        holds(harness, address, None, "calls with refused credentials")

    def test_secrets_stay_secret(self, harness: IPProviderHarness) -> None:
        """No credential shows up in a repr, a log line, or an error, its cause or its attributes."""
        need_secrets(harness.secrets)
        denied = harness.with_wrong_credentials()
        keeps_secrets(harness.secrets, harness.provider, denied, partial(_provoked_errors, harness, denied))


class _TimeLimit:
    """Expect that the block ends within twice the provider's timeout and a second."""

    def __init__(self, harness: IPProviderHarness, operation: str) -> None:
        self._limit_seconds = 2 * harness.timeout_seconds + 1.0
        self._operation = operation
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = time.monotonic()

    def __exit__(self, *_: object) -> None:
        took = time.monotonic() - self._start
        expect(took <= self._limit_seconds, f"{self._operation} took {took:.1f} s, over {self._limit_seconds:g} s")


def _address_reads(provider: IPProvider, address: str) -> dict[str, Callable[[], object]]:
    return {
        "describe": lambda: provider.describe([address]),
        "list_addresses": lambda: provider.list_addresses([address]),
    }


def _calls(
    harness: IPProviderHarness, address: str, node: str, *, provider: IPProvider | None = None
) -> dict[str, Callable[[], object]]:
    """Return one call of each method by its name; ``provider`` makes them, by default the harness's."""
    request, caller = request_for(harness), provider or harness.provider
    return {
        **_address_reads(caller, address),
        "find_created": lambda: caller.find_created(request),
        "create": lambda: caller.create(request),
        "assign": lambda: caller.assign(address, node),
        "unassign": lambda: caller.unassign(address),
        "delete": lambda: caller.delete(address),
    }


def _expect_read(operation: str, read: Callable[[], object], address: str, provider_id: str | None) -> None:
    answer = attempt(read)
    if isinstance(answer, Unavailable):
        return
    record = answer.get(address) if isinstance(answer, Mapping) else None
    right = isinstance(record, AddressRecord) and record.provider_id == provider_id
    expect(right, f"a {operation} that failed at first is Unavailable or right, not {answer!r}")


def _removals(
    harness: IPProviderHarness, address: str, node: str
) -> Iterator[tuple[str, Callable[[], object], str | None]]:
    """Yield `unassign` and `delete` of the address, each with who holds it: not every cloud deletes what is held."""
    provider = harness.provider
    assign(harness, address, node)
    yield "unassign", lambda: provider.unassign(address), node
    succeeds(lambda: provider.unassign(address), "an assigned address can be unassigned")
    holds(harness, address, None, "an unassigned address")
    yield "delete", lambda: provider.delete(address), None


def _creation(harness: IPProviderHarness) -> tuple[str, Callable[[], tuple[AddressRecord, ...]]]:
    """Create an address; return it, and the call that finds it again."""
    request = request_for(harness)
    created = succeeds(partial(harness.provider.create, request), "an address can be created").address
    holds(harness, created, None, "a created address")
    return created, partial(harness.provider.find_created, request)


def _expect_found(find: Callable[[], tuple[AddressRecord, ...]], created: str) -> None:
    """Expect no answer or the right one: an empty one means that nothing was created, and another address is."""
    answer = attempt(find)
    if not isinstance(answer, Unavailable):
        right = isinstance(answer, tuple) and created in [each.address for each in answer]
        expect(right, f"a find_created that failed at first is Unavailable or finds {created}, not {answer!r}")


def _provoked_errors(harness: IPProviderHarness, denied: IPProvider | None) -> list[ProviderError]:
    """Return the errors of calls that cannot succeed and of calls that meet a fault."""
    address, unknown, (node,) = harness.make_address(), harness.unknown_address(), harness.node_ids(1)
    provider = harness.provider
    errors: list[ProviderError] = [
        raises(NotFound, lambda: provider.assign(unknown, node), "assigning an unknown address"),
        raises(Rejected, lambda: provider.assign(address, harness.foreign_node_id()), "a foreign provider ID"),
    ]
    kinds: tuple[FaultKind, ...] = ("rate_limited", "unavailable", "lost_answer")
    for kind in kinds:
        if kind in harness.faults:
            harness.fail_next("assign", kind, retry_after_seconds=RETRY_AFTER_SECONDS)
            errors.append(raises(ProviderError, lambda: provider.assign(address, node), f"assign with {kind}"))
            harness.settle(address)
            provider.unassign(address)
            harness.settle(address)
    if denied is not None:
        errors += [
            raises(AccessDenied, call, f"{operation} with refused credentials")
            for operation, call in _calls(harness, address, node, provider=denied).items()
        ]
    return errors
