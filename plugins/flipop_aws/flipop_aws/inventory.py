"""Reads of a region's Elastic IPs and of the instances that hold them.

It remembers what does not change: an address's allocation ID and an instance's availability zone, which a provider ID
has and the list of addresses has not. So an account at rest is read with one request.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from flipop_aws.client import Client, Purpose
from flipop_aws.instances import Instance, holder_elsewhere, instance_ids, instance_of
from flipop_aws.recent import Recent
from flipop_core import AddressRecord, NotFound, Unavailable

CLAIM_TAG = "flipop.digitalocean.com/claim"

_VALUES_PER_FILTER = 200
_PAGE_SIZE = 1000
_MAX_PAGES = 100
_ALIVE = ("pending", "running", "stopping", "stopped")

Answer = Mapping[str, Any]
"""One address of a ``DescribeAddresses`` answer."""


class Inventory:
    """One region. Safe to share between threads. All reads need a deadline around them."""

    def __init__(self, client: Client, recent: Recent) -> None:
        self._client = client
        self._recent = recent
        self._lock = threading.Lock()
        self._allocations: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._owners: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        self._limits: dict[str, int] = {}
        self._not_elastic: set[str] = set()

    # Addresses

    def all(self, operation: str) -> dict[str, Answer]:
        """Read all Elastic IPs of the region: one request. What was allocated just now is there in any case."""
        return {**self._recent.new(), **self._read(operation)}

    def some(self, operation: str, addresses: Collection[str]) -> dict[str, Answer]:
        """Read a few Elastic IPs: one request. There is no entry for one that does not exist."""
        if len(addresses) > _VALUES_PER_FILTER:
            return self.all(operation)
        # A filter, unlike a list of addresses, is no error when one of them does not exist.
        found = self._read(operation, Filters=[_named("public-ip", addresses)])
        return {**{address: new for address, new in self._recent.new().items() if address in addresses}, **found}

    def existing(self, operation: str, address: str) -> Answer:
        """Read one Elastic IP. Raises NotFound."""
        answer = self.some(operation, [address]).get(address)
        if answer is None:
            text = f"{self._client.region} has no Elastic IP {address}"
            raise self._client.failure(NotFound, operation, text)
        return answer

    def elastic(self, operation: str, addresses: Collection[str]) -> set[str]:
        """Return which of these public addresses are Elastic IPs: one request for those that were never read.

        EC2 tells its own public addresses by their owner; an imitation such as moto does not.
        """
        with self._lock:
            known = {address for address in addresses if address in self._allocations}
            unknown = set(addresses) - known - self._not_elastic
        if unknown:
            found = set(self.some(operation, unknown))
            known |= found
            with self._lock:
                self._not_elastic |= unknown - found
        return known

    def claimed(self, operation: str, claim: str) -> dict[str, Answer]:
        """Read the Elastic IPs that carry a claim."""
        found = self._read(operation, Filters=[_named(f"tag:{CLAIM_TAG}", [claim])])
        both = {**self._recent.new(), **found}
        return {address: answer for address, answer in both.items() if dict(_tags(answer)).get(CLAIM_TAG) == claim}

    def records(self, operation: str, answers: Mapping[str, Answer]) -> dict[str, AddressRecord]:
        """Return the answers as the core has them: one request more when an instance is new here."""
        holders = {answer["InstanceId"] for answer in answers.values() if answer.get("InstanceId")}
        with self._lock:
            unknown = holders - self._zones.keys()
        if unknown:
            list(self.instances(operation, unknown))
        with self._lock:
            zones = dict(self._zones)
        region = self._client.region
        return {
            address: AddressRecord(address, provider_id=_holder(answer, zones), region=region, tags=_tags(answer))
            for address, answer in answers.items()
        }

    def allocation(self, address: str) -> str:
        """Return the allocation ID that the last read of the address had, empty before there was one."""
        with self._lock:
            return self._allocations.get(address, "")

    def forget(self, address: str) -> None:
        """Forget the address's allocation ID, which is outdated."""
        with self._lock:
            self._allocations.pop(address, None)

    def was_elsewhere(self, address: str) -> bool:
        """Return whether something that is no instance held the address at its last read."""
        with self._lock:
            return address in self._elsewhere

    def remember(self, answer: Answer) -> None:
        """Keep what does not change of an address."""
        address = answer["PublicIp"]
        with self._lock:
            self._allocations[address] = answer["AllocationId"]
            if is_elsewhere(answer):
                self._elsewhere.add(address)
            else:
                self._elsewhere.discard(address)

    def _read(self, operation: str, **arguments: Any) -> dict[str, Answer]:
        purpose = Purpose(operation, "ec2:DescribeAddresses")
        listed = self._client.call(purpose, "describe_addresses", **arguments)["Addresses"]
        # A carrier address of a Wavelength zone is listed too, and is no public one.
        found = [answer for answer in listed if answer.get("PublicIp")]
        known = self._owners_of(operation, [answer for answer in found if is_elsewhere(answer)])
        answers: dict[str, Answer] = {}
        for answer in found:
            if answer.get("AllocationId"):
                owner = known.get(answer.get("NetworkInterfaceId", "")) or answer.get("InstanceId", "")
                answers[answer["PublicIp"]] = {**answer, "InstanceId": owner}
                self.remember(answers[answer["PublicIp"]])
        return answers

    def _owners_of(self, operation: str, loose: Collection[Answer]) -> dict[str, str]:
        """Return the instances of interfaces that the API shows without one, empty where there is none.

        EC2 has no more to say of them, but an imitation such as moto keeps instances to itself. Each is asked for once.
        """
        private = {answer["NetworkInterfaceId"]: answer.get("PrivateIpAddress", "") for answer in loose}
        with self._lock:
            new = {interface: address for interface, address in private.items() if interface not in self._owners}
        owners = dict.fromkeys(new, "")
        addresses = sorted(filter(None, new.values()))
        for start in range(0, len(addresses), _VALUES_PER_FILTER):
            some = addresses[start : start + _VALUES_PER_FILTER]
            for instance in self._pages(operation, _named("private-ip-address", some)):
                owners.update({instance.interface: instance.id} if instance.interface in new else {})
        with self._lock:
            self._owners.update(owners)
            return {interface: self._owners[interface] for interface in private}

    # Instances

    def learn(self, provider_ids: Iterable[str]) -> dict[str, str]:
        """Return the instance IDs of nodes by their provider IDs, whose zones need not be read any more."""
        found = instance_ids(provider_ids)
        with self._lock:
            self._zones.update({name: provider_id.split("/")[-2] for provider_id, name in found.items()})
        return found

    def instance(self, operation: str, instance_id: str) -> Instance:
        """Read one instance. Raises NotFound.

        It is asked for by its ID: when a zone is disrupted, this alone still answers for instances of the others.
        """
        page = self._client.call(
            Purpose(operation, "ec2:DescribeInstances"), "describe_instances", InstanceIds=[instance_id]
        )
        for instance in _instances_of(page):
            if instance.state in _ALIVE:
                return instance
        text = f"{self._client.region} has no instance {instance_id}, or it is terminated"
        raise self._client.failure(NotFound, operation, text)

    def instances(self, operation: str, instance_ids: Collection[str]) -> Iterator[Instance]:
        """Read instances: one request for up to 200, else one for 1,000 of the region. Unknown ones are left out."""
        wanted = set(instance_ids)
        few = len(wanted) <= _VALUES_PER_FILTER
        chosen = _named("instance-id", wanted) if few else _named("instance-state-name", _ALIVE)
        for instance in self._pages(operation, chosen):
            if instance.id in wanted:
                with self._lock:
                    self._zones.setdefault(instance.id, instance.zone)
                yield instance

    def _pages(self, operation: str, chosen: Mapping[str, Any]) -> Iterator[Instance]:
        """Read page by page; each but the first has the time of a whole call for itself, as thousands take seconds."""
        purpose = Purpose(operation, "ec2:DescribeInstances")
        arguments: dict[str, Any] = {"Filters": [chosen], "MaxResults": _PAGE_SIZE}
        for number in range(_MAX_PAGES):
            with self._client.deadline() if number else contextlib.nullcontext():
                page = self._client.call(purpose, "describe_instances", **arguments)
            yield from _instances_of(page)
            if not page.get("NextToken"):
                return
            arguments["NextToken"] = page["NextToken"]
        raise self._client.failure(Unavailable, operation, "the pages do not end")

    def limits(self, operation: str, instance_ids: Collection[str]) -> dict[str, int]:
        """Read how many Elastic IPs each of these instances can hold; unknown and terminated ones are left out.

        EC2 refuses to read instances of all zones while one is disrupted, just when addresses have to move: what was
        read before is answered then.
        """
        try:
            found = {each.id: each.limit for each in self.instances(operation, instance_ids) if each.limit}
        except Unavailable:
            with self._lock:
                known = {name: limit for name, limit in self._limits.items() if name in set(instance_ids)}
            if not known:
                raise
            return known
        with self._lock:
            self._limits = found
        return dict(found)


def is_elsewhere(answer: Answer) -> bool:
    """Return whether the address is on an interface of no instance, such as a NAT gateway's."""
    return bool(answer.get("NetworkInterfaceId")) and not answer.get("InstanceId")


def _holder(answer: Answer, zones: Mapping[str, str]) -> str | None:
    """Return the provider ID of what holds an address."""
    if instance := answer.get("InstanceId"):
        return f"aws:///{zones.get(instance, '')}/{instance}"
    held_by = answer.get("NetworkInterfaceId") or answer.get("AssociationId")
    return holder_elsewhere(held_by) if held_by else None


def _tags(answer: Answer) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((tag["Key"], tag["Value"]) for tag in answer.get("Tags") or ()))


def _named(name: str, values: Iterable[str]) -> dict[str, Any]:
    return {"Name": name, "Values": sorted(values)}


def _instances_of(page: Mapping[str, Any]) -> Iterator[Instance]:
    for reservation in page["Reservations"]:
        yield from map(instance_of, reservation["Instances"])
