"""Route 53 of the server, as AWS has it, through the SDK."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from flipop_aws_testserver import Account, AWSServer

Refused = Callable[..., str]
Change = dict[str, Any]


@pytest.fixture
def zone_id(account: Account) -> str:
    return account.add_zone("example.com")


def change(action: str, name: str, *values: str, kind: str = "A", ttl: int = 60, **more: Any) -> Change:
    records = [{"Value": value} for value in values]
    return {
        "Action": action,
        "ResourceRecordSet": {"Name": name, "Type": kind, "TTL": ttl, "ResourceRecords": records} | more,
    }


def send(route53: Any, zone_id: str, *changes: Change) -> str:
    answer = route53.change_resource_record_sets(HostedZoneId=zone_id, ChangeBatch={"Changes": list(changes)})
    return str(answer["ChangeInfo"]["Id"])


def test_upsert_create_and_delete(route53: Any, account: Account, zone_id: str) -> None:
    send(route53, zone_id, change("CREATE", "www.example.com", "192.0.2.1"))
    send(route53, zone_id, change("UPSERT", "WWW.example.com.", "192.0.2.2", "192.0.2.3"))
    assert account.records(zone_id)["www.example.com A"] == ["192.0.2.2", "192.0.2.3"]
    send(route53, zone_id, change("DELETE", "www.example.com", "192.0.2.3", "192.0.2.2"))
    assert "www.example.com A" not in account.records(zone_id)


@pytest.mark.parametrize(
    "refused_change",
    [
        change("CREATE", "www.example.com", "192.0.2.9"),
        change("DELETE", "www.example.com", "192.0.2.9"),
        change("DELETE", "www.example.com", "192.0.2.1", ttl=61),
        change("DELETE", "other.example.com", "192.0.2.1"),
        change("UPSERT", "www.example.net", "192.0.2.1"),
        change("UPSERT", "www.example.com", "target.example.com", kind="CNAME"),
        change("UPSERT", "www.example.com", "192.0.2.9", SetIdentifier="one", Weight=1),
        change("UPSERT", "long.example.com", '"' + "x" * 4000 + '"', kind="TXT"),
    ],
    ids=["exists", "other value", "other ttl", "absent", "other zone", "cname", "weighted beside plain", "too long"],
)
def test_batch_that_is_refused_changes_nothing(
    route53: Any, account: Account, zone_id: str, refused: Refused, refused_change: Change
) -> None:
    send(route53, zone_id, change("CREATE", "www.example.com", "192.0.2.1"))
    before = account.records(zone_id)
    batch = {"Changes": [change("UPSERT", "first.example.com", "192.0.2.5"), refused_change]}
    assert refused(route53.change_resource_record_sets, HostedZoneId=zone_id, ChangeBatch=batch) == "InvalidChangeBatch"
    assert account.records(zone_id) == before


def test_exchange_in_one_batch(route53: Any, account: Account, zone_id: str) -> None:
    account.put_records(zone_id, "www.example.com", "A", ["192.0.2.1"])
    exchange = [change("DELETE", "www.example.com", "192.0.2.1"), change("CREATE", "www.example.com", "192.0.2.2")]
    send(route53, zone_id, *exchange)
    assert account.records(zone_id)["www.example.com A"] == ["192.0.2.2"]


def test_zone_that_does_not_exist(route53: Any, refused: Refused) -> None:
    batch = {"Changes": [change("UPSERT", "www.example.com", "192.0.2.1")]}
    assert refused(route53.change_resource_record_sets, HostedZoneId="ZNONE", ChangeBatch=batch) == "NoSuchHostedZone"


def test_insync_comes_later(route53: Any, server: AWSServer, zone_id: str, refused: Refused) -> None:
    server.settings.change_seconds = 0.3
    change_id = send(route53, zone_id, change("UPSERT", "www.example.com", "192.0.2.1"))
    assert route53.get_change(Id=change_id)["ChangeInfo"]["Status"] == "PENDING"
    time.sleep(0.3)
    assert route53.get_change(Id=change_id)["ChangeInfo"]["Status"] == "INSYNC"
    assert refused(route53.get_change, Id="CNONE") == "NoSuchChange"


def test_one_change_of_a_zone_at_a_time(
    client: Callable[..., Any], server: AWSServer, account: Account, zone_id: str, refused: Refused
) -> None:
    other = account.add_zone("example.net")
    server.settings.latency_seconds = 0.8
    one, two = client("route53"), client("route53")
    wanted = change("UPSERT", "www.example.com", "192.0.2.1")
    first = threading.Thread(target=send, args=(one, zone_id, wanted))
    first.start()
    deadline = time.monotonic() + 30.0
    while not server.entries():
        assert time.monotonic() < deadline
        time.sleep(0.005)
    batch = {"Changes": [change("UPSERT", "b.example.com", "192.0.2.2")]}
    code = refused(two.change_resource_record_sets, HostedZoneId=zone_id, ChangeBatch=batch)
    server.settings.latency_seconds = 0.0
    send(two, other, change("UPSERT", "www.example.net", "192.0.2.3"))
    first.join()
    assert code == "PriorRequestNotComplete"
    send(two, zone_id, *batch["Changes"])
    assert {"www.example.com A", "b.example.com A"} <= account.records(zone_id).keys()


def test_list_of_zones_starts_at_the_name(route53: Any, account: Account) -> None:
    names = ["example.net", "b.example.com", "example.com", "a.example.com", "example.org"]
    for name in names:
        account.add_zone(name)
    hidden = account.add_zone("example.com", private=True)

    def listed(**arguments: Any) -> list[str]:
        return [each["Name"] for each in route53.list_hosted_zones_by_name(**arguments)["HostedZones"]]

    assert listed() == [
        "example.com.",
        "example.com.",
        "a.example.com.",
        "b.example.com.",
        "example.net.",
        "example.org.",
    ]
    assert listed(DNSName="b.example.com", MaxItems="2") == ["b.example.com.", "example.net."]
    assert listed(DNSName="example.zone") == []
    page = route53.list_hosted_zones_by_name(MaxItems="1")
    assert (page["IsTruncated"], page["NextDNSName"]) == (True, "example.com.")
    found = {each["Id"]: each["Config"]["PrivateZone"] for each in route53.list_hosted_zones_by_name()["HostedZones"]}
    assert found[f"/hostedzone/{hidden}"] is True
    assert sum(found.values()) == 1


def test_wildcards_are_escaped(route53: Any, account: Account, zone_id: str) -> None:
    account.put_records(zone_id, "*.example.com", "A", ["192.0.2.1"])
    sets = route53.list_resource_record_sets(HostedZoneId=zone_id)["ResourceRecordSets"]
    assert r"\052.example.com." in [each["Name"] for each in sets]
    send(route53, zone_id, change("DELETE", r"\052.example.com", "192.0.2.1"))
    assert "*.example.com A" not in account.records(zone_id)
