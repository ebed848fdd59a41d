"""The custom resources as types, from which the CRDs are generated. Descriptions are what `kubectl explain` prints.

Field, status key and state names are those of digitalocean/flipop; fields it does not have are optional, and their
defaults give its behaviour.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from flipop_core.resources.base import Resource, cel_rule, cel_rules

GROUP = "flipop.digitalocean.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

ALLOCATED_IPS_ANNOTATION = f"{GROUP}/allocated-ips"
ADOPTED_IPS_ANNOTATION = f"{GROUP}/adopted-ips"
ALLOCATED_REGION_ANNOTATION = f"{GROUP}/allocated-region"
ALLOCATED_ACCOUNT_ANNOTATION = f"{GROUP}/allocated-account"
PENDING_CREATION_ANNOTATION = f"{GROUP}/pending-creation"
RECLAIM_FINALIZER = f"{GROUP}/reclaim"


# The grammar of selectors.parse_selector as one RE2 expression. It leaves the length of a key's prefix to the parser.
_LABEL_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = f"({_LABEL_PREFIX}/)?{_LABEL_NAME}"
_LABEL_VALUES = rf"\(\s*({_LABEL_NAME})?(\s*,\s*({_LABEL_NAME})?)*\s*\)"
_OPERATION = rf"\s*(==?|!=)\s*({_LABEL_NAME})?|\s*[<>]\s*[0-9]{{1,18}}|\s+(not)?in\s*{_LABEL_VALUES}"
_REQUIREMENT = rf"(!\s*{_LABEL_KEY}|{_LABEL_KEY}({_OPERATION})?)"
LABEL_SELECTOR_PATTERN = rf"^\s*({_REQUIREMENT}(\s*,\s*{_REQUIREMENT})*)?\s*$"


_IS_LABEL_SELECTOR = cel_rules(
    cel_rule(
        f"self.matches(r'{LABEL_SELECTOR_PATTERN}')",
        "must be a label selector such as app=web, app!=web, tier in (front,back), tier notin (test), gpu or !gpu, "
        "or several with commas between them",
    )
)


class Toleration(Resource, frozen=True):
    """Tolerates the taints that match key, operator, value and effect, as a pod's toleration does."""

    key: Annotated[str, Meta(description="Taint key; empty with operator Exists matches every key.")] = ""
    operator: Annotated[
        Literal["", "Exists", "Equal"], Meta(description="Exists, or Equal (the default), which compares the value.")
    ] = ""
    value: Annotated[str, Meta(description="Taint value for operator Equal.")] = ""
    effect: Annotated[
        Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"],
        Meta(description="Taint effect; empty matches every effect."),
    ] = ""
    toleration_seconds: Annotated[
        int | None,
        Meta(description="How long a taint is tolerated after it was added; absent: for ever."),
    ] = None


class Match(Resource, frozen=True):
    """Which nodes are fit: ready, selected by nodeLabel, all taints tolerated, with a ready pod if one is asked for."""

    node_label: Annotated[
        str,
        Meta(
            description="Label selector for nodes. Empty: all nodes.",
            max_length=4096,
            extra_json_schema=_IS_LABEL_SELECTOR,
        ),
    ] = ""
    pod_label: Annotated[
        str,
        Meta(
            description="Label selector: a node needs a matching pod that is Running and Ready. Empty: any pod.",
            max_length=4096,
            extra_json_schema=_IS_LABEL_SELECTOR,
        ),
    ] = ""
    pod_namespace: Annotated[
        str,
        Meta(description="Namespace of the pods. Empty: all namespaces, if podLabel is set; else no pod is needed."),
    ] = ""
    tolerations: Annotated[
        tuple[Toleration, ...], Meta(description="A node with a taint that none of these tolerates is not fit.")
    ] = ()


class Ownership(Resource, frozen=True):
    """Marks the records as this cluster's, so that several clusters and tools can tell theirs apart."""

    policy: Annotated[
        Literal["takeover", "owned"],
        Meta(
            description="takeover: values that others put there are removed. owned: they are left alone, and a name "
            "that holds values nobody has marked is not touched."
        ),
    ]
    owner_id: Annotated[
        str,
        Meta(
            description="Name of the owner, one for each cluster.",
            pattern="^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$",
            max_length=63,
        ),
    ] = msgspec.field(name="ownerID")


class DNSRecordSet(Resource, frozen=True):
    """The DNS record set to keep."""

    zone: Annotated[str, Meta(description="DNS zone: its name, or the provider's zone ID.")] = ""
    record_name: Annotated[
        str, Meta(description="Name of the record, relative to the zone or absolute; @ is the zone itself.")
    ] = ""
    ttl: Annotated[int, Meta(description="Time to live in seconds. 0 or absent: 60.", ge=0, le=2147483647)] = 0
    provider: Annotated[
        str, Meta(description="DNS provider: digitalocean, cloudflare or another plugin's. Default: spec.provider.")
    ] = ""
    proxied: Annotated[
        bool | None, Meta(description="Whether the provider is to proxy the name. Absent: left as it is.")
    ] = None
    ownership: Annotated[
        Ownership | None, Meta(description="Mark the records, and leave others' alone. Absent: no marks, as takeover.")
    ] = None
    reclaim_policy: Annotated[
        Literal["Retain", "Delete"],
        Meta(
            description="What happens to the records when the object is deleted, or its zone, recordName or provider "
            "changes. Default: Retain."
        ),
    ] = "Retain"


class IPSelector(Resource, frozen=True):
    """Which existing addresses belong to the pool."""

    tags: Annotated[
        dict[str, Annotated[str, Meta(description="Value of the tag.", max_length=256)]],
        Meta(
            description="Tags, by key, all of which an address must have. One that loses a tag leaves the pool, and "
            "stays where it is.",
            min_length=1,
            max_length=50,
            extra_json_schema=cel_rules(
                cel_rule("self.all(key, key.size() > 0 && key.size() <= 128)", "a key has 1 to 128 characters")
            ),
        ),
    ]


class GracePeriods(Resource, frozen=True):
    """How long a node that holds an address may be unfit before the address moves, by what is wrong with it.

    The first to end counts. With anything else, such as another taint, its deletion or a lost label, there is no grace.
    """

    node_not_ready_seconds: Annotated[
        float,
        Meta(
            description="While the node is not Ready, since that condition's last transition. Default: 0.",
            ge=0,
            le=604800,
        ),
    ] = 0.0
    pod_not_ready_seconds: Annotated[
        float,
        Meta(
            description="While no matching pod on a node that is Ready is Running and Ready, since the last one was. "
            "Default: 0.",
            ge=0,
            le=604800,
        ),
    ] = 0.0
    cordoned_seconds: Annotated[
        float, Meta(description="While the node is cordoned, since its taint was added. Default: 0.", ge=0, le=604800)
    ] = 0.0


class FloatingIPPoolSpec(Resource, frozen=True):
    """What the pool should be."""

    provider: Annotated[
        str,
        Meta(description="Provider of the addresses and nodes, for example digitalocean.", min_length=1, max_length=63),
    ]
    region: Annotated[
        str,
        Meta(
            description="Provider's region of the addresses, for example nyc3. Where each region is an account of its "
            "own (aws), the default is that of the nodes."
        ),
    ] = ""
    desired_ips: Annotated[
        int,
        Meta(
            description="How many addresses to have; missing ones are created. 0: those in ips and of ipSelector.",
            ge=0,
            le=1000,
        ),
    ] = msgspec.field(default=0, name="desiredIPs")
    ips: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    max_length=45,
                    extra_json_schema=cel_rules(cel_rule("isIP(self)", "must be an IPv4 or IPv6 address")),
                ),
            ],
            ...,
        ],
        Meta(description="Existing addresses to use, first ones first.", max_length=1000),
    ] = ()
    ip_selector: Annotated[
        IPSelector | None,
        Meta(
            description="Existing addresses to use by their tags, sorted, after those in ips. They are never deleted. "
            "Not with every provider."
        ),
    ] = None
    address_pool: Annotated[
        str,
        Meta(
            description="Provider's pool that addresses are created from, such as a range brought along. Empty: any. "
            "Not with every provider.",
            max_length=256,
        ),
    ] = ""
    ip_family: Annotated[
        Literal["", "IPv4", "IPv6"],
        Meta(description="Family of the addresses. Default: that of ips, else IPv4. Two pools make a dual-stack name."),
    ] = ""
    match: Annotated[Match, Meta(description="Which nodes may hold the addresses.")] = Match()
    dns_record_set: Annotated[
        DNSRecordSet | None, Meta(description="DNS record set that holds the pool's active addresses.")
    ] = None
    assignment_cool_off_seconds: Annotated[
        float, Meta(description="Least time between two assignments of the pool, in seconds.", ge=0)
    ] = 0.0
    grace_periods: Annotated[
        GracePeriods,
        Meta(description="How long a node may recover before its address moves. Absent: an address moves at once."),
    ] = GracePeriods()
    stabilization_seconds: Annotated[
        float,
        Meta(
            description="How long a node must have been Ready before an address moves there from another node. 0: at "
            "once. One that it holds already stays in any case, and one that is on no node does not wait.",
            ge=0,
            le=604800,
        ),
    ] = 0.0
    max_moves_per_minute: Annotated[
        int,
        Meta(
            description="How many addresses of the pool may move from node to node within a minute. 0: any number.",
            ge=0,
            le=1000,
        ),
    ] = 0
    max_unavailable_percent: Annotated[
        int,
        Meta(
            description="When more than this share of the nodes that were fit a moment ago is not any more, addresses "
            "stay where they are until fewer are missing, or the spec is edited. 0: off.",
            ge=0,
            le=99,
        ),
    ] = 0
    paused: Annotated[
        bool, Meta(description="true: nothing is created, moved, deleted or published until it is false again.")
    ] = False
    drain_before_move_seconds: Annotated[
        float,
        Meta(
            description="For an address on a node that still is Ready: how long after it has left DNS it moves, if "
            "others remain in DNS. 0: at once.",
            ge=0,
        ),
    ] = 0.0
    reclaim_policy: Annotated[
        Literal["Retain", "Delete"],
        Meta(
            description="What happens to addresses that this pool created and no longer needs: Retain (the default) "
            "keeps them, in state disabled; Delete gives them back to the provider. Others are never deleted."
        ),
    ] = "Retain"


def family_of(address: str) -> str:
    """Return ``IPv4`` or ``IPv6`` for an address in canonical form."""
    return "IPv6" if ":" in address else "IPv4"


def pool_family(spec: FloatingIPPoolSpec) -> str:
    """Return the family of a pool's addresses: its ipFamily, else that of its first address, else IPv4."""
    return spec.ip_family or (family_of(spec.ips[0]) if spec.ips else "IPv4")


class NodeDNSRecordSetSpec(Resource, frozen=True):
    """What the record set should hold: one address of each fit node."""

    dns_record_set: Annotated[DNSRecordSet, Meta(description="The DNS record set to keep.")]
    provider: Annotated[
        str, Meta(description="DNS provider, if dnsRecordSet.provider is absent. Default: digitalocean.")
    ] = ""
    match: Annotated[Match, Meta(description="Which nodes to publish.")] = Match()
    address_type: Annotated[
        Literal[
            "",
            "ExternalIP",
            "InternalIP",
            "flipop.digitalocean.com/ipv4-reserved-ip",
            "flipop.digitalocean.com/ipv6-reserved-ip",
        ],
        Meta(
            description="Which address of a node to publish: ExternalIP (the default), InternalIP, or "
            "flipop.digitalocean.com/ipv4-reserved-ip (or ipv6) for the floating IP that a FloatingIPPool put on it."
        ),
    ] = ""


SPEC_RULES = {
    "FloatingIPPool": (
        cel_rule(
            "has(self.desiredIPs) && self.desiredIPs > 0 || has(self.ips) && self.ips.size() > 0 "
            "|| has(self.ipSelector)",
            "must be greater than 0, unless ips names at least one address or ipSelector selects some",
            ".desiredIPs",
        ),
    ),
    "NodeDNSRecordSet": (
        cel_rule(
            "has(self.dnsRecordSet.zone) && self.dnsRecordSet.zone != ''",
            "must be set to the zone's name",
            ".dnsRecordSet.zone",
        ),
        cel_rule(
            "has(self.dnsRecordSet.recordName) && self.dnsRecordSet.recordName != ''",
            "must be set; @ is the zone itself",
            ".dnsRecordSet.recordName",
        ),
    ),
}
"""CEL rules across the fields of a kind's spec. A pool with half a dnsRecordSet stays good for its addresses."""

OBJECT_RULES = {
    "FloatingIPPool": (
        cel_rule(
            "!has(oldSelf.spec.provider) || self.spec.provider == oldSelf.spec.provider || !has(oldSelf.status) "
            "|| !has(oldSelf.status.allocatedIPs) || oldSelf.status.allocatedIPs.size() == 0",
            "must stay while the pool has addresses of that provider in status.allocatedIPs: create another pool",
            ".spec.provider",
        ),
    ),
}
"""CEL rules across the whole objects of a kind."""
