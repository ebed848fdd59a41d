"""The statuses of pools and record sets as types: what the controller reports. CRDs are generated from them too."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from flipop_core.resources.base import Resource

IPState = Literal["active", "in-progress", "error", "no-match", "unassigned", "disabled"]


class Condition(Resource, frozen=True):
    """A condition of the object, as in metav1.Condition."""

    type: Annotated[str, Meta(description="Ready, Progressing or Degraded.", max_length=316)]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="True, False or Unknown.")]
    reason: Annotated[str, Meta(description="One CamelCase word for programs.", min_length=1, max_length=1024)]
    message: Annotated[str, Meta(description="The same for people, and what to do about it.", max_length=32768)]
    last_transition_time: Annotated[
        str, Meta(description="When status last changed.", extra_json_schema={"format": "date-time"})
    ]
    observed_generation: Annotated[
        int, Meta(description="Generation of the spec that the condition was found for.", ge=0)
    ] = 0


ObservedGeneration = Annotated[int, Meta(description="Generation of the spec this status belongs to.")]

CONDITIONS_SCHEMA = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Of a list of conditions: it has one of each type."""


class IPStatus(Resource, frozen=True):
    """State of one address and the node that holds it."""

    state: Annotated[
        IPState,
        Meta(
            description="active: on a fit node. in-progress: being moved. error: see error. no-match: on a node that "
            "is not fit. unassigned: on no node. disabled: beyond desiredIPs."
        ),
    ]
    node_name: Annotated[str, Meta(description="Node that holds the address.")] = ""
    provider_id: Annotated[str, Meta(description="Provider ID of that node.")] = msgspec.field(
        default="", name="providerID"
    )
    error: Annotated[str, Meta(description="Last error, and what to do about it.")] = ""


class RecordStatus(Resource, frozen=True):
    """A DNS record set that the object keeps, or has kept and still has to remove."""

    provider: Annotated[str, Meta(description="DNS provider, with @ and its Secret where an issuer names one.")]
    zone: Annotated[str, Meta(description="Zone, as the spec names it.")]
    name: Annotated[str, Meta(description="Fully qualified name.")]
    type: Annotated[str, Meta(description="A or AAAA.")]
    owner_id: Annotated[str, Meta(description="Owner that its records are marked with.")] = msgspec.field(
        default="", name="ownerID"
    )
    exclusive: Annotated[bool, Meta(description="Whether values of others are removed too.")] = False
    reclaim_policy: Annotated[
        Literal["Retain", "Delete"], Meta(description="What happens to it when it is no longer kept. Default: Retain.")
    ] = "Retain"


class KeeperStatus(Resource, frozen=True, kw_only=True):
    """What the statuses of all objects that keep DNS record sets have in common; it follows their own fields."""

    records: Annotated[
        tuple[RecordStatus, ...],
        Meta(
            description="DNS record sets kept by this object, the present one first.",
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
        ),
    ] = ()
    observed_generation: ObservedGeneration = 0
    conditions: Annotated[
        tuple[Condition, ...],
        Meta(
            description="Ready, Progressing and Degraded.",
            extra_json_schema=CONDITIONS_SCHEMA,
        ),
    ] = ()


class FloatingIPPoolStatus(KeeperStatus, frozen=True):
    """What the controller last saw and did. A report: nothing is decided from it."""

    ips: Annotated[dict[str, IPStatus], Meta(description="Each address and its state.")] = msgspec.field(
        default_factory=dict
    )
    node_errors: Annotated[tuple[str, ...], Meta(description="Fit nodes whose last assignment failed.")] = ()
    assignable_nodes: Annotated[tuple[str, ...], Meta(description="Fit nodes that hold no address yet.")] = ()
    error: Annotated[str, Meta(description="What keeps the pool from working, if anything.")] = ""
    allocated_ips: Annotated[
        tuple[str, ...], Meta(description="Addresses created or adopted by this pool; a copy of the annotations.")
    ] = msgspec.field(default=(), name="allocatedIPs")
    adopted_ips: Annotated[tuple[str, ...], Meta(description="Those of allocatedIPs that the pool did not create.")] = (
        msgspec.field(default=(), name="adoptedIPs")
    )
    desired_count: Annotated[int, Meta(description="How many addresses the pool should have.")] = -1
    active_count: Annotated[int, Meta(description="How many are active.")] = -1
    candidate_count: Annotated[int, Meta(description="How many nodes are fit.")] = -1
    addresses: Annotated[
        tuple[str, ...],
        Meta(description="The addresses in use, in order of precedence: the keys of ips but disabled ones."),
    ] = ()


class NodeDNSRecordSetStatus(KeeperStatus, frozen=True):
    """What the controller last saw and did."""

    error: Annotated[str, Meta(description="What keeps the record set from being right, if anything.")] = ""
    state: Annotated[
        Literal["", "active", "in-progress", "error"], Meta(description="State of the last DNS change.")
    ] = ""
