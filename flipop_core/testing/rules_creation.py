"""Conformance rules of create and find_created: one address per request, and none is ever lost."""

from __future__ import annotations

from functools import partial

from flipop_core.errors import NodeInUse, OutcomeUnknown, QuotaExceeded
from flipop_core.model import Created, CreateRequest
from flipop_core.testing.harness import (
    IPProviderHarness,
    assign,
    eventually,
    everything,
    expect,
    expect_equal,
    holds,
    need_fault,
    node_capacity,
    not_exercised,
    raises,
    record_of,
    request_for,
)


class CreationRules:
    """Rules of create and find_created."""

    def test_create_makes_one_address(self, harness: IPProviderHarness) -> None:
        """A creation makes exactly one address, in the region asked for and on no node."""
        request = request_for(harness)
        created = harness.provider.create(request)
        expect(isinstance(created, Created), f"create answers Created, not {created!r}")
        holds(harness, created.address, None, "create without a node")
        self._expect_new(harness, request, {created.address})
        record = record_of(harness, created.address)
        expect(record is not None and record.region in ("", harness.region), f"{record} is in {harness.region}")

    def test_create_puts_the_address_on_the_node(self, harness: IPProviderHarness) -> None:
        """With create_on_node declared, a creation makes one address on the node asked for."""
        request = request_for(harness, self._free_node(harness))
        created = harness.provider.create(request)
        holds(harness, created.address, request.provider_id, "create on a node")
        self._expect_new(harness, request, {created.address})

    def test_create_on_a_full_node_makes_nothing(self, harness: IPProviderHarness) -> None:
        """A creation on a node that can hold no more raises NodeInUse and makes nothing."""
        capacity = node_capacity(harness)
        node = self._free_node(harness)
        for _ in range(capacity):
            assign(harness, harness.make_address(), node)
        request = request_for(harness, node)
        raises(NodeInUse, lambda: harness.provider.create(request), "create on a full node is NodeInUse")
        self._expect_new(harness, request, set())

    def test_lost_creation_is_found(self, harness: IPProviderHarness) -> None:
        """A creation whose answer is lost is OutcomeUnknown, was sent once, and is found by the same request."""
        need_fault(harness, "lost_answer")
        harness.make_address()
        self._expect_found_after_loss(harness, request_for(harness))

    def test_lost_creation_on_a_node_is_found(self, harness: IPProviderHarness) -> None:
        """The same for a creation straight on a node: exactly what the node holds is found."""
        need_fault(harness, "lost_answer")
        harness.make_address()
        self._expect_found_after_loss(harness, request_for(harness, self._free_node(harness)))

    def test_nothing_is_found_of_what_was_not_sent(self, harness: IPProviderHarness) -> None:
        """A request that made no address finds none, whatever else the account holds."""
        assign(harness, harness.make_address(), harness.node_ids(1)[0])
        harness.make_address()
        found = harness.provider.find_created(request_for(harness))
        expect_equal(tuple(found), (), "find_created of a creation that made nothing")

    def test_marked_creations_are_told_apart(self, harness: IPProviderHarness) -> None:
        """With tags, each request finds exactly its own address, even when neither was known before."""
        if not harness.marks_creations:
            not_exercised("the provider cannot mark what it creates")
        first, second = request_for(harness), request_for(harness)
        for request in (first, second):
            created = harness.provider.create(request)
            found = eventually(harness, partial(harness.provider.find_created, request), bool, "a creation is found")
            expect_equal([record.address for record in found], [created.address], "a tag finds its own creation")

    def test_quota_is_told(self, harness: IPProviderHarness) -> None:
        """At the account's limit a creation raises QuotaExceeded and makes nothing."""
        if not harness.exhaust_quota():
            not_exercised("the harness cannot bring the account to its limit")
        request = request_for(harness)
        raises(QuotaExceeded, lambda: harness.provider.create(request), "the account's limit is QuotaExceeded")
        self._expect_new(harness, request, set())

    def test_creation_answered_5xx_is_unknown(self, harness: IPProviderHarness) -> None:
        """A creation that is answered 5xx may have made an address: OutcomeUnknown, and it is not sent again."""
        need_fault(harness, "unavailable")
        request = request_for(harness)
        harness.fail_next("create", "unavailable")
        raises(OutcomeUnknown, lambda: harness.provider.create(request), "a creation answered 5xx is OutcomeUnknown")
        self._expect_new(harness, request, set())

    @staticmethod
    def _free_node(harness: IPProviderHarness) -> str:
        if not harness.provider.capabilities.create_on_node:
            not_exercised("the provider does not declare create_on_node")
        return harness.node_ids(1)[0]

    @staticmethod
    def _expect_new(harness: IPProviderHarness, request: CreateRequest, expected: set[str]) -> None:
        """Expect that exactly these addresses came to the account since the request was made."""
        new = set(everything(harness.provider)) - set(request.known_addresses)
        expect_equal(new, expected, "what the creation made")

    def _expect_found_after_loss(self, harness: IPProviderHarness, request: CreateRequest) -> None:
        harness.fail_next("create", "lost_answer")
        raises(OutcomeUnknown, lambda: harness.provider.create(request), "a lost answer to create is OutcomeUnknown")
        found = eventually(
            harness, lambda: harness.provider.find_created(request), bool, "the address of a lost creation is found"
        )
        expect_equal(len(found), 1, f"addresses found of one creation, {found!r}")
        self._expect_new(harness, request, {found[0].address})
        holds(harness, found[0].address, request.provider_id, "the address of a lost creation")
