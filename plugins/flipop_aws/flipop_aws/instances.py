"""EC2 instances as nodes: their provider IDs, and which private addresses an Elastic IP can be put on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from flipop_core import Rejected

PROVIDER = "aws"
CNI_DESCRIPTION = "aws-K8S-"
"""How the VPC CNI describes the interfaces that it attaches (amazon-vpc-cni-k8s, pkg/awsutils)."""

EKS_TAG = "eks:"
"""How the keys of the tags begin that EKS gives the instances of its node groups."""

_NODE = re.compile(r"aws:///(?P<zone>[a-z0-9-]+)/(?P<instance>i-[0-9a-f]+)")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_ELSEWHERE = "aws-interface:///"


class PrivateAddress(msgspec.Struct, frozen=True, gc=False):
    """A private IPv4 address of an interface, and the public one on it, if it is not EC2's own but perhaps elastic."""

    address: str
    primary: bool
    public_ip: str = ""


class Instance(msgspec.Struct, frozen=True, gc=False):
    """An instance: its primary interface, and the addresses there that an Elastic IP can be put on, primary one first.

    ``state`` is EC2's: ``pending``, ``running``, ``stopping``, ``stopped``, ``shutting-down`` or ``terminated``.
    """

    id: str
    zone: str
    state: str = "running"
    interface: str = ""
    addresses: tuple[PrivateAddress, ...] = ()
    vpc: str = ""

    @property
    def limit(self) -> int:
        """How many Elastic IPs it can hold, 0 when it is terminated or in no VPC."""
        return len(self.addresses)


def region_of(provider_id: str) -> str:
    """Return the region of a node, also in a local or wavelength zone; empty for what is no EC2 instance."""
    node = _NODE.fullmatch(provider_id)
    region = _REGION.match(node["zone"]) if node is not None else None
    return region[0] if region is not None else ""


def instance_id(operation: str, provider_id: str) -> str:
    """Return the instance ID of a node. Raises Rejected."""
    node = _NODE.fullmatch(provider_id)
    if node is None:
        raise Rejected(
            f"{provider_id!r} is no EC2 instance: a node's provider ID is aws:///<zone>/<instance ID>",
            provider=PROVIDER,
            operation=operation,
        )
    return node["instance"]


def instance_ids(provider_ids: Iterable[str]) -> dict[str, str]:
    """Return the instance IDs of those that are EC2 instances, by provider ID."""
    found = {provider_id: _NODE.fullmatch(provider_id) for provider_id in provider_ids}
    return {provider_id: node["instance"] for provider_id, node in found.items() if node is not None}


def holder_elsewhere(interface: str) -> str:
    """Return what holds an address that is on an interface without an instance: a NAT gateway's, a load balancer's.

    It has the form of no node, so that the address counts as held and belongs to no candidate.
    """
    return f"{_ELSEWHERE}{interface}"


def instance_of(answer: Mapping[str, Any]) -> Instance:
    """Return an instance of a ``DescribeInstances`` answer."""
    primary = next(filter(_is_primary, answer.get("NetworkInterfaces") or ()), None)
    addresses = tuple(map(_private_address, primary.get("PrivateIpAddresses") or ())) if primary is not None else ()
    # The CNI gives an interface's other addresses to pods: an Elastic IP there would lead to one of them.
    managed = _gives_addresses_to_pods(answer)
    usable = [each for each in addresses if each.primary or not managed]
    return Instance(
        id=answer["InstanceId"],
        zone=answer.get("Placement", {}).get("AvailabilityZone", ""),
        state=answer.get("State", {}).get("Name", ""),
        interface=primary.get("NetworkInterfaceId", "") if primary is not None else "",
        addresses=tuple(sorted(usable, key=lambda each: not each.primary)),
        vpc=answer.get("VpcId", ""),
    )


def _is_primary(interface: Mapping[str, Any]) -> bool:
    attachment = interface.get("Attachment") or {}
    return attachment.get("DeviceIndex") == 0 and not attachment.get("NetworkCardIndex")


def _gives_addresses_to_pods(answer: Mapping[str, Any]) -> bool:
    """Return whether the VPC CNI manages the instance's addresses, or may.

    It shows by the interfaces that it attaches or by prefixes. Before it has any of them, an EKS node's tags tell.
    """
    if any(str(tag.get("Key", "")).startswith(EKS_TAG) for tag in answer.get("Tags") or ()):
        return True
    interfaces = answer.get("NetworkInterfaces") or ()
    return any(
        str(each.get("Description", "")).startswith(CNI_DESCRIPTION) or each.get("Ipv4Prefixes") for each in interfaces
    )


def _private_address(answer: Mapping[str, Any]) -> PrivateAddress:
    association = answer.get("Association") or {}
    # A public address that EC2 gave the instance at launch gives way to an Elastic IP; its owner is "amazon".
    public = association.get("PublicIp", "") if association.get("IpOwnerId") != "amazon" else ""
    return PrivateAddress(answer["PrivateIpAddress"], bool(answer.get("Primary")), public)
