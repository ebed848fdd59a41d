"""Pure functions on cloud firewalls: what DigitalOcean's answers mean, and how a rule is written."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from flipop_core import Firewall, FirewallRule
from flipop_do.answers import Page, provider_id_of

Raw = dict[str, Any]
"""An inbound rule as the API has it, with all its fields: it is removed by sending it back as it stands."""

_LAST_PORT = 65535
_ALL_PORTS = frozenset({"", "0", "all"})
_PROTOCOLS = frozenset({"tcp", "udp"})
_DONE, _FAILED = "succeeded", "failed"


class PendingChange(msgspec.Struct, frozen=True):
    """A droplet whose rules are being changed: ``status`` is ``waiting``, ``succeeded`` or ``failed``."""

    droplet_id: int = 0
    removing: bool = False
    status: str = "waiting"


class CloudFirewall(msgspec.Struct, frozen=True):
    """A firewall as the API has it. ``status`` is ``waiting``, ``succeeded`` or ``failed``."""

    id: str
    name: str = ""
    status: str = _DONE
    inbound_rules: list[Raw] | None = None
    outbound_rules: list[Raw] | None = None
    droplet_ids: list[int] | None = None
    pending_changes: list[PendingChange] | None = None

    def rule_count(self) -> int:
        """Return how many rules there are, inbound and outbound."""
        return len(self.inbound_rules or ()) + len(self.outbound_rules or ())

    def failed_droplets(self) -> frozenset[int]:
        """Return the droplets that a change was given up for: what is in effect on them cannot be told."""
        changes = self.pending_changes or ()
        return frozenset(change.droplet_id for change in changes if change.status == _FAILED and not change.removing)

    def good_droplets(self) -> frozenset[int]:
        """Return the droplets that it applies to by their IDs, or is about to."""
        return frozenset(self.droplet_ids or ()) - self.failed_droplets()

    def in_progress(self) -> bool:
        """Whether changes were accepted and are not in effect yet on every droplet."""
        ended = {_DONE, _FAILED}
        return self.status not in ended or any(change.status not in ended for change in self.pending_changes or ())

    def view(self) -> Firewall:
        """Return the core's view of it."""
        rules = {rule for raw in self.inbound_rules or () if (rule := rule_of(raw)) is not None}
        return Firewall(
            self.id,
            self.name,
            tuple(sorted(rules, key=_order)),
            tuple(sorted(provider_id_of(number) for number in self.good_droplets())),
            in_progress=self.in_progress(),
        )

    def own_raws(self, rules: Iterable[FirewallRule]) -> list[Raw]:
        """Return the inbound rules that are exactly one of ``rules``, without sources of any other kind."""
        wanted = set(rules)
        return [raw for raw in self.inbound_rules or () if _is_plain(raw) and rule_of(raw) in wanted]


class FirewallAnswer(msgspec.Struct, frozen=True):
    """Answer to ``GET /v2/firewalls/{id}``."""

    firewall: CloudFirewall


class FirewallPage(Page, frozen=True, kw_only=True):
    """One page of ``GET /v2/firewalls``."""

    firewalls: list[CloudFirewall]


def rule_of(raw: Raw) -> FirewallRule | None:
    """Return what an inbound rule lets in from CIDRs over TCP or UDP, None when it lets nothing in that way."""
    protocol = str(raw.get("protocol", "")).lower()
    ports = _ports(str(raw.get("ports", "")))
    sources = sorted({network for text in _targets(raw).get("addresses") or () if (network := _network(text))})
    if protocol not in _PROTOCOLS or not _allows(raw) or ports is None or not sources:
        return None
    return FirewallRule(protocol, *ports, tuple(sources))


def raw_of(rule: FirewallRule) -> Raw:
    """Return the rule as the API takes it."""
    ports = f"{rule.port}-{rule.end_port}" if rule.end_port not in {0, rule.port} else str(rule.port)
    return {"protocol": rule.protocol, "ports": ports, "sources": {"addresses": list(rule.sources)}}


def rule_fault(rule: FirewallRule) -> str | None:
    """Return why a rule cannot be written, None when it can."""
    if rule.protocol not in _PROTOCOLS:
        return f"{rule.protocol[:20]!r} is neither tcp nor udp"
    if not 1 <= rule.port <= (rule.end_port or rule.port) <= _LAST_PORT:
        return f"{rule.port} to {rule.end_port or rule.port} are no ports"
    strangers = [source for source in rule.sources if _network(source) != source]
    if strangers or not rule.sources:
        return f"{strangers[0][:80]!r} is no CIDR" if strangers else "it needs a source"
    return None


def normal_rule(rule: FirewallRule) -> FirewallRule:
    """Return the rule as it would be read back."""
    end_port = 0 if rule.end_port == rule.port else rule.end_port
    return FirewallRule(rule.protocol, rule.port, end_port, tuple(sorted(set(rule.sources))))


def _order(rule: FirewallRule) -> tuple[object, ...]:
    return rule.protocol, rule.port, rule.end_port, rule.sources


def _targets(raw: Raw) -> Raw:
    sources = raw.get("sources")
    return sources if isinstance(sources, dict) else {}


def _allows(raw: Raw) -> bool:
    return str(raw.get("action") or "allow").lower() == "allow"


def _is_plain(raw: Raw) -> bool:
    """Whether all its sources are CIDRs."""
    targets = _targets(raw)
    readable = all(_network(text) for text in targets.get("addresses") or ())
    return readable and not any(value for kind, value in targets.items() if kind != "addresses")


def _ports(text: str) -> tuple[int, int] | None:
    """Return the first port and the last, 0 for the first alone; None for what is no port."""
    text = text.strip().lower()
    if text in _ALL_PORTS:
        return 1, _LAST_PORT
    found = re.fullmatch(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", text)
    if not found:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return first, 0 if last == first else last


def _network(text: object) -> str:
    """Return the CIDR of an address or network in canonical form, empty for anything else."""
    try:
        return str(ipaddress.ip_network(str(text), strict=False))
    except ValueError:
        return ""
