"""The pages of lists, which moto does not make as AWS does."""

from __future__ import annotations

from typing import Any

import pytest

from flipop_aws.route53_api import Route53Api
from flipop_aws.route53_zones import HostedZone
from flipop_core import Unavailable

ZONE = HostedZone("Z1", "example.com")


class Script:
    """Stands for the client: answers from a script and keeps what was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def deadline(self) -> None: ...

    def ends_at(self) -> float:
        return 0.0

    def call(self, purpose: object, method: str, **arguments: Any) -> dict[str, Any]:
        del purpose, method
        self.asked.append(arguments)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def api(script: Any) -> Route53Api:
    return Route53Api(script)


def zone(zone_id: str, name: str = "example.com.") -> dict[str, Any]:
    return {"Id": f"/hostedzone/{zone_id}", "Name": name, "Config": {"PrivateZone": True}}


def weighted(identifier: str, name: str = "www.example.com.") -> dict[str, Any]:
    return {"Name": name, "Type": "A", "SetIdentifier": identifier, "Weight": 1, "TTL": 1, "ResourceRecords": []}


def test_zones_of_one_name_are_read_to_the_end() -> None:
    more = {"IsTruncated": True, "NextDNSName": "example.com.", "NextHostedZoneId": "Z3"}
    script = Script({"HostedZones": [zone("Z1"), zone("Z2")], **more}, {"HostedZones": [zone("Z3"), zone("Z4", "b.")]})
    assert [found.id for found in api(script).hosted_zones("find", "example.com")] == ["Z1", "Z2", "Z3"]
    assert script.asked == [
        {"MaxItems": "100", "DNSName": "example.com."},
        {"MaxItems": "100", "DNSName": "example.com.", "HostedZoneId": "Z3"},
    ]


def test_other_zones_behind_the_name_are_not_read() -> None:
    script = Script({"HostedZones": [zone("Z1", "example.org.")], "IsTruncated": True})
    assert api(script).hosted_zones("find", "example.com") == []
    assert len(script.asked) == 1


def test_record_sets_of_one_name_are_read_to_the_end() -> None:
    more = {"NextRecordName": "www.example.com.", "NextRecordType": "A", "NextRecordIdentifier": "c"}
    script = Script(
        {"ResourceRecordSets": [weighted("a"), weighted("b")], "IsTruncated": True, **more},
        {"ResourceRecordSets": [weighted("c"), weighted("x", "x.example.com.")], "IsTruncated": True},
    )
    sets = api(script).record_sets("read", ZONE, "www.example.com")
    assert [held.raw["SetIdentifier"] for held in sets.sets] == ["a", "b", "c"]
    assert script.asked[1] == {
        "HostedZoneId": "Z1",
        "MaxItems": "20",
        "StartRecordName": "www.example.com.",
        "StartRecordType": "A",
        "StartRecordIdentifier": "c",
    }


def test_pages_without_an_end_are_given_up() -> None:
    more = {"NextRecordName": "www.example.com.", "NextRecordType": "A"}
    script = Script({"ResourceRecordSets": [weighted("a")], "IsTruncated": True, **more})
    with pytest.raises(Unavailable, match="do not end"):
        api(script).record_sets("read", ZONE, "www.example.com")


def test_a_zone_without_a_record_has_no_name() -> None:
    with pytest.raises(Unavailable, match="Z1 shows no record"):
        api(Script({"ResourceRecordSets": []})).apex("find", "Z1")
