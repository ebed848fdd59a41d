"""Who is let in, what is written down and what goes wrong on request; and the server as a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from flipop_aws_testserver import ADMIN_KEY, Account, AWSServer, Settings
from tests.support.process import ask, running

from .conftest import KEY

Refused = Callable[..., str]


class TestAccess:
    def test_wrong_key(self, server: AWSServer, ec2: Any, route53: Any, refused: Refused) -> None:
        server.settings.access_key_id = "AKIAOTHER"
        assert refused(ec2.describe_addresses) == "AuthFailure"
        assert refused(route53.list_hosted_zones) == "InvalidClientTokenId"
        assert [(entry.status, entry.outcome) for entry in server.entries()] == [
            (401, "AuthFailure"),
            (403, "InvalidClientTokenId"),
        ]

    def test_denied_action(self, server: AWSServer, ec2: Any, route53: Any, refused: Refused) -> None:
        server.settings.denied = "ec2:AllocateAddress, route53:ListHostedZones"
        assert refused(ec2.allocate_address) == "UnauthorizedOperation"
        assert refused(route53.list_hosted_zones) == "AccessDenied"
        ec2.describe_addresses()
        assert server.account.addresses() == {}

    def test_granted_actions(self, server: AWSServer, ec2: Any, refused: Refused) -> None:
        server.settings.granted = "ec2:DescribeAddresses,ec2:AllocateAddress"
        ec2.describe_addresses()
        ec2.allocate_address()
        assert refused(ec2.describe_instances) == "UnauthorizedOperation"
        tags = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "1"}]}]
        assert refused(ec2.allocate_address, TagSpecifications=tags) == "UnauthorizedOperation"
        assert server.entries()[-1].permissions == ("ec2:AllocateAddress", "ec2:CreateTags")

    def test_admin_is_not_seen_and_not_disturbed(self, server: AWSServer) -> None:
        server.settings.access_key_id = KEY
        server.settings.denied = "ec2:AllocateAddress"
        server.fail("ec2:AllocateAddress", "drop_before", times=9)
        address = server.admin("ec2").allocate_address()["PublicIp"]
        assert address in server.account.addresses()
        assert server.entries() == []
        assert ADMIN_KEY != KEY

    def test_accounts_do_not_mix(self, server: AWSServer) -> None:
        with AWSServer() as other:
            other.account.add_address()
            other.account.add_zone("example.com")
            assert server.account.addresses() == {}
            assert server.admin("route53").list_hosted_zones()["HostedZones"] == []


class TestJournal:
    def test_entry(self, server: AWSServer, client: Callable[..., Any]) -> None:
        client("ec2", "eu-west-1").describe_addresses(Filters=[{"Name": "domain", "Values": ["vpc"]}])
        (entry,) = server.entries()
        assert entry.action == "ec2:DescribeAddresses"
        assert entry.permissions == ("ec2:DescribeAddresses",)
        assert entry.region == "eu-west-1"
        assert entry.parameters == {"Filter.1.Name": "domain", "Filter.1.Value.1": "vpc"}
        assert (entry.access_key_id, entry.status, entry.outcome) == (KEY, 200, "ok")
        assert "Boto3" in entry.user_agent

    def test_route53(self, server: AWSServer, route53: Any) -> None:
        zone_id = server.account.add_zone("example.com")
        records = [{"Value": "192.0.2.1"}, {"Value": "192.0.2.2"}]
        wanted = {"Name": "www.example.com", "Type": "A", "TTL": 60, "ResourceRecords": records}
        batch = {"Changes": [{"Action": "UPSERT", "ResourceRecordSet": wanted}]}
        route53.change_resource_record_sets(HostedZoneId=zone_id, ChangeBatch=batch)
        (entry,) = server.entries("ChangeResourceRecordSets")
        assert entry.parameters["Id"] == zone_id
        assert entry.parameters["ChangeBatch"]["Changes"] == [
            {"Action": "UPSERT", "ResourceRecordSet": {**wanted, "TTL": "60"}}
        ]

    def test_counts(self, server: AWSServer, ec2: Any) -> None:
        for _ in range(2):
            ec2.describe_addresses()
        ec2.describe_instances()
        assert server.actions() == {"ec2:DescribeAddresses": 2, "ec2:DescribeInstances": 1}
        assert len(server.entries("Instances$")) == 1
        server.journal.clear()
        assert server.actions() == {}

    def test_each_answer_has_a_request_id(self, ec2: Any) -> None:
        calls = (ec2.describe_addresses, ec2.describe_instances, ec2.describe_instances)
        assert len({call()["ResponseMetadata"]["RequestId"] for call in calls}) == 3


class TestFaults:
    def test_nth_request_of_an_action(self, server: AWSServer, ec2: Any, refused: Refused) -> None:
        server.fail("ec2:AllocateAddress", "status", status=500, skip=1)
        ec2.allocate_address()
        ec2.describe_addresses()
        assert refused(ec2.allocate_address) == "InternalError"
        ec2.allocate_address()
        assert [entry.outcome for entry in server.entries("Allocate")] == ["ok", "InternalError", "ok"]

    @pytest.mark.parametrize("seconds", [None, 7.0])
    def test_throttle(self, server: AWSServer, ec2: Any, route53: Any, seconds: float | None) -> None:
        for action, call, status, code in (
            ("ec2:DescribeAddresses", ec2.describe_addresses, 503, "RequestLimitExceeded"),
            ("route53:ListHostedZones", route53.list_hosted_zones, 400, "Throttling"),
        ):
            server.throttle(action, retry_after_seconds=seconds)
            with pytest.raises(ClientError) as caught:
                call()
            meta = caught.value.response["ResponseMetadata"]
            assert (meta["HTTPStatusCode"], caught.value.response["Error"]["Code"]) == (status, code)
            assert meta["HTTPHeaders"].get("retry-after") == (None if seconds is None else "7")
            call()

    def test_limit_of_requests(self, server: AWSServer, ec2: Any, route53: Any, refused: Refused) -> None:
        server.settings.requests_per_second = 2
        for _ in range(2):
            ec2.describe_addresses()
        assert refused(ec2.describe_addresses) == "RequestLimitExceeded"
        route53.list_hosted_zones()
        time.sleep(1.0)
        ec2.describe_addresses()

    def test_lost_answer(self, server: AWSServer, ec2: Any) -> None:
        server.fail("ec2:AllocateAddress", "drop_after_effect")
        with pytest.raises(ConnectionClosedError):
            ec2.allocate_address()
        assert len(server.account.addresses()) == 1
        (entry,) = server.entries()
        assert (entry.status, entry.outcome, entry.fault) == (0, "", "drop_after_effect")

    def test_hang(self, server: AWSServer, client: Callable[..., Any]) -> None:
        server.fail("ec2:AllocateAddress", "hang")
        with pytest.raises(ReadTimeoutError):
            client("ec2", read_timeout=0.3).allocate_address()
        assert server.account.addresses() == {}


def test_instances_are_paged(account: Account, ec2: Any) -> None:
    nodes = {account.add_instance().id for _ in range(12)}
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(page["Reservations"]) for page in pages] == [5, 5, 2]
    found = {each["Instances"][0]["InstanceId"] for page in pages for each in page["Reservations"]}
    assert found == nodes


class TestProcess:
    def test_driven_through_the_control_paths(self) -> None:
        with running(
            "flipop_aws_testserver", "--instances", "2", "--hosted-zone", "example.com", "--address-limit", "7"
        ) as url:
            _, made, _ = ask(f"{url}/_test/instances", "POST", {"private_addresses": 2, "zone": "eu-west-1a"})
            (instance,) = made["instances"]
            assert instance["provider_id"] == f"aws:///eu-west-1a/{instance['id']}"
            _, added, _ = ask(f"{url}/_test/addresses", "POST", {"region": "eu-west-1", "tags": {"a": "1"}})
            (address,) = added["ips"]
            ask(f"{url}/_test/put", "POST", {"public_ip": address, "target_id": instance["id"]})
            _, state, _ = ask(f"{url}/_test/state")
            holder = [instance["id"], instance["private_addresses"][0]]
            assert state["addresses"] == {address: {"tags": {"a": "1"}, "holder": holder}}
            assert state["settings"]["address_limit"] == 7
            status, _, _ = ask(f"{url}/_test/settings", "POST", {"denied": "ec2:AllocateAddress"})
            assert status == 200
            status, error, _ = ask(f"{url}/_test/settings", "POST", {"nonsense": 1})
            assert (status, "nonsense" in error["error"]) == (400, True)
            ask(f"{url}/_test/reset", "POST", {})
            assert ask(f"{url}/_test/journal")[1] == []

    def test_journal_and_faults(self, server: AWSServer, ec2: Any, refused: Refused) -> None:
        fault = {"kind": "status", "path": "^ec2:AllocateAddress$", "status": 503, "code": "RequestLimitExceeded"}
        assert ask(f"{server.url}/_test/faults", "POST", [fault])[0] == 200
        assert refused(ec2.allocate_address) == "RequestLimitExceeded"
        (entry,) = ask(f"{server.url}/_test/journal")[1]
        assert (entry["action"], entry["outcome"]) == ("ec2:AllocateAddress", "RequestLimitExceeded")


def test_settings_are_what_is_said() -> None:
    with AWSServer(Settings(address_limit=1)) as server:
        server.account.add_address()
        server.account.add_address()
        assert len(server.account.addresses()) == 2
