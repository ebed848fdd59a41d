"""Every condition type, and every reason that a condition, an event or a plan gives: what it means, what mends it.

Reasons are an interface: alerts and scripts match them, so that one is added but never renamed. ``docs/conditions.md``
is made from this list, and whoever gives a reason uses the constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

Place = Literal["condition", "event", "node event", "plan"]


class Reason(msgspec.Struct, frozen=True):
    """One reason. ``places`` is where it shows; ``mend`` what to do about it, empty where there is nothing to do."""

    name: str
    places: tuple[Place, ...]
    meaning: str
    mend: str = ""


READY = "Ready"
PROGRESSING = "Progressing"
DEGRADED = "Degraded"

CONDITION_TYPES: Mapping[str, str] = MappingProxyType(
    {
        READY: "True: all is as the spec asks. False: the reason says what is missing, or what is waited for.",
        PROGRESSING: "True: a change is under way. RoutedIPIssuers have none.",
        DEGRADED: "True: something has failed and is tried again, or the spec has to be corrected. RoutedIPIssuers "
        "have none.",
    }
)
"""What each condition type means. A condition that is True is good, but for Degraded."""

_places: dict[str, tuple[Place, ...]] = {
    "C": ("condition",),
    "CE": ("condition", "event"),
    "CP": ("condition", "plan"),
    "CEP": ("condition", "event", "plan"),
    "P": ("plan",),
    "E": ("event",),
    "N": ("node event",),
}
_known: dict[str, Reason] = {}


def _reason(name: str, places: str, meaning: str, mend: str = "") -> str:
    _known[name] = Reason(name, _places[places], meaning, mend)
    return name


# -- all is well, or under way ---------------------------------------------------------------------------------------

ALL_ACTIVE = _reason("AllActive", "C", "Each address is on a fit node.")
PUBLISHED = _reason(
    "Published",
    "CP",
    "The record set holds the nodes' addresses. In a plan: an address leaves DNS before it is deleted.",
)
USABLE = _reason("Usable", "C", "The RoutedIPIssuer can be used.")
WORKING = _reason("Working", "C", "Changes are under way.")
SETTLED = _reason("Settled", "C", "Nothing is under way.")
AS_EXPECTED = _reason("AsExpected", "C", "Nothing has failed.")
READING = _reason("Reading", "CP", "The provider is being asked where the addresses are.")
ASSIGNING = _reason("Assigning", "C", "Addresses are being put on nodes.")
CREATING = _reason("Creating", "CP", "Addresses are being created.")
UPDATING = _reason("Updating", "C", "A change of the record set is under way.")
UPDATING_DNS = _reason("UpdatingDNS", "C", "A change of the DNS record set is under way.")
NOT_REPORTED = _reason(
    "NotReported", "P", "`flipop status`: no controller has reported on it.", "See that a controller runs, and leads."
)

# -- the spec, or what it names --------------------------------------------------------------------------------------

INVALID_SPEC = _reason("InvalidSpec", "CE", "A field's value cannot be acted on.", "Correct the field that is named.")
INVALID_ADDRESS = _reason("InvalidAddress", "C", "An address is none, or is of the wrong family.", "Correct it.")
INVALID_SELECTOR = _reason("InvalidSelector", "C", "A selector of spec.match cannot be parsed.", "Correct it.")
INVALID_NAME = _reason("InvalidName", "CE", "The DNS name or zone is none.", "Correct the field that is named.")
INVALID_TTL = _reason("InvalidTTL", "CE", "The provider does not allow this TTL.", "Take one within its limits.")
UNSUPPORTED = _reason("Unsupported", "CE", "The provider cannot do this.", "Leave the field out, or change provider.")
UNKNOWN_PROVIDER = _reason(
    "UnknownProvider", "CE", "No installed plugin has this provider.", "Install its plugin; see `flipop providers`."
)
PROVIDER_NOT_CONFIGURED = _reason(
    "ProviderNotConfigured",
    "CEP",
    "The provider is installed, and its credentials or settings are missing.",
    "Set the environment variables that `flipop providers` names.",
)
AMBIGUOUS_REGION = _reason(
    "AmbiguousRegion", "C", "The nodes are in several regions, and none is named.", "Set spec.region."
)
REGION_CHANGED = _reason(
    "RegionChanged",
    "C",
    "spec.region was changed of a pool that has addresses.",
    "Set it back; make a pool for the new region.",
)
ACCOUNT_CHANGED = _reason(
    "AccountChanged",
    "CEP",
    "Another account is named than the one in which the addresses were created: none of them is given up.",
    "Name the former account again, or give the addresses back there and remove them from the annotation.",
)
ISSUER_NOT_FOUND = _reason("IssuerNotFound", "C", "There is no such RoutedIPIssuer.", "Create it, or name another.")
ISSUER_INVALID = _reason("IssuerInvalid", "C", "The RoutedIPIssuer cannot be acted on.", "Correct the issuer.")
IN_USE = _reason(
    "InUse", "C", "The RoutedIPIssuer is being deleted and RoutedIPs still use it.", "Delete or repoint these first."
)
SERVICE_NOT_PERMITTED = _reason(
    "ServiceNotPermitted",
    "C",
    "The Service is in a namespace that the issuer does not permit.",
    "Add that namespace to serviceNamespaces of the issuer.",
)
SERVICE_NOT_FOUND = _reason("ServiceNotFound", "CEP", "There is no such Service.", "Create it, or name another.")
NO_REACHABLE_PORT = _reason(
    "NoReachablePort",
    "CP",
    "The Service is reached by no port of a node, so that nothing moves.",
    "Give it node ports, or its pods host ports.",
)
NO_READY_ENDPOINT = _reason(
    "NoReadyEndpoint", "CP", "No endpoint of the Service is ready: the address stays.", "See to its pods."
)

# -- credentials -----------------------------------------------------------------------------------------------------

ACCESS_DENIED = _reason(
    "AccessDenied",
    "CEP",
    "The provider refuses the credentials, or they lack a right.",
    "Give them the right that is named, or replace them; they are tried again every five minutes.",
)
CREDENTIALS_UNAVAILABLE = _reason(
    "CredentialsUnavailable", "CE", "The Secret cannot be read.", "Create it, or let flipop's account read it."
)
CREDENTIALS_INCOMPLETE = _reason(
    "CredentialsIncomplete", "CE", "The Secret lacks a key that the provider needs.", "Add the keys that are named."
)

# -- the provider ----------------------------------------------------------------------------------------------------

RATE_LIMITED = _reason(
    "RateLimited", "CEP", "The provider allows no call for now.", "Wait. If it recurs, ask for a higher limit."
)
PROVIDER_UNAVAILABLE = _reason("ProviderUnavailable", "CEP", "The provider fails.", "See its status page.")
READ_FAILED = _reason("ReadFailed", "CEP", "The account's addresses cannot be listed.", "See the message.")
RETRYING = _reason("Retrying", "P", "A call about this address has failed and is tried again.", "See the message.")
ASSIGNMENT_FAILED = _reason(
    "AssignmentFailed", "C", "Putting an address on a node failed; it is tried again.", "See the message."
)
ADDRESS_NOT_FOUND = _reason(
    "AddressNotFound", "CE", "The provider has no such address.", "Correct the field that is named."
)
ADDRESS_ERROR = _reason("AddressError", "C", "Something is wrong with one address.", "See the message.")
QUOTA_EXCEEDED = _reason(
    "QuotaExceeded",
    "CEP",
    "The account may have no more addresses.",
    "Raise the limit at the provider, give addresses back, or lower desiredIPs.",
)
CREATION_FAILED = _reason(
    "CreationFailed", "CEP", "No address could be created; it is tried again.", "See the message."
)
CREATION_AMBIGUOUS = _reason(
    "CreationAmbiguous",
    "CP",
    "A creation's answer was lost, and several new addresses may be its result: none is touched.",
    "Add the pool's own to spec.ips, or remove the annotation pending-creation.",
)
NOTHING_SELECTED = _reason(
    "NothingSelected", "C", "No free address has the tags of ipSelector.", "Tag some, or correct the selector."
)

# -- waiting ---------------------------------------------------------------------------------------------------------

NO_FREE_NODE = _reason(
    "NoFreeNode",
    "CP",
    "There are more addresses than fit nodes to hold them.",
    "Add nodes that match, or lower desiredIPs.",
)
REPLACING = _reason("Replacing", "P", "An address stays until the one that takes its place is active.")
OTHER_REGION = _reason("OtherRegion", "P", "Nodes of other regions are left out.", "Make a pool for each region.")
PAUSED = _reason("Paused", "CEP", "spec.paused is true: nothing is done.", "Set it to false to go on.")
GRACE = _reason(
    "Grace", "CEP", "The node may recover: its addresses stay until the grace period ends.", "See to the node."
)
STABILIZING = _reason("Stabilizing", "CEP", "The free nodes have not been Ready for stabilizationSeconds.")
COOL_OFF = _reason("CoolOff", "CP", "assignmentCoolOffSeconds has not passed since the last assignment.")
DRAINING = _reason("Draining", "CP", "The address leaves DNS before it moves (drainBeforeMoveSeconds).")
TOO_MANY_UNAVAILABLE = _reason(
    "TooManyUnavailable",
    "CEP",
    "More nodes are missing than maxUnavailablePercent allows: addresses stay.",
    "See to the nodes, or edit the spec to accept their loss.",
)
STALE_WATCH = _reason(
    "StaleWatch", "CEP", "The API server has been silent: what is known of the nodes may be old.", "See to it."
)
MOVE_LIMIT = _reason("MoveLimit", "CEP", "maxMovesPerMinute is reached; the rest moves later.")
PROCESS_MOVE_LIMIT = _reason("ProcessMoveLimit", "CEP", "--max-moves-per-minute is reached; the rest moves later.")

# -- DNS -------------------------------------------------------------------------------------------------------------

ZONE_NOT_FOUND = _reason(
    "ZoneNotFound", "CEP", "The DNS provider has no such zone.", "Correct it, or create it where the token sees it."
)
RECORD_REJECTED = _reason(
    "RecordRejected", "CEP", "The DNS provider refuses the record.", "Remove what is in its way, or rename it."
)
DNS_FAILED = _reason("DNSFailed", "CEP", "The DNS provider fails; it is tried again.", "See the message.")
NAME_IN_USE = _reason(
    "NameInUse", "CEP", "Another resource keeps this record set.", "Choose another name, or share it by ownerID."
)
FOREIGN_RECORD = _reason(
    "ForeignRecord",
    "CEP",
    "The record set holds values that are not flipop's, and ownership.policy leaves them alone.",
    "Remove them, choose another name, or set ownership.policy to takeover.",
)
NOTHING_TO_PUBLISH = _reason(
    "NothingToPublish", "CEP", "No address can be published; the record set stays as it is.", "See to the nodes."
)
NOT_LEADER = _reason("NotLeader", "CEP", "The lease is about to be renewed; the call is sent after that.")

# -- firewalls -------------------------------------------------------------------------------------------------------

FIREWALL_NOT_FOUND = _reason(
    "FirewallNotFound", "CEP", "There is no such firewall.", "Create it, or correct routedIPFirewallName."
)
FIREWALL_FAILED = _reason(
    "FirewallFailed", "CEP", "The firewall could not be read or changed; it is tried again.", "See the message."
)
FIREWALL_PENDING = _reason("FirewallPending", "CP", "A change of the firewall is not in effect yet.")
FIREWALL_SHARED = _reason("FirewallShared", "P", "Another RoutedIP is about to take rules over.")
OPENING_FIREWALL = _reason("OpeningFirewall", "CP", "The firewall admits the node before the address moves there.")

# -- what was done ---------------------------------------------------------------------------------------------------

ADDRESS_CREATED = _reason("AddressCreated", "E", "An address was created.")
ADDRESS_ADOPTED = _reason("AddressAdopted", "E", "An address found on the pool's nodes became the pool's.")
ADDRESS_ASSIGNED = _reason("AddressAssigned", "E", "An address was put on a node, or the provider is about to.")
ADDRESS_UNASSIGNED = _reason("AddressUnassigned", "E", "An address was taken off its node.")
ADDRESS_DELETED = _reason("AddressDeleted", "E", "An address was given back to the provider.")
ACTION_FAILED = _reason("ActionFailed", "E", "A call to the provider failed; it is tried again.", "See the message.")
HOLD_ENDED = _reason("HoldEnded", "E", "What an earlier event said is no longer waited for.")
DNS_UPDATED = _reason("DNSUpdated", "E", "A DNS record set was changed.")
DNS_DELETED = _reason("DNSDeleted", "E", "A DNS record set was removed.")
FIREWALL_CHANGED = _reason("FirewallChanged", "E", "A rule or a node was added to the firewall, or removed.")
ADDRESS_ARRIVED = _reason("AddressArrived", "N", "An address is on this node now.")
ADDRESS_LEFT = _reason("AddressLeft", "N", "An address is no longer on this node.")
ADDRESS_HELD = _reason("AddressHeld", "N", "Addresses stay on this node although it is not fit; the note says why.")
ADDRESS_RELEASED = _reason("AddressReleased", "N", "Addresses are no longer held on this node.")
ADDRESS_FAILED = _reason("AddressFailed", "N", "An address could not be put on this node, or taken off it.")
FIREWALL_OPENED = _reason("FirewallOpened", "N", "The node was added to a firewall.")
FIREWALL_CLOSED = _reason("FirewallClosed", "N", "The node was removed from a firewall.")

REASONS: Mapping[str, Reason] = MappingProxyType(_known)
"""All reasons by name, in the order of the reference."""
