"""Which addresses a record set is to hold: those of a pool, or those of nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from flipop_core.model import IPV4_ANNOTATION, IPV6_ANNOTATION, NodeView
from flipop_core.plan.actions import Plan
from flipop_core.plan.assess import Assessment
from flipop_core.resources import reasons


def pool_values(assessment: Assessment, plan: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """Return which addresses of a pool its record set must hold, and which may stay in it.

    An address stays while it moves, is read, or fails for the moment, or waits for a node on which another one is being
    put; it need not stay when no node can take it.
    """
    waits = (reasons.DRAINING,) if assessment.engaged else (reasons.DRAINING, reasons.NO_FREE_NODE)
    stranded = {hold.address for hold in plan.holds if hold.reason in waits}
    wanted, keepable = set(), set()
    for state in assessment.enabled:
        if state.state == "active":
            wanted.add(state.address)
        elif not state.missing and state.address not in stranded:
            keepable.add(state.address)
    return frozenset(wanted), frozenset(keepable)


def node_record_type(address_type: str) -> str:
    """Return the type of the record that publishes a node's addresses of that type."""
    return "AAAA" if address_type == IPV6_ANNOTATION else "A"


def node_values(nodes: Iterable[NodeView], address_type: str) -> frozenset[str]:
    """Return the addresses that nodes publish: of ``status.addresses``, or the annotation's floating IP.

    Only those of the record's family; a node without such an address publishes none.
    """
    version = 6 if node_record_type(address_type) == "AAAA" else 4
    values: set[str] = set()
    for node in nodes:
        if address_type == IPV4_ANNOTATION:
            found = [node.reserved_ipv4]
        elif address_type == IPV6_ANNOTATION:
            found = [node.reserved_ipv6]
        else:
            wanted = address_type or "ExternalIP"
            found = [address.address for address in node.addresses if address.type == wanted]
        values.update(text for text in map(_canonical, found) if text and ipaddress.ip_address(text).version == version)
    return frozenset(values)


def _canonical(text: str) -> str:
    """Return the address in canonical form, empty for none, or one that means something on one machine only."""
    try:
        return str(ipaddress.ip_address(text)) if "%" not in text else ""
    except ValueError:
        return ""
