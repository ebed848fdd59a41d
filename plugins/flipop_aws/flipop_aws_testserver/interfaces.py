"""Shows in moto's answers about instances and interfaces which Elastic IPs these hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from flipop_aws_testserver.answers import EC2_NAMESPACE
from flipop_aws_testserver.elasticips import ElasticIP, ElasticIPs
from flipop_aws_testserver.motoapp import MotoAccount

SHOWN = frozenset({"ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces"})
"""The actions whose answers show interfaces."""

_PLAIN = EC2_NAMESPACE.rstrip("/")  # moto's form
_Q = "{" + _PLAIN + "}"


def with_associations(body: bytes, region: str, addresses: ElasticIPs, moto: MotoAccount) -> bytes:
    """Return an answer with the associations that there are."""
    ET.register_namespace("", _PLAIN)
    root = ET.fromstring(body.replace(f'"{EC2_NAMESPACE}"'.encode(), f'"{_PLAIN}"'.encode()))  # noqa: S314 - our own
    held = {
        (shown.interface.id, shown.private_address): (each, shown.id)
        for each in addresses.all(region)
        if (shown := each.shown())
    }
    for instance in root.iter(f"{_Q}item"):
        if instance.find(f"{_Q}instanceState/{_Q}name") is not None:
            _hide_what_is_gone(instance)
    for interface in root.iter(f"{_Q}item"):
        if interface.find(f"{_Q}privateIpAddressesSet") is not None:
            _show(interface, held, moto, region)
    answer: bytes = ET.tostring(root, xml_declaration=True, encoding="utf-8")
    return answer


def _hide_what_is_gone(instance: ET.Element) -> None:
    if instance.findtext(f"{_Q}instanceState/{_Q}name") == "terminated":
        for name in ("networkInterfaceSet", "privateIpAddress", "ipAddress", "subnetId", "vpcId"):
            for child in instance.findall(f"{_Q}{name}"):
                instance.remove(child)


def _show(
    interface: ET.Element, held: Mapping[tuple[str, str], tuple[ElasticIP, str]], moto: MotoAccount, region: str
) -> None:
    interface_id = interface.findtext(f"{_Q}networkInterfaceId", "")
    automatic = moto.ec2(region).enis[interface_id].public_ip or ""
    for private in interface.findall(f"{_Q}privateIpAddressesSet/{_Q}item"):
        is_primary = private.findtext(f"{_Q}primary") == "true"
        elastic = held.get((interface_id, private.findtext(f"{_Q}privateIpAddress", "")))
        shown = [private, interface] if is_primary else [private]
        for element in shown:
            for old in element.findall(f"{_Q}association"):
                element.remove(old)
            if elastic is not None:
                address, association_id = elastic
                _add(element, address.public_ip, moto.id, association_id, address.allocation_id)
            elif automatic and is_primary:
                _add(element, automatic, "amazon")


def _add(element: ET.Element, public_ip: str, owner: str, association_id: str = "", allocation_id: str = "") -> None:
    association = ET.SubElement(element, f"{_Q}association")
    fields = {
        "publicIp": public_ip,
        "ipOwnerId": owner,
        "associationId": association_id,
        "allocationId": allocation_id,
    }
    for name, value in fields.items():
        if value:
            ET.SubElement(association, f"{_Q}{name}").text = value
