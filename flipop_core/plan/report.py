"""What is shown of a pool: its status and conditions. A report only; nothing is decided from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from flipop_core.errors import ConfigError, ResourceInvalid, UnknownProvider
from flipop_core.plan.actions import Hold, Plan
from flipop_core.plan.assess import AddressState, Assessment, assess
from flipop_core.plan.observed import PoolObservation
from flipop_core.resources import reasons
from flipop_core.resources.statuses import (
    Condition,
    FloatingIPPoolStatus,
    IPStatus,
    NodeDNSRecordSetStatus,
    RecordStatus,
)
from flipop_core.resources.types import family_of, pool_family

_HOLD_ORDER = (
    reasons.ACCESS_DENIED,
    reasons.RATE_LIMITED,
    reasons.PROVIDER_UNAVAILABLE,
    reasons.READ_FAILED,
    reasons.ACCOUNT_CHANGED,
    reasons.SERVICE_NOT_FOUND,
    reasons.FIREWALL_NOT_FOUND,
    reasons.FIREWALL_FAILED,
    reasons.CREATION_AMBIGUOUS,
    reasons.QUOTA_EXCEEDED,
    reasons.CREATION_FAILED,
    reasons.RETRYING,
)


_LONGEST_MESSAGE = 32768
"""In characters; with a longer one the API server refuses the whole status."""

_HELD = (
    reasons.TOO_MANY_UNAVAILABLE,
    reasons.STALE_WATCH,
    reasons.MOVE_LIMIT,
    reasons.PROCESS_MOVE_LIMIT,
    reasons.GRACE,
    reasons.STABILIZING,
    reasons.DRAINING,
    reasons.COOL_OFF,
    reasons.FIREWALL_PENDING,
    reasons.OPENING_FIREWALL,
)
"""Reasons to wait, not failures: the first one that holds is shown."""


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """The first thing that keeps a pool from being ready. ``failure``: something failed, it is not just under way."""

    reason: str
    message: str
    failure: bool = False


class DNSReport(msgspec.Struct, frozen=True):
    """What the status says of a pool's record sets. ``problem``: the spec is wrong; its addresses are kept even so."""

    problem: ConfigError | None = None
    hold: Hold | None = None
    settled: bool = True
    records: tuple[RecordStatus, ...] = ()

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the record set from being right."""
        if self.problem is not None:
            return Trouble(problem_reason(self.problem), str(self.problem), failure=True)
        if self.hold is not None:
            # With nothing to publish, what is wrong is that no address is active.
            return Trouble(self.hold.reason, self.hold.message, failure=self.hold.reason != reasons.NOTHING_TO_PUBLISH)
        return None if self.settled else Trouble(reasons.UPDATING_DNS, "a DNS change is under way")


def pool_status(
    observed: PoolObservation, plan: Plan, generation: int, timestamp: str, dns: DNSReport | None = None
) -> FloatingIPPoolStatus:
    """Return the status of the pool as observed, with ``plan`` under way. ``timestamp`` is RFC 3339."""
    assessment = assess(observed)
    dns = dns if dns is not None else DNSReport()
    trouble = _trouble(observed, assessment, plan)
    if dns.trouble is not None and (trouble is None or (dns.trouble.failure and not trouble.failure)):
        trouble = dns.trouble
    active = sum(1 for state in assessment.addresses if state.state == "active")
    names = {node.provider_id: node.name for node in assessment.candidates}
    failing = {*observed.memory.nodes, *(provider_id for _, provider_id in observed.memory.pairs)}
    moving = any(state.state == "in-progress" and state.known for state in assessment.addresses)
    conditions = (
        _ready(trouble, active, assessment.desired),
        _progressing(moving or not dns.settled or bool(plan.actions) or observed.ledger.pending is not None),
        _degraded(trouble),
    )
    return FloatingIPPoolStatus(
        ips={state.address: _ip_status(state) for state in assessment.addresses},
        node_errors=tuple(sorted(names[provider_id] for provider_id in failing if provider_id in names)),
        assignable_nodes=tuple(sorted(node.name for node in assessment.free)),
        error=trouble.message if trouble is not None and trouble.failure else "",
        allocated_ips=observed.ledger.allocated,
        adopted_ips=observed.ledger.adopted,
        records=dns.records,
        desired_count=assessment.desired,
        active_count=active,
        candidate_count=len(assessment.candidates),
        addresses=tuple(state.address for state in assessment.enabled),
        observed_generation=generation,
        conditions=merge_conditions(observed.status.conditions, conditions, generation, timestamp),
    )


def invalid_status(
    previous: FloatingIPPoolStatus, problem: ConfigError, generation: int, timestamp: str
) -> FloatingIPPoolStatus:
    """Return the status of a pool whose spec cannot be acted on. What is known of its addresses stays."""
    return msgspec.structs.replace(
        previous,
        error=str(problem),
        observed_generation=generation,
        conditions=merge_conditions(previous.conditions, _invalid_conditions(problem), generation, timestamp),
    )


def invalid_record_set_status(
    previous: NodeDNSRecordSetStatus, problem: ConfigError, generation: int, timestamp: str
) -> NodeDNSRecordSetStatus:
    """Return the status of a NodeDNSRecordSet that cannot be acted on."""
    return NodeDNSRecordSetStatus(
        error=str(problem),
        state="error",
        records=previous.records,
        observed_generation=generation,
        conditions=merge_conditions(previous.conditions, _invalid_conditions(problem), generation, timestamp),
    )


def record_set_status(
    previous: NodeDNSRecordSetStatus,
    records: tuple[RecordStatus, ...],
    hold: Hold | None,
    *,
    settled: bool,
    published: int,
    generation: int,
    timestamp: str,
) -> NodeDNSRecordSetStatus:
    """Return the status of a NodeDNSRecordSet that is acted on. ``published`` is how many addresses it holds."""
    trouble = Trouble(hold.reason, hold.message, failure=True) if hold is not None else None
    if trouble is None and not settled:
        trouble = Trouble(reasons.UPDATING, "a DNS change is under way")
    text = f"{_counted(published, 'address is', 'addresses are')} published"
    if trouble is None:
        ready = Condition(reasons.READY, "True", reasons.PUBLISHED, text, "")
    else:
        ready = Condition(reasons.READY, "False", trouble.reason, trouble.message, "")
    conditions = (ready, _progressing(under_way=not settled and hold is None), _degraded(trouble))
    return NodeDNSRecordSetStatus(
        error=trouble.message if trouble is not None and trouble.failure else "",
        state="error" if hold is not None else ("active" if settled else "in-progress"),
        records=records,
        observed_generation=generation,
        conditions=merge_conditions(previous.conditions, conditions, generation, timestamp),
    )


def is_failing(plan: Plan) -> bool:
    """Whether something that the plan holds back has failed, and does not merely wait."""
    return any(hold.reason in _HOLD_ORDER for hold in plan.holds)


def problem_reason(problem: ConfigError) -> str:
    """Return the reason that a condition gives for the problem."""
    if isinstance(problem, ResourceInvalid):
        return problem.reason
    return reasons.UNKNOWN_PROVIDER if isinstance(problem, UnknownProvider) else reasons.PROVIDER_NOT_CONFIGURED


def _invalid_conditions(problem: ConfigError) -> tuple[Condition, ...]:
    reason, message = problem_reason(problem), str(problem)
    return (
        Condition(reasons.READY, "False", reason, message, ""),
        Condition(reasons.PROGRESSING, "False", reason, "waits for the spec to be corrected", ""),
        Condition(reasons.DEGRADED, "True", reason, message, ""),
    )


def merge_conditions(
    previous: Iterable[Condition], present: Iterable[Condition], generation: int, timestamp: str
) -> tuple[Condition, ...]:
    """Return ``present`` with the transition time kept of each condition whose status has not changed.

    A message that is too long is cut: it may name a thousand addresses.
    """
    before = {condition.type: condition for condition in previous}
    merged = []
    for condition in present:
        old = before.get(condition.type)
        since = old.last_transition_time if old is not None and old.status == condition.status else timestamp
        text = condition.message
        if len(text) > _LONGEST_MESSAGE:
            text = f"{text[: _LONGEST_MESSAGE - 1]}…"
        merged.append(
            msgspec.structs.replace(condition, message=text, last_transition_time=since, observed_generation=generation)
        )
    return tuple(merged)


def _ip_status(state: AddressState) -> IPStatus:
    return IPStatus(state=state.state, node_name=state.node, provider_id=state.provider_id or "", error=state.error)


def _trouble(observed: PoolObservation, assessment: Assessment, plan: Plan) -> Trouble | None:
    """Find the first of: the provider or a creation fails, an address fails, nodes are missing, work is under way."""
    holds = {hold.reason: hold for hold in reversed(plan.holds)}
    for reason in _HOLD_ORDER:
        hold = holds.get(reason)
        if hold is not None:
            return Trouble(
                reasons.ASSIGNMENT_FAILED if reason == reasons.RETRYING else reason, _hold_message(hold), failure=True
            )
    for state in assessment.enabled:
        if state.error:
            reason = reasons.ADDRESS_NOT_FOUND if state.missing else reasons.ADDRESS_ERROR
            return Trouble(reason, f"{state.address}: {state.error}", failure=True)
    if reasons.PAUSED in holds:
        return Trouble(reasons.PAUSED, holds[reasons.PAUSED].message)
    if reasons.NO_REACHABLE_PORT in holds:
        return Trouble(reasons.NO_REACHABLE_PORT, holds[reasons.NO_REACHABLE_PORT].message, failure=True)
    return _waits(observed, assessment, holds) or _incomplete(observed, assessment)


def _waits(observed: PoolObservation, assessment: Assessment, holds: Mapping[str, Hold]) -> Trouble | None:
    """Find what addresses wait for."""
    idle = [state.address for state in assessment.enabled if state.state in ("no-match", "unassigned")]
    if reasons.NO_READY_ENDPOINT in holds:
        return Trouble(reasons.NO_READY_ENDPOINT, holds[reasons.NO_READY_ENDPOINT].message)
    if reasons.NO_FREE_NODE in holds:
        text = _no_free_node(observed, assessment, idle)
        return Trouble(
            reasons.NO_FREE_NODE,
            f"{text}; {holds[reasons.OTHER_REGION].message}" if reasons.OTHER_REGION in holds else text,
        )
    waiting = [state.address for state in assessment.enabled if state.state != "active"]
    if not waiting:
        return None
    for reason in _HELD:
        if reason in holds:
            hold = holds[reason]
            # Each has its own end; what else is waited for concerns all of the pool.
            return Trouble(reason, _hold_message(hold) if reason == reasons.GRACE else hold.message)
    known = all(state.known for state in assessment.enabled)
    return Trouble(reasons.ASSIGNING if known else reasons.READING, f"under way: {', '.join(waiting)}")


def _incomplete(observed: PoolObservation, assessment: Assessment) -> Trouble | None:
    """Find what is missing although each address is where it should be."""
    if observed.selection_unknown:
        return Trouble(reasons.READING, "the addresses that ipSelector selects are being read")
    if observed.spec.ip_selector is not None and not assessment.desired:
        return Trouble(reasons.NOTHING_SELECTED, "no address has the tags of ipSelector, or others use those that have")
    if assessment.lacking or observed.ledger.pending is not None:
        return Trouble(reasons.CREATING, f"{max(assessment.lacking, 1)} more to be created")
    return None


def _hold_message(hold: Hold) -> str:
    return f"{hold.address}: {hold.message}" if hold.address else hold.message


def _no_free_node(observed: PoolObservation, assessment: Assessment, idle: list[str]) -> str:
    fit = len(assessment.candidates)
    nodes = f"{_counted(fit, 'node is', 'nodes are')} fit{', none of them is free' if fit else ''}"
    return f"{len(idle)} of {assessment.desired} addresses have no node: {nodes}{_unused(observed, assessment)}"


def _unused(observed: PoolObservation, assessment: Assessment) -> str:
    """Name what takes the fit nodes up where it can be mended: an address that no resource uses, or a limit."""
    for node in assessment.candidates:
        for address in assessment.occupants.get(node.provider_id, ()):
            if address not in observed.claims and family_of(address) == pool_family(observed.spec):
                return f"; node {node.name} holds {address}, which no resource uses: take it off that node"
    limit = observed.node_limit
    provided = msgspec.structs.replace(observed, node_limit=None)
    if limit is not None and any(provided.limit_of(node.provider_id) > limit for node in assessment.candidates):
        return f"; perNodeIPLimit of the issuer is {limit}"
    unnamed = sorted(node.name for node in observed.candidates if not node.provider_id)
    return f"; node {unnamed[0]} is left out, since it has no spec.providerID yet" if unnamed else ""


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _ready(trouble: Trouble | None, active: int, desired: int) -> Condition:
    if trouble is None:
        return Condition(reasons.READY, "True", reasons.ALL_ACTIVE, f"{active} of {desired} addresses are active", "")
    return Condition(
        reasons.READY, "False", trouble.reason, f"{active} of {desired} addresses are active; {trouble.message}", ""
    )


def _progressing(under_way: bool) -> Condition:
    if under_way:
        return Condition(reasons.PROGRESSING, "True", reasons.WORKING, "changes are under way", "")
    return Condition(reasons.PROGRESSING, "False", reasons.SETTLED, "nothing is under way", "")


def _degraded(trouble: Trouble | None) -> Condition:
    if trouble is not None and trouble.failure:
        return Condition(reasons.DEGRADED, "True", trouble.reason, trouble.message, "")
    return Condition(reasons.DEGRADED, "False", reasons.AS_EXPECTED, "nothing has failed", "")
