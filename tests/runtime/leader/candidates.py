"""Candidates for the lead whose connections to the API server tests disturb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from flipop_core.cluster import LEASES, KubeAPI
from flipop_core.runtime.leader import LeaderElector
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

NAME = "floating-ip-pool-controller-leader-election"

Spec = dict[str, Any]


class Link:
    """One candidate's connection to the API server. ``interfere(verb, moment)`` may raise or let time pass."""

    def __init__(self, api: KubeAPI) -> None:
        self._api = api
        self.calls: list[tuple[str, float]] = []
        self.interfere: Callable[[str, str], None] = lambda verb, moment: None

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._api, verb)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((verb, options.get("timeout_seconds", 0.0)))
            self.interfere(verb, "before")
            answer = method(*arguments, **options)
            self.interfere(verb, "after")
            return answer

        return call

    @property
    def verbs(self) -> list[str]:
        """The verbs called since last asked."""
        verbs = [verb for verb, _ in self.calls]
        self.calls.clear()
        return verbs

    def fail(self, wanted: str, error: Exception, moment: str = "before", times: int = 10**6) -> None:
        """Let calls of the verb ``wanted`` (``*``: of any) fail, before or after they have their effect."""
        left = [times]

        def interfere(verb: str, when: str) -> None:
            if (verb == wanted or wanted == "*") and when == moment and left[0]:
                left[0] -= 1
                raise error

        self.interfere = interfere

    def then(self, wanted: str, moment: str, action: Callable[[], object]) -> None:
        """Do something once, in the midst of a call."""

        def interfere(verb: str, when: str) -> None:
            if (verb, when) == (wanted, moment):
                self.work()
                action()

        self.interfere = interfere

    def delay(self, clock: FakeClock, verb: str, moment: str, seconds: float) -> None:
        self.then(verb, moment, lambda: clock.advance(seconds))

    def work(self) -> None:
        """Disturb nothing any more."""
        self.interfere = lambda verb, moment: None


class Candidate:
    def __init__(
        self, identity: str, api: KubeAPI, clock: Callable[[], float], *, namespace: str = "default", **options: Any
    ) -> None:
        self.link = Link(api)
        self.callbacks: list[str] = []
        self.elector = LeaderElector(
            cast("KubeAPI", self.link),
            namespace,
            NAME,
            identity,
            on_started=lambda: self.callbacks.append("started"),
            on_stopped=self._stopped,
            clock=clock,
            **options,
        )

    def _stopped(self) -> None:
        # What fails here would only be logged by the elector.
        self.callbacks.append("stopped" if self.elector.fence.remaining_seconds() == 0 else "stopped too late")

    def step(self) -> float:
        return self.elector.run_once()

    @property
    def leads(self) -> bool:
        return self.elector.is_leader


NewCandidate = Callable[..., Candidate]


def spec_of(api: InMemoryKubeAPI) -> Spec:
    spec: Spec = api.read(LEASES, NAME, "default")["spec"]
    return spec


def put_lease(api: InMemoryKubeAPI, **spec: Any) -> None:
    """Write the Lease as somebody else."""
    api.apply(
        {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": NAME, "namespace": "default"},
            "spec": spec,
        }
    )
