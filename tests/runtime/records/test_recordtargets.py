"""What a spec says of its record set, and what is wrong with it."""

from __future__ import annotations

import msgspec
import pytest

from flipop_core.errors import (
    ResourceInvalid,
)
from flipop_core.providers import ProviderCapabilities
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.types import Ownership
from flipop_core.runtime.checks import check_target_offline
from flipop_core.runtime.recordtargets import check_target
from flipop_core.testing.cloud import CloudConfig, InMemoryCloud
from flipop_core.testing.providers import InMemoryDNSProvider, in_memory_factories
from tests.runtime.dnsrig import COMMENTS, TXT

from .cases import owned, spec


def registry_of(capabilities: ProviderCapabilities) -> ProviderRegistry:
    registry = ProviderRegistry({})
    registry.register(in_memory_factories(InMemoryCloud(CloudConfig(capabilities=capabilities))), name="memory")
    return registry


@pytest.mark.parametrize(
    ("fields", "capabilities", "field", "reason"),
    [
        ({"recordName": ""}, TXT, "recordName", "InvalidSpec"),
        ({"zone": ""}, TXT, "zone", "InvalidSpec"),
        ({"recordName": "a..b"}, TXT, "recordName", "InvalidName"),
        ({"recordName": "www.example.org."}, TXT, "recordName", "InvalidName"),
        ({"zone": "exa mple.com"}, TXT, "zone", "InvalidName"),
        ({"zone": "*.example.com"}, TXT, "zone", "InvalidName"),
        ({"ttl": 29}, TXT, "ttl", "InvalidTTL"),
        ({}, ProviderCapabilities(record_types=("TXT",)), "provider", "Unsupported"),
        (
            {"ownership": Ownership("owned", "c1")},
            ProviderCapabilities(record_types=("A",)),
            "ownership",
            "Unsupported",
        ),
        ({"ownership": Ownership("owned", "c1"), "recordName": "x" * 62}, TXT, "recordName", "InvalidName"),
    ],
    ids=str,
)
def test_what_is_wrong_names_the_field(
    fields: dict[str, object], capabilities: ProviderCapabilities, field: str, reason: str
) -> None:
    wrong = msgspec.structs.replace(
        spec(), **{{"recordName": "record_name"}.get(name, name): value for name, value in fields.items()}
    )
    problem = check_target(wrong, "memory", "A", registry_of(capabilities))
    assert isinstance(problem, ResourceInvalid)
    assert problem.field == f"spec.dnsRecordSet.{field}"
    assert problem.reason == reason
    assert problem.mend


def test_a_long_label_needs_no_txt_record_where_there_are_comments() -> None:
    long = msgspec.structs.replace(owned(), record_name="x" * 63)
    assert check_target(long, "memory", "A", registry_of(COMMENTS)) is None


@pytest.mark.parametrize(("asked", "refused"), [(True, True), (False, False), (None, False)])
def test_to_proxy_a_name_takes_a_provider_that_does(
    monkeypatch: pytest.MonkeyPatch, asked: bool | None, refused: bool
) -> None:
    wanted, registry = spec(proxied=asked), registry_of(TXT)
    assert check_target(wanted, "memory", "A", registry) is None
    kept = InMemoryDNSProvider.normalize
    monkeypatch.setattr(
        InMemoryDNSProvider,
        "normalize",
        lambda self, record_set: msgspec.structs.replace(kept(self, record_set), proxied=None),
    )
    problem = check_target(wanted, "memory", "A", registry)
    assert (problem is not None) is refused
    if refused:
        assert isinstance(problem, ResourceInvalid)
        assert (problem.field, problem.reason) == ("spec.dnsRecordSet.proxied", "Unsupported")


@pytest.mark.parametrize(("ttl", "refused"), [(0, False), (1, False), (2, True), (29, True), (30, False)])
def test_an_automatic_ttl_is_not_refused_without_asking_the_provider(ttl: int, refused: bool) -> None:
    problem = check_target_offline(spec(ttl=ttl), "memory", "A", registry_of(TXT))
    assert (problem is not None) is refused
