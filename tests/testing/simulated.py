"""What the conformance harnesses of all in-memory providers have in common: the cloud, its time and its faults."""

from __future__ import annotations

import time
from threading import Event
from typing import Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from flipop_core import AccessDenied, OutcomeUnknown, ProviderFactory, RateLimited, Unavailable
from flipop_core.testing import CloudConfig, FakeClock, FaultKind, InMemoryCloud
from flipop_core.testing.providers import _Client, in_memory_factories

TOKEN = "memory-token-1234"
WRONG_TOKEN = "memory-token-5678"

P = TypeVar("P", bound=_Client)


class SimulatedAccount(Generic[P]):
    """One account of a cloud and a provider of it. ``provider`` may be a wrong one.

    The harness moves the cloud's clock, unless it runs in ``real`` time. ``scope`` is the permission to read that
    `without_scope` takes away; ``reads`` are the methods that change nothing.
    """

    scope: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    timeout_seconds = 0.15
    poll_seconds = 0.5
    secrets: tuple[str, ...] = (TOKEN, WRONG_TOKEN)
    factory: ProviderFactory | None
    provider: Any
    faults: frozenset[FaultKind] = frozenset(("rate_limited", "unavailable", "lost_answer", "hang"))

    def __init__(self, config: CloudConfig, provider: type[P], *, real: bool = False) -> None:
        self.clock = FakeClock()
        self.real = real
        if real:
            self.poll_seconds = 0.01
        self.cloud = (
            InMemoryCloud(config) if real else InMemoryCloud(config, clock=self.clock, sleep=self.clock.advance)
        )
        self._class = provider
        self.provider: P = self._with_token(TOKEN)
        (self.factory,) = in_memory_factories(self.cloud).flipop_ip_providers()

    def _with_token(self, token: str) -> P:
        return self._class(self.cloud, timeout_seconds=self.timeout_seconds, token=token)

    def node_ids(self, count: int) -> list[str]:
        first = len(self.cloud.nodes())
        return [self.cloud.add_node(f"node-{number}") for number in range(first, first + count)]

    def foreign_node_id(self) -> str:
        return "digitalocean://4711"

    def unknown_node_id(self) -> str | None:
        return "memory://nowhere"

    def wait(self, seconds: float) -> None:
        if self.real:
            time.sleep(seconds)
        else:
            self.clock.advance(seconds)

    def with_wrong_credentials(self) -> P | None:
        return self._with_token(WRONG_TOKEN)

    def without_scope(self) -> tuple[P, str] | None:
        self.cloud.faults.add("verify", error=AccessDenied(f"the token lacks {self.scope}"))
        return self.provider, self.scope

    def announce_rate_limit(self, limit: int) -> bool:
        self.cloud.config = replace(self.cloud.config, request_limit=limit)
        return True

    def fail_next(self, operation: str, kind: FaultKind, *, retry_after_seconds: float = 0.0) -> None:
        script = self.cloud.faults
        lost = Unavailable if operation in self.reads else OutcomeUnknown
        match kind:
            case "rate_limited":
                script.add(operation, error=RateLimited("slow down", retry_after_seconds=retry_after_seconds))
            case "unavailable":
                script.add(operation, error=lost("answered 503", provider="memory", operation=operation))
            case "lost_answer":
                script.add(operation, after_effect=True)
            case "hang":
                script.add(operation, hang=Event())
