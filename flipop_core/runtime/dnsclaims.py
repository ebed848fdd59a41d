"""Which resource keeps which record set, so that no two of them fight over one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from flipop_core.errors import ConfigError
from flipop_core.model import Key
from flipop_core.plan.dns import Ownership, RecordName
from flipop_core.plan.dnsvalues import node_record_type
from flipop_core.resources.parse import Metadata, PoolView, RecordSetView
from flipop_core.resources.statuses import RecordStatus
from flipop_core.resources.types import DNSRecordSet
from flipop_core.runtime.poolrecords import record_type_of
from flipop_core.runtime.records import Claim
from flipop_core.runtime.recordsets import provider_of
from flipop_core.runtime.recordtargets import dns_account, record_target
from flipop_core.runtime.reflector import Reflector

_Identity = tuple[str, str, str]

_LAST = "9999-12-31T23:59:59Z"
"""When a resource was created that comes after all others which keep a name, and before those that do not."""


class DNSClaims:
    """The claims of all that keeps record sets, by what they name; worked out anew after `changed`.

    ``pools`` returns everything that is seen as a pool; ``listed`` says whether all of it is known.
    """

    def __init__(
        self,
        pools: Callable[[], Iterable[PoolView]],
        record_sets: Reflector[RecordSetView],
        listed: Callable[[], bool],
    ) -> None:
        self._pools = pools
        self._record_sets = record_sets
        self._listed = listed
        self._index: dict[_Identity, list[Claim]] | None = None

    @property
    def known(self) -> bool:
        """Whether the resources have been listed, as far as the API server serves them."""
        return self._listed() and bool(self._record_sets.store.synced or self._record_sets.problem)

    def changed(self) -> None:
        """Forget what was worked out. Safe to call from any thread."""
        self._index = None

    def of(self, name: RecordName) -> tuple[Claim, ...]:
        """Return the claims to a record set, the first one first: who keeps it already, then by age, then by name."""
        index = self._index
        if index is None:
            index = {}
            for claim in self._claims():
                index.setdefault(_identity(claim.name), []).append(claim)
            self._index = index
        found = (claim for claim in index.get(_identity(name), ()) if claim.name.is_same_set(name))
        return tuple(sorted(found, key=lambda claim: (not claim.kept, claim.created, claim.key)))

    def _claims(self) -> Iterator[Claim]:
        for pool in self._pools():
            if pool.spec is None:
                yield from _kept(pool.key, pool.metadata, pool.status.records)
            elif pool.spec.dns_record_set is not None:
                spec = pool.spec.dns_record_set
                account = dns_account(pool, spec)
                yield from _claim(
                    pool.key, pool.metadata, spec, account, record_type_of(pool.spec), pool.status.records
                )
        for view in self._record_sets.store.values():
            if view.spec is None:
                yield from _kept(view.key, view.metadata, view.status.records)
            else:
                spec, record_type = view.spec.dns_record_set, node_record_type(view.spec.address_type)
                yield from _claim(
                    view.key, view.metadata, spec, provider_of(view.spec), record_type, view.status.records
                )


def _claim(
    key: Key,
    metadata: Metadata,
    spec: DNSRecordSet,
    provider: str,
    record_type: str,
    records: Iterable[RecordStatus],
) -> Iterator[Claim]:
    """Yield the claim, none for a resource that is being deleted or names nothing."""
    if metadata.deletion_timestamp is not None:
        return
    try:
        target = record_target(spec, provider, record_type)
    except ConfigError:
        yield from _kept(key, metadata, records)
        return
    kept = any(_name(record).is_same_set(target.name) for record in records)
    yield Claim(key, target.name, target.ownership, kept, metadata.creation_timestamp)


def _kept(key: Key, metadata: Metadata, records: Iterable[RecordStatus]) -> Iterator[Claim]:
    """Yield the claims of a resource whose spec makes no sense: what it keeps stays its own until that is mended."""
    if metadata.deletion_timestamp is not None:
        return
    for record in records:
        ownership = Ownership(record.owner_id, exclusive=record.exclusive) if record.owner_id else None
        yield Claim(key, _name(record), ownership, kept=True, created=_LAST)


def _name(record: RecordStatus) -> RecordName:
    return RecordName(record.provider, record.zone, record.name, record.type)


def _identity(name: RecordName) -> _Identity:
    return name.identity
