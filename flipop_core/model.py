"""Frozen value types: what the project knows of nodes, pods and addresses. No behaviour beyond small derivations.

Times that are compared are monotonic seconds (``float``); times that are shown are RFC 3339 strings.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

IPV4_ANNOTATION = "flipop.digitalocean.com/ipv4-reserved-ip"
IPV6_ANNOTATION = "flipop.digitalocean.com/ipv6-reserved-ip"


class Key(NamedTuple):
    """What a work queue carries: the identity of one object, never the object."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class AccountRef(NamedTuple):
    """Which account of a provider.

    ``region`` is empty where one account serves all regions, or the environment names one. ``credentials`` names the
    Secret that holds them (``namespace/name``), empty for those of the environment.
    """

    provider: str
    region: str = ""
    credentials: str = ""

    def __str__(self) -> str:
        region = f"/{self.region}" if self.region else ""
        return f"{self.provider}{region}" + (f"@{self.credentials}" if self.credentials else "")


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A node's taint, as ``spec.taints`` holds it. ``time_added`` is RFC 3339 or empty."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = msgspec.field(default="", name="timeAdded")


class NodeAddress(msgspec.Struct, frozen=True, gc=False):
    """One of ``status.addresses``: ``type`` is ``ExternalIP``, ``InternalIP``, ``Hostname`` or other."""

    type: str
    address: str


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """The part of a Node that decides anything. An equal view is no change.

    ``provider_id`` is ``spec.providerID``, empty when the cloud controller has not set it.
    ``ready`` is condition Ready=True; ``ready_since`` the RFC 3339 time of that condition's last transition.
    ``deleted_at`` is when a node that is ``deleting`` was deleted (RFC 3339).
    ``reserved_ipv4`` and ``reserved_ipv6`` are the annotations ``flipop.digitalocean.com/ipv4-reserved-ip`` and
    ``…/ipv6-reserved-ip``, empty when absent.
    """

    name: str
    uid: str = ""
    provider_id: str = ""
    ready: bool = False
    ready_since: str = ""
    deleting: bool = False
    created: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    reserved_ipv4: str = ""
    reserved_ipv6: str = ""
    deleted_at: str = ""

    def reserved(self, family: str) -> str:
        """Return the annotation's floating IP of a family, ``IPv4`` or ``IPv6``."""
        return self.reserved_ipv6 if family == "IPv6" else self.reserved_ipv4


class PodView(msgspec.Struct, frozen=True, gc=False):
    """The part of a Pod that decides anything. ``ready``: phase Running and condition Ready=True.

    ``unready_since`` is when a pod that is not ready stopped being so (Unix time), 0 when nothing tells. Labels are
    missing on purpose: the API server has already selected by them.
    """

    namespace: str
    name: str
    uid: str = ""
    node_name: str = ""
    ready: bool = False
    deleting: bool = False
    unready_since: float = 0.0


class AddressRecord(msgspec.Struct, frozen=True, gc=False):
    """What the provider says of one address.

    ``provider_id`` is the node that holds it in the form of ``Node.spec.providerID``, or None when it is unassigned.
    ``region`` is the provider's name for where it can be used, empty when it can be used everywhere.
    ``in_progress``: the provider works on it and refuses new operations until that ends. ``tags`` are (key, value),
    sorted, where the provider has them.
    """

    address: str
    provider_id: str | None = None
    region: str = ""
    in_progress: bool = False
    tags: tuple[tuple[str, str], ...] = ()


class CreateRequest(msgspec.Struct, frozen=True, gc=False):
    """One address to be created.

    ``claim`` names this one creation and never another: providers with tags put it into one, and `find_created` looks
    for it. ``owner`` is the resource that wants it (``namespace/name``), ``cluster`` the cluster's own name (may be
    empty). ``provider_id``, when set, is the node to create it on. ``known_addresses`` are all addresses that existed
    in the account when the intent was recorded, for providers that offer nothing better than a comparison. ``family``
    is ``IPv4`` or ``IPv6``. ``address_pool`` is the provider's pool to take it from, empty for any.
    """

    claim: str
    region: str = ""
    owner: str = ""
    cluster: str = ""
    provider_id: str | None = None
    known_addresses: tuple[str, ...] = ()
    family: str = "IPv4"
    address_pool: str = ""


class Applied(msgspec.Struct, frozen=True, gc=False):
    """The mutation has had its effect."""


class InProgress(msgspec.Struct, frozen=True, gc=False):
    """The provider accepted the mutation and works on it: poll, never send it again.

    ``token`` is the provider's name for the operation, for logs. ``poll_after_seconds`` is when to read first.
    """

    token: str
    poll_after_seconds: float = 1.0


MutationResult = Applied | InProgress


class Created(msgspec.Struct, frozen=True, gc=False):
    """A created address, and whether its assignment (if one was asked for) is still under way."""

    address: str
    result: MutationResult
