"""The reconcile of a NodeDNSRecordSet: the addresses of the fit nodes, in one DNS record set."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from flipop_core.cluster import NODE_DNS_RECORD_SETS, KubeAPI
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.loggers import get_logger
from flipop_core.model import Key
from flipop_core.plan.dns import RecordAction, RecordName, RecordPlan
from flipop_core.plan.dnsvalues import node_record_type, node_values
from flipop_core.plan.match import candidates, needs_pod
from flipop_core.plan.report import invalid_record_set_status, record_set_status
from flipop_core.resources import reasons
from flipop_core.resources.parse import RecordSetView, decode_record_set
from flipop_core.resources.types import RECLAIM_FINALIZER, NodeDNSRecordSetSpec
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.interest import Interests
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.records import RecordKeeper, RecordReport, record_event
from flipop_core.runtime.recordtargets import RecordTarget, record_target
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import Writer

DEFAULT_PROVIDER = "digitalocean"

_log = get_logger(__name__)


def provider_of(spec: NodeDNSRecordSetSpec) -> str:
    """Return the DNS provider: the record set's, else the spec's as the original wrote it, else its default."""
    return spec.dns_record_set.provider or spec.provider or DEFAULT_PROVIDER


class RecordSetController:
    """Reconciles NodeDNSRecordSets. Its methods must be called with the shared lock held."""

    def __init__(
        self,
        *,
        api: KubeAPI,
        record_sets: Store[RecordSetView],
        interests: Interests,
        keeper: RecordKeeper,
        check: Callable[[RecordSetView], ConfigError | None],
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
        metrics: Metrics,
        clocks: Clocks,
        recheck_seconds: float,
    ) -> None:
        self._record_sets = record_sets
        self._interests = interests
        self._keeper = keeper
        self._check = check
        self._queue = queue
        self._objects = ObjectWriter(
            NODE_DNS_RECORD_SETS,
            decode_record_set,
            api=api,
            store=record_sets,
            queue=queue,
            writer=writer,
            recorder=recorder,
        )
        self._metrics = metrics
        self._clocks = clocks
        self._recheck_seconds = recheck_seconds

    def reconcile(self, key: Key) -> None:
        """Do what is to be done for one record set now."""
        view = self._record_sets.get(key.namespace, key.name)
        if view is None:
            self._interests.drop(key)
            self._metrics.remove(key)
            self._keeper.drop(key)
            self._objects.forget(key)
            return
        if view.metadata.deletion_timestamp is not None:
            self._delete(view)
            return
        problem = self._check(view)
        if view.spec is None or problem is not None:
            self._refuse(view, problem)
            return
        target = _target(view.spec)
        # A former record set that is still to be removed keeps the object as well.
        removable = target.reclaim or any(record.reclaim_policy == "Delete" for record in view.status.records)
        if removable != (RECLAIM_FINALIZER in view.metadata.finalizers):
            self._objects.write_finalizer(view, present=removable)
        values = self.values(view, view.spec)
        if values is None:
            return
        report = self._keeper.keep(key, target, values, frozenset(), view.status.records)
        self._report(view, report, target.name)

    def record_changed(self, owner: Key, action: RecordAction) -> None:
        """Tell of a change of a record set that was accepted."""
        view = self._record_sets.get(owner.namespace, owner.name)
        if view is not None:
            self._objects.event(view, *record_event(action))

    def values(self, view: RecordSetView, spec: NodeDNSRecordSetSpec) -> frozenset[str] | None:
        """Return what is to be published, None while the nodes and pods are not in sync."""
        interest = self._interests.of(view.key, spec.match)
        if not interest.synced:
            return None
        pods = interest.ready_pod_nodes() if needs_pod(spec.match) else frozenset[str]()
        fit, change_in = candidates(interest.nodes().values(), spec.match, pods, self._clocks.wall())
        if change_in is not None:
            self._queue.add_after(view.key, change_in)
        return node_values(fit, spec.address_type)

    def preview(self, view: RecordSetView) -> tuple[tuple[RecordName, RecordPlan], ...]:
        """Return what `reconcile` would do now for each of its record sets, and do none of it. Raises ConfigError."""
        nothing: frozenset[str] = frozenset()
        if view.metadata.deletion_timestamp is not None:
            former = view.status.records if RECLAIM_FINALIZER in view.metadata.finalizers else ()
            return self._keeper.preview(view.key, None, nothing, nothing, former)
        problem = self._check(view)
        if view.spec is None or problem is not None:
            raise problem or ConfigError("the spec cannot be read")
        target = _target(view.spec)
        values = self.values(view, view.spec)
        return self._keeper.preview(view.key, target, values or nothing, nothing, view.status.records)

    def _delete(self, view: RecordSetView) -> None:
        """Remove what the status names, whatever has become of the spec, and let go of the object."""
        if RECLAIM_FINALIZER not in view.metadata.finalizers:
            return
        report = self._keeper.keep(view.key, None, frozenset(), frozenset(), view.status.records)
        if report.settled:
            self._objects.write_finalizer(view, present=False)
        else:
            self._report(view, report)

    def _report(self, view: RecordSetView, report: RecordReport, name: RecordName | None = None) -> None:
        if name is not None:
            self._metrics.set_records(view.key, name.provider, name.name, len(report.published))
        status = record_set_status(
            view.status,
            report.records,
            report.hold,
            settled=report.settled,
            published=len(report.published),
            generation=view.metadata.generation,
            timestamp=self._clocks.timestamp(),
        )
        if self._objects.write_status(view, status) and report.hold is not None:
            self._objects.event(view, report.hold.reason, report.hold.message, warning=True)

    def _refuse(self, view: RecordSetView, problem: ConfigError | None) -> None:
        if problem is None:
            return
        generation = view.metadata.generation
        before = replace(view.status, records=self._keeper.kept(view.key, view.status.records))
        status = invalid_record_set_status(before, problem, generation, self._clocks.timestamp())
        if self._objects.write_status(view, status):
            where = f"{view.key.namespace}/{view.key.name}"
            _log.warning("record set is invalid", record_set=where, problem=str(problem))
            self._objects.event(view, reasons.INVALID_SPEC, str(problem), warning=True)
        if not isinstance(problem, ResourceInvalid):
            # Not the spec: a plugin or a credential, which may be there the next time.
            self._queue.add_after(view.key, self._recheck_seconds)


def _target(spec: NodeDNSRecordSetSpec) -> RecordTarget:
    return record_target(spec.dns_record_set, provider_of(spec), node_record_type(spec.address_type))
