"""What the conformance harnesses of all roles have in common: one account of the HTTP DigitalOcean, and its faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from flipop_core import ProviderContext, ProviderFactory
from flipop_core.testing.conformance import FaultKind
from flipop_do import CREDENTIAL_VARIABLE
from flipop_do_testserver import DigitalOceanServer
from tests.support.faults import CONFORMANCE_KINDS

TOKEN, WRONG_TOKEN = "dop_v1_conformance_right", "dop_v1_conformance_wrong"


class ServedAccount:
    """An account and a provider of it, both of one token.

    ``offer`` is the plugin's hook. `without_scope` leaves the token the scopes ``narrow``, which lack ``missing``.
    """

    offer: ClassVar[Callable[[], Any]]
    narrow: ClassVar[str]
    missing: ClassVar[str]
    timeout_seconds = 1.2
    secrets: tuple[str, ...] = (TOKEN, WRONG_TOKEN)
    faults: frozenset[FaultKind] = frozenset(CONFORMANCE_KINDS)
    poll_seconds = 0.02
    factory: ProviderFactory | None
    provider: Any

    def __init__(self, server: DigitalOceanServer) -> None:
        self.server = server
        (self._factory,) = type(self).offer()
        self.factory = self._factory
        self.provider = self._with_token(TOKEN)

    def request(self, operation: str) -> tuple[str, str]:
        """Return the method and the path, as regular expressions, of the request that an operation rests on."""
        raise NotImplementedError

    def _with_token(self, token: str) -> Any:
        credentials = {CREDENTIAL_VARIABLE: token}
        return self._factory.build(
            ProviderContext(credentials, endpoint=self.server.url, timeout_seconds=self.timeout_seconds)
        )

    def with_wrong_credentials(self) -> Any:
        return self._with_token(WRONG_TOKEN)

    def without_scope(self) -> tuple[Any, str] | None:
        self.server.settings.scopes = self.narrow
        return self.provider, self.missing

    def announce_rate_limit(self, limit: int) -> bool:
        self.server.settings.hourly_limit = limit
        return True

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        seconds = retry_after_seconds if kind == "rate_limited" else 30.0
        method, path = self.request(operation)
        self.server.faults.add(method, path, kind=CONFORMANCE_KINDS[kind], status=503, seconds=seconds)
