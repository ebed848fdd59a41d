"""How security groups, their rules and interfaces are selected, shown and paged."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flipop_aws_testserver.answers import AWSError, Value, ec2_answer
from flipop_aws_testserver.calls import Call

_MAX_FILTER_VALUES = 200


def selected(call: Call, things: Sequence[Any], fields: Mapping[str, Callable[[Any], list[str]]]) -> list[Any]:
    """Return the things that pass the filters of a call. ``fields`` are the filters beside ``tag:`` and ``tag-key``."""
    found = list(things)
    for name, values in call.filters().items():
        if len(values) > _MAX_FILTER_VALUES:
            raise AWSError("FilterLimitExceeded", f"The maximum number of filter values is {_MAX_FILTER_VALUES}")
        if name == "tag-key":
            read: Callable[[Any], list[str]] = _tag_keys
        elif name.startswith("tag:"):
            read = _TagValue(name.removeprefix("tag:"))
        elif name in fields:
            read = fields[name]
        else:
            raise AWSError("InvalidParameterValue", f"The filter '{name}' is invalid")
        found = [each for each in found if any(fnmatch.filter(read(each), value) for value in values)]
    return found


def page(call: Call, name: str, things: list[Any], shown: Callable[[Any], Value], most: int) -> bytes:
    """Return the page that a call asks for, as its answer; ``most`` is the largest."""
    size, start = min(int(call.get("MaxResults") or most), most), int(call.get("NextToken") or 0)
    content: dict[str, Value] = {name: [shown(each) for each in things[start : start + size]]}
    if start + size < len(things):
        content["nextToken"] = str(start + size)
    return ec2_answer(call.name, content)


def rule_fields(rule: Any, owner: str) -> dict[str, Value]:
    """Return a rule as DescribeSecurityGroupRules shows it."""
    source = (rule.source_group or {}).get("GroupId")
    return {
        "securityGroupRuleId": rule.id,
        "groupId": rule.group_id,
        "groupOwnerId": owner,
        "isEgress": bool(rule.is_egress),
        "ipProtocol": rule.ip_protocol,
        "fromPort": -1 if rule.from_port is None else rule.from_port,
        "toPort": -1 if rule.to_port is None else rule.to_port,
        "cidrIpv4": rule.cidr_ipv4,
        "cidrIpv6": rule.cidr_ipv6,
        "prefixListId": rule.prefix_list_id,
        "referencedGroupInfo": {"groupId": source, "userId": owner} if source else None,
        "description": rule.description,
        "tagSet": tags_of(rule),
    }


def interface_fields(interface: Any, groups: list[Any], owner: str) -> dict[str, Value]:
    """Return an interface with its groups as DescribeNetworkInterfaces shows it."""
    attachment: dict[str, Value] | None = None
    if interface.instance is not None:
        attachment = {
            "attachmentId": interface.attachment_id,
            "instanceId": interface.instance.id,
            "instanceOwnerId": owner,
            "deviceIndex": interface.device_index,
            "status": "attached",
            "deleteOnTermination": bool(interface.delete_on_termination),
        }
    return {
        "networkInterfaceId": interface.id,
        "subnetId": interface.subnet.id,
        "vpcId": interface.subnet.vpc_id,
        "availabilityZone": interface.subnet.availability_zone,
        "description": interface.description,
        "ownerId": owner,
        "requesterManaged": False,
        "status": interface.status,
        "interfaceType": "interface",
        "privateIpAddress": interface.private_ip_address,
        "groupSet": [{"groupId": group.id, "groupName": group.name} for group in groups],
        "attachment": attachment,
        "privateIpAddressesSet": [
            {"privateIpAddress": private, "primary": private == interface.private_ip_address}
            for private in (each["PrivateIpAddress"] for each in interface.private_ip_addresses)
        ],
        "tagSet": tags_of(interface),
    }


def tags_of(thing: Any) -> Value:
    """Return the tags of what moto can tag, None without one."""
    return [{"key": tag["key"], "value": tag["value"]} for tag in thing.get_tags()] or None


def _tag_keys(thing: Any) -> list[str]:
    return [str(tag["key"]) for tag in thing.get_tags()]


class _TagValue:
    """Reads the value of one tag."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, thing: Any) -> list[str]:
        return [str(tag["value"]) for tag in thing.get_tags() if tag["key"] == self._key]
