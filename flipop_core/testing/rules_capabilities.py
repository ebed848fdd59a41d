"""Conformance rules of `ProviderCapabilities`: what is declared is true, and is all that the controller will see."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from flipop_core.errors import NodeInUse, RateLimited, Rejected
from flipop_core.model import AddressRecord
from flipop_core.providers import IPProvider, ProviderCapabilities, ProviderFactory
from flipop_core.testing.harness import (
    IPProviderHarness,
    assign,
    eventually,
    everything,
    expect,
    expect_equal,
    holds,
    need_fault,
    not_exercised,
    raises,
    record_of,
    request_for,
    succeeds,
)
from flipop_core.testing.rules_faults import RETRY_AFTER_SECONDS

FIRST_TAGS, OTHER_TAGS = {"role": "ingress", "env": "conformance"}, {"role": "egress", "env": "conformance"}


class _Declaring(Protocol):
    @property
    def capabilities(self) -> ProviderCapabilities: ...


class _Harness(Protocol):
    """What the harnesses of all roles have in common."""

    @property
    def provider(self) -> _Declaring: ...
    @property
    def factory(self) -> ProviderFactory | None: ...


class DeclarationRules:
    """Rules of what a plugin declares, alike for providers of all roles."""

    def test_factory_declares_what_the_provider_does(self, harness: _Harness) -> None:
        """The factory, which is asked without credentials, declares the same capabilities as the provider it builds."""
        factory = harness.factory
        if factory is None:
            not_exercised("the harness names no factory")
        rule = "capabilities that the factory declares, beside those of the provider"
        expect_equal(factory.capabilities, harness.provider.capabilities, rule)


class CapabilityRules(DeclarationRules):
    """Rules of the capabilities of an IP provider that no rule of assignments or creations is about."""

    def test_capabilities_are_constant(self, harness: IPProviderHarness) -> None:
        """The capabilities can be read without a call, are sound, and stay the same."""
        provider = harness.provider
        expect(isinstance(provider, IPProvider), f"{type(provider).__name__} has every method of IPProvider")
        before = provider.capabilities
        expect(before.max_ips_per_node >= 1, f"max_ips_per_node is positive: {before!r}")
        expect(before.max_concurrency >= 1, f"max_concurrency is positive: {before!r}")
        families = set(before.address_families)
        expect(bool(families) and families <= {"IPv4", "IPv6"}, f"address_families are of IPv4, IPv6: {before!r}")
        provider.describe([harness.make_address()])
        expect_equal(provider.capabilities, before, "capabilities are constant for the life of the object")

    def test_every_declared_family_can_be_created(self, harness: IPProviderHarness) -> None:
        """Of each of address_families an address can be created, on no node, and is listed with its family."""
        for family in harness.provider.capabilities.address_families:
            request = replace(request_for(harness), family=family)
            created = succeeds(partial(harness.provider.create, request), f"{family} can be created")
            expect_equal(_family_of(created.address), family, f"the family of {created.address}")
            holds(harness, created.address, None, f"a created {family} address")
            listed = harness.provider.list_addresses((), families=(family,))
            expect(created.address in listed, f"list_addresses of {family} has {created.address}")

    def test_node_limits_are_true(self, harness: IPProviderHarness) -> None:
        """With node_limits declared, a node takes exactly as many addresses as are told; unknown ones are left out."""
        limit = harness.provider.capabilities.max_ips_per_node + 1
        limited = self._limited_node(harness, limit)
        (ordinary,) = harness.node_ids(1)
        asked = [limited, ordinary, harness.foreign_node_id(), *_known(harness.unknown_node_id())]
        told = succeeds(lambda: harness.provider.node_limits(asked), "the limits of nodes can be read")
        expect(isinstance(told, Mapping), f"node_limits answers a mapping, not {told!r}")
        expect_equal(told.get(limited), limit, f"the limit of {limited}, which holds {limit}")
        usual = limit - 1
        expect_equal(told.get(ordinary, usual), usual, f"the limit of {ordinary}, an ordinary node")
        expect(set(told) <= {limited, ordinary}, f"nodes that are unknown have no limit: {told!r}")
        for _ in range(limit):
            assign(harness, harness.make_address(), limited)
        surplus = harness.make_address()
        raises(NodeInUse, lambda: harness.provider.assign(surplus, limited), f"{limit} addresses fill {limited}")
        holds(harness, surplus, None, "assigning over a node's own limit")

    def test_node_limits_tell_a_rate_limit(self, harness: IPProviderHarness) -> None:
        """A 429 met by node_limits is RateLimited with its seconds: an empty answer would mean "the usual limit"."""
        node = self._limited_node(harness, harness.provider.capabilities.max_ips_per_node + 1)
        need_fault(harness, "rate_limited")
        harness.fail_next("node_limits", "rate_limited", retry_after_seconds=RETRY_AFTER_SECONDS)
        call = partial(harness.provider.node_limits, [node])
        error = raises(RateLimited, call, "a rate limit met by node_limits is RateLimited")
        off = abs(error.retry_after_seconds - RETRY_AFTER_SECONDS)
        expect(off <= 1.5, f"node_limits was told {RETRY_AFTER_SECONDS:g} s and says {error.retry_after_seconds:g}")

    def test_tags_are_read(self, harness: IPProviderHarness) -> None:
        """With address_tags declared, both reads tell an address's own tags, sorted, and changes of them."""
        if not harness.provider.capabilities.address_tags:
            not_exercised("the provider does not declare address_tags")
        tagged, plain = harness.make_address(), harness.make_address()
        for tags in (FIRST_TAGS, OTHER_TAGS):
            if not harness.set_tags(tagged, tags):
                not_exercised("the harness cannot tag an address")
            _expect_tags(harness, tagged, tags)
        record = record_of(harness, plain)
        expect(record is not None and not _has(record, OTHER_TAGS), f"tags of {tagged} are not those of {record!r}")

    def test_create_takes_the_address_from_its_pool(self, harness: IPProviderHarness) -> None:
        """With address_pools declared, an address comes from the pool asked for, and from no other if none is asked."""
        pool = self._address_pool(harness)
        inside = replace(request_for(harness), address_pool=pool)
        created = succeeds(lambda: harness.provider.create(inside), f"an address can be created from {pool}")
        expect(harness.is_of_pool(created.address, pool), f"{created.address} is of the pool {pool}")
        holds(harness, created.address, None, "an address created from a pool")
        outside = succeeds(lambda: harness.provider.create(request_for(harness)), "an address of no pool")
        expect(not harness.is_of_pool(outside.address, pool), f"{outside.address} is not of the pool {pool}")

    def test_unknown_pool_is_rejected(self, harness: IPProviderHarness) -> None:
        """A creation from a pool that does not exist raises Rejected and makes nothing."""
        unknown = f"{self._address_pool(harness)}0"
        request = replace(request_for(harness), address_pool=unknown)
        raises(Rejected, lambda: harness.provider.create(request), f"an unknown pool {unknown} is Rejected")
        made = set(everything(harness.provider)) - set(request.known_addresses)
        expect_equal(made, set(), "what a creation from an unknown pool made")

    @staticmethod
    def _limited_node(harness: IPProviderHarness, limit: int) -> str:
        if not harness.provider.capabilities.node_limits:
            not_exercised("the provider does not declare node_limits")
        node = harness.limited_node_id(limit)
        if node is None:
            not_exercised("the harness cannot make a node with a limit of its own")
        return node

    @staticmethod
    def _address_pool(harness: IPProviderHarness) -> str:
        if not harness.provider.capabilities.address_pools:
            not_exercised("the provider does not declare address_pools")
        pool = harness.address_pool()
        if pool is None:
            not_exercised("the harness has no address pool")
        return pool


def _known(node: str | None) -> tuple[str, ...]:
    return () if node is None else (node,)


def _family_of(address: str) -> str:
    return f"IPv{ipaddress.ip_address(address).version}"


def _has(record: AddressRecord, tags: Mapping[str, str]) -> bool:
    """Whether the record has these tags among its own, each key once, and all of them sorted."""
    held = dict(record.tags)
    sound = len(held) == len(record.tags) and list(record.tags) == sorted(record.tags)
    return sound and tags.items() <= held.items()


def _expect_tags(harness: IPProviderHarness, address: str, tags: Mapping[str, str]) -> None:
    def read() -> list[AddressRecord | None]:
        return [record_of(harness, address), harness.provider.list_addresses([address]).get(address)]

    def accept(records: list[AddressRecord | None]) -> bool:
        return all(record is not None and _has(record, tags) for record in records)

    eventually(harness, read, accept, f"describe and list_addresses tell the tags {tags!r} of {address}, sorted")
