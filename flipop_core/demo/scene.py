"""What the simulated world looks like at one moment: nodes, their pods and addresses, and what the pools report."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, PODS
from flipop_core.testing.cloud import SCHEME, InMemoryCloud
from flipop_core.testing.kubeapi import InMemoryKubeAPI

ROLE_LABEL = "role"


class NodeRow(msgspec.Struct, frozen=True):
    """A node. ``pod`` is that of its application, empty for none; ``addresses`` are those that the provider shows."""

    name: str
    role: str
    ready: bool
    cordoned: bool
    pod: Literal["", "ready", "unready"]
    addresses: tuple[str, ...]

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


class Scene(msgspec.Struct, frozen=True):
    """One moment: nodes by name, addresses by pool and number, and each pool's ``desiredIPs``."""

    nodes: tuple[NodeRow, ...]
    addresses: tuple[AddressRow, ...]
    desired: Mapping[str, int]

    def node(self, name: str) -> NodeRow:
        """Return a node. Raises StopIteration when there is none of that name."""
        return next(node for node in self.nodes if node.name == name)

    def active(self, pool: str) -> tuple[AddressRow, ...]:
        """Return the active addresses of a pool."""
        return tuple(row for row in self.addresses if row.pool == pool and row.state == "active")

    @property
    def settled(self) -> bool:
        """Whether every pool has what it wants."""
        return all(len(self.active(pool)) == desired for pool, desired in self.desired.items())


def read_scene(api: InMemoryKubeAPI, cloud: InMemoryCloud) -> Scene:
    """Look at the API server and the provider, without a call that either would count."""
    held: dict[str, list[str]] = {}
    for record in cloud.records().values():
        if record.provider_id is not None:
            held.setdefault(node_name(record.provider_id), []).append(record.address)
    pods = {pod["spec"]["nodeName"]: pod for pod in api.read_all(PODS)}
    pools = api.read_all(FLOATING_IP_POOLS)
    return Scene(
        nodes=tuple(_node_row(node, pods, held) for node in api.read_all(NODES)),
        addresses=tuple(row for pool in pools for row in _address_rows(pool)),
        desired={pool["metadata"]["name"]: _desired(pool["spec"]) for pool in pools},
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
        for address in sorted(reported, key=ipaddress.ip_address)
    ]


def _desired(spec: dict[str, Any]) -> int:
    return int(spec.get("desiredIPs", 0)) or len(spec.get("ips", ()))
