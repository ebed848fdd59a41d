"""What metrics there are: names, types, labels and meanings, for the code that fills them and the page about them.

Names, labels, bucket bounds and help of those marked ``original`` are those of digitalocean/flipop, so that dashboards
and alerts made for it keep working.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the provider call histogram in seconds: those that the original's library has by default."""

RECONCILE_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
FAILOVER_BUCKETS = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

ADDRESS_PREFIXES: Mapping[str, str] = {
    "FloatingIPPool": "flipop_floatingippoolcontroller",
    "RoutedIP": "flipop_routedip",
}
"""How the names of the metrics of each kind begin that holds addresses."""

COMMON_CAUSES = ("node-not-ready", "node-gone", "pod-not-ready")
"""Causes of failovers that are shown from the beginning, with 0."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One metric. ``name`` is the exposed one, of a histogram without its suffixes.

    ``help`` is what the scrape says; ``notes`` are for the page: what label values mean, and what else is to be known.
    """

    name: str
    type: Literal["gauge", "counter", "untyped", "histogram"]
    labels: tuple[str, ...] = ()
    help: str
    notes: str = ""
    original: bool = False
    buckets: tuple[float, ...] = ()


class AddressDefinitions(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one kind of resources that holds addresses."""

    node_status: Definition
    ip_assignment_errors: Definition
    ip_assignments: Definition
    ip_node: Definition
    ip_state: Definition
    unfulfilled_ips: Definition


_POOL = ("namespace", "name", "provider", "dns")
_ADDRESS = ("namespace", "name", "ip", "provider", "dns")
_OWNER = ("kind", "namespace", "name")
_COUNTER_NOTE = "Counts up; without the suffix `_total`, as in the original."


def address_definitions(kind: str) -> AddressDefinitions:
    """Return the definitions of ``kind``, one of `ADDRESS_PREFIXES`."""
    prefix, original = ADDRESS_PREFIXES[kind], kind == "FloatingIPPool"
    return AddressDefinitions(
        node_status=Definition(
            name=f"{prefix}_node_status",
            type="gauge",
            labels=(*_POOL, "status"),
            help="The total count of available nodes by status.",
            notes="`status`: `available` (fit, and without one of the addresses) or `assigned` (holds one).",
            original=original,
        ),
        # Counters of the original without the suffix _total, which the library would add to a counter's name.
        ip_assignment_errors=Definition(
            name=f"{prefix}_ip_assignment_errors",
            type="untyped",
            labels=_ADDRESS,
            help="The total count of errors encountered while assigning an IP.",
            notes=_COUNTER_NOTE,
            original=original,
        ),
        ip_assignments=Definition(
            name=f"{prefix}_ip_assignments",
            type="untyped",
            labels=_ADDRESS,
            help="The total count of assignments by IP.",
            notes=_COUNTER_NOTE,
            original=original,
        ),
        ip_node=Definition(
            name=f"{prefix}_ip_node",
            type="gauge",
            labels=(*_ADDRESS, "provider_id", "node"),
            help="Mapping of IPs to Nodes.",
            notes="Always 1; an address that is on no node has none.",
            original=original,
        ),
        ip_state=Definition(
            name=f"{prefix}_ip_state",
            type="gauge",
            labels=(*_ADDRESS, "state"),
            help='The state ("active", "in-progress", "error", "no-match", "unassigned", or "disabled") '
            "of a managed IP.",
            notes="Always 1, for the state that the address is in; the other states have no sample.",
            original=original,
        ),
        unfulfilled_ips=Definition(
            name=f"{prefix}_unfulfilled_ips",
            type="gauge",
            labels=_POOL,
            help="The number of desired IP addresses which have not yet been acquired.",
            original=original,
        ),
    )


RECORDS = Definition(
    name="flipop_nodednsrecordset_records",
    type="gauge",
    labels=_POOL,
    help="The total count of records.",
    notes="Of one NodeDNSRecordSet.",
    original=True,
)

CALLS = Definition(
    name="flipop_providers_calls_total",
    type="counter",
    labels=("provider", "call", "outcome", *_OWNER),
    help="Total number of calls to providers.",
    notes="`outcome`: `success` (an accepted operation included) or `error`. `kind`, `namespace`, `name`: the resource "
    "that the call is for; `Account` for reads that serve all.",
    original=True,
)
CALL_SECONDS = Definition(
    name="flipop_providers_call_duration_seconds",
    type="histogram",
    labels=("provider", "call", *_OWNER),
    help="Histogram of provider call latency.",
    original=True,
    buckets=CALL_BUCKETS,
)
CREDENTIALS = Definition(
    name="flipop_providers_credentials_accepted",
    type="gauge",
    labels=("provider", "role"),
    help="1 when the provider accepted the credentials for the role (ip, dns, firewall), 0 when it refused them.",
    notes="`provider` names the account: provider, then `/region` and `@secret` where there is one.",
)
RATE_LIMIT = Definition(
    name="flipop_providers_rate_limit",
    type="gauge",
    labels=("provider", "role"),
    help="How many requests the provider's rate limit allows, by its last answer.",
    notes="`provider` as above. Of providers whose answers tell (DigitalOcean, Cloudflare); gone 15 minutes after the "
    "last one.",
)
RATE_LIMIT_REMAINING = Definition(
    name="flipop_providers_rate_limit_remaining",
    type="gauge",
    labels=("provider", "role"),
    help="How many requests the provider's rate limit leaves, by its last answer.",
    notes="As above. Roles with the same token share one limit.",
)

FAILOVER_SECONDS = Definition(
    name="flipop_failover_duration_seconds",
    type="histogram",
    labels=(*_OWNER, "cause"),
    help="Time from what made a node unfit to the confirmed assignment of its address to another node.",
    notes="Begins at the cluster's own time of the cause (a condition's transition, a taint's or a deletion's time, in "
    "whole seconds), else when it was seen. Grace periods and waiting for a free node are part of it. `cause`: "
    "`node-not-ready`, `node-deleted`, `node-gone` (deleted, or not selected any more), `pod-not-ready`, `cordoned`, "
    "`other` (a taint). A first assignment, and one away from what never was a node of the pool, is none.",
    buckets=FAILOVER_BUCKETS,
)
HELD_MOVES = Definition(
    name="flipop_held_moves",
    type="gauge",
    labels=(*_OWNER, "reason"),
    help="Addresses that a grace period or a brake keeps where they are, by reason; 1 for a pool that is paused.",
    notes="`reason`: `Grace`, `TooManyUnavailable`, `StaleWatch`, `MoveLimit`, `ProcessMoveLimit`, `Stabilizing`, "
    "`Paused`.",
)

RECONCILES = Definition(
    name="flipop_reconciles_total",
    type="counter",
    labels=("kind", "outcome"),
    help="Reconciles by kind and outcome.",
    notes="`outcome`: `success`, or `error` for a defect of the controller, which is logged. What a provider refuses "
    "counts among the provider calls.",
)
RECONCILE_SECONDS = Definition(
    name="flipop_reconcile_duration_seconds",
    type="histogram",
    labels=("kind",),
    help="Time to decide, provider calls not included.",
    buckets=RECONCILE_BUCKETS,
)
QUEUE_DEPTH = Definition(name="flipop_workqueue_depth", type="gauge", help="Keys that wait to be worked on.")
QUEUE_OLDEST_SECONDS = Definition(
    name="flipop_workqueue_oldest_age_seconds",
    type="gauge",
    help="How long the key has waited that waits longest.",
    notes="0 while the process may not act.",
)
QUEUE_WAIT_SECONDS = Definition(
    name="flipop_workqueue_wait_seconds",
    type="histogram",
    labels=("kind",),
    help="How long a key waited for the worker.",
    notes="Time in which the process may not act, and delays that are asked for, are left out.",
    buckets=WAIT_BUCKETS,
)
QUEUE_RETRIES = Definition(
    name="flipop_workqueue_retries_total",
    type="counter",
    labels=("kind",),
    help="Keys that were put back to be tried again after a failure.",
)

WATCH_AGE_SECONDS = Definition(
    name="flipop_watch_age_seconds",
    type="gauge",
    labels=("resource",),
    help="How long the API server has said nothing of a resource.",
    notes="Of several watches of one resource the oldest counts. A watch speaks at least every 25 s.",
)
WATCH_RESTARTS = Definition(
    name="flipop_watch_restarts_total",
    type="counter",
    labels=("resource",),
    help="How often a watch or a list failed and was begun again.",
)
WATCH_DECODE_ERRORS = Definition(
    name="flipop_watch_decode_errors_total",
    type="counter",
    labels=("resource",),
    help="Objects that could not be decoded and were skipped.",
)
WATCH_OBJECTS = Definition(
    name="flipop_watch_objects",
    type="gauge",
    labels=("resource",),
    help="Objects that are watched.",
    notes="One that several watches select counts for each.",
)
KUBE_WRITES = Definition(
    name="flipop_kubernetes_writes_total",
    type="counter",
    labels=("kind", "outcome"),
    help="Writes to the Kubernetes API.",
    notes="`outcome`: `success` or `error`.",
)

LEADER = Definition(name="flipop_leader", type="gauge", help="1 while this process may act, else 0.")
BUILD_INFO = Definition(
    name="flipop_build_info", type="gauge", labels=("version",), help="1; the label tells which version runs."
)


def _addresses(kind: str) -> tuple[Definition, ...]:
    found = address_definitions(kind)
    return tuple(getattr(found, field) for field in AddressDefinitions.__struct_fields__)


GROUPS: Mapping[str, tuple[Definition, ...]] = {
    "Pools": _addresses("FloatingIPPool"),
    "DNS record sets": (RECORDS,),
    "Provider calls": (CALLS, CALL_SECONDS, CREDENTIALS, RATE_LIMIT, RATE_LIMIT_REMAINING),
    "RoutedIPs": _addresses("RoutedIP"),
    "Failover": (FAILOVER_SECONDS, HELD_MOVES),
    "Reconciles and queue": (
        RECONCILES,
        RECONCILE_SECONDS,
        QUEUE_DEPTH,
        QUEUE_OLDEST_SECONDS,
        QUEUE_WAIT_SECONDS,
        QUEUE_RETRIES,
    ),
    "Kubernetes API": (WATCH_AGE_SECONDS, WATCH_RESTARTS, WATCH_DECODE_ERRORS, WATCH_OBJECTS, KUBE_WRITES),
    "Process": (LEADER, BUILD_INFO),
}
"""All metrics, in the order of the page."""
