"""What a plan consists of. One action is one call, to the provider or to the API server."""

from __future__ import annotations

import msgspec

from flipop_core.model import CreateRequest, Key
from flipop_core.resources.parse import AddressLedger


class _Action(msgspec.Struct, frozen=True, gc=False, tag_field="action"):
    """Common base. `Action` is a union, so that each of its classes has to have a ``summary``."""


class AssignAddress(_Action, frozen=True, tag="assign"):
    """Put an address on a node. ``from_provider_id`` is where it is now, None for nowhere."""

    address: str
    provider_id: str
    node: str
    from_provider_id: str | None = None

    @property
    def summary(self) -> str:
        """One line for a person."""
        origin = f" (now on {self.from_provider_id})" if self.from_provider_id else ""
        return f"assign {self.address} to node {self.node}{origin}"


class UnassignAddress(_Action, frozen=True, tag="unassign"):
    """Take an address off the node that holds it."""

    address: str
    provider_id: str
    reason: str

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"unassign {self.address} from {self.provider_id}: {self.reason}"


class DeleteAddress(_Action, frozen=True, tag="delete"):
    """Give an address that the project created back to the provider."""

    address: str

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"delete {self.address}"


class CreateAddress(_Action, frozen=True, tag="create"):
    """Create one address. Its intent is recorded before."""

    request: CreateRequest

    @property
    def summary(self) -> str:
        """One line for a person."""
        where = f"on {self.request.provider_id}" if self.request.provider_id else f"in region {self.request.region!r}"
        return f"create an address {where}"


class FindCreated(_Action, frozen=True, tag="find-created"):
    """Look for what an earlier creation, whose answer is lost, may have made."""

    request: CreateRequest

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"look for the address of creation {self.request.claim}"


class RecordLedger(_Action, frozen=True, tag="record"):
    """Write the pool's annotations: the addresses it has, and the creation that is begun.

    ``begins``: with this, and not before, ``ledger.pending`` is begun.
    """

    ledger: AddressLedger
    reason: str
    begins: bool = False

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"record {self.reason}"


class SetFinalizer(_Action, frozen=True, tag="finalizer"):
    """Add or remove the finalizer that lets created addresses be deleted with their pool."""

    present: bool

    @property
    def summary(self) -> str:
        """One line for a person."""
        return f"{'add' if self.present else 'remove'} the finalizer"


class AnnotateNode(_Action, frozen=True, tag="annotate"):
    """Set a node's annotation to ``address``; with ``address`` empty, remove it if it still is ``previous``."""

    node: str
    address: str
    previous: str = ""

    @property
    def summary(self) -> str:
        """One line for a person."""
        if self.address:
            return f"annotate node {self.node} with {self.address}"
        return f"remove annotation {self.previous} from node {self.node}"


Action = (
    AssignAddress
    | UnassignAddress
    | DeleteAddress
    | CreateAddress
    | FindCreated
    | RecordLedger
    | SetFinalizer
    | AnnotateNode
)
ProviderAction = AssignAddress | UnassignAddress | DeleteAddress | CreateAddress | FindCreated


class Hold(msgspec.Struct, frozen=True, gc=False):
    """Something that is to be done but not now. ``until`` is monotonic seconds, None when only a change ends it."""

    reason: str
    message: str
    address: str = ""
    until: float | None = None


class Plan(msgspec.Struct, frozen=True):
    """What to do for one pool now.

    ``reread``: addresses whose state must be read before they can be planned; ``reread_all``: the whole account.
    ``next_look``: monotonic seconds at which to plan again even if nothing changes, None for never.
    """

    key: Key
    actions: tuple[Action, ...] = ()
    holds: tuple[Hold, ...] = ()
    reread: tuple[str, ...] = ()
    reread_all: bool = False
    next_look: float | None = None
