"""What a provider plugin implements. The docstrings are the contract; `flipop_core.testing.conformance` checks it.

For every method of every protocol here:

- It must raise `flipop_core.errors` types only, chosen by what the caller should do next; a foreign exception that
  escapes is treated as `OutcomeUnknown` for a mutation and `Unavailable` for a read, and logged as the plugin's defect.
- It must end within the context's ``timeout_seconds`` (connect and read together) and must not sleep or retry a
  mutation; one method call is one attempt. A read may follow pages.
- It must be safe to call from several threads at once.
- It must not put credentials, or a whole request or response, into an error, a repr or a log line.
- Provider IDs are those of ``Node.spec.providerID``. A foreign or malformed one is `Rejected`, named in the message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

from flipop_core.model import AddressRecord, Created, CreateRequest, MutationResult


class ProviderCapabilities(msgspec.Struct, frozen=True, gc=False):
    """What the core must know of a provider before it plans.

    ``atomic_reassign``: `assign` moves an address that another node holds; otherwise the core unassigns first.
    ``max_ips_per_node``: how many addresses of one family a node can hold. ``min_ttl_seconds``: the least TTL of a
    record.
    ``address_families``: of ``IPv4``, ``IPv6``. ``record_types``: of ``A``, ``AAAA``, ``TXT``.
    ``record_comments``: each DNS record carries a comment of up to 100 characters, so that ownership needs no TXT.
    ``max_concurrency``: how many calls may run side by side.
    ``create_on_node``: `create` can put a new IPv4 address straight on a node.
    ``node_limits``: nodes differ in how many addresses they hold; `IPProvider.node_limits` tells how many.
    ``address_tags``: addresses carry tags (`AddressRecord.tags`), by which a resource may select them.
    ``address_pools``: `create` can take an address from a named pool, such as a range brought along.
    ``opens_node_ports``: the platform's own firewall lets traffic to a node port in, without a rule of anybody.
    """

    atomic_reassign: bool = True
    max_ips_per_node: int = 1
    min_ttl_seconds: int = 1
    address_families: tuple[str, ...] = ("IPv4",)
    record_types: tuple[str, ...] = ()
    record_comments: bool = False
    max_concurrency: int = 8
    create_on_node: bool = False
    node_limits: bool = False
    address_tags: bool = False
    address_pools: bool = False
    opens_node_ports: bool = False


class CredentialSpec(msgspec.Struct, frozen=True, gc=False):
    """One credential a provider reads: its environment variable, what it is, whether nothing works without it."""

    variable: str
    summary: str
    required: bool = True


class ProviderContext(msgspec.Struct, frozen=True, gc=False):
    """What `ProviderFactory.build` gets.

    ``credentials`` maps `CredentialSpec.variable` to its value (set ones only). ``endpoint`` replaces the vendor's API
    URL. ``timeout_seconds`` bounds one call from connect to the last byte.
    """

    credentials: Mapping[str, str]
    region: str = ""
    endpoint: str = ""
    user_agent: str = "flipop"
    timeout_seconds: float = 7.0

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.credentials))
        return f"ProviderContext(credentials=<{names}>, region={self.region!r}, endpoint={self.endpoint!r})"

    __str__ = __repr__


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """What an answer said of the vendor's rate limit: how many requests it allows, and how many it leaves.

    ``seen_at`` is when the answer came, in seconds of `time.monotonic`.
    """

    limit: int
    remaining: int
    seen_at: float


@runtime_checkable
class ReportsRateLimit(Protocol):
    """What a provider of any role may have besides: one whose vendor's answers tell of a rate limit. For metrics."""

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said, None before there was one. Makes no call, and may be read by any thread."""
        ...


@runtime_checkable
class IPProvider(Protocol):
    """Floating, reserved or elastic IP addresses and the nodes that hold them."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        """Constant for the life of the object; reading it makes no call."""
        ...

    def verify(self) -> None:
        """Check by reads alone that the credentials are accepted and, as far as the vendor tells, reach what is needed.

        Called once at start and, until it passes, again at long intervals. Must cost as few calls as possible. What
        does not show in a read, the right to write for example, is found out by the call that needs it.
        Errors: AccessDenied, naming the missing scope or permission and the mend; Retryable.
        """
        ...

    def list_addresses(
        self, wanted: Collection[str], *, families: Collection[str] = ("IPv4",)
    ) -> Mapping[str, AddressRecord]:
        """Read all addresses of the account and in any case the ``wanted`` ones, in as few calls as possible.

        The answer tells the core three things at once: who holds a pool's addresses, which nodes are taken by
        whoever else, and which addresses existed before one is created. Unassigned addresses of a BYOIP range
        may be left out unless wanted, and so may addresses of other ``families`` than those asked for. A wanted
        address without a record is the answer "not found". Must not answer from a cache. Errors: Retryable,
        AccessDenied.
        """
        ...

    def describe(self, addresses: Collection[str]) -> Mapping[str, AddressRecord]:
        """Read the present state of a few ``addresses`` (canonical text form), to follow an operation on them.

        Must return a record for each address that exists, and none for one that does not: absence is the answer
        "not found", given only when the provider said so. Must not answer from a cache. May return more than asked.
        Errors: Retryable, AccessDenied.
        """
        ...

    def node_limits(self, provider_ids: Collection[str]) -> Mapping[str, int]:
        """Read how many addresses of one family each of these nodes can hold, in as few calls as possible.

        Called only when the capability ``node_limits`` is declared. A node without an entry, one that is unknown for
        example, holds ``max_ips_per_node``. Errors: Retryable, AccessDenied.
        """
        ...

    def create(self, request: CreateRequest) -> Created:
        """Create one address, marked with ``request.claim`` where the provider can mark.

        Must be sent at most once, whatever happens. ``request.provider_id`` is set only when the capability
        ``create_on_node`` is declared; then the address is created on that node. ``request.address_pool`` is set only
        when ``address_pools`` is. Errors: NodeInUse (the node is
        taken, nothing was created), QuotaExceeded, RateLimited, AccessDenied, Rejected (for example the region),
        Busy (nothing was created), and OutcomeUnknown for everything after which an address may exist, 5xx included.
        """
        ...

    def find_created(self, request: CreateRequest) -> tuple[AddressRecord, ...]:
        """Read the addresses that an earlier `create` of the same request may have made, best match first.

        With a tag: exactly the tagged one. Otherwise, of those not in ``known_addresses``: first what the requested
        node holds, then unassigned ones of the region, since an address may not be on its node yet, or never get
        there. Empty: it made none.
        Errors: Retryable, AccessDenied.
        """
        ...

    def assign(self, address: str, provider_id: str) -> MutationResult:
        """Put ``address`` on the node, away from any other node that holds it if ``atomic_reassign`` is declared.

        Assigning what is already so is `Applied`. Errors: NodeInUse (the node holds another address and can hold no
        more), NotFound (the address or the node), Busy, RateLimited, AccessDenied, Rejected (for example another
        region), Unavailable when certainly not sent, OutcomeUnknown when sent and unanswered or answered 5xx.
        """
        ...

    def unassign(self, address: str) -> MutationResult:
        """Take ``address`` off whatever node holds it. Errors: as assign.

        Unassigning what is unassigned is `Applied`.
        """
        ...

    def delete(self, address: str) -> MutationResult:
        """Give ``address`` back to the provider, for good. One that is gone already is `Applied`. Errors: as assign."""
        ...


class RecordSet(msgspec.Struct, frozen=True, gc=False):
    """All records of one name and type.

    ``name`` is an FQDN in lower case without the trailing dot, IDN in its ASCII form; ``values`` are sorted, addresses
    in canonical form, TXT without quotes. ``comments`` are parallel to ``values`` where the provider has comments, else
    empty. ``proxied`` is for providers that can put themselves in front of a name; None leaves it as it is.
    """

    name: str
    type: str
    ttl_seconds: int
    values: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    proxied: bool | None = None


@runtime_checkable
class DNSProvider(Protocol):
    """Record sets of a DNS zone."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        """Constant for the life of the object; reading it makes no call."""
        ...

    def verify(self) -> None:
        """Check by reads alone that the credentials are accepted and, as far as the vendor tells, reach what is needed.

        Called once at start and, until it passes, again at long intervals. Must cost as few calls as possible. What
        does not show in a read, the right to write for example, is found out by the call that needs it.
        Errors: AccessDenied, naming the missing scope or permission and the mend; Retryable.
        """
        ...

    def get_record_set(self, zone: str, name: str, record_type: str) -> RecordSet | None:
        """Read one record set, None when it has no record. Errors: NotFound (the zone), Retryable, AccessDenied."""
        ...

    def ensure_record_set(
        self, zone: str, record_set: RecordSet, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Make the record set hold these values, comments and this TTL; other names and types stay untouched.

        Without ``scope`` it then holds exactly these values. With it, values outside ``scope`` are somebody else's:
        they are neither removed nor changed, TTL included. Must add new values before it removes stale ones, atomically
        where the provider can, and must not write what is already so. Errors: NotFound (the zone), Rejected (for
        example a CNAME of that name, or a record type it does not have), RateLimited, Busy, AccessDenied, Unavailable
        when certainly not sent, OutcomeUnknown otherwise.
        """
        ...

    def delete_record_set(
        self, zone: str, name: str, record_type: str, *, scope: frozenset[str] | None = None
    ) -> MutationResult:
        """Remove the records of that name and type, those in ``scope`` only if it is given.

        What is gone already is `Applied`. Errors: as ensure.
        """
        ...

    def normalize(self, record_set: RecordSet) -> RecordSet:
        """Return the set as this provider would read it back (TTL limits, value spelling). Pure: makes no call."""
        ...


class FirewallRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An inbound rule: these sources may reach the ports ``port`` to ``end_port``.

    ``protocol`` is ``tcp`` or ``udp``; ``end_port`` 0 means ``port`` alone; ``sources`` are CIDRs, sorted. A rule that
    the project adds has one port. The descriptions are for the status of resources, which records such rules.
    """

    protocol: Annotated[str, Meta(description="tcp or udp.")]
    port: Annotated[int, Meta(description="Port, or the first of several.")]
    end_port: Annotated[int, Meta(description="Last of several ports. 0: there is one.")] = 0
    sources: Annotated[tuple[str, ...], Meta(description="CIDRs, sorted.")] = ("0.0.0.0/0", "::/0")


class Firewall(msgspec.Struct, frozen=True, gc=False):
    """A cloud firewall: its inbound rules from CIDRs, of TCP and UDP, and the nodes it applies to, both sorted.

    A vendor's rule for all protocols reads as one rule for each. Rules by other sources (a tag, another group) are left
    out. ``id`` is the provider's own name of the firewall. ``in_progress``: changes were accepted and are not in effect
    yet; rules and nodes are then those that will be. A node for which a change failed is left out.
    """

    id: str
    name: str
    rules: tuple[FirewallRule, ...] = ()
    provider_ids: tuple[str, ...] = ()
    in_progress: bool = False


@runtime_checkable
class FirewallProvider(Protocol):
    """Cloud firewalls: inbound rules and the nodes they apply to. Changes of one firewall are made one after another.

    ``firewall`` arguments are answers of `get_firewall`, perhaps minutes old: only their ``id`` and ``name`` are to be
    relied on. Other rules and nodes of the firewall, outbound ones included, stay as they are.
    """

    @property
    def capabilities(self) -> ProviderCapabilities:
        """Constant for the life of the object; reading it makes no call."""
        ...

    def verify(self) -> None:
        """Check by reads alone that the credentials are accepted and, as far as the vendor tells, reach what is needed.

        Called once at start and, until it passes, again at long intervals. Must cost as few calls as possible. What
        does not show in a read, the right to write for example, is found out by the call that needs it.
        Errors: AccessDenied, naming the missing scope or permission and the mend; Retryable.
        """
        ...

    def get_firewall(self, name: str) -> Firewall:
        """Read the firewall of that name or ID. Must not answer from a cache.

        Errors: NotFound, Rejected (several have the name), Retryable, AccessDenied.
        """
        ...

    def add_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Add rules; those that are there already are no error, and the others are added all the same.

        Errors: NotFound (the firewall), QuotaExceeded, Rejected, RateLimited, Busy, AccessDenied, Unavailable when
        certainly not sent, OutcomeUnknown when sent and unanswered or answered 5xx.
        """
        ...

    def remove_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Remove exactly these rules; those that are gone already are no error.

        Where the provider can tell whose a rule is, one that the project did not add stays. Errors: as add_rules.
        """
        ...

    def add_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Apply the firewall to the nodes too; to one that it applies to already is no error.

        A node's other firewalls stay. Errors: as add_rules; NotFound is the firewall or a node.
        """
        ...

    def remove_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Stop applying the firewall to the nodes. One that it does not apply to, or that is gone, is no error.

        Errors: as add_rules.
        """
        ...


class ProviderFactory(msgspec.Struct, frozen=True, gc=False):
    """How a plugin offers one provider.

    ``name`` is what a resource's ``provider`` field selects. ``build`` imports the SDK, and nothing before it does.
    Nothing closes what it builds: what a provider holds, connections for example, must end with the last reference to
    it, which the core drops after the last call when credentials are replaced. So a provider has no threads of its own.
    ``endpoint_variable`` and ``user_agent_variable`` name environment variables that override the API URL and the
    user agent. ``capabilities`` are those the built provider declares, for validation without credentials.
    ``region_of`` is given when addresses and nodes belong to regions, each reached by a provider object of its own
    (`ProviderContext.region`): it returns the region of a node by its provider ID, empty when that does not tell.
    """

    name: str
    summary: str
    credentials: tuple[CredentialSpec, ...]
    build: Callable[[ProviderContext], object]
    capabilities: ProviderCapabilities = ProviderCapabilities()
    endpoint_variable: str = ""
    user_agent_variable: str = ""
    region_of: Callable[[str], str] | None = None
