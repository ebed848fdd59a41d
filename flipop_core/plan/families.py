"""Whether the addresses that a pool has are of the family that its spec asks for."""

from __future__ import annotations

from flipop_core.errors import ResourceInvalid
from flipop_core.resources import reasons
from flipop_core.resources.parse import PoolView
from flipop_core.resources.types import family_of, pool_family


def check_families(pool: PoolView) -> None:
    """Raise ResourceInvalid when the pool would use addresses of another family than its own.

    Those are recorded, from before the spec asked for another family. Beyond desiredIPs they are in nobody's way, and
    of a pool that is being deleted they are given back all the same.
    """
    spec = pool.spec
    if spec is None or spec.ip_selector is not None or pool.metadata.deletion_timestamp is not None:
        return
    family = pool_family(spec)
    used = tuple(dict.fromkeys((*spec.ips, *pool.ledger.allocated)))[: spec.desired_ips or len(spec.ips)]
    others = [address for address in used if address not in spec.ips and family_of(address) != family]
    if others:
        field, value = ("spec.ips[0]", spec.ips[0]) if spec.ips and not spec.ip_family else ("spec.ipFamily", family)
        mend = f"the pool has {family_of(others[0])} addresses, such as {others[0]}: make a second pool for {family}"
        raise ResourceInvalid(field, value, mend, reason=reasons.INVALID_ADDRESS)
