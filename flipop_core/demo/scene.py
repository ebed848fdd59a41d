"""What the simulated world looks like at one moment: nodes, pods, addresses, what pools report, and DNS."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, NODES, PODS
from flipop_core.testing.cloud import SCHEME, InMemoryCloud
from flipop_core.testing.kubeapi import InMemoryKubeAPI

ROLE_LABEL = "role"

ZONE = "example.com"
POOL_RECORD = f"www.{ZONE}"
"""The record set with the addresses of the ingress pool."""

NODES_RECORD = f"nodes.{ZONE}"
"""The record set with the external addresses of the nodes that are fit for the ingress pool."""


class NodeRow(msgspec.Struct, frozen=True):
    """A node. ``pod`` is that of its application, empty for none; ``addresses`` are those that the provider shows.

    ``external_ip`` is its own address, with which it comes and goes.
    """

    name: str
    role: str
    ready: bool
    cordoned: bool
    pod: Literal["", "ready", "unready"]
    addresses: tuple[str, ...]
    external_ip: str = ""

    @property
    def fit(self) -> bool:
        """Whether an address may be here, labels apart."""
        return self.ready and not self.cordoned and self.pod != "unready"


class AddressRow(msgspec.Struct, frozen=True):
    """An address as its pool's status reports it. While it moves, ``node`` is where it moves to; empty for nowhere."""

    pool: str
    address: str
    state: str
    node: str


class RecordRow(msgspec.Struct, frozen=True):
    """A DNS record set: the values that the provider shows, and those that it should; both sorted."""

    name: str
    values: tuple[str, ...]
    wanted: tuple[str, ...]


class Scene(msgspec.Struct, frozen=True):
    """One moment: nodes by name, addresses by pool and number, each pool's ``desiredIPs``, and the record sets."""

    nodes: tuple[NodeRow, ...]
    addresses: tuple[AddressRow, ...]
    desired: Mapping[str, int]
    records: tuple[RecordRow, ...]

    def node(self, name: str) -> NodeRow:
        """Return a node. Raises StopIteration when there is none of that name."""
        return next(node for node in self.nodes if node.name == name)

    def active(self, pool: str) -> tuple[AddressRow, ...]:
        """Return the active addresses of a pool."""
        return tuple(row for row in self.addresses if row.pool == pool and row.state == "active")

    @property
    def settled(self) -> bool:
        """Whether every pool has what it wants, and DNS says so."""
        pools = all(len(self.active(pool)) == desired for pool, desired in self.desired.items())
        return pools and self.published

    @property
    def published(self) -> bool:
        """Whether the record sets hold what they should."""
        return all(row.values == row.wanted for row in self.records)


def read_scene(api: InMemoryKubeAPI, cloud: InMemoryCloud) -> Scene:
    """Look at the API server and the provider, without a call that either would count."""
    held: dict[str, list[str]] = {}
    for record in cloud.records().values():
        if record.provider_id is not None:
            held.setdefault(node_name(record.provider_id), []).append(record.address)
    pods = {pod["spec"]["nodeName"]: pod for pod in api.read_all(PODS)}
    pools = api.read_all(FLOATING_IP_POOLS)
    nodes = tuple(_node_row(node, pods, held) for node in api.read_all(NODES))
    addresses = tuple(row for pool in pools for row in _address_rows(pool))
    active = [row.address for row in addresses if row.pool == "ingress" and row.state == "active"]
    fit = [node.external_ip for node in nodes if node.role == "ingress" and node.fit]
    return Scene(
        nodes=nodes,
        addresses=addresses,
        desired={pool["metadata"]["name"]: _desired(pool["spec"]) for pool in pools},
        records=(
            _record_row(cloud, POOL_RECORD, active),
            _record_row(cloud, NODES_RECORD, fit if api.read_all(NODE_DNS_RECORD_SETS) else ()),
        ),
    )


def node_name(provider_id: str) -> str:
    """Return the name of the node that a provider ID of the simulated cloud stands for."""
    return provider_id.removeprefix(SCHEME)


def _node_row(node: dict[str, Any], pods: Mapping[str, dict[str, Any]], held: Mapping[str, list[str]]) -> NodeRow:
    name = node["metadata"]["name"]
    pod = pods.get(name)
    return NodeRow(
        name=name,
        role=node["metadata"]["labels"][ROLE_LABEL],
        ready=_ready(node),
        cordoned=bool(node["spec"].get("taints")),
        pod="" if pod is None else "ready" if _ready(pod) else "unready",
        addresses=tuple(held.get(name, ())),
        external_ip=next((row["address"] for row in node["status"]["addresses"] if row["type"] == "ExternalIP"), ""),
    )


def _ready(document: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in document["status"]["conditions"]
    )


def _address_rows(pool: dict[str, Any]) -> list[AddressRow]:
    reported = pool.get("status", {}).get("ips", {})
    return [
        AddressRow(
            pool["metadata"]["name"],
            address,
            reported[address]["state"],
            reported[address].get("nodeName") or node_name(reported[address].get("providerID", "")),
        )
        for address in in_order(reported)
    ]


def in_order(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return addresses by number."""
    return tuple(sorted(addresses, key=ipaddress.ip_address))


def _record_row(cloud: InMemoryCloud, name: str, wanted: Iterable[str]) -> RecordRow:
    record_set = cloud.zones.record_sets(ZONE).get((name, "A"))
    return RecordRow(name, in_order(record_set.values if record_set is not None else ()), in_order(wanted))


def _desired(spec: dict[str, Any]) -> int:
    return int(spec.get("desiredIPs", 0)) or len(spec.get("ips", ()))
