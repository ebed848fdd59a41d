"""The calls of EC2 about security groups: reads with their pages, and single changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec

from flipop_aws.client import Client, NoGroup, Purpose
from flipop_aws.grouprules import (
    MANAGED_TAG,
    MANAGED_VALUE,
    GroupRule,
    Opening,
    PrimaryInterface,
    group_rule_of,
    permissions_of,
    primary_interface_of,
)
from flipop_core import NotFound, ProviderError, Unavailable

T = TypeVar("T")

_MAX_PAGES = 100
_PAGE_SIZE = 1000
_VALUES_PER_FILTER = 200
_READS = {
    "describe_security_groups": "SecurityGroups",
    "describe_security_group_rules": "SecurityGroupRules",
    "describe_network_interfaces": "NetworkInterfaces",
}


class Group(msgspec.Struct, frozen=True, gc=False):
    """A security group."""

    id: str
    name: str
    vpc: str


class GroupsApi:
    """Security groups of one account and region. Each method needs a `deadline` around it. Errors: as `Client.call`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.region = client.region

    def __repr__(self) -> str:
        return f"GroupsApi({self._client!r})"

    def deadline(self) -> AbstractContextManager[None]:
        """Let all calls of this thread inside the block share one ``timeout_seconds``."""
        return self._client.deadline()

    def failure(self, kind: type[ProviderError], operation: str, text: str) -> ProviderError:
        """Return an error that the plugin itself finds."""
        return self._client.failure(kind, operation, text)

    # Reads

    def check_access(self, operation: str) -> None:
        """Make one small read of each kind. Errors: AccessDenied, Retryable."""
        for method in _READS:
            self._client.call(_purpose(operation, method), method, MaxResults=5)

    def named(self, operation: str, name: str) -> list[Group]:
        """Return the groups of that name, of which each VPC has one at most."""
        found = self._groups(operation, "group-name", name)  # the filter takes * and ? for wildcards
        return [group for group in found if group.name == name]

    def group(self, operation: str, group_id: str) -> Group:
        """Return the group of that ID. Raises NotFound, which names it."""
        for group in self._groups(operation, "group-id", group_id):
            if group.id == group_id:
                return group
        raise self.failure(NotFound, operation, f"{self.region} has no security group {group_id}")

    def _groups(self, operation: str, filter_name: str, value: str) -> list[Group]:
        return self._read(operation, "describe_security_groups", {filter_name: [value]}, _group_of)

    def rules(self, operation: str, group_id: str) -> list[GroupRule]:
        """Return the inbound rules of the group from CIDRs. Raises NotFound, which names the group."""
        try:
            return self._read(operation, "describe_security_group_rules", {"group-id": [group_id]}, group_rule_of)
        except NoGroup as error:
            raise self._no_group(error, group_id) from None

    def members(self, operation: str, group_id: str) -> list[PrimaryInterface]:
        """Return the primary interfaces that have the group."""
        return self._interfaces(operation, {"group-id": [group_id]})

    def interfaces(self, operation: str, instance_ids: Collection[str]) -> list[PrimaryInterface]:
        """Return the primary interfaces of instances; one that is gone has none."""
        wanted, found = sorted(set(instance_ids)), []
        for start in range(0, len(wanted), _VALUES_PER_FILTER):
            filters = {"attachment.instance-id": wanted[start : start + _VALUES_PER_FILTER]}
            found += self._interfaces(operation, filters)
        return found

    def _interfaces(self, operation: str, filters: Mapping[str, Sequence[str]]) -> list[PrimaryInterface]:
        # The others, which the VPC CNI gives an instance by the dozen with all their addresses, are not even sent.
        primary = {**filters, "attachment.device-index": ["0"]}
        return self._read(operation, "describe_network_interfaces", primary, primary_interface_of)

    def _read(
        self,
        operation: str,
        method: str,
        filters: Mapping[str, Sequence[str]],
        decode: Callable[[Mapping[str, Any]], T | None],
    ) -> list[T]:
        named = [{"Name": name, "Values": list(values)} for name, values in filters.items()]
        pages = self._pages(_purpose(operation, method), method, named)
        return [item for page in pages for answer in page[_READS[method]] if (item := decode(answer)) is not None]

    def _pages(self, purpose: Purpose, method: str, filters: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        arguments: dict[str, Any] = {"Filters": filters, "MaxResults": _PAGE_SIZE}
        for _ in range(_MAX_PAGES):
            page = self._client.call(purpose, method, **arguments)
            yield page
            if not page.get("NextToken"):
                return
            arguments["NextToken"] = page["NextToken"]
        raise self.failure(Unavailable, purpose.operation, "the pages do not end")

    # Changes

    def authorize(self, operation: str, group_id: str, openings: Sequence[Opening]) -> None:
        """Add rules, marked as the project's: all of them or none. Errors: also `RuleExists`."""
        permission = "ec2:AuthorizeSecurityGroupIngress, and ec2:CreateTags on the rules that it makes"
        tags = [{"Key": MANAGED_TAG, "Value": MANAGED_VALUE}]
        try:
            self._client.call(
                Purpose(operation, permission, mutation=True),
                "authorize_security_group_ingress",
                GroupId=group_id,
                IpPermissions=permissions_of(openings),
                TagSpecifications=[{"ResourceType": "security-group-rule", "Tags": tags}],
            )
        except NoGroup as error:
            raise self._no_group(error, group_id) from None

    def revoke(self, operation: str, group_id: str, rule_ids: Sequence[str]) -> None:
        """Remove rules: all of them or none. Errors: also `Gone`, when one of them does not exist."""
        purpose = Purpose(operation, "ec2:RevokeSecurityGroupIngress", mutation=True)
        try:
            self._client.call(
                purpose, "revoke_security_group_ingress", GroupId=group_id, SecurityGroupRuleIds=list(rule_ids)
            )
        except NoGroup as error:
            raise self._no_group(error, group_id) from None

    def put_groups(self, operation: str, interface_id: str, group_ids: Sequence[str]) -> None:
        """Let an interface have exactly these groups. Errors: also `NoGroup`."""
        purpose = Purpose(operation, "ec2:ModifyNetworkInterfaceAttribute", mutation=True)
        self._client.call(
            purpose, "modify_network_interface_attribute", NetworkInterfaceId=interface_id, Groups=list(group_ids)
        )

    def _no_group(self, error: NoGroup, group_id: str) -> ProviderError:
        return self.failure(NotFound, error.operation, f"security group {group_id} is gone: {error.message}")


def _purpose(operation: str, method: str) -> Purpose:
    return Purpose(operation, f"ec2:{''.join(word.capitalize() for word in method.split('_'))}")


def _group_of(answer: Mapping[str, Any]) -> Group:
    return Group(answer["GroupId"], answer.get("GroupName", ""), answer.get("VpcId", ""))
