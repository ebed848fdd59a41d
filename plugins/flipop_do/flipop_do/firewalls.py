"""DigitalOcean cloud firewalls as a `flipop_core.FirewallProvider`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence

from flipop_core import (
    Applied,
    Busy,
    Final,
    Firewall,
    FirewallRule,
    InProgress,
    MutationResult,
    NodeInUse,
    NotFound,
    ProviderCapabilities,
    QuotaExceeded,
    RateLimit,
    Rejected,
    Retryable,
    Unavailable,
)
from flipop_do import FIREWALL_CAPABILITIES
from flipop_do.answers import droplet_id_of, provider_id_of
from flipop_do.client import PROVIDER, DigitalOceanClient, Empty
from flipop_do.firewallrules import CloudFirewall, FirewallAnswer, FirewallPage, normal_rule, raw_of, rule_fault
from flipop_do.inflight import InFlight
from flipop_do.verification import verify_scopes

MOST_RULES = 50
"""Rules that a firewall can have, inbound and outbound. Used to tell why a change was refused, not to refuse it."""

MOST_DROPLETS = 10
"""Droplets that a firewall can have by their IDs. Used likewise."""

_POLL_AFTER_SECONDS = 2.0
_READ_SCOPE, _WRITE_SCOPE = "firewall:read", "firewall:update"
_NEEDS_DROPLETS = "without droplet:read every firewall reads as applied to no droplet"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_Body = Mapping[str, Sequence[object]]
_Plan = Callable[[CloudFirewall], _Body]
"""From a firewall as it is to the body of the request that changes it: one list, empty when nothing is to be done."""


class CloudFirewalls:
    """Implements `flipop_core.FirewallProvider` for one account. Safe to share between threads.

    A change of a firewall that another thread is changing is `Busy` at once and not sent.
    """

    def __init__(self, client: DigitalOceanClient) -> None:
        self._client = client
        self._in_flight = InFlight()

    def __repr__(self) -> str:
        return f"CloudFirewalls({self._client!r})"

    @property
    def capabilities(self) -> ProviderCapabilities:
        """What DigitalOcean's firewalls can do; constant."""
        return FIREWALL_CAPABILITIES

    @property
    def rate_limit(self) -> RateLimit | None:
        """What the last answer said of the rate limit. See `flipop_core.ReportsRateLimit`."""
        return self._client.rate_limit

    def verify(self) -> None:
        """Read one firewall and one droplet: two calls. See `flipop_core.FirewallProvider`.

        Whether the token may change firewalls does not show in a read.
        """
        api = self._client.api
        verify_scopes(
            self._client, {_READ_SCOPE: api.firewalls.list, "droplet:read": api.droplets.list}, _NEEDS_DROPLETS
        )

    def get_firewall(self, name: str) -> Firewall:
        """Read the firewall of that name or ID: one call per 200 firewalls, one by its ID.

        See `flipop_core.FirewallProvider`. Droplets that it reaches by a tag are not told.
        """
        operation = "get_firewall"
        with self._client.budget():
            if _UUID.fullmatch(name):
                with contextlib.suppress(NotFound):  # a name may look like an ID
                    return self._get(operation, name).view()
            pages = self._client.pages(
                operation, self._client.api.firewalls.list, answer=FirewallPage, scope=_READ_SCOPE
            )
            found = [firewall for page in pages for firewall in page.firewalls if firewall.name == name]
        if not found:
            text = f"no firewall of this account is named {name[:253]}: create it, or correct the name"
            raise NotFound(text, provider=PROVIDER, operation=operation)
        if len(found) > 1:
            ids = ", ".join(firewall.id for firewall in found)
            text = f"{len(found)} firewalls are named {name[:253]}: rename all but one, or use one of the IDs {ids}"
            raise Rejected(text, provider=PROVIDER, operation=operation)
        return found[0].view()

    def add_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Add rules. See `flipop_core.FirewallProvider`. One read, and one write for those that are not there."""
        operation = "add_rules"
        for rule in rules:
            if fault := rule_fault(rule):
                raise Rejected(f"a rule cannot be written: {fault}", provider=PROVIDER, operation=operation)
        wanted = list(dict.fromkeys(map(normal_rule, rules)))

        def plan(now: CloudFirewall) -> _Body:
            return {"inbound_rules": [raw_of(rule) for rule in wanted if not now.own_raws([rule])]}

        def reason(now: CloudFirewall, new: Sequence[object]) -> Final | None:
            if now.rule_count() + len(new) <= MOST_RULES:
                return None
            text = f"it has {now.rule_count()} rules of {MOST_RULES}, and {len(new)} more are needed"
            return QuotaExceeded(text)

        return self._change(operation, firewall, plan, self._client.api.firewalls.add_rules, reason)

    def remove_rules(self, firewall: Firewall, rules: Sequence[FirewallRule]) -> MutationResult:
        """Remove rules. See `flipop_core.FirewallProvider`. One read, and one write for those that are there.

        A rule that has other sources beside those given is another rule, and stays. The last rule of a firewall,
        inbound and outbound, cannot be removed: `Rejected`.
        """
        wanted = list(map(normal_rule, rules))

        def plan(now: CloudFirewall) -> _Body:
            return {"inbound_rules": now.own_raws(wanted)}

        def reason(now: CloudFirewall, gone: Sequence[object]) -> Final | None:
            if now.rule_count() > len(gone):
                return None
            return Rejected("a firewall keeps its last rule: add an outbound rule first")

        return self._change("remove_rules", firewall, plan, self._client.api.firewalls.delete_rules, reason)

    def add_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Apply the firewall to droplets, by their IDs. See `flipop_core.FirewallProvider`.

        One read, and one write for those that it does not apply to, or that its last change failed for.
        """
        operation = "add_nodes"
        wanted = {droplet_id_of(provider_id, operation) for provider_id in provider_ids}

        def plan(now: CloudFirewall) -> _Body:
            return {"droplet_ids": sorted(wanted - now.good_droplets())}

        def reason(now: CloudFirewall, new: Sequence[object]) -> Final | None:
            unknown = [provider_id_of(number) for number in sorted(wanted) if not self._has_droplet(operation, number)]
            if unknown:
                return NotFound(f"no droplet {', '.join(unknown)}")
            held = len(set(now.droplet_ids or ()) - set(new))
            if held + len(new) <= MOST_DROPLETS:
                return None
            text = f"it applies to {held} droplets of {MOST_DROPLETS}, and {len(new)} more are needed: use another one"
            return QuotaExceeded(text)

        return self._change(operation, firewall, plan, self._client.api.firewalls.assign_droplets, reason)

    def remove_nodes(self, firewall: Firewall, provider_ids: Sequence[str]) -> MutationResult:
        """Take droplets off the firewall, by their IDs. See `flipop_core.FirewallProvider`.

        One read, and one write for those that are there. A tag by which it applies to a droplet stays.
        """
        operation = "remove_nodes"
        wanted = {droplet_id_of(provider_id, operation) for provider_id in provider_ids}

        def plan(now: CloudFirewall) -> _Body:
            return {"droplet_ids": sorted(wanted & set(now.droplet_ids or ()))}

        return self._change(operation, firewall, plan, self._client.api.firewalls.delete_droplets, lambda *_: None)

    # Calls

    def _get(self, operation: str, firewall_id: str) -> CloudFirewall:
        """Read one firewall. Errors: NotFound, which names it, and as the client has them for a read."""
        if not _UUID.fullmatch(firewall_id):
            text = f"no firewall {firewall_id[:80]!r}: that is not the ID of one"
            raise NotFound(text, provider=PROVIDER, operation=operation)
        try:
            answer = self._client.call(
                operation,
                self._client.api.firewalls.get,
                firewall_id,
                answer=FirewallAnswer,
                mutation=False,
                scope=_READ_SCOPE,
            )
        except NotFound as error:
            raise NotFound(
                f"no firewall {firewall_id[:80]} ({error.message})",
                provider=PROVIDER,
                operation=operation,
                request_id=error.request_id,
            ) from None
        return answer.firewall

    def _change(
        self,
        operation: str,
        firewall: Firewall,
        plan: _Plan,
        function: Callable[..., object],
        reason: Callable[[CloudFirewall, Sequence[object]], Final | None],
    ) -> MutationResult:
        """Read the firewall, send what ``plan`` makes of it, and tell by ``reason`` why it was refused."""
        with self._in_flight.hold(operation, f"firewall {firewall.id}"), self._client.budget():
            now = self._get(operation, firewall.id)
            body = plan(now)
            if not any(body.values()):
                return _unchanged(now)
            if self._client.is_spent():
                text = "the firewall was read, and no time is left to change it"
                raise Unavailable(text, provider=PROVIDER, operation=operation)
            try:
                self._client.call(operation, function, now.id, body, answer=Empty, mutation=True, scope=_WRITE_SCOPE)
            except (Busy, NodeInUse, NotFound, QuotaExceeded, Rejected) as refusal:
                return self._after_refusal(operation, plan, reason, now, refusal)
        return InProgress(now.id, _POLL_AFTER_SECONDS)

    def _after_refusal(
        self,
        operation: str,
        plan: _Plan,
        reason: Callable[[CloudFirewall, Sequence[object]], Final | None],
        before: CloudFirewall,
        refusal: Busy | Final,
    ) -> MutationResult:
        """Return the result when the change is made all the same, by whomever; else raise what the refusal means."""
        now = self._get(operation, before.id)
        (items,) = plan(now).values()
        if not items:
            return _unchanged(now)
        known = None if isinstance(refusal, Busy) else reason(now, items)
        # A firewall that is there is not what is missing, and "already has" is not about addresses here.
        kind = Rejected if isinstance(refusal, NodeInUse | NotFound) else type(refusal)
        text = refusal.message if known is None else f"{known.message} ({refusal.message})"
        failure = kind if known is None else type(known)
        raise failure(
            f"firewall {before.name or before.id}: {text}",
            provider=PROVIDER,
            operation=operation,
            request_id=refusal.request_id,
        ) from None

    def _has_droplet(self, operation: str, number: int) -> bool:
        """Whether the droplet exists, or it cannot be told."""
        try:
            self._client.call(
                operation, self._client.api.droplets.get, number, answer=Empty, mutation=False, scope="droplet:read"
            )
        except NotFound:
            return False
        except (Final, Retryable):  # the refusal is what is reported
            return True
        return True


def _unchanged(now: CloudFirewall) -> MutationResult:
    return InProgress(now.id, _POLL_AFTER_SECONDS) if now.in_progress() else Applied()
