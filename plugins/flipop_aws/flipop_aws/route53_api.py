"""The calls of the Route 53 API that are made, and their answers as values."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from flipop_aws.client import Client, Purpose
from flipop_aws.route53_changes import Change, HeldSet, NameSets
from flipop_aws.route53_text import plain_name
from flipop_aws.route53_zones import HostedZone, zone_of_answer
from flipop_core import Unavailable

PROVIDER = "aws"
_ZONES_PER_PAGE = "100"
_SETS_PER_PAGE = "20"
_MAX_PAGES = 100


class Route53Api:
    """Route 53 of one account. Safe to share between threads.

    Errors of all methods: as `flipop_core.DNSProvider` has them. They need a ``deadline`` around them.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.deadline = client.deadline
        self.ends_at = client.ends_at

    def __repr__(self) -> str:
        return f"Route53Api({self._client!r})"

    def seconds_left(self) -> float:
        """Return how long the present call may still take."""
        return self.ends_at() - time.monotonic()

    def hosted_zones(self, operation: str, name: str) -> list[HostedZone]:
        """Read the hosted zones with exactly that name, public and private: one call, unless there are a hundred."""
        purpose = Purpose(operation, "route53:ListHostedZonesByName")
        found: list[HostedZone] = []
        start: dict[str, str] = {"DNSName": f"{name}."}
        for _ in range(_MAX_PAGES):
            page = self._client.call(purpose, "list_hosted_zones_by_name", MaxItems=_ZONES_PER_PAGE, **start)
            zones = [zone_of_answer(entry) for entry in page["HostedZones"]]
            # The list starts at the name, whether there is such a zone or not, and goes on behind it.
            named = [zone for zone in zones if zone.name == name]
            found += named
            if not page.get("IsTruncated") or len(named) < len(zones):
                return found
            start = {"DNSName": page["NextDNSName"], "HostedZoneId": page["NextHostedZoneId"]}
        raise self._endless(operation)

    def apex(self, operation: str, zone_id: str) -> str:
        """Read the name of a hosted zone: that of its first record set, since names below it come later.

        Unlike GetHostedZone this needs no permission beyond those for the records themselves.
        """
        page = self._list(operation, zone_id, MaxItems="1")
        if not page["ResourceRecordSets"]:
            raise Unavailable(f"hosted zone {zone_id} shows no record", provider=PROVIDER, operation=operation)
        return plain_name(page["ResourceRecordSets"][0]["Name"])

    def record_sets(self, operation: str, zone: HostedZone, name: str) -> NameSets:
        """Read all record sets of a name, of whatever type: one call, unless there are more than twenty."""
        found: list[HeldSet] = []
        start: dict[str, str] = {"StartRecordName": f"{name}."}
        for _ in range(_MAX_PAGES):
            page = self._list(operation, zone.id, MaxItems=_SETS_PER_PAGE, **start)
            sets = [HeldSet(raw) for raw in page["ResourceRecordSets"]]
            named = [held for held in sets if held.name == name and held.type and held.values is not None]
            found += named
            if not page.get("IsTruncated") or len(named) < len(sets):
                return NameSets(name, tuple(found))
            start = {"StartRecordName": page["NextRecordName"], "StartRecordType": page["NextRecordType"]}
            if page.get("NextRecordIdentifier"):
                start["StartRecordIdentifier"] = page["NextRecordIdentifier"]
        raise self._endless(operation)

    def change(self, zone: HostedZone, changes: Sequence[Change]) -> None:
        """Send the changes in one request. Accepted, they are what the API then reads; no resolver is waited for."""
        purpose = Purpose(
            "change_record_sets", f"route53:ChangeResourceRecordSets on hosted zone {zone}", mutation=True
        )
        batch = {"Changes": [change.body() for change in changes]}
        self._client.call(purpose, "change_resource_record_sets", HostedZoneId=zone.id, ChangeBatch=batch)

    def check_access(self, operation: str) -> None:
        """Make the smallest read that any look-up of a zone needs too."""
        purpose = Purpose(operation, "route53:ListHostedZonesByName")
        self._client.call(purpose, "list_hosted_zones_by_name", MaxItems="1")

    def _list(self, operation: str, zone_id: str, **arguments: str) -> dict[str, Any]:
        purpose = Purpose(operation, f"route53:ListResourceRecordSets on hosted zone {zone_id}")
        page: dict[str, Any] = self._client.call(
            purpose, "list_resource_record_sets", HostedZoneId=zone_id, **arguments
        )
        return page

    @staticmethod
    def _endless(operation: str) -> Unavailable:
        return Unavailable("the pages do not end", provider=PROVIDER, operation=operation)
