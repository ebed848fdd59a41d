"""What the author of a provider supplies for the conformance kit, and the kit's own small tools."""

from __future__ import annotations

import logging
import threading
import time
import traceback
import unittest
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, NoReturn, Protocol, Self, TypeVar

from flipop_core.errors import ProviderError
from flipop_core.model import AddressRecord, CreateRequest
from flipop_core.providers import IPProvider, ProviderFactory

FaultKind = Literal["rate_limited", "unavailable", "lost_answer", "hang"]
"""What can go wrong with the next request of an operation. In each case it goes wrong once, and only once.

- ``rate_limited``: refused with 429 and the seconds to wait; no effect
- ``unavailable``: the request arrives and is answered with a 5xx; no effect
- ``lost_answer``: the request arrives and has its effect; the connection breaks before the answer
- ``hang``: the request arrives and is not answered for longer than the provider's timeout; no effect
"""

MOST_PER_NODE = 16
"""Up to how many addresses per node the kit fills a node."""

E = TypeVar("E", bound=Exception)
T = TypeVar("T")


class IPProviderHarness(Protocol):
    """An `IPProvider` together with the account, real or simulated, that it works on. Made anew for each test.

    Subclass it. What has no default must be supplied. The defaults of the rest say "this cannot be offered", and the
    tests of the rules concerned are then skipped with that reason, so that a report shows what was not exercised.
    """

    provider: IPProvider
    """The provider under test."""

    region: str
    """The region of the nodes, as `CreateRequest.region` names it."""

    timeout_seconds: float
    """The ``ProviderContext.timeout_seconds`` that the provider was built with. A second or less keeps tests quick."""

    secrets: tuple[str, ...] = ()
    """The credentials, as texts that must not show up anywhere."""

    faults: frozenset[FaultKind] = frozenset()
    """The kinds of faults that `fail_next` can make."""

    factory: ProviderFactory | None = None
    """What the plugin's hook offers for this provider."""

    marks_creations: bool = False
    """Whether the provider puts the claim of a creation into a tag."""

    settle_seconds: float = 15.0
    """How long an effect may take to be seen in the account."""

    poll_seconds: float = 0.1
    """How long to wait between two reads for it."""

    def node_ids(self, count: int) -> list[str]:
        """Return the provider IDs of so many nodes of the region. None of them holds an address."""
        ...

    def foreign_node_id(self) -> str:
        """Return a text that is no provider ID of this provider: malformed, or another cloud's."""
        ...

    def make_address(self) -> str:
        """Make an address in the region, on no node, without the provider's help, and return it."""
        ...

    def unknown_address(self) -> str:
        """Return an address that is not in the account."""
        ...

    def settle(self, address: str) -> None:
        """Return once no operation on the address is pending."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass: real time, unless the account lives by another clock."""
        time.sleep(seconds)

    def other_region_node_id(self) -> str | None:
        """Return the provider ID of a node outside the region, None where addresses serve every region."""
        return None

    def unknown_node_id(self) -> str | None:
        """Return a well-formed provider ID of a node that does not exist."""
        return None

    def change_behind_back(self, address: str, provider_id: str | None) -> bool:
        """Put the address on that node, or on none, without the provider's help. False: cannot be done."""
        del address, provider_id
        return False

    def limited_node_id(self, limit: int) -> str | None:
        """Return the provider ID of a node that can hold just so many addresses of one family, None: cannot be made.

        Only of interest with the capability ``node_limits``. None of the nodes of `node_ids` has such a limit.
        """
        del limit
        return None

    def set_tags(self, address: str, tags: Mapping[str, str]) -> bool:
        """Give the address these tags without the provider's help; others may stay. False: cannot be done.

        Only of interest with the capability ``address_tags``.
        """
        del address, tags
        return False

    def address_pool(self) -> str | None:
        """Return the name of a pool that has addresses to create from, and no name of one with a ``0`` behind it.

        Only of interest with the capability ``address_pools``.
        """
        return None

    def is_of_pool(self, address: str, pool: str) -> bool:
        """Whether an address of the account was taken from that pool, as the account itself says."""
        raise AssertionError(f"{type(self).__name__} has an address_pool and no is_of_pool({address!r}, {pool!r})")

    def exhaust_quota(self) -> bool:
        """Bring the account to its limit of addresses. False: cannot be done."""
        return False

    def with_wrong_credentials(self) -> IPProvider | None:
        """Return a provider like the one under test with credentials that are refused (also part of `secrets`)."""
        return None

    def without_scope(self) -> tuple[IPProvider, str] | None:
        """Return a provider whose credentials lack a permission to read, and how the vendor names that permission."""
        return None

    def announce_rate_limit(self, limit: int) -> bool:
        """Let the service admit so many requests from now on, and its answers say so and how many they leave.

        False: its answers tell of no limit. Only of interest for a provider that is a `ReportsRateLimit` too.
        """
        del limit
        return False

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        """Let the next request of that `IPProvider` method go wrong once.

        ``retry_after_seconds`` is what the answer ``rate_limited`` says.
        """
        del retry_after_seconds
        raise AssertionError(f"{type(self).__name__} declares {kind!r} in `faults` and has no fail_next({operation!r})")


def expect(condition: bool, rule: str) -> None:
    """Raise AssertionError, naming the rule, unless the condition holds. Works under ``python -O`` too."""
    if not condition:
        raise AssertionError(rule)


def expect_equal(actual: object, expected: object, rule: str) -> None:
    """Raise AssertionError, naming the rule and both values, unless they are equal."""
    expect(actual == expected, f"{rule}: got {actual!r}, expected {expected!r}")


def raises(expected: type[E], call: Callable[[], object], rule: str) -> E:
    """Return the error of the expected type that ``call`` raises; AssertionError for any other or none."""
    try:
        answer = call()
    except expected as error:
        return error
    except Exception as error:
        raise AssertionError(f"{rule}: raised {error!r} instead of {expected.__name__}") from error
    raise AssertionError(f"{rule}: returned {answer!r} instead of raising {expected.__name__}")


def succeeds(call: Callable[[], T], rule: str) -> T:
    """Return what ``call`` returns; AssertionError, naming the rule, when it raises."""
    try:
        return call()
    except Exception as error:
        raise AssertionError(f"{rule}: raised {error!r}") from error


def not_exercised(reason: str) -> NoReturn:
    """Skip the test: the harness cannot offer what the rule needs."""
    raise unittest.SkipTest(f"not exercised: {reason}")


def need_fault(harness: IPProviderHarness, kind: FaultKind) -> None:
    """Skip the test unless the harness can make that kind of fault."""
    if kind not in harness.faults:
        not_exercised(f"the harness cannot make the fault {kind!r}")


def need_secrets(secrets: tuple[str, ...]) -> None:
    """Skip the test unless the harness names its credentials; AssertionError when one of them is empty."""
    if not secrets:
        not_exercised("the harness names no credentials")
    expect(all(secrets), "no credential is empty")


def keeps_secrets(
    secrets: tuple[str, ...], provider: object, denied: object | None, provoke: Callable[[], Iterable[BaseException]]
) -> None:
    """Expect that no credential shows in the repr of the provider or the denied one, or in the errors provoked.

    Nor in what is logged meanwhile, of levels that are for production.
    """
    providers = [provider] if denied is None else [provider, denied]
    texts = {f"repr of {type(each).__name__}": f"{each!r} {each!s}" for each in providers}
    with _Logged() as logged:
        for number, error in enumerate(provoke()):
            texts[f"error {number}, {type(error).__name__}"] = _whole_text(error)
    texts |= {f"log line {number}": text for number, text in enumerate(logged.texts)}
    for origin, text in texts.items():
        expect(not any(secret in text for secret in secrets), f"the {origin} shows a credential")


class _Logged(logging.Handler):
    """What is logged by whom and how, from INFO on, while this is entered."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []
        self._level = logging.NOTSET

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{self.format(record)} {vars(record)!r}")

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._level = root.level
        root.setLevel(min(self._level, logging.INFO))
        root.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)


def _whole_text(error: BaseException) -> str:
    """Return all that a log of the error, its causes and their attributes could show."""
    texts = []
    link: BaseException | None = error
    while link is not None:
        texts.append(f"{link!s} {link!r} {link.args!r} {vars(link)!r}")
        link = link.__cause__ or link.__context__
    return "\n".join([*texts, *traceback.format_exception(error)])


def record_of(harness: IPProviderHarness, address: str) -> AddressRecord | None:
    """Return what the provider says of one address, None when it says that there is none."""
    return harness.provider.describe([address]).get(address)


def eventually(
    harness: IPProviderHarness,
    read: Callable[[], T],
    accept: Callable[[T], bool],
    rule: str,
    *,
    limit_seconds: float | None = None,
) -> T:
    """Return the first acceptable reading; AssertionError with the last one after limit_seconds.

    By default these are the harness's ``settle_seconds``.
    """
    limit_seconds = harness.settle_seconds if limit_seconds is None else limit_seconds
    waited_seconds = 0.0
    while not accept(reading := read()):
        expect(waited_seconds < limit_seconds, f"{rule}: still {reading!r} after {waited_seconds:g} s")
        harness.wait(harness.poll_seconds)
        waited_seconds += harness.poll_seconds
    return reading


def holds(harness: IPProviderHarness, address: str, provider_id: str | None, rule: str) -> None:
    """Expect that both reads come to agree that this node, or none, holds the address."""
    harness.settle(address)

    def read() -> tuple[AddressRecord | None, AddressRecord | None]:
        return record_of(harness, address), harness.provider.list_addresses([address]).get(address)

    def accept(records: tuple[AddressRecord | None, AddressRecord | None]) -> bool:
        return all(record is not None and record.provider_id == provider_id for record in records)

    eventually(harness, read, accept, f"{rule}: describe and list_addresses say that {provider_id} holds {address}")


def request_for(harness: IPProviderHarness, provider_id: str | None = None) -> CreateRequest:
    """Return a request as the controller records it: with every address that exists before."""
    return CreateRequest(
        claim=f"conformance-{uuid.uuid4().hex[:12]}",
        region=harness.region,
        owner="conformance/contract",
        cluster="conformance",
        provider_id=provider_id,
        known_addresses=tuple(sorted(everything(harness.provider))),
    )


def assign(harness: IPProviderHarness, address: str, provider_id: str) -> None:
    """Assign an address and wait until it is so."""
    succeeds(lambda: harness.provider.assign(address, provider_id), f"{address} can be assigned to {provider_id}")
    holds(harness, address, provider_id, "an assigned address is on its node")


def attempt(call: Callable[[], object]) -> object:
    """Return the call's answer, or the provider error that it raises."""
    try:
        return call()
    except ProviderError as error:
        return error


def all_at_once(calls: list[Callable[[], object]]) -> list[object]:
    """Run the calls in as many threads, released together; return their answers or provider errors in order."""
    gate = threading.Barrier(len(calls), timeout=30.0)

    def run(call: Callable[[], object]) -> object:
        gate.wait()
        return attempt(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def node_capacity(harness: IPProviderHarness) -> int:
    """Return how many addresses fill a node; skip the test when they are too many to make."""
    capacity = harness.provider.capabilities.max_ips_per_node
    if capacity > MOST_PER_NODE:
        not_exercised(f"{capacity} addresses per node are too many to make")
    return capacity


def everything(provider: IPProvider) -> Mapping[str, AddressRecord]:
    """Read all addresses of the account, of every family that the provider has."""
    return provider.list_addresses((), families=provider.capabilities.address_families)
