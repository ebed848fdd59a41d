"""Which account the addresses in a resource's ledger are in, and what to do where it names another one by now.

The same account may go by another Secret: then the addresses are found there, and the ledger follows. Where they are
not found they are in the account of before. Nothing is known of them from here, so that none of them is given up.
"""

from __future__ import annotations

from msgspec.structs import replace

from flipop_core.cluster import ROUTED_IPS
from flipop_core.plan.actions import RecordLedger
from flipop_core.plan.draft import Draft
from flipop_core.plan.observed import PoolObservation
from flipop_core.resources import reasons
from flipop_core.resources.types import ALLOCATED_IPS_ANNOTATION, PENDING_CREATION_ANNOTATION


def former_account(observed: PoolObservation) -> str:
    """Return the account that the ledger tells of, empty if it is the present one, by whichever Secret.

    What a creation was compared with is of its account too.
    """
    ledger, records = observed.ledger, observed.inventory.records
    if not ledger.account or not observed.account or ledger.account == observed.account:
        return ""
    known = (*ledger.allocated, *(ledger.pending.known_addresses if ledger.pending is not None else ()))
    return "" if any(address in records for address in known) else ledger.account


def is_left_behind(observed: PoolObservation, address: str) -> bool:
    """Whether an address is in the former account, so that the present one cannot tell anything of it."""
    return address in observed.ledger.allocated and bool(former_account(observed))


def plan_account(draft: Draft) -> None:
    """Record which account the addresses are in where that is known now; say so where they are in another one."""
    observed, ledger = draft.observed, draft.observed.ledger
    if not observed.account or ledger.account == observed.account:
        return
    records = observed.inventory.records
    if former_account(observed):
        left = [address for address in ledger.allocated if address in _needed(draft)]
        if left and all(address in observed.inventory.wanted for address in left):
            draft.hold(reasons.ACCOUNT_CHANGED, _left_behind(observed, left))
    elif any(address in records for address in ledger.allocated) and not (draft.recording or observed.deleting):
        recorded = replace(ledger, account=observed.account)
        draft.act(RecordLedger(recorded, f"that its addresses are in the account of {_named(observed.account)}"))


def creation_left_behind(observed: PoolObservation) -> str:
    """Say that a creation was begun in the former account, where alone it can be looked for; empty if it was not."""
    former, pending = former_account(observed), observed.ledger.pending
    if not former or pending is None:
        return ""
    return (
        f"creation {pending.claim} was begun with {_named(former)}, and what it made is not seen with "
        f"{_named(observed.account)}: {_back(observed)}, or see that it made nothing and remove the annotation "
        f"{PENDING_CREATION_ANNOTATION}"
    )


def _needed(draft: Draft) -> set[str]:
    """Return the addresses that are to be used, or to be given back."""
    own = draft.observed.spec.reclaim_policy == "Delete"
    created = {address for address in draft.observed.ledger.created if own and draft.owns(address)}
    return created | {state.address for state in draft.assessment.enabled if not draft.observed.deleting}


def _left_behind(observed: PoolObservation, addresses: list[str]) -> str:
    those = "it" if len(addresses) == 1 else "them"
    return (
        f"{', '.join(addresses)} of {_named(observed.ledger.account)} not found with {_named(observed.account)}: "
        f"{_back(observed)}, or give {those} back at the provider and remove {those} from the annotation "
        f"{ALLOCATED_IPS_ANNOTATION}"
    )


def _named(account: str) -> str:
    provider, _, secret = account.partition("@")
    return f"{provider} and Secret {secret}" if secret else f"{provider} and the environment's credentials"


def _back(observed: PoolObservation) -> str:
    if observed.key.kind == ROUTED_IPS.kind:
        return "let the RoutedIPIssuer name that account again"
    return "let spec.provider name that account again"
