"""RoutedIP and RoutedIPIssuer as types: one address for one service, and what all addresses of an account share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from flipop_core.providers import FirewallRule
from flipop_core.resources.base import Resource, cel_rule, cel_rules
from flipop_core.resources.statuses import CONDITIONS_SCHEMA, Condition, KeeperStatus, ObservedGeneration
from flipop_core.resources.types import DNSRecordSet, Match

FIREWALL_ENTRIES_ANNOTATION = "flipop.digitalocean.com/firewall-entries"
"""On a RoutedIP: the rules and nodes that the project added to firewalls for it."""

DEFAULT_NODE_PORT_RANGE = "30000-32767"
ANY_NAMESPACE = "*"
LAST_PORT = 65535

_PORT_RANGE = "^([0-9]{1,5}-[0-9]{1,5})?$"

# As the API server wants names, so that a reference that cannot mean anything is refused, not looked for in vain.
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_IS_LABEL = f"^{_LABEL}$"
_IS_LABEL_OR_EMPTY = f"^({_LABEL})?$"
_IS_LABEL_OR_ANY = f"^({_LABEL}|[*])$"
_IS_SUBDOMAIN = f"^{_LABEL}([.]{_LABEL})*$"


class SecretReference(Resource, frozen=True):
    """A Secret by namespace and name."""

    namespace: Annotated[str, Meta(description="Namespace of the Secret.", max_length=63, pattern=_IS_LABEL)]
    name: Annotated[str, Meta(description="Name of the Secret.", max_length=253, pattern=_IS_SUBDOMAIN)]


class ServiceReference(Resource, frozen=True):
    """A Service by namespace and name."""

    name: Annotated[str, Meta(description="Name of the Service.", max_length=63, pattern=_IS_LABEL)]
    namespace: Annotated[
        str,
        Meta(
            description="Namespace of the Service. Default: that of the RoutedIP.",
            max_length=63,
            pattern=_IS_LABEL_OR_EMPTY,
        ),
    ] = ""


class IssuerReference(Resource, frozen=True):
    """A RoutedIPIssuer by name."""

    name: Annotated[str, Meta(description="Name of the RoutedIPIssuer.", max_length=253, pattern=_IS_SUBDOMAIN)]


class RoutedIPIssuerSpec(Resource, frozen=True):
    """What the RoutedIPs of this issuer have in common."""

    provider: Annotated[
        str,
        Meta(
            description="Provider of the addresses, nodes and firewalls, for example digitalocean.",
            min_length=1,
            max_length=63,
        ),
    ]
    region: Annotated[str, Meta(description="Provider's region of the addresses, for example nyc3.")] = ""
    credentials_secret_ref: Annotated[
        SecretReference | None,
        Meta(
            description="Secret with the provider's credentials; its keys are the environment variables that the "
            "provider reads, for example DIGITALOCEAN_ACCESS_TOKEN. Absent: the controller's environment."
        ),
    ] = None
    per_node_ip_limit: Annotated[
        int, Meta(description="How many addresses a node may hold, whoever owns them. 0 or absent: 1.", ge=0, le=1000)
    ] = msgspec.field(default=0, name="perNodeIPLimit")
    node_port_range: Annotated[
        Annotated[str, Meta(max_length=11, pattern=_PORT_RANGE)] | None,
        Meta(
            description="Node ports of this range get no firewall rule where the provider's own firewall lets them in. "
            f"Absent: {DEFAULT_NODE_PORT_RANGE}. Empty: every port gets a rule.",
        ),
    ] = None
    routed_ip_firewall_name: Annotated[
        str,
        Meta(
            description="Cloud firewall to keep in step with the services: its name or ID. Empty: none.",
            max_length=255,
        ),
    ] = msgspec.field(default="", name="routedIPFirewallName")
    firewall_post_allow: Annotated[
        bool,
        Meta(
            description="true: an address moves first, and the firewall is opened after it. false (the default): the "
            "firewall is opened before an address moves, and an address does not move while it cannot be opened."
        ),
    ] = False
    routed_ip_reclaim_policy: Annotated[
        Literal["Retain", "Delete"],
        Meta(description="routedIPReclaimPolicy of RoutedIPs that name none. Default: Retain."),
    ] = msgspec.field(default="Retain", name="routedIPReclaimPolicy")
    service_namespaces: Annotated[
        tuple[Annotated[str, Meta(max_length=63, pattern=_IS_LABEL_OR_ANY)], ...],
        Meta(
            description="Namespaces whose Services a RoutedIP of another namespace may name; * is all. Absent: a "
            "RoutedIP may name Services of its own namespace only.",
            max_length=1000,
        ),
    ] = ()

    @property
    def node_limit(self) -> int:
        """How many addresses a node may hold."""
        return self.per_node_ip_limit or 1

    @property
    def node_ports(self) -> range:
        """The ports of nodePortRange."""
        text = DEFAULT_NODE_PORT_RANGE if self.node_port_range is None else self.node_port_range
        if not text:
            return range(0)
        first, _, last = text.partition("-")
        return range(int(first), int(last) + 1)

    def permits(self, own_namespace: str, service_namespace: str) -> bool:
        """Whether a RoutedIP of ``own_namespace`` may name Services of ``service_namespace``."""
        allowed = self.service_namespaces
        return service_namespace == own_namespace or ANY_NAMESPACE in allowed or service_namespace in allowed


class RoutedIPIssuerStatus(Resource, frozen=True):
    """What the controller last saw."""

    routed_ips: Annotated[tuple[str, ...], Meta(description="RoutedIPs that name this issuer, as namespace/name.")] = (
        msgspec.field(default=(), name="routedIPs")
    )
    routed_ip_count: Annotated[int, Meta(description="How many they are.")] = msgspec.field(
        default=0, name="routedIPCount"
    )
    observed_generation: ObservedGeneration = 0
    conditions: Annotated[tuple[Condition, ...], Meta(description="Ready.", extra_json_schema=CONDITIONS_SCHEMA)] = ()


class RoutedIPSpec(Resource, frozen=True):
    """One address that follows the ready endpoints of one service."""

    issuer_ref: Annotated[IssuerReference, Meta(description="The RoutedIPIssuer.")]
    service_ref: Annotated[ServiceReference, Meta(description="The Service that the address is for.")]
    routed_ip: Annotated[
        str,
        Meta(
            description="Existing address to use. Absent: one is created.",
            max_length=45,
            extra_json_schema=cel_rules(cel_rule("self == '' || isIP(self)", "must be an IPv4 or IPv6 address")),
        ),
    ] = msgspec.field(default="", name="routedIP")
    match: Annotated[
        Match, Meta(description="Which nodes may hold the address, beyond having a ready endpoint of the Service.")
    ] = Match()
    routed_ip_reclaim_policy: Annotated[
        Literal["", "Retain", "Delete"],
        Meta(
            description="What happens to an address that was created for this RoutedIP when it is no longer needed: "
            "Retain keeps it, Delete gives it back to the provider. Default: the issuer's. A given one never is."
        ),
    ] = msgspec.field(default="", name="routedIPReclaimPolicy")
    routed_ip_firewall_name: Annotated[
        str,
        Meta(description="Cloud firewall to keep in step, instead of the issuer's.", max_length=255),
    ] = msgspec.field(default="", name="routedIPFirewallName")
    dns_record_set: Annotated[
        DNSRecordSet | None, Meta(description="DNS record set that holds the address while it is active.")
    ] = None


class FirewallEntries(Resource, frozen=True):
    """What one RoutedIP has had added to one firewall, or is about to."""

    provider: Annotated[str, Meta(description="Provider of the firewall.")]
    name: Annotated[str, Meta(description="Firewall, as the spec names it, or its ID once it has another name.")]
    region: Annotated[str, Meta(description="Region of the account.")] = ""
    credentials: Annotated[str, Meta(description="Secret with the credentials, as namespace/name.")] = ""
    rules: Annotated[
        tuple[Annotated[FirewallRule, Meta(description="A rule for one port.")], ...],
        Meta(description="Rules, sorted."),
    ] = ()
    nodes: Annotated[tuple[str, ...], Meta(description="Provider IDs of nodes, sorted.")] = ()
    id: Annotated[str, Meta(description="ID of the firewall, by which it is found under another name.")] = ""

    def is_same_firewall(self, other: FirewallEntries) -> bool:
        """Whether both name the same firewall."""
        return replace(self, rules=(), nodes=(), id="") == replace(other, rules=(), nodes=(), id="")

    def by_id(self) -> FirewallEntries:
        """Return entries that name the firewall by its ID."""
        return replace(self, name=self.id)

    def with_items(self, rules: Iterable[FirewallRule], nodes: Iterable[str]) -> FirewallEntries:
        """Return entries of the same firewall with these rules and nodes."""
        return replace(self, rules=tuple(sorted(rules, key=rule_order)), nodes=tuple(sorted(nodes)))


def rule_order(rule: FirewallRule) -> tuple[int, int, str, tuple[str, ...]]:
    """Return the key by which rules are sorted."""
    return rule.port, rule.end_port, rule.protocol, rule.sources


class RoutedIPStatus(KeeperStatus, frozen=True):
    """What the controller last saw and did. A report: nothing is decided from it."""

    address: Annotated[str, Meta(description="The address.")] = ""
    state: Annotated[
        Literal["", "active", "in-progress", "error", "no-match", "unassigned", "disabled"],
        Meta(
            description="active: on a fit node. in-progress: being moved. error: see error. no-match: on a node that "
            "is not fit. unassigned: on no node."
        ),
    ] = ""
    assigned_node: Annotated[str, Meta(description="Node that holds the address.")] = ""
    provider_id: Annotated[str, Meta(description="Provider ID of that node.")] = msgspec.field(
        default="", name="providerID"
    )
    ports: Annotated[
        tuple[str, ...], Meta(description="Ports of nodes by which the Service is reached, such as 443/TCP.")
    ] = ()
    firewall: Annotated[str, Meta(description="Cloud firewall that is kept in step.")] = ""
    error: Annotated[str, Meta(description="What keeps the address from working, if anything.")] = ""
    allocated_ips: Annotated[
        tuple[str, ...], Meta(description="Addresses created for this RoutedIP; a copy of the annotation.")
    ] = msgspec.field(default=(), name="allocatedIPs")
    firewall_entries: Annotated[
        tuple[FirewallEntries, ...],
        Meta(description="What was added to firewalls for this RoutedIP; a copy of the annotation."),
    ] = ()


ROUTED_SPEC_RULES = {
    "RoutedIP": (),
    "RoutedIPIssuer": (
        cel_rule(
            "!has(self.nodePortRange) || self.nodePortRange == '' || "
            "int(self.nodePortRange.split('-')[0]) <= int(self.nodePortRange.split('-')[1]) && "
            f"int(self.nodePortRange.split('-')[1]) <= {LAST_PORT}",
            f"must be a first and a last port of at most {LAST_PORT}, such as 30000-32767",
            ".nodePortRange",
        ),
    ),
}
"""CEL rules across the fields of a kind's spec."""
