"""What somebody else does in the account: instances, addresses, zones, made and changed behind the API's back."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from flipop_aws_testserver.elasticips import ElasticIP, ElasticIPs, Pool
from flipop_aws_testserver.groups import Rule, SecurityGroups, rule_of
from flipop_aws_testserver.motoapp import MotoAccount
from flipop_aws_testserver.recordsets import RecordSets, held_values
from flipop_aws_testserver.settings import Settings

REGION = "us-east-1"


class Instance(NamedTuple):
    """An instance. ``provider_id`` is ``Node.spec.providerID``; the interface is the primary one."""

    id: str
    provider_id: str
    interface_id: str
    private_addresses: tuple[str, ...]


class Account:
    """See the module. Safe to share between threads."""

    def __init__(self, moto: MotoAccount, settings: Settings) -> None:
        self._moto = moto
        self._images: dict[str, str] = {}
        self.elastic_ips = ElasticIPs(moto, settings)
        self.record_sets = RecordSets(moto, settings)
        self.groups = SecurityGroups(moto, settings)

    def forget(self) -> None:
        """Forget everything, once moto has."""
        with self._moto.lock:
            self._images.clear()
            self.elastic_ips.clear()
            self.record_sets.clear()
            self.groups.clear()

    # Instances

    def add_instance(
        self,
        *,
        zone: str = f"{REGION}a",
        private_addresses: int = 1,
        interfaces: int = 1,
        public: bool = False,
        cni: bool = False,
        subnet_id: str = "",
        state: str = "running",
    ) -> Instance:
        """Start an instance.

        ``private_addresses`` are those of the primary interface. ``public``: AWS assigns it a public address by itself.
        ``cni``: it has one more interface, of the VPC CNI's making. ``state`` is ``running``, ``stopped`` or
        ``pending``.
        """
        region = region_of_zone(zone)
        with self._moto.lock:
            backend = self._moto.ec2(region)
            image_id = self._images.setdefault(region, "") or str(backend.register_image(name="flipop").id)
            self._images[region] = image_id
            nic: dict[str, Any] = {"DeviceIndex": "0", "DeleteOnTermination": True, "AssociatePublicIpAddress": public}
            if subnet_id:
                nic["SubnetId"] = subnet_id
            options = {"instance_type": "m5.large", "is_instance_type_default": True, "region_name": region}
            # moto knows no local zones.
            known = zone if zone in backend.get_default_subnets() else f"{region}a"
            made = backend.run_instances(image_id, 1, None, [], placement=known, nics=[nic], **options).instances[0]
            made.placement.zone = zone
            primary = made.nics[0]
            backend.assign_private_ip_addresses(primary.id, [], private_addresses - 1)
            for index in range(1, interfaces):
                self._attach(backend, made, index, "another interface")
            if cni:
                self._attach(backend, made, interfaces, f"aws-K8S-{made.id}")
            made._state.name, made._state.code = state, _STATES[state]  # noqa: SLF001 - moto has no public name for it
            addresses = tuple(str(each["PrivateIpAddress"]) for each in primary.private_ip_addresses)
            return Instance(made.id, f"aws:///{zone}/{made.id}", primary.id, addresses)

    def _attach(self, backend: Any, instance: Any, index: int, description: str) -> None:
        interface = backend.create_network_interface(
            instance.nics[0].subnet, [], description=description, delete_on_termination=True
        )
        backend.attach_network_interface(interface.id, instance.id, index)

    def add_interface(self, region: str = REGION) -> str:
        """Make an interface of no instance, such as a NAT gateway has, and return its ID."""
        with self._moto.lock:
            backend = self._moto.ec2(region)
            subnet = next(iter(backend.get_default_subnets().values()))
            return str(backend.create_network_interface(subnet, [], description="NAT gateway").id)

    def add_subnet(self, region: str = REGION) -> str:
        """Make a subnet in a VPC without internet gateway, and return its ID."""
        with self._moto.lock:
            backend = self._moto.ec2(region)
            vpc = backend.create_vpc("10.9.0.0/16")
            return str(backend.create_subnet(vpc.id, "10.9.0.0/20", availability_zone=f"{region}a").id)

    def stop_instance(self, instance_id: str, region: str = REGION) -> None:
        """Stop an instance."""
        with self._moto.lock:
            self._moto.ec2(region).stop_instances([instance_id])

    def terminate_instance(self, instance_id: str, region: str = REGION) -> None:
        """Terminate an instance. It is still described, and nothing else of it is left."""
        with self._moto.lock:
            self._moto.ec2(region).terminate_instances([instance_id])

    # Addresses

    def add_address(self, region: str = REGION, public_ip: str = "", tags: Mapping[str, str] | None = None) -> str:
        """Make an Elastic IP, whatever the limit, and return it."""
        with self._moto.lock:
            return self.elastic_ips.add(region, public_ip, "", tags).public_ip

    def add_pool(self, pool_id: str, cidr: str, region: str = REGION) -> None:
        """Make a pool of public addresses: a range that was brought along, or one of IPAM."""
        with self._moto.lock:
            self.elastic_ips.pools[pool_id] = Pool(region, map(str, ipaddress.ip_network(cidr).hosts()))

    def put(self, public_ip: str, target_id: str, private_address: str = "") -> None:
        """Associate an address with an instance's primary interface, or with an interface."""
        with self._moto.lock:
            address = self._address(public_ip)
            backend = self._moto.ec2(address.region)
            interface = backend.enis.get(target_id)
            if interface is None:
                interface = next(each for each in backend.all_instances() if each.id == target_id).nics[0]
            self.elastic_ips.put(address, interface, private_address or str(interface.private_ip_address))

    def take_off(self, public_ip: str) -> None:
        """Disassociate an address."""
        with self._moto.lock:
            self.elastic_ips.take_off(self._address(public_ip))

    def remove_address(self, public_ip: str) -> None:
        """Release an address, associated or not."""
        with self._moto.lock:
            self.elastic_ips.remove(self._address(public_ip))

    def holder(self, public_ip: str) -> tuple[str, str] | None:
        """Return who holds an address, an instance's ID or else an interface's, and on which private address."""
        with self._moto.lock:
            held = self._address(public_ip).association
            if held is None:
                return None
            instance = held.interface.instance
            return (str(instance.id) if instance else str(held.interface.id)), held.private_address

    def addresses(self, region: str = "") -> dict[str, dict[str, str]]:
        """Return the tags of each address of a region, or of all."""
        with self._moto.lock:
            return {each.public_ip: self.elastic_ips.tags_of(each) for each in self.elastic_ips.all(region)}

    def allocation_id(self, public_ip: str) -> str:
        """Return the allocation ID of an address."""
        with self._moto.lock:
            return self._address(public_ip).allocation_id

    def allocation_of(self, association_id: str) -> str:
        """Return the allocation ID of an association that is, or was. Raises KeyError."""
        with self._moto.lock:
            return self.elastic_ips.allocation_of(association_id)

    def _address(self, public_ip: str) -> ElasticIP:
        address = self.elastic_ips.find(public_ip)
        if address is None:
            raise LookupError(f"no address {public_ip}")
        return address

    # Security groups

    def add_group(
        self, name: str, region: str = REGION, vpc_id: str = "", tags: Mapping[str, str] | None = None
    ) -> str:
        """Make a security group, in the default VPC unless another is named, and return its ID."""
        with self._moto.lock:
            backend = self._moto.ec2(region)
            return str(backend.create_security_group(name, f"{name}, for tests", vpc_id or None, dict(tags or {})).id)

    def add_vpc(self, region: str = REGION) -> str:
        """Make a VPC and return its ID."""
        with self._moto.lock:
            return str(self._moto.ec2(region).create_vpc("10.8.0.0/16").id)

    def remove_group(self, group_id: str, region: str = REGION) -> None:
        """Remove a security group."""
        with self._moto.lock:
            self._moto.ec2(region).delete_security_group(group_id=group_id)

    def add_rule(self, group_id: str, rule: Rule, region: str = REGION, tags: Mapping[str, str] | None = None) -> str:
        """Add an inbound rule and return its ID. Raises AWSError."""
        with self._moto.lock:
            return str(self.groups.add_rules(region, group_id, [rule], tags or {})[0].id)

    def remove_rule(self, group_id: str, rule_id: str, region: str = REGION) -> None:
        """Remove an inbound rule. Raises AWSError."""
        with self._moto.lock:
            self.groups.remove_rules(region, group_id, [rule_id])

    def rule_made(self, rule_id: str) -> Rule:
        """Return an inbound rule that is, or was. Raises KeyError."""
        with self._moto.lock:
            return self.groups.made(rule_id)

    def rules(self, group_id: str, region: str = REGION) -> dict[str, Rule]:
        """Return the inbound rules of a group by their IDs."""
        with self._moto.lock:
            return {str(rule.id): rule_of(rule) for rule in self.groups.find(region, group_id).ingress_rules}

    def rule_tags(self, group_id: str, region: str = REGION) -> dict[str, dict[str, str]]:
        """Return the tags of the inbound rules of a group by their IDs."""
        with self._moto.lock:
            tags = self._moto.ec2(region).tags
            rules = self.groups.find(region, group_id).ingress_rules
            return {str(rule.id): dict(tags.get(rule.id, {})) for rule in rules}

    def groups_of(self, instance_id: str, region: str = REGION, device_index: int = 0) -> list[str]:
        """Return the groups of an interface of an instance, sorted."""
        with self._moto.lock:
            interface = self._moto.ec2(region).get_instance(instance_id).nics[device_index]
            return sorted(str(group.id) for group in self.groups.of(interface))

    def put_groups(self, instance_id: str, group_ids: list[str], region: str = REGION, device_index: int = 0) -> None:
        """Put exactly these groups on an interface of an instance. Raises AWSError."""
        with self._moto.lock:
            interface = self._moto.ec2(region).get_instance(instance_id).nics[device_index]
            self.groups.put(region, interface, group_ids)

    # DNS

    def add_zone(self, name: str, *, private: bool = False) -> str:
        """Make a hosted zone and return its ID."""
        with self._moto.lock:
            reference = f"{name}-{len(self._moto.route53().zones)}"
            vpc = {"vpcid": "vpc-1", "vpcregion": REGION} if private else {}
            zone = self._moto.route53().create_hosted_zone(f"{name}.", private, reference, **vpc)
            # moto's begin with any letter, which those of AWS do not.
            zones = self._moto.route53().zones
            zones[f"Z{zone.resource_id[1:]}"] = zones.pop(zone.resource_id)
            zone.resource_id = f"Z{zone.resource_id[1:]}"
            return zone.resource_id

    def put_records(self, zone_id: str, name: str, record_type: str, values: list[str], ttl_seconds: int = 60) -> None:
        """Write a record set."""
        records = [{"Value": value} for value in values]
        wanted = {"Name": name, "Type": record_type, "TTL": ttl_seconds, "ResourceRecords": records}
        with self._moto.lock:
            self.record_sets.apply(zone_id, [{"Action": "UPSERT", "ResourceRecordSet": wanted}])

    def records(self, zone_id: str) -> dict[str, list[str]]:
        """Return the values of all record sets of a zone by ``NAME TYPE``, the name without its last dot."""
        with self._moto.lock:
            sets = self._moto.route53().zones[zone_id].rrsets
            return {f"{each.name.removesuffix('.')} {each.type}": held_values(each) for each in sets}


_STATES = {"pending": 0, "running": 16, "stopped": 80}


def region_of_zone(zone: str) -> str:
    """Return the region of an availability zone such as ``us-east-1a``, or of a local or wavelength zone."""
    found = re.match(r"[a-z]+(-[a-z]+)+-\d+", zone)
    if found is None:
        raise ValueError(f"{zone!r} is no zone")
    return found[0]
