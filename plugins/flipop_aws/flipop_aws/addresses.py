"""The IP provider: Elastic IPs of one account and region, on the primary interfaces of EC2 instances."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from flipop_aws import CAPABILITIES
from flipop_aws.client import Client, Gone, Purpose
from flipop_aws.instances import (
    Instance,
    holder_elsewhere,
    instance_id,
    instance_ids,
    instance_of,
    region_of,
)
from flipop_core import (
    AddressRecord,
    Applied,
    Created,
    CreateRequest,
    MutationResult,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    ProviderError,
    Rejected,
    Unavailable,
)

POOL_TAG = "flipop.digitalocean.com/pool"
CLUSTER_TAG = "flipop.digitalocean.com/cluster"
CLAIM_TAG = "flipop.digitalocean.com/claim"

_IPAM_POOL = "ipam-pool-"
_VALUES_PER_FILTER = 200
_MAX_PAGES = 100
_GONE_STATES = frozenset({"shutting-down", "terminated"})


class ElasticIPs:
    """Elastic IPs. See `flipop_core.IPProvider`. One object serves one region.

    It remembers what does not change: the allocation ID of an address, the zone of an instance, and of interfaces that
    the API shows without an instance what they belong to.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._allocations: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        self._interfaces: dict[str, str] = {}
        self._not_elastic: set[str] = set()

    def __repr__(self) -> str:
        return f"ElasticIPs({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What an AWS account can do; constant."""
        return CAPABILITIES

    # Reads

    def verify(self) -> None:
        """Make the two reads that everything else begins with. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            self._addresses("verify", Filters=[{"Name": "tag-key", "Values": [CLAIM_TAG]}])
            purpose = Purpose("verify", "ec2:DescribeInstances")
            self._client.call(purpose, "describe_instances", MaxResults=5)

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all Elastic IPs of the region: one call, and one more when an instance is new here."""
        del wanted, families
        with self._client.deadline():
            return self._records("list_addresses", self._addresses("list_addresses"))

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few Elastic IPs, as list_addresses. See `flipop_core.IPProvider`."""
        asked = [address for address in addresses if ":" not in address]
        if not asked:
            return {}
        with self._client.deadline():
            # A filter, unlike a list of addresses, is no error when one of them does not exist.
            few = {"Filters": [_named("public-ip", asked)]} if len(asked) <= _VALUES_PER_FILTER else {}
            return self._records("describe", self._addresses("describe", **few))

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Read the address with the claim's tag. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            found = self._records("find_created", self._claimed("find_created", request))
        return tuple(found[address] for address in sorted(found))

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Read how many private addresses of each instance can have an Elastic IP. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            found = self._instances("node_limits", instance_ids(provider_ids).values())
        by_id = {instance.id: len(instance.addresses) for instance in found if instance.addresses}
        return {
            provider_id: by_id[instance]
            for provider_id, instance in instance_ids(provider_ids).items()
            if instance in by_id
        }

    # Mutations

    def create(self, request: CreateRequest) -> Created:
        """Allocate one address with the claim's tag, unless one has it already. See `flipop_core.IPProvider`."""
        if request.family != "IPv4":
            raise self._client.failure(Rejected, "create", f"Elastic IPs are IPv4, not {request.family}")
        if request.region and request.region != self._client.region:
            text = f"region {request.region} is not {self._client.region}, which this provider serves"
            raise self._client.failure(Rejected, "create", text)
        with self._client.deadline():
            for record in self._claimed("create", request):
                return Created(record["PublicIp"], Applied())
            purpose = Purpose("create", "ec2:AllocateAddress, and ec2:CreateTags on what it allocates", mutation=True)
            try:
                answer = self._client.call(purpose, "allocate_address", **_allocation(request))
            except OutcomeUnknown as lost:
                return self._created_all_the_same(request, lost)
        self._remember(answer)
        return Created(answer["PublicIp"], Applied())

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the instance's primary interface. See `flipop_core.IPProvider`.

        There it goes to the primary private address, or else to the first one that has no Elastic IP.
        """
        target = instance_id("assign", provider_id)
        self._check_region(provider_id)
        with self._client.deadline():
            instance = self._instance("assign", target, provider_id)
            if any(each.public_ip == address for each in instance.addresses):
                return Applied()
            elastic = self._elastic("assign", (each.public_ip for each in instance.addresses if each.public_ip))
            private = next((each.address for each in instance.addresses if each.public_ip not in elastic), None)
            if private is None:
                held = ", ".join(each.public_ip for each in instance.addresses)
                text = f"{provider_id} holds {held} and has no further private address on its primary interface"
                raise self._client.failure(NodeInUse, "assign", text)
            self._with_allocation(
                Purpose("assign", "ec2:AssociateAddress", mutation=True),
                address,
                "associate_address",
                NetworkInterfaceId=instance.interface,
                PrivateIpAddress=private,
                AllowReassociation=True,
            )
        return Applied()

    def unassign(self, address: str) -> MutationResult:
        """Take the address off whatever holds it. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            record = self._existing("unassign", address)
            association = record.get("AssociationId")
            if not association:
                return Applied()
            purpose = Purpose("unassign", "ec2:DisassociateAddress", mutation=True)
            try:
                self._client.call(purpose, "disassociate_address", AssociationId=association)
            except Gone:
                return Applied()  # somebody was faster
        return Applied()

    def delete(self, address: str) -> MutationResult:
        """Release the address, for good. See `flipop_core.IPProvider`."""
        with self._client.deadline():
            try:
                record = self._existing("delete", address)
            except NotFound:
                return Applied()
            if record.get("AssociationId"):
                text = f"{address} is still associated: disassociate it first"
                raise self._client.failure(Rejected, "delete", text)
            purpose = Purpose("delete", "ec2:ReleaseAddress", mutation=True)
            try:
                self._client.call(purpose, "release_address", AllocationId=record["AllocationId"])
            except Gone:
                return Applied()
        return Applied()

    # Addresses

    def _addresses(self, operation: str, **arguments: Any) -> list[Mapping[str, Any]]:
        purpose = Purpose(operation, "ec2:DescribeAddresses")
        found: list[Mapping[str, Any]] = self._client.call(purpose, "describe_addresses", **arguments)["Addresses"]
        found = [record for record in found if record.get("AllocationId")]
        for record in found:
            self._remember(record)
        return found

    def _claimed(self, operation: str, request: CreateRequest) -> list[Mapping[str, Any]]:
        return self._addresses(operation, Filters=[_named(f"tag:{CLAIM_TAG}", [request.claim])])

    def _existing(self, operation: str, address: str) -> Mapping[str, Any]:
        for record in self._addresses(operation, Filters=[_named("public-ip", [address])]):
            return record
        raise self._client.failure(NotFound, operation, f"{self._client.region} has no Elastic IP {address}")

    def _created_all_the_same(self, request: CreateRequest, lost: OutcomeUnknown) -> Created:
        """Return the address that a lost answer was about, if it can be seen already."""
        try:
            for record in self._claimed("create", request):
                return Created(record["PublicIp"], Applied())
        except ProviderError:
            raise lost from None
        raise lost

    def _with_allocation(self, purpose: Purpose, address: str, method: str, **arguments: Any) -> None:
        """Make a call about an address by its allocation ID, and once more if the remembered one is outdated."""
        with self._lock:
            known = self._allocations.get(address)
        if known is not None:
            try:
                self._client.call(purpose, method, AllocationId=known, **arguments)
            except Gone:
                # Nothing was done. Released meanwhile, and perhaps allocated again.
                with self._lock:
                    self._allocations.pop(address, None)
            else:
                return
        allocation = self._existing(purpose.operation, address)["AllocationId"]
        self._client.call(purpose, method, AllocationId=allocation, **arguments)

    def _remember(self, record: Mapping[str, Any]) -> None:
        with self._lock:
            self._allocations[record["PublicIp"]] = record["AllocationId"]

    # Instances

    def _records(self, operation: str, found: Collection[Mapping[str, Any]]) -> dict[str, AddressRecord]:
        holders = {record["InstanceId"] for record in found if record.get("InstanceId")}
        loose = [record for record in found if record.get("NetworkInterfaceId") and not record.get("InstanceId")]
        with self._lock:
            unknown = holders - self._zones.keys()
            unresolved = [record for record in loose if record["NetworkInterfaceId"] not in self._interfaces]
        self._instances(operation, unknown)
        self._resolve(operation, unresolved)
        with self._lock:
            zones, interfaces = dict(self._zones), dict(self._interfaces)
        return {
            record["PublicIp"]: AddressRecord(
                record["PublicIp"],
                provider_id=_holder(record, zones, interfaces),
                region=self._client.region,
                tags=tuple(sorted((tag["Key"], tag["Value"]) for tag in record.get("Tags") or ())),
            )
            for record in found
        }

    def _resolve(self, operation: str, records: Collection[Mapping[str, Any]]) -> None:
        """Find out what interfaces belong to that the API shows without an instance.

        They are a NAT gateway's or a load balancer's, unless the API (that of a stand-in) just does not say.
        """
        private = sorted({record["PrivateIpAddress"] for record in records if record.get("PrivateIpAddress")})
        found: list[Instance] = []
        for start in range(0, len(private), _VALUES_PER_FILTER):
            found += self._described(
                operation, [_named("private-ip-address", private[start : start + _VALUES_PER_FILTER])]
            )
        owners = {instance.interface: instance.provider_id for instance in found if instance.interface}
        names = {record["NetworkInterfaceId"] for record in records}
        with self._lock:
            self._interfaces.update({name: owners.get(name, holder_elsewhere(name)) for name in names})

    def _elastic(self, operation: str, public: Iterable[str]) -> set[str]:
        """Return which of these public addresses are Elastic IPs, and not addresses that EC2 gave at launch."""
        asked = set(public)
        with self._lock:
            elastic = asked & self._allocations.keys()
            unknown = asked - elastic - self._not_elastic
        if unknown:
            found = self._addresses(operation, Filters=[_named("public-ip", sorted(unknown))])
            elastic |= {record["PublicIp"] for record in found}
            with self._lock:
                self._not_elastic |= unknown - elastic
        return elastic

    def _instances(self, operation: str, ids: Iterable[str]) -> list[Instance]:
        """Read instances by ID; one that does not exist is left out."""
        found: list[Instance] = []
        wanted = sorted(set(ids))
        for start in range(0, len(wanted), _VALUES_PER_FILTER):
            found += self._described(operation, [_named("instance-id", wanted[start : start + _VALUES_PER_FILTER])])
        with self._lock:
            self._zones.update({instance.id: instance.zone for instance in found if instance.zone})
        return found

    def _described(self, operation: str, filters: list[dict[str, Any]]) -> Iterator[Instance]:
        purpose = Purpose(operation, "ec2:DescribeInstances")
        arguments: dict[str, Any] = {"Filters": filters, "MaxResults": 1000}
        for _ in range(_MAX_PAGES):
            page = self._client.call(purpose, "describe_instances", **arguments)
            for reservation in page["Reservations"]:
                yield from map(instance_of, reservation["Instances"])
            if not page.get("NextToken"):
                return
            arguments["NextToken"] = page["NextToken"]
        raise self._client.failure(Unavailable, operation, "the pages do not end")

    def _instance(self, operation: str, wanted: str, provider_id: str) -> Instance:
        for instance in self._instances(operation, [wanted]):
            if instance.state in _GONE_STATES:
                break
            if not instance.interface:
                text = f"{provider_id} has no network interface in a VPC, which an Elastic IP needs"
                raise self._client.failure(Rejected, operation, text)
            return instance
        raise self._client.failure(NotFound, operation, f"{self._client.region} has no instance {wanted}")

    def _check_region(self, provider_id: str) -> None:
        region = region_of(provider_id)
        if region != self._client.region:
            text = f"{provider_id} is in {region or 'no region'}, the address in {self._client.region}"
            raise self._client.failure(Rejected, "assign", f"{text}: an Elastic IP serves its own region only")


def _holder(record: Mapping[str, Any], zones: Mapping[str, str], interfaces: Mapping[str, str]) -> str | None:
    """Return the provider ID of what holds an address."""
    if instance := record.get("InstanceId"):
        return f"aws:///{zones.get(instance, '')}/{instance}"
    if interface := record.get("NetworkInterfaceId"):
        return interfaces[interface]
    return holder_elsewhere(record["AssociationId"]) if record.get("AssociationId") else None


def _named(name: str, values: Iterable[str]) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


def _allocation(request: CreateRequest) -> dict[str, Any]:
    tags = {POOL_TAG: request.owner, CLUSTER_TAG: request.cluster, CLAIM_TAG: request.claim}
    arguments: dict[str, Any] = {
        "Domain": "vpc",
        "TagSpecifications": [
            {
                "ResourceType": "elastic-ip",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items() if value],
            }
        ],
    }
    if request.address_pool:
        pool = "IpamPoolId" if request.address_pool.startswith(_IPAM_POOL) else "PublicIpv4Pool"
        arguments[pool] = request.address_pool
    return arguments
