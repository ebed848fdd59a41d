"""Pure functions on security groups: what EC2's rules and interfaces mean, and how a rule is written.

EC2 has one rule for each protocol, range of ports and CIDR; the core has one for several CIDRs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from flipop_core import FirewallRule

MANAGED_TAG = "flipop.digitalocean.com/managed"
MANAGED_VALUE = "true"
"""The tag of rules that the project added."""

ANYWHERE = ("0.0.0.0/0", "::/0")

_LAST_PORT = 65535
_EITHER = ("tcp", "udp")
_PROTOCOLS = {"tcp": ("tcp",), "6": ("tcp",), "udp": ("udp",), "17": ("udp",), "-1": _EITHER}


class Opening(msgspec.Struct, frozen=True, gc=False, order=True):
    """What one rule of EC2 lets in: a protocol (``tcp`` or ``udp``), the first and the last port, one CIDR."""

    protocol: str
    port: int
    end_port: int
    source: str


class GroupRule(msgspec.Struct, frozen=True, gc=False):
    """An inbound rule from a CIDR. ``own``: the project added it. One for all protocols is two openings."""

    id: str
    openings: tuple[Opening, ...]
    own: bool = False


class PrimaryInterface(msgspec.Struct, frozen=True, gc=False):
    """The primary network interface of an instance, and the IDs of the security groups that it has."""

    id: str
    provider_id: str
    vpc: str = ""
    groups: tuple[str, ...] = ()


def group_rule_of(answer: Mapping[str, Any]) -> GroupRule | None:
    """Return a rule of a ``DescribeSecurityGroupRules`` answer.

    None: it is outbound, not about TCP or UDP, or its source is another group or a prefix list.
    """
    source = _network(answer.get("CidrIpv4") or answer.get("CidrIpv6") or "")
    protocols = _PROTOCOLS.get(str(answer.get("IpProtocol", "")).lower(), ())
    ports = (1, _LAST_PORT) if protocols == _EITHER else _ports(answer)
    if answer.get("IsEgress") or not source or not protocols or ports is None:
        return None
    tags = {tag["Key"]: tag["Value"] for tag in answer.get("Tags") or ()}
    return GroupRule(
        answer["SecurityGroupRuleId"],
        tuple(Opening(protocol, *ports, source) for protocol in protocols),
        own=tags.get(MANAGED_TAG) == MANAGED_VALUE,
    )


def primary_interface_of(answer: Mapping[str, Any]) -> PrimaryInterface | None:
    """Return an interface of a ``DescribeNetworkInterfaces`` answer, None when it is no instance's primary one."""
    attachment = answer.get("Attachment") or {}
    instance = attachment.get("InstanceId")
    # Where an instance has several network cards, each may have an interface of device index 0.
    if not instance or attachment.get("DeviceIndex") != 0 or attachment.get("NetworkCardIndex"):
        return None
    return PrimaryInterface(
        answer["NetworkInterfaceId"],
        f"aws:///{answer.get('AvailabilityZone', '')}/{instance}",
        answer.get("VpcId", ""),
        tuple(group["GroupId"] for group in answer.get("Groups") or ()),
    )


def owners_of(rules: Iterable[GroupRule]) -> dict[Opening, bool]:
    """Return all openings, each with whether it is the project's."""
    found: dict[Opening, bool] = {}
    for rule in rules:
        for opening in rule.openings:
            found[opening] = rule.own or found.get(opening, False)
    return found


def firewall_rules_of(owners: Mapping[Opening, bool]) -> tuple[FirewallRule, ...]:
    """Return the core's view of openings: each of them in exactly one rule.

    The two sources that are everywhere make one rule of their own where both are there, whoever added them: that is
    what the project adds, of which EC2 refuses the half that is there already. Of the other sources for the same ports
    those that the project added make one rule, and those of others another one.
    """
    by_ports: dict[tuple[str, int, int], dict[str, bool]] = {}
    for opening, own in owners.items():
        by_ports.setdefault((opening.protocol, opening.port, opening.end_port), {})[opening.source] = own
    rules = []
    for (protocol, port, end_port), sources in by_ports.items():
        whole = set(ANYWHERE) if sources.keys() >= set(ANYWHERE) else set()
        parts = [whole, *({source for source, own in sources.items() if own is side} - whole for side in (True, False))]
        last = 0 if end_port == port else end_port
        rules += [FirewallRule(protocol, port, last, tuple(sorted(part))) for part in parts if part]
    return tuple(sorted(rules, key=lambda rule: (rule.protocol, rule.port, rule.end_port, rule.sources)))


def openings_of(rules: Iterable[FirewallRule]) -> tuple[Opening, ...]:
    """Return what rules of the core mean, sorted, each opening once."""
    return tuple(
        sorted(
            {
                Opening(rule.protocol, rule.port, rule.end_port or rule.port, source)
                for rule in rules
                for source in rule.sources
            }
        )
    )


def permissions_of(openings: Iterable[Opening]) -> list[dict[str, Any]]:
    """Return openings as ``AuthorizeSecurityGroupIngress`` takes them: all sources of the same ports together."""
    by_ports: dict[tuple[str, int, int], dict[str, Any]] = {}
    for opening in openings:
        ports = (opening.protocol, opening.port, opening.end_port)
        plain = {"IpProtocol": opening.protocol, "FromPort": opening.port, "ToPort": opening.end_port}
        ranges, cidr = ("Ipv6Ranges", "CidrIpv6") if ":" in opening.source else ("IpRanges", "CidrIp")
        by_ports.setdefault(ports, plain).setdefault(ranges, []).append({cidr: opening.source})
    return list(by_ports.values())


def rule_fault(rule: FirewallRule) -> str | None:
    """Return why a rule cannot be written, None when it can."""
    if rule.protocol not in _EITHER:
        return f"{rule.protocol[:20]!r} is neither tcp nor udp"
    if not 1 <= rule.port <= (rule.end_port or rule.port) <= _LAST_PORT:
        return f"{rule.port} to {rule.end_port or rule.port} are no ports"
    strangers = [source for source in rule.sources if _network(source) != source]
    if strangers or not rule.sources:
        return f"{strangers[0][:80]!r} is no CIDR" if strangers else "it needs a source"
    return None


def _ports(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the first and the last port, None when there is none. Port 0, which no service has, is left out."""
    first, last = int(answer.get("FromPort", -1)), int(answer.get("ToPort", -1))
    if first == last == -1:
        return 1, _LAST_PORT
    first = max(first, 1)
    return (first, last) if first <= last else None


def _network(text: str) -> str:
    """Return the CIDR in canonical form, empty for anything else."""
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return ""
