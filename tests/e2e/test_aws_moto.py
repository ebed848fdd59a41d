"""Against moto alone, without the layer that makes it behave as AWS does: the whole life of a pool."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from .aws import EAST, AWSWorld
from .test_aws_pools import recorded
from .world import POOL
from .zones import until_ready


class Moto:
    """moto's own server. One for a process: it keeps its state in global variables."""

    def __init__(self, url: str) -> None:
        self.url = url
        session = boto3.Session("moto", "moto", region_name=EAST)
        self.ec2 = session.client("ec2", endpoint_url=url)
        self.route53 = session.client("route53", endpoint_url=url)
        vpc = self.ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
        gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        zone = [{"Name": "availability-zone", "Values": [f"{EAST}a"]}]
        self._subnet = self.ec2.describe_subnets(Filters=zone)["Subnets"][0]["SubnetId"]
        self._image = self.ec2.register_image(Name="flipop", RootDeviceName="/dev/xvda")["ImageId"]

    def instance(self) -> str:
        # moto says of a public address that comes with the launch that the account owns it, AWS that Amazon does.
        nic = {"DeviceIndex": 0, "SubnetId": self._subnet, "AssociatePublicIpAddress": False}
        made = self.ec2.run_instances(ImageId=self._image, MinCount=1, MaxCount=1, NetworkInterfaces=[nic])
        return str(made["Instances"][0]["InstanceId"])

    def on(self) -> dict[str, str]:
        """Return all addresses and the instance of each, empty for none."""
        interfaces = self.ec2.describe_instances()["Reservations"]
        owners = {
            nic["NetworkInterfaceId"]: each["InstanceId"]
            for reservation in interfaces
            for each in reservation["Instances"]
            for nic in each.get("NetworkInterfaces", ())
        }
        found = self.ec2.describe_addresses()["Addresses"]
        return {each["PublicIp"]: owners.get(each.get("NetworkInterfaceId", ""), "") for each in found}

    def values(self, zone_id: str, name: str) -> list[str]:
        sets = self.route53.list_resource_record_sets(HostedZoneId=zone_id)["ResourceRecordSets"]
        return sorted(r["Value"] for s in sets if (s["Name"], s["Type"]) == (name, "A") for r in s["ResourceRecords"])

    def close(self) -> None:
        self.ec2.close()
        self.route53.close()


@pytest.fixture
def moto() -> Iterator[Moto]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    client = Moto(f"http://{host}:{port}")
    try:
        yield client
    finally:
        client.close()
        server.stop()


def node_on(world: AWSWorld, name: str, instance: str) -> str:
    world.bare_node(name, f"aws:///{EAST}a/{instance}", {world.id: "node"})
    return name


def test_the_whole_life_of_a_pool(aws_world: AWSWorld, moto: Moto) -> None:
    world = aws_world
    instances = {f"{world.id}-{number}": moto.instance() for number in range(3)}
    nodes = [node_on(world, name, instance) for name, instance in instances.items()]
    zone = moto.route53.create_hosted_zone(Name=f"{world.id}.example", CallerReference=world.id)["HostedZone"]
    zone_id = zone["Id"].rpartition("/")[2]
    variables = {"AWS_ENDPOINT_URL": moto.url}
    first = world.controller("--recheck-seconds", "2", variables=variables)

    # Created, assigned, published.
    spec = {"zone": f"{world.id}.example", "recordName": "www", "reclaimPolicy": "Delete"}
    world.pool(desiredIPs=2, reclaimPolicy="Delete", dnsRecordSet=spec)
    before = world.until_active(2, timeout_seconds=30.0)
    until_ready(world, "pool", POOL)
    assert moto.on() == {address: instances[name] for address, name in before.items()}
    assert recorded(world) == sorted(before)
    assert moto.values(zone_id, f"www.{world.id}.example.") == sorted(before)

    # A node fails.
    (moving,) = [address for address, name in before.items() if name == nodes[0]]
    world.cluster.set_node_ready(nodes[0], ready=False)
    world.until(lambda: moto.on()[moving] == instances[nodes[2]], "the address on another instance")
    world.until_active(2)
    world.until_at_rest()

    # The controller is killed, and another one goes on.
    first.kill()
    world.expire_lease()
    world.cluster.set_node_ready(nodes[0], ready=True)
    world.cluster.delete("Node", nodes[2])
    world.controller("--recheck-seconds", "2", variables=variables)
    world.until(lambda: moto.on()[moving] == instances[nodes[0]], "the address on the first instance", 20.0)
    assert set(world.until_active(2)) == set(before)

    # An address fewer, then the pool is deleted.
    world.change(desiredIPs=1)
    world.until(lambda: len(moto.on()) == 1, "one address less")
    world.until(lambda: moto.values(zone_id, f"www.{world.id}.example.") == list(moto.on()), "the record")
    world.delete()
    world.until(world.is_gone, "the pool to be gone")
    assert moto.on() == {}
    assert moto.values(zone_id, f"www.{world.id}.example.") == []
