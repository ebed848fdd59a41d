"""Whether a token is good for what a provider does: one call for each scope that a read can tell of."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core import AccessDenied
from flipop_do import CREDENTIAL_VARIABLE
from flipop_do.client import PROVIDER, DigitalOceanClient, Empty, MissingScope

_OPERATION = "verify"


def verify_scopes(client: DigitalOceanClient, scopes: dict[str, Callable[..., object]], why: str = "") -> None:
    """Make one call for each scope, of the list that it lets read, within one timeout.

    Raises AccessDenied for a token that is not accepted, or that lacks scopes: all of them are named, and ``why`` they
    are needed. Other errors: Retryable.
    """
    lacking: dict[str, MissingScope] = {}
    with client.budget():
        for scope, function in scopes.items():
            try:
                client.call(_OPERATION, function, answer=Empty, mutation=False, scope=scope, per_page=1)
            except MissingScope as error:
                lacking[scope] = error
    if not lacking:
        return
    names = " and ".join(lacking)
    reason = f", {why}" if why else ""
    mend = f"add {'it' if len(lacking) == 1 else 'them'}, or set {CREDENTIAL_VARIABLE} to a token that has all"
    request_id = next(iter(lacking.values())).request_id
    text = f"the token lacks the scope{'' if len(lacking) == 1 else 's'} {names}{reason}: {mend}"
    raise AccessDenied(text, provider=PROVIDER, operation=_OPERATION, request_id=request_id)
