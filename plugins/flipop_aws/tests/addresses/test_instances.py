"""What an instance's answer says of where an Elastic IP can be put."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_aws.instances import instance_of


def private(address: str, *, primary: bool = False, public: str = "", owner: str = "123456789012") -> dict[str, Any]:
    association = {"Association": {"PublicIp": public, "IpOwnerId": owner}} if public else {}
    return {"PrivateIpAddress": address, "Primary": primary, **association}


def interface(index: int, *addresses: dict[str, Any], card: int | None = 0, **more: Any) -> dict[str, Any]:
    attachment = {"DeviceIndex": index} | ({} if card is None else {"NetworkCardIndex": card})
    return {
        "NetworkInterfaceId": f"eni-{index}{card}",
        "Attachment": attachment,
        "PrivateIpAddresses": addresses,
        **more,
    }


def answer(*interfaces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"InstanceId": "i-1", "State": {"Name": "running"}, "NetworkInterfaces": interfaces, **more}


TWO = (private("10.0.0.2"), private("10.0.0.1", primary=True))


def test_primary_private_address_comes_first() -> None:
    instance = instance_of(answer(interface(1, private("10.0.1.1", primary=True)), interface(0, *TWO)))
    assert instance.interface == "eni-00"
    assert [each.address for each in instance.addresses] == ["10.0.0.1", "10.0.0.2"]
    assert instance.limit == 2


@pytest.mark.parametrize("card", [0, None])
def test_primary_interface_is_that_of_the_first_network_card(card: int | None) -> None:
    others = interface(0, private("10.0.9.1", primary=True), card=1)
    assert instance_of(answer(others, interface(0, *TWO, card=card))).addresses[0].address == "10.0.0.1"


@pytest.mark.parametrize(
    "managed",
    [
        answer(interface(0, *TWO), interface(1, private("10.0.1.1", primary=True), Description="aws-K8S-i-1")),
        answer(interface(0, *TWO, Ipv4Prefixes=[{"Ipv4Prefix": "10.0.2.0/28"}])),
        answer(interface(0, *TWO), Tags=[{"Key": "eks:nodegroup-name", "Value": "workers"}]),
    ],
    ids=["interface", "prefix", "node group"],
)
def test_other_addresses_are_those_of_pods(managed: dict[str, Any]) -> None:
    assert [each.address for each in instance_of(managed).addresses] == ["10.0.0.1"]


def test_other_tags_say_nothing() -> None:
    tags = [{"Key": "kubernetes.io/cluster/production", "Value": "owned"}, {"Key": "Name", "Value": "eks:"}]
    assert instance_of(answer(interface(0, *TWO), Tags=tags)).limit == 2


def test_public_address_of_the_launch_is_none() -> None:
    held = private("10.0.0.1", primary=True, public="203.0.113.1", owner="amazon")
    elastic = private("10.0.0.2", public="203.0.113.2")
    assert [each.public_ip for each in instance_of(answer(interface(0, held, elastic))).addresses] == [
        "",
        "203.0.113.2",
    ]


def test_terminated_instance_has_nothing() -> None:
    instance = instance_of({"InstanceId": "i-1", "State": {"Name": "terminated"}, "NetworkInterfaces": []})
    assert (instance.interface, instance.addresses, instance.limit) == ("", (), 0)
