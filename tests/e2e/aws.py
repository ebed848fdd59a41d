"""The world with an AWS account in it: nodes on EC2 instances, Elastic IPs, hosted zones."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flipop_aws_testserver import AWSEntry, AWSServer, Instance
from flipop_aws_testserver import Settings as AWSSettings
from flipop_do_testserver import Settings
from tests.controlplane.api import Document
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog

from .world import World
from .zones import Call, Zone

KEY = "AKIAE2E0123456789ABC"
SECRET = "e2e-secret-access-key-0123456789abcdef"
EAST, WEST = "us-east-1", "eu-west-1"
TAG = "flipop.digitalocean.com/"
READS = ("Describe", "List", "Get")


class EC2Node(NamedTuple):
    """A node and the instance that it runs on."""

    name: str
    instance: Instance

    @property
    def provider_id(self) -> str:
        return self.instance.provider_id

    @property
    def region(self) -> str:
        return self.instance.provider_id.split("/")[3][:-1]


class AWSWorld(World):
    """See the module. The other providers are there too, so that a test can mix them."""

    def __init__(
        self, cluster: ControlPlane, directory: Path, watchdog: Watchdog, settings: AWSSettings | None = None
    ) -> None:
        self._aws_settings = settings or AWSSettings(access_key_id=KEY, address_limit=0)
        self.aws = AWSServer(copy.copy(self._aws_settings))
        super().__init__(cluster, directory, watchdog, Settings(reserved_ip_limit=0))
        self._exits.enter_context(self.aws)

    def begin(self) -> None:
        """Take names that no test had, and forget what the providers were asked."""
        super().begin()
        self.aws.journal.clear()

    def end(self) -> None:
        """Remove what the test made, and check that no defect showed on the way."""
        super().end()
        self.aws.faults.clear()
        for name in AWSSettings.__struct_fields__:
            setattr(self.aws.settings, name, getattr(self._aws_settings, name))
        for address in self.aws.account.addresses():
            self.aws.account.remove_address(address)

    # -- what the test makes -----------------------------------------------------------------------------------------

    def variables(self, kubeconfig: Path | None = None) -> dict[str, str]:
        """Return the environment of a command: the account's key, and no region."""
        return {
            **super().variables(kubeconfig),
            **sdk_variables(self.directory),
            "AWS_ENDPOINT_URL": self.aws.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def ec2_node(
        self,
        suffix: str,
        *,
        zone: str = f"{EAST}a",
        labels: Mapping[str, str] | None = None,
        address: str = "",
        ready: bool = True,
        **instance: Any,
    ) -> EC2Node:
        """Create a node on a new instance (``instance``: of `Account.add_instance`); ``address`` is put on that."""
        name = f"{self.id}-{suffix}"
        node = EC2Node(name, self.aws.account.add_instance(zone=zone, **instance))
        if address:
            self.aws.account.put(address, node.instance.id)
        chosen = {self.id: "node"} if labels is None else labels
        self.bare_node(name, node.instance.provider_id, chosen, ready=ready)
        return node

    def ec2_nodes(self, count: int, **options: Any) -> list[EC2Node]:
        """Create several, named in order."""
        return [self.ec2_node(f"{number:03d}", **options) for number in range(count)]

    def pool(self, name: str = "pool", *, annotations: Mapping[str, str] | None = None, **spec: Any) -> Document:
        """Create a pool of Elastic IPs, whose region its nodes tell."""
        return super().pool(name, annotations=annotations, **{"provider": "aws", "region": None, **spec})

    def address(self, **options: Any) -> str:
        """Make an Elastic IP of somebody else's making; ``options`` are those of `Account.add_address`."""
        return self.aws.account.add_address(**options)

    def tag(self, address: str, region: str = EAST, **tags: str | None) -> None:
        """Set tags of an address; None removes one."""
        ec2 = self.aws.admin("ec2", region)
        (found,) = ec2.describe_addresses(PublicIps=[address])["Addresses"]
        for key, value in tags.items():
            change = ec2.delete_tags if value is None else ec2.create_tags
            change(
                Resources=[found["AllocationId"]],
                Tags=[{"Key": key} if value is None else {"Key": key, "Value": value}],
            )

    # -- what the test sees ------------------------------------------------------------------------------------------

    def on(self) -> dict[str, str | None]:
        """Return all addresses of the account and the instance of each."""
        account = self.aws.account
        found = {address: account.holder(address) for address in account.addresses()}
        return {address: holder[0] if holder else None for address, holder in found.items()}

    def private_address(self, address: str) -> str:
        """Return the private address that an Elastic IP is on."""
        holder = self.aws.account.holder(address)
        assert holder is not None, f"{address} is on nothing"
        return holder[1]

    def calls(self, action: str = "", since: float = 0.0) -> list[AWSEntry]:
        """Return the requests of an action (a regular expression), since ``since`` (monotonic seconds)."""
        return [entry for entry in self.aws.entries(action) if entry.time >= since]

    def names(self, action: str = "", since: float = 0.0) -> list[str]:
        """Return the names of the requests, likewise, without the service's."""
        return [entry.action.partition(":")[2] for entry in self.calls(action, since)]

    def mutations(self, since: float = 0.0) -> list[str]:
        """Return the names of the provider calls that change something, and what became of each."""
        shown = [(entry.action.partition(":")[2], entry.outcome) for entry in self.calls(since=since)]
        changes = [f"{name} -> {outcome}" for name, outcome in shown if not name.startswith(READS)]
        return changes + super().mutations(since)

    def reads(self, since: float = 0.0) -> list[str]:
        """Return the names of the calls of AWS that read."""
        return [name for name in self.names(since=since) if name.startswith(READS)]

    # -- waiting -----------------------------------------------------------------------------------------------------

    def until_on(self, address: str, node: EC2Node, name: str = "pool", timeout_seconds: float = 30.0) -> None:
        """Wait until an address is active on ``node``, for the status and for AWS."""
        self.until(
            lambda: self.holders(name).get(address) == node.name and self.on()[address] == node.instance.id,
            f"{address} on {node.name}",
            timeout_seconds,
        )

    def until_rests(self, name: str = "pool", timeout_seconds: float = 30.0) -> None:
        """Wait until a pool is Ready and what it made is recorded."""
        self.until(lambda: self.condition("Ready", name).get("status") == "True", f"{name} Ready", timeout_seconds)
        self.until_at_rest()

    # -- the end -----------------------------------------------------------------------------------------------------

    def report(self) -> str:
        """Describe everything a failure is understood from."""
        calls = [
            f"{e.time:.2f} {e.region} {e.action} {e.parameters} -> {e.status} {e.outcome} {e.fault}"
            for e in self.calls()
        ]
        shown = "\n".join(calls[-60:])
        return f"{super().report()}\n\nAWS calls:\n{shown}\n\nElastic IPs: {self.on()} {self.aws.account.addresses()}"

    def _check(self) -> None:
        super()._check()
        assert not self.aws.violations, self.aws.violations
        for controller in self.controllers:
            assert SECRET not in controller.log(), "the log shows the secret access key"


def sdk_variables(directory: Path) -> dict[str, str]:
    """Return what keeps the SDK from finding settings of whoever runs the tests."""
    return {
        "AWS_CONFIG_FILE": str(directory / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(directory / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


class Route53Zone(Zone):
    """A hosted zone, found by name, with others' records in it."""

    provider = "aws"

    def __init__(self, world: AWSWorld, name: str = "", *, private: bool = False) -> None:
        super().__init__(name or f"{world.id}.example")
        self._server = world.aws
        self._client = world.aws.admin("route53")
        self.id = world.aws.account.add_zone(self.name, private=private)

    def calls(self, since: float = 0.0) -> list[Call]:
        return [
            Call(
                e.time, "GET" if e.action.split(":")[1].startswith(READS) else "POST", e.action, e.parameters, e.status
            )
            for e in self._server.entries("^route53:")
            if e.time >= since and (e.parameters.get("Id") == self.id or self.name in str(e.parameters.get("dnsname")))
        ]

    def record_sets(self, name: str, record_type: str) -> list[dict[str, Any]]:
        found = self._client.list_resource_record_sets(HostedZoneId=self.id)["ResourceRecordSets"]
        return [each for each in found if (each["Name"], each["Type"]) == (f"{self.fqdn(name)}.", record_type)]

    def values(self, name: str = "www", record_type: str = "A") -> list[str]:
        sets = self.record_sets(name, record_type)
        return sorted(record["Value"] for each in sets for record in each.get("ResourceRecords", ()))

    def ttls(self, name: str = "www", record_type: str = "A") -> set[int]:
        return {each["TTL"] for each in self.record_sets(name, record_type)}

    def owners(self, name: str = "www") -> dict[str, list[str]]:
        found = {}
        for text in self.values(f"a-{name}", "TXT"):
            match = re.fullmatch(r'"heritage=external-dns,external-dns/owner=([^,]+),flipop/values=(.+)"', text)
            assert match, text
            found[match[1]] = match[2].split(";")
        return found

    def put(self, value: str, name: str = "www", record_type: str = "A") -> None:
        """Write a record set of one value in place of what is there."""
        self.put_set(name, {"Type": record_type, "TTL": 300, "ResourceRecords": [{"Value": value}]})

    def put_set(self, name: str, record_set: Mapping[str, Any]) -> None:
        """Write a record set of any kind."""
        change = {"Action": "UPSERT", "ResourceRecordSet": {"Name": self.fqdn(name), **record_set}}
        self._client.change_resource_record_sets(HostedZoneId=self.id, ChangeBatch={"Changes": [change]})

    def remove(self, value: str, name: str = "www") -> None:
        kept = [each for each in self.values(name) if each != value]
        (held,) = self.record_sets(name, "A")
        changed = {**held, "ResourceRecords": [{"Value": each} for each in kept]} if kept else held
        change = {"Action": "UPSERT" if kept else "DELETE", "ResourceRecordSet": changed}
        self._client.change_resource_record_sets(HostedZoneId=self.id, ChangeBatch={"Changes": [change]})

    def fail(self, methods: str = "", **fault: Any) -> None:
        del methods
        self._server.fail("route53:ChangeResourceRecordSets", **fault)


def tags_of(world: AWSWorld, address: str) -> dict[str, str]:
    """Return the project's tags of an address, without its prefix."""
    tags = world.aws.account.addresses()[address]
    return {key.removeprefix(TAG): value for key, value in tags.items() if key.startswith(TAG)}


def told(world: AWSWorld, reason: str, *parts: str, name: str = "pool", timeout_seconds: float = 30.0) -> str:
    """Wait until Ready is False for ``reason`` with these words, and an event says so; return the message."""

    def condition() -> str | None:
        found = world.condition("Ready", name)
        text = str(found.get("message"))
        return text if found.get("reason") == reason and all(part in text for part in parts) else None

    message = world.until(condition, f"Ready=False for {reason}, {parts}", timeout_seconds)
    world.until(
        lambda: [each for each in world.events() if all(part in each["note"] for part in parts)],
        f"an event with {parts}",
    )
    return message
