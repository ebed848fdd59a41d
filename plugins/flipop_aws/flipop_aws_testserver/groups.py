"""Security groups as AWS has them: what moto leaves out is in the package's docstring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from moto.ec2.models.security_groups import SecurityGroupRule

from flipop_aws_testserver.answers import AWSError, Value, ec2_answer
from flipop_aws_testserver.calls import Call
from flipop_aws_testserver.grouppages import interface_fields, page, rule_fields, selected, tags_of
from flipop_aws_testserver.motoapp import MotoAccount
from flipop_aws_testserver.settings import Settings


class Rule(NamedTuple):
    """An inbound rule. Exactly one of ``cidr``, ``group_id`` and ``prefix_list_id`` is not empty.

    Without ports, as for ``protocol`` ``-1``, these are -1.
    """

    protocol: str
    from_port: int
    to_port: int
    cidr: str = ""
    group_id: str = ""
    prefix_list_id: str = ""
    description: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rules the same."""
        return self[:-1]


class SecurityGroups:
    """The security groups of an account. Call all of it with the account's lock held."""

    def __init__(self, moto: MotoAccount, settings: Settings) -> None:
        self._moto = moto
        self._settings = settings
        self._before: dict[str, tuple[list[Any], float]] = {}
        self._made: dict[str, Rule] = {}
        self.handlers: Mapping[str, Callable[[Call], bytes]] = {
            "ec2:AuthorizeSecurityGroupIngress": self._authorize,
            "ec2:RevokeSecurityGroupIngress": self._revoke,
            "ec2:DescribeSecurityGroups": self._describe,
            "ec2:DescribeSecurityGroupRules": self._describe_rules,
            "ec2:DescribeNetworkInterfaces": self._describe_interfaces,
            "ec2:ModifyNetworkInterfaceAttribute": self._modify_interface,
        }

    # State

    def clear(self) -> None:
        """Forget what reads showed before, and the rules that there were."""
        self._before.clear()
        self._made.clear()

    def made(self, rule_id: str) -> Rule:
        """Return an inbound rule that is, or was. Raises KeyError."""
        return self._made[rule_id]

    def find(self, region: str, group_id: str) -> Any:
        """Return moto's group. Raises AWSError."""
        group = self._moto.ec2(region).get_security_group_from_id(group_id)
        if group is None:
            raise AWSError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
        return group

    def add_rules(self, region: str, group_id: str, rules: list[Rule], tags: Mapping[str, str]) -> list[Any]:
        """Add rules, all or none. Raises AWSError."""
        group = self.find(region, group_id)
        keys = [rule.key for rule in rules]
        if len(set(keys)) < len(keys):
            raise AWSError("InvalidParameterValue", "The same permission must not appear multiple times")
        held = {rule_of(each).key for each in group.ingress_rules}
        for rule in rules:
            if rule.key in held:
                peer = rule.cidr or rule.group_id or rule.prefix_list_id
                text = f'the specified rule "peer: {peer}, {rule.protocol.upper()}, ALLOW" already exists'
                raise AWSError("InvalidPermission.Duplicate", text)
        if len(held) + len(rules) > self._settings.rules_per_group:
            text = "The maximum number of rules per security group has been reached."
            raise AWSError("RulesPerSecurityGroupLimitExceeded", text)
        added = [self._new_rule(region, group_id, rule, tags) for rule in rules]
        self._made.update((str(made.id), rule) for made, rule in zip(added, rules, strict=True))
        self._set_rules(group, [*group.ingress_rules, *added])
        return added

    def remove_rules(self, region: str, group_id: str, rule_ids: list[str]) -> list[Any]:
        """Remove rules by their IDs, all or none. Raises AWSError."""
        group = self.find(region, group_id)
        held = {rule.id: rule for rule in group.ingress_rules}
        for rule_id in rule_ids:
            if rule_id not in held:
                text = f"The security group rule ID '{rule_id}' does not exist"
                raise AWSError("InvalidSecurityGroupRuleId.NotFound", text)
        self._set_rules(group, [rule for rule in group.ingress_rules if rule.id not in rule_ids])
        return [held[rule_id] for rule_id in rule_ids]

    def put(self, region: str, interface: Any, group_ids: list[str]) -> None:
        """Put exactly these groups on an interface. Raises AWSError."""
        groups = [self.find(region, group_id) for group_id in dict.fromkeys(group_ids)]
        if any(group.vpc_id != interface.subnet.vpc_id for group in groups):
            text = "You have specified two resources that belong to different networks."
            raise AWSError("InvalidGroup.NotFound", text)
        if len(groups) > self._settings.groups_per_interface:
            text = "The maximum number of security groups per interface has been reached."
            raise AWSError("SecurityGroupsPerInterfaceLimitExceeded", text)
        if not groups:
            raise AWSError("InvalidParameterValue", "An interface has at least one security group")
        self._remember(interface.id, self.of(interface))
        interface._group_set = groups  # noqa: SLF001 - moto's own setter takes nothing that it does not know

    @staticmethod
    def of(interface: Any) -> list[Any]:
        """Return moto's groups of an interface."""
        return list(interface.group_set)

    def _set_rules(self, group: Any, rules: list[Any]) -> None:
        self._remember(group.id, list(group.ingress_rules))
        group.ingress_rules = rules

    def _remember(self, name: str, what: list[Any]) -> None:
        if self._settings.group_lag_seconds:
            self._before[name] = what, time.monotonic() + self._settings.group_lag_seconds

    def _shown(self, name: str, now: list[Any]) -> list[Any]:
        """Return what reads show: for a while, what was before."""
        before, until = self._before.get(name, (now, 0.0))
        return before if time.monotonic() < until else now

    def _new_rule(self, region: str, group_id: str, rule: Rule, tags: Mapping[str, str]) -> Any:
        family = "CidrIpv6" if ":" in rule.cidr else "CidrIp"
        described = {"Description": rule.description} if rule.description else {}
        backend = self._moto.ec2(region)
        return SecurityGroupRule(
            backend,
            rule.protocol,
            group_id,
            str(rule.from_port),
            str(rule.to_port),
            {family: rule.cidr, **described} if rule.cidr else None,
            {"GroupId": rule.group_id, "UserId": self._moto.id, **described} if rule.group_id else None,
            {"PrefixListId": rule.prefix_list_id} if rule.prefix_list_id else None,
            is_egress=False,
            tags=dict(tags),
        )

    # Actions

    def _authorize(self, call: Call) -> bytes:
        group_id, rules = self._group_id(call), list(_rules(call))
        if not rules:
            raise AWSError("MissingParameter", "The request must contain the parameter ipPermissions")
        added = self.add_rules(call.region, group_id, rules, call.tags())
        shown: list[Value] = [rule_fields(rule, self._moto.id) for rule in added]
        return ec2_answer(call.name, {"return": True, "securityGroupRuleSet": shown})

    def _revoke(self, call: Call) -> bytes:
        group_id = self._group_id(call)
        rule_ids = call.members("SecurityGroupRuleId")
        if not rule_ids:
            held = {rule_of(each).key: str(each.id) for each in self.find(call.region, group_id).ingress_rules}
            wanted = [rule.key for rule in _rules(call)]
            if not set(wanted) <= held.keys():
                text = "The specified rule does not exist in this security group."
                raise AWSError("InvalidPermission.NotFound", text)
            rule_ids = [held[key] for key in wanted]
        removed = self.remove_rules(call.region, group_id, rule_ids)
        shown: list[Value] = [rule_fields(rule, self._moto.id) for rule in removed]
        return ec2_answer(call.name, {"return": True, "revokedSecurityGroupRuleSet": shown})

    def _group_id(self, call: Call) -> str:
        group_id = call.get("GroupId")
        self.find(call.region, group_id)
        return group_id

    def _describe(self, call: Call) -> bytes:
        groups = self._moto.ec2(call.region).describe_security_groups()
        wanted = call.members("GroupId")
        for group_id in wanted:
            self.find(call.region, group_id)
        fields = {
            "group-id": lambda group: [group.id],
            "group-name": lambda group: [group.name],
            "vpc-id": lambda group: [group.vpc_id],
            "description": lambda group: [group.description],
        }
        names = call.members("GroupName")
        found = [
            group
            for group in selected(call, groups, fields)
            if (not wanted or group.id in wanted) and (not names or group.name in names)
        ]
        return page(call, "securityGroupInfo", found, self._group_fields, self._settings.page_size)

    def _group_fields(self, group: Any) -> dict[str, Value]:
        return {
            "ownerId": self._moto.id,
            "groupId": group.id,
            "groupName": group.name,
            "groupDescription": group.description,
            "vpcId": group.vpc_id,
            "tagSet": tags_of(group),
        }

    def _describe_rules(self, call: Call) -> bytes:
        groups = self._moto.ec2(call.region).describe_security_groups()
        rules = [
            rule for group in groups for rule in (*self._shown(group.id, group.ingress_rules), *group.egress_rules)
        ]
        fields = {"group-id": lambda rule: [rule.group_id], "security-group-rule-id": lambda rule: [rule.id]}
        found, wanted = selected(call, rules, fields), call.members("SecurityGroupRuleId")
        missing = set(wanted) - {rule.id for rule in rules}
        if missing:
            text = f"The security group rule ID '{min(missing)}' does not exist"
            raise AWSError("InvalidSecurityGroupRuleId.NotFound", text)
        found = [rule for rule in found if not wanted or rule.id in wanted]
        return page(
            call, "securityGroupRuleSet", found, lambda rule: rule_fields(rule, self._moto.id), self._settings.page_size
        )

    def _describe_interfaces(self, call: Call) -> bytes:
        interfaces = [each for each in self._moto.ec2(call.region).enis.values() if not _is_gone(each)]
        wanted = call.members("NetworkInterfaceId")
        missing = set(wanted) - {each.id for each in interfaces}
        if missing:
            text = f"The networkInterface ID '{min(missing)}' does not exist"
            raise AWSError("InvalidNetworkInterfaceID.NotFound", text)
        fields = {
            "network-interface-id": lambda each: [each.id],
            "group-id": lambda each: [group.id for group in self._shown(each.id, self.of(each))],
            "attachment.instance-id": lambda each: [each.instance.id] if each.instance else [],
            "attachment.device-index": lambda each: [str(each.device_index)] if each.instance else [],
            "vpc-id": lambda each: [each.subnet.vpc_id],
            "description": lambda each: [each.description],
        }
        found = [each for each in selected(call, interfaces, fields) if not wanted or each.id in wanted]
        return page(call, "networkInterfaceSet", found, self._interface_fields, self._settings.page_size)

    def _interface_fields(self, interface: Any) -> dict[str, Value]:
        return interface_fields(interface, self._shown(interface.id, self.of(interface)), self._moto.id)

    def _modify_interface(self, call: Call) -> bytes:
        interface = self._moto.ec2(call.region).enis.get(call.get("NetworkInterfaceId"))
        if interface is None or _is_gone(interface):
            text = f"The networkInterface ID '{call.get('NetworkInterfaceId')}' does not exist"
            raise AWSError("InvalidNetworkInterfaceID.NotFound", text)
        group_ids = call.members("SecurityGroupId")
        if not group_ids:
            raise AWSError("InvalidParameterCombination", "This server changes the groups of an interface alone")
        self.put(call.region, interface, group_ids)
        return ec2_answer(call.name, {"return": True})


def rule_of(rule: Any) -> Rule:
    """Return moto's rule as one of this module."""
    return Rule(
        str(rule.ip_protocol),
        -1 if rule.from_port is None else int(rule.from_port),
        -1 if rule.to_port is None else int(rule.to_port),
        str(rule.cidr_ipv4 or rule.cidr_ipv6 or ""),
        str((rule.source_group or {}).get("GroupId", "")),
        str(rule.prefix_list_id or ""),
        str(rule.description or ""),
    )


def _rules(call: Call) -> Iterator[Rule]:
    """Return the rules of a request, one for each source."""
    number = 1
    while protocol := call.get(f"IpPermissions.{number}.IpProtocol"):
        start = f"IpPermissions.{number}"
        ports = [int(call.get(f"{start}.{name}") or -1) for name in ("FromPort", "ToPort")]
        protocol = _PROTOCOLS.get(protocol.lower(), protocol)
        if protocol == "-1":
            ports = [-1, -1]
        for part, field, source in _SOURCES:
            index = 1
            while value := call.get(f"{start}.{part}.{index}.{field}"):
                description = call.get(f"{start}.{part}.{index}.Description")
                peer = {"cidr": "", "group_id": "", "prefix_list_id": "", source: value}
                yield Rule(protocol, ports[0], ports[1], description=description, **peer)
                index += 1
        number += 1


_PROTOCOLS = {"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6", "all": "-1"}
_SOURCES = (
    ("IpRanges", "CidrIp", "cidr"),
    ("Ipv6Ranges", "CidrIpv6", "cidr"),
    ("Groups", "GroupId", "group_id"),
    ("PrefixListIds", "PrefixListId", "prefix_list_id"),
)


def _is_gone(interface: Any) -> bool:
    instance = interface.instance
    return instance is not None and instance._state.name == "terminated"  # noqa: SLF001 - moto has no public name
