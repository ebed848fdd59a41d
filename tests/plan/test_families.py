"""A pool keeps to one family of addresses, whatever becomes of its spec."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flipop_core.errors import ResourceInvalid
from flipop_core.plan.families import check_families
from flipop_core.resources.parse import PoolView, decode_pool

V4, OTHER_V4, V6, OTHER_V6 = "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"


def pool(allocated: tuple[str, ...], *, deleting: bool = False, **spec: Any) -> PoolView:
    annotations = {"flipop.digitalocean.com/allocated-ips": ",".join(allocated)}
    metadata: dict[str, Any] = {"name": "pool", "namespace": "default", "annotations": annotations}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return decode_pool(json.dumps({"metadata": metadata, "spec": {"provider": "memory", **spec}}).encode())


FINE: dict[str, PoolView] = {
    "IPv4": pool((V4,), desiredIPs=2),
    "IPv6": pool((V6,), desiredIPs=2, ipFamily="IPv6"),
    "IPv6 by its own addresses": pool((OTHER_V6,), desiredIPs=2, ips=[V6]),
    "none yet": pool((), desiredIPs=2, ipFamily="IPv6"),
    "another family, beyond desiredIPs": pool((V4,), desiredIPs=1, ips=[V6]),
    "another family, and all it uses is named": pool((V4,), ips=[V6]),
    "another family, selected by tags": pool((V4,), desiredIPs=1, ipFamily="IPv6", ipSelector={"tags": {"a": "b"}}),
    "another family, about to go": pool((V4,), desiredIPs=1, ipFamily="IPv6", deleting=True),
    "no spec": pool((V4,), desiredIPs="many"),
}


@pytest.mark.parametrize("name", FINE)
def test_what_may_be(name: str) -> None:
    check_families(FINE[name])


@pytest.mark.parametrize(
    ("view", "field"),
    [
        (pool((V4, OTHER_V4), desiredIPs=2, ipFamily="IPv6"), "spec.ipFamily"),
        (pool((V6,), desiredIPs=1), "spec.ipFamily"),
        (pool((V6,), desiredIPs=1, ipFamily="IPv4"), "spec.ipFamily"),
        (pool((V4,), desiredIPs=2, ips=[V6]), "spec.ips[0]"),
        (pool((V4,), desiredIPs=2, ips=[V6], ipFamily="IPv6"), "spec.ipFamily"),
        (pool((OTHER_V6, V4), desiredIPs=3, ips=[V6]), "spec.ips[0]"),
    ],
)
def test_what_is_said_of_a_family_that_was_changed(view: PoolView, field: str) -> None:
    with pytest.raises(ResourceInvalid, match="make a second pool for IPv") as caught:
        check_families(view)
    assert (caught.value.field, caught.value.reason) == (field, "InvalidAddress")
