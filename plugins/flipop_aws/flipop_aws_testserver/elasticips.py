"""Elastic IPs as AWS has them: what moto leaves out is in the package's docstring."""

from __future__ import annotations

import fnmatch
import ipaddress
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from flipop_aws_testserver.answers import AWSError, Value, ec2_answer
from flipop_aws_testserver.calls import Call
from flipop_aws_testserver.motoapp import MotoAccount
from flipop_aws_testserver.settings import Settings

_MAX_FILTER_VALUES = 200
_NETWORK = ipaddress.ip_network("198.18.0.0/15")


class Association(NamedTuple):
    """An address on a private address of an interface. ``interface`` is moto's."""

    id: str
    interface: Any
    private_address: str


class ElasticIP:
    """One address of a region. ``before`` is the association that reads show until ``settled_at``."""

    def __init__(self, region: str, public_ip: str, pool: str) -> None:
        self.region = region
        self.public_ip = public_ip
        self.pool = pool
        self.allocation_id = f"eipalloc-{uuid.uuid4().hex[:17]}"
        self.association: Association | None = None
        self.before: Association | None = None
        self.settled_at = 0.0
        self.shown_at = 0.0

    def shown(self) -> Association | None:
        """Return the association that reads show."""
        return self.association if time.monotonic() >= self.settled_at else self.before


class Pool(NamedTuple):
    """A range that was brought along, or an IPAM pool."""

    region: str
    addresses: Iterator[str]


class ElasticIPs:
    """The Elastic IPs of an account. Call all of it with the account's lock held."""

    def __init__(self, moto: MotoAccount, settings: Settings) -> None:
        self._moto = moto
        self._settings = settings
        self._numbers = itertools.count(1)
        self._held: dict[str, ElasticIP] = {}
        self._associations: dict[str, str] = {}  # to allocations, those that ended included
        self.pools: dict[str, Pool] = {}
        self.handlers: Mapping[str, Callable[[Call], bytes]] = {
            "ec2:AllocateAddress": self._allocate,
            "ec2:AssociateAddress": self._associate,
            "ec2:DescribeAddresses": self._describe,
            "ec2:DisassociateAddress": self._disassociate,
            "ec2:ReleaseAddress": self._release,
        }

    # State

    def clear(self) -> None:
        """Forget all addresses and pools."""
        self._held.clear()
        self._associations.clear()
        self.pools.clear()

    def all(self, region: str = "") -> list[ElasticIP]:
        """Return the addresses of a region, or of all, oldest first."""
        for address in self._held.values():
            if address.association and not _is_there(self._moto, address):
                address.association = address.before = None
        return [address for address in self._held.values() if region in {"", address.region}]

    def find(self, public_ip: str) -> ElasticIP | None:
        """Return an address by its number."""
        return next((address for address in self.all() if address.public_ip == public_ip), None)

    def allocation_of(self, association_id: str) -> str:
        """Return the allocation ID of an association that is, or was. Raises KeyError."""
        return self._associations[association_id]

    def add(self, region: str, public_ip: str = "", pool: str = "", tags: Mapping[str, str] | None = None) -> ElasticIP:
        """Make an address, whatever the limit."""
        address = ElasticIP(region, public_ip or str(_NETWORK[next(self._numbers)]), pool)
        address.shown_at = time.monotonic() + self._settings.allocation_lag_seconds
        self._held[address.allocation_id] = address
        if tags:
            self._moto.ec2(region).create_tags([address.allocation_id], dict(tags))
        return address

    def put(self, address: ElasticIP, interface: Any, private_address: str) -> str:
        """Associate; whatever is on that private address gives way. Return the association's ID."""
        for other in self.all(address.region):
            held = other.association
            if (
                held
                and other is not address
                and (held.interface.id, held.private_address)
                == (
                    interface.id,
                    private_address,
                )
            ):
                self._change(other, None)
        association = Association(f"eipassoc-{uuid.uuid4().hex[:17]}", interface, private_address)
        self._associations[association.id] = address.allocation_id
        self._change(address, association)
        return association.id

    def take_off(self, address: ElasticIP) -> None:
        """Disassociate."""
        self._change(address, None)

    def remove(self, address: ElasticIP) -> None:
        """Release."""
        del self._held[address.allocation_id]

    def tags_of(self, address: ElasticIP) -> dict[str, str]:
        """Return the address's tags."""
        return dict(self._moto.ec2(address.region).tags.get(address.allocation_id, {}))

    def _change(self, address: ElasticIP, association: Association | None) -> None:
        address.before, address.association = address.association, association
        address.settled_at = time.monotonic() + self._settings.association_lag_seconds

    # Actions

    def _allocate(self, call: Call) -> bytes:
        pool = call.get("PublicIpv4Pool") or call.get("IpamPoolId")
        limit = self._settings.address_limit
        if pool in {"", "amazon"}:
            pool = ""
            if limit and sum(not each.pool for each in self.all(call.region)) >= limit:
                raise AWSError("AddressLimitExceeded", "The maximum number of addresses has been reached.")
            public_ip = ""
        else:
            public_ip = self._from_pool(pool, call)
        address = self.add(call.region, public_ip, pool, call.tags())
        content: dict[str, Value] = {
            "publicIp": address.public_ip,
            "domain": "vpc",
            "allocationId": address.allocation_id,
            "publicIpv4Pool": address.pool or "amazon",
            "networkBorderGroup": address.region,
        }
        return ec2_answer(call.name, content)

    def _from_pool(self, pool: str, call: Call) -> str:
        found = self.pools.get(pool)
        if found is None or found.region != call.region:
            kind = "InvalidIpamPoolId" if call.get("IpamPoolId") else "InvalidPublicIpv4PoolID"
            raise AWSError(f"{kind}.NotFound", f"The pool ID '{pool}' does not exist")
        public_ip = next(found.addresses, "")
        if not public_ip:
            raise AWSError("InsufficientAddressCapacity", "Not enough addresses are available in the pool.")
        return public_ip

    def _associate(self, call: Call) -> bytes:
        address = self._named(call)
        interface = self._target(call)
        private_address = call.get("PrivateIpAddress") or interface.private_ip_address
        if private_address not in {each["PrivateIpAddress"] for each in interface.private_ip_addresses}:
            raise AWSError("InvalidParameterValue", f"Invalid value '{private_address}' for PrivateIpAddress")
        gateways = self._moto.ec2(call.region).internet_gateways.values()
        if not any(gateway.vpc and gateway.vpc.id == interface.subnet.vpc_id for gateway in gateways):
            raise AWSError("Gateway.NotAttached", f"Network {interface.subnet.vpc_id} is not attached to any gateway")
        held = address.association
        elsewhere = held and (held.interface.id, held.private_address) != (interface.id, private_address)
        if elsewhere and call.get("AllowReassociation").lower() == "false":
            raise AWSError("Resource.AlreadyAssociated", f"resource {address.allocation_id} is already associated")
        association_id = self.put(address, interface, private_address) if elsewhere or not held else held.id
        return ec2_answer(call.name, {"return": True, "associationId": association_id})

    def _target(self, call: Call) -> Any:
        backend = self._moto.ec2(call.region)
        interface_id, instance_id = call.get("NetworkInterfaceId"), call.get("InstanceId")
        if interface_id:
            interface = backend.enis.get(interface_id)
            if interface is None or _is_terminated(interface):
                raise AWSError(
                    "InvalidNetworkInterfaceID.NotFound", f"The networkInterface ID '{interface_id}' does not exist"
                )
            return interface
        found = [each for each in backend.all_instances() if each.id == instance_id]
        if not found:
            raise AWSError("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")
        state = found[0]._state.name  # noqa: SLF001 - moto has no public name for it
        if state not in {"running", "stopped", "stopping"}:
            text = f"The {state} instance '{instance_id}' is not in a valid state for this operation."
            raise AWSError("InvalidInstanceID", text)
        if len(found[0].nics) != 1:
            text = f"There are multiple interfaces attached to instance '{instance_id}'. Please specify an interface ID"
            raise AWSError("InvalidInstanceID", text)
        return found[0].nics[0]

    def _disassociate(self, call: Call) -> bytes:
        association_id = call.get("AssociationId")
        if association_id not in self._associations:
            text = f"The association ID '{association_id}' does not exist"
            raise AWSError("InvalidAssociationID.NotFound", text)
        for address in self.all(call.region):
            if address.association and address.association.id == association_id:
                self._change(address, None)
        return ec2_answer(call.name, {"return": True})

    def _release(self, call: Call) -> bytes:
        address = self._named(call)
        if address.association:
            raise AWSError("InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")
        self.remove(address)
        return ec2_answer(call.name, {"return": True})

    def _named(self, call: Call) -> ElasticIP:
        allocation_id = call.get("AllocationId")
        found = self._held.get(allocation_id)
        if found is None or found.region != call.region:
            text = f"The allocation ID '{allocation_id}' does not exist"
            raise AWSError("InvalidAllocationID.NotFound", text)
        return found

    def _describe(self, call: Call) -> bytes:
        now = time.monotonic()
        shown = {each.allocation_id: self._shown(each) for each in self.all(call.region) if each.shown_at <= now}
        for parameter, field, code in (
            ("AllocationId", "allocation-id", "InvalidAllocationID.NotFound"),
            ("PublicIp", "public-ip", "InvalidAddress.NotFound"),
        ):
            wanted = call.members(parameter)
            missing = set(wanted) - {fields[field] for fields, _ in shown.values()}
            if missing:
                raise AWSError(code, f"{parameter} '{min(missing)}' not found.")
            shown = {key: each for key, each in shown.items() if not wanted or each[0][field] in wanted}
        for name, values in call.filters().items():
            if name not in {*_FIELDS, "tag-key"} and not name.startswith("tag:"):
                raise AWSError("InvalidParameterValue", f"The filter '{name}' is invalid")
            if len(values) > _MAX_FILTER_VALUES:
                raise AWSError("FilterLimitExceeded", f"The maximum number of filter values is {_MAX_FILTER_VALUES}")
            shown = {key: each for key, each in shown.items() if _matches(each[0], name, values)}
        return ec2_answer(call.name, {"addressesSet": [content for _, content in shown.values()]})

    def _shown(self, address: ElasticIP) -> tuple[dict[str, str], dict[str, Value]]:
        """Return what filters compare, and what DescribeAddresses says."""
        held = address.shown()
        instance = held.interface.instance if held else None
        tags = self.tags_of(address)
        content: dict[str, Value] = {
            "publicIp": address.public_ip,
            "allocationId": address.allocation_id,
            "domain": "vpc",
            "instanceId": instance.id if instance else None,
            "associationId": held.id if held else None,
            "networkInterfaceId": held.interface.id if held else None,
            "networkInterfaceOwnerId": self._moto.id if held else None,
            "privateIpAddress": held.private_address if held else None,
            "publicIpv4Pool": address.pool or "amazon",
            "networkBorderGroup": address.region,
            "tagSet": [{"key": key, "value": value} for key, value in tags.items()] or None,
        }
        fields = {f"tag:{key}": value for key, value in tags.items()} | {f"tag-key {key}": key for key in tags}
        for field, name in _FIELDS.items():
            value = content[name]
            fields[field] = value if isinstance(value, str) else ""
        return fields, content


_FIELDS = {
    "allocation-id": "allocationId",
    "association-id": "associationId",
    "domain": "domain",
    "instance-id": "instanceId",
    "network-border-group": "networkBorderGroup",
    "network-interface-id": "networkInterfaceId",
    "private-ip-address": "privateIpAddress",
    "public-ip": "publicIp",
}


def _matches(fields: Mapping[str, str], name: str, values: list[str]) -> bool:
    if name == "tag-key":
        held = [key.partition(" ")[2] for key in fields if key.startswith("tag-key ")]
    else:
        held = [fields[name]] if name in fields else []
    return any(fnmatch.fnmatchcase(each, value) for each in held for value in values)


def _is_terminated(interface: Any) -> bool:
    instance = interface.instance
    return instance is not None and instance._state.name == "terminated"  # noqa: SLF001 - moto has no public name


def _is_there(moto: MotoAccount, address: ElasticIP) -> bool:
    """Return whether the interface that holds an address still exists."""
    held = address.association
    return held is None or (held.interface.id in moto.ec2(address.region).enis and not _is_terminated(held.interface))
