"""The IP provider: Elastic IPs of one account and region, on the primary interfaces of EC2 instances."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flipop_aws import CAPABILITIES
from flipop_aws.client import PROVIDER, Client, Gone, NoGateway, Purpose
from flipop_aws.inflight import InFlight
from flipop_aws.instances import Instance, PrivateAddress, instance_id, region_of
from flipop_aws.inventory import CLAIM_TAG, Answer, Inventory, is_elsewhere
from flipop_aws.recent import Placement, Recent
from flipop_core import (
    AccessDenied,
    AddressRecord,
    Applied,
    Busy,
    Created,
    CreateRequest,
    MutationResult,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderCapabilities,
    Rejected,
    Retryable,
    Unavailable,
)

POOL_TAG = "flipop.digitalocean.com/pool"
CLUSTER_TAG = "flipop.digitalocean.com/cluster"

_IPAM_POOL = "ipam-pool-"
_TAG_VALUE_MAX_LENGTH = 256


class ElasticIPs:
    """Elastic IPs. See `flipop_core.IPProvider`. One object serves one region.

    A mutation of an address or instance that another thread is mutating is `Busy` at once and not sent.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recent = Recent()
        self._inventory = Inventory(client, self._recent)
        self._in_flight = InFlight()

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
            tagged = [{"Name": "tag-key", "Values": [CLAIM_TAG]}]
            self._client.call(Purpose("verify", "ec2:DescribeAddresses"), "describe_addresses", Filters=tagged)
            self._client.call(Purpose("verify", "ec2:DescribeInstances"), "describe_instances", MaxResults=5)

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all Elastic IPs of the region: one call, and one more when an instance is new here."""
        del wanted, families
        with self._client.deadline():
            return self._inventory.records("list_addresses", self._inventory.all("list_addresses"))

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read a few Elastic IPs, as list_addresses. See `flipop_core.IPProvider`."""
        asked = {address for address in addresses if ":" not in address}
        if not asked:
            return {}
        with self._client.deadline():
            return self._inventory.records("describe", self._inventory.some("describe", asked))

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Read the address with the claim's tag. See `flipop_core.IPProvider`.

        None is no answer in the first seconds after an attempt of unknown outcome, as reads lag: that is Unavailable.
        """
        doubted = self._recent.is_doubted(request.claim)
        with self._client.deadline():
            found = self._inventory.records("find_created", self._inventory.claimed("find_created", request.claim))
        if doubted and not found:
            text = "an address that was allocated just now, with its answer lost, would not show yet"
            raise self._client.failure(Unavailable, "find_created", text)
        return tuple(found[address] for address in sorted(found))

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Read how many private addresses of each instance can have an Elastic IP. See `flipop_core.IPProvider`."""
        names = self._inventory.learn(provider_ids)
        if not names:
            return {}
        with self._client.deadline():
            limits = self._inventory.limits("node_limits", set(names.values()))
        return {provider_id: limits[name] for provider_id, name in names.items() if name in limits}

    # Mutations

    def create(self, request: CreateRequest) -> Created:
        """Allocate one address with the claim's tag, unless one has it already. See `flipop_core.IPProvider`."""
        if request.family != "IPv4":
            raise self._client.failure(Rejected, "create", f"Elastic IPs are IPv4, not {request.family}")
        if request.region and request.region != self._client.region:
            text = f"region {request.region} is not {self._client.region}, which this provider serves"
            raise self._client.failure(Rejected, "create", text)
        with self._client.deadline(), self._in_flight.hold("create", f"claim {request.claim}"):
            for address in sorted(self._inventory.claimed("create", request.claim)):
                return Created(address, Applied())
            if self._recent.is_doubted(request.claim):
                text = f"not sent: what became of the last attempt for {request.claim} does not show yet"
                raise self._client.failure(Busy, "create", text)
            answer = self._allocate(request)
        return Created(answer["PublicIp"], Applied())

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put the address on the instance's primary interface. See `flipop_core.IPProvider`.

        There it goes to the primary private address, or else to the first one that has no Elastic IP.
        """
        name = instance_id("assign", provider_id)
        self._check_region(provider_id)
        # Two at once would find the same private address free, and the second would displace the first.
        with self._client.deadline(), self._in_flight.hold("assign", address, provider_id):
            self._inventory.learn([provider_id])
            instance = self._inventory.instance("assign", name)
            if self._is_there(address, instance):
                return Applied()
            private_address = self._free_address(address, instance, provider_id)
            if self._inventory.was_elsewhere(address):
                self._check_taken(self._inventory.existing("assign", address), "assign")
            with self._explained(address, instance, provider_id):
                self._associate(address, instance.interface, private_address)
        return Applied()

    def unassign(self, address: str) -> MutationResult:
        """Take the address off the instance that holds it. See `flipop_core.IPProvider`.

        Rejected when what holds it is no instance.
        """
        with self._client.deadline(), self._in_flight.hold("unassign", address):
            answer = self._inventory.existing("unassign", address)
            self._check_taken(answer, "unassign")
            latest = self._recent.placement(address)
            # The read may be older than our own last association; ending one that is gone does nothing.
            associations = {answer.get("AssociationId", ""), latest.association if latest else ""} - {""}
            for association in sorted(associations):
                self._disassociate(association)
            if associations:
                self._recent.placed(address, Placement(ended=frozenset(associations)))
        return Applied()

    def delete(self, address: str) -> MutationResult:
        """Release the address, for good. See `flipop_core.IPProvider`. Rejected while anything holds it."""
        with self._client.deadline(), self._in_flight.hold("delete", address):
            try:
                answer = self._inventory.existing("delete", address)
            except NotFound:
                return Applied()
            latest = self._recent.placement(address) or Placement()
            # In a default VPC, EC2 would release an associated address too.
            if latest.association or answer.get("AssociationId", "") not in {"", *latest.ended}:
                text = f"{address} is still associated: disassociate it first"
                raise self._client.failure(Rejected, "delete", text)
            purpose = Purpose("delete", "ec2:ReleaseAddress", mutation=True)
            with contextlib.suppress(Gone):  # somebody was faster
                self._client.call(purpose, "release_address", AllocationId=answer["AllocationId"])
            self._recent.released(address)
            self._inventory.forget(address)
        return Applied()

    # Parts of them

    def _allocate(self, request: CreateRequest) -> Answer:
        purpose = Purpose("create", "ec2:AllocateAddress, and ec2:CreateTags on what it allocates", mutation=True)
        arguments = _allocation(request)
        try:
            answer: Answer = self._client.call(purpose, "allocate_address", **arguments)
        except OutcomeUnknown:
            self._recent.doubted(request.claim)
            raise
        except NotFound as error:  # the pool
            raise self._client.failure(Rejected, "create", error.message) from None
        self._recent.allocated(answer, arguments["TagSpecifications"][0]["Tags"])
        self._inventory.remember(answer)
        return answer

    def _associate(self, address: str, interface: str, private_address: str) -> None:
        """Associate by the allocation ID that is known; if that is outdated, nothing was done, and it is read anew."""
        purpose = Purpose("assign", "ec2:AssociateAddress", mutation=True)
        target = {"NetworkInterfaceId": interface, "PrivateIpAddress": private_address, "AllowReassociation": True}
        known = self._inventory.allocation(address)
        answer: Mapping[str, Any] | None = None
        if known:
            try:
                answer = self._client.call(purpose, "associate_address", AllocationId=known, **target)
            except Gone:
                self._inventory.forget(address)
        if answer is None:
            allocation = self._inventory.existing("assign", address)["AllocationId"]
            answer = self._associate_as_read(purpose, allocation, target)
        self._recent.placed(address, Placement(interface, private_address, answer.get("AssociationId", "")))

    def _associate_as_read(self, purpose: Purpose, allocation: str, target: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = self._client.call(
                purpose, "associate_address", AllocationId=allocation, **target
            )
        except Gone as error:
            # It was there a moment ago: as a rule it is too new to be known everywhere.
            text = f"{allocation} is not known everywhere yet, or no longer: {error.message}"
            raise self._client.failure(Busy, purpose.operation, text) from None
        return answer

    @contextlib.contextmanager
    def _explained(self, address: str, instance: Instance, provider_id: str) -> Iterator[None]:
        """Let refusals of an association name the instance, and what stands in the way where that can be found out."""
        try:
            yield
        except NoGateway as error:
            mend = "attach an internet gateway to it, with a route of its subnet there, or leave the node out by match"
            raise _rejected(error, f"{provider_id} is cut off in {instance.vpc}: {mend} ({error.message})") from None
        except Rejected as error:
            raise _rejected(error, f"{provider_id}: {error.message}") from None
        except AccessDenied:
            # EC2 says so too of an address that a NAT gateway has got meanwhile: others are not held back for that.
            with contextlib.suppress(AccessDenied, NotFound, Retryable):
                self._check_taken(self._inventory.existing("assign", address), "assign")
            raise

    def _disassociate(self, association: str) -> None:
        purpose = Purpose("unassign", "ec2:DisassociateAddress", mutation=True)
        with contextlib.suppress(Gone):  # somebody was faster
            self._client.call(purpose, "disassociate_address", AssociationId=association)

    def _is_there(self, address: str, instance: Instance) -> bool:
        """Whether the address is on the instance, and not only in a read of it that is older than the last move."""
        if not any(each.public_ip == address for each in instance.addresses):
            return False
        latest = self._recent.placement(address)
        if latest is not None:
            return latest.interface == instance.interface
        answer = self._inventory.some("assign", [address]).get(address, {})
        return answer.get("NetworkInterfaceId") == instance.interface

    def _free_address(self, address: str, instance: Instance, provider_id: str) -> str:
        """Return the private address that an Elastic IP can be put on. Raises NodeInUse, Rejected."""
        if not instance.interface:
            text = f"{provider_id} has no network interface in a VPC, which an Elastic IP needs"
            raise self._client.failure(Rejected, "assign", text)
        if not instance.addresses:
            text = f"{provider_id} has no private IPv4 address on its primary interface, which an Elastic IP needs"
            raise self._client.failure(Rejected, "assign", f"{text}: its subnet is for IPv6 only")
        held = {each.address: self._occupant(each, instance.interface) for each in instance.addresses}
        for private_address, occupant in held.items():
            if occupant in {"", address}:
                return private_address
        elastic = self._inventory.elastic("assign", held.values())
        for private_address, occupant in held.items():
            if occupant not in elastic:
                return private_address
        text = f"{provider_id} holds {', '.join(held.values())} and has no further private address for {address}"
        raise self._client.failure(NodeInUse, "assign", f"{text} on its primary interface")

    def _occupant(self, private: PrivateAddress, interface: str) -> str:
        """Return the Elastic IP on a private address, by the read and by what was done since."""
        occupant = self._recent.occupant(interface, private.address)
        if occupant:
            return occupant
        latest = self._recent.placement(private.public_ip) if private.public_ip else None
        return private.public_ip if latest is None else ""

    def _check_taken(self, answer: Answer, operation: str) -> None:
        """Raise Rejected when something that is no instance holds the address: it is not ours to take away."""
        if is_elsewhere(answer):
            text = (
                f"{answer['PublicIp']} is on {answer['NetworkInterfaceId']}, which is no instance's but perhaps a NAT "
                "gateway's or a load balancer's, and stays there: take it out of the pool"
            )
            raise self._client.failure(Rejected, operation, text)

    def _check_region(self, provider_id: str) -> None:
        region = region_of(provider_id)
        if region != self._client.region:
            text = f"{provider_id} is in {region or 'no region'}, the address in {self._client.region}"
            raise self._client.failure(Rejected, "assign", f"{text}: an Elastic IP serves its own region only")


def _allocation(request: CreateRequest) -> dict[str, Any]:
    tags = {POOL_TAG: request.owner, CLUSTER_TAG: request.cluster, CLAIM_TAG: request.claim}
    arguments: dict[str, Any] = {
        "Domain": "vpc",
        "TagSpecifications": [
            {
                "ResourceType": "elastic-ip",
                "Tags": [{"Key": key, "Value": _tag_value(value)} for key, value in tags.items() if value],
            }
        ],
    }
    if request.address_pool:
        pool = "IpamPoolId" if request.address_pool.startswith(_IPAM_POOL) else "PublicIpv4Pool"
        arguments[pool] = request.address_pool
    return arguments


def _rejected(error: Rejected, text: str) -> Rejected:
    return Rejected(text, provider=PROVIDER, operation=error.operation, request_id=error.request_id)


def _tag_value(text: str) -> str:
    """Return the text as a tag may have it: a namespace and a name can be longer. But for the claim none is read."""
    return text if len(text) <= _TAG_VALUE_MAX_LENGTH else f"{text[: _TAG_VALUE_MAX_LENGTH - 1]}…"
