"""The IP provider against moto as it is, which its users may run too."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from flipop_aws import build_ip_provider
from flipop_core import Applied, CreateRequest, ProviderContext


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.parametrize("public", [False, True], ids=["no public address", "public addresses given at launch"])
def test_life_of_an_address(url: str, public: bool) -> None:
    client = boto3.client("ec2", endpoint_url=url, region_name="us-east-1")
    subnet = client.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"][0]
    # Of an address given at launch moto says that it is the account's own.
    nic = {"DeviceIndex": 0, "SubnetId": subnet["SubnetId"], "AssociatePublicIpAddress": public}
    made = client.run_instances(ImageId="ami-12c6146b", MinCount=2, MaxCount=2, NetworkInterfaces=[nic])
    client.close()
    first, second = (
        f"aws:///{each['Placement']['AvailabilityZone']}/{each['InstanceId']}" for each in made["Instances"]
    )
    provider = build_ip_provider(ProviderContext({}, region="us-east-1", endpoint=url))
    provider.verify()
    assert provider.node_limits([first, second]) == {first: 1, second: 1}
    request = CreateRequest("claim-1", region="us-east-1", owner="ns/pool")
    address = provider.create(request).address
    assert [found.address for found in provider.find_created(request)] == [address]
    for node in (first, second):
        assert provider.assign(address, node) == Applied()
        assert provider.list_addresses([])[address].provider_id == node
    assert provider.unassign(address) == Applied()
    assert provider.describe([address])[address].provider_id is None
    assert provider.delete(address) == Applied()
    assert provider.describe([address]) == {}
