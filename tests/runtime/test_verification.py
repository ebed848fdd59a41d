"""Credentials are verified once for each account that needs it, and again until they are good."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from flipop_core.errors import AccessDenied, ConfigError, RateLimited, Unavailable
from flipop_core.hookspecs import hookimpl
from flipop_core.model import AccountRef
from flipop_core.providers import CredentialSpec, ProviderContext, ProviderFactory
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.metrics import Metrics
from flipop_core.runtime.verification import UNUSED_SECONDS, Verification
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.cloud import InMemoryCloud
from flipop_core.testing.faults import Fault
from flipop_core.testing.providers import InMemoryDNSProvider, InMemoryIPProvider

VARIABLE, TOKEN = "CLOUD_TOKEN", "cloud-token-0123456789"
REF = AccountRef("cloud")
RECHECK_SECONDS = 300.0
DENIED = AccessDenied("the token lacks zone:read: add it")


class Rig:
    """A verification without a controller around it: one provider ``cloud``, with a simulated cloud for each role."""

    def __init__(self, *, required: bool = True, environ: dict[str, str] | None = None) -> None:
        self.clouds = {"ip": InMemoryCloud(), "dns": InMemoryCloud()}
        self.broken: ConfigError | None = None
        self.clock = FakeClock()
        self.queue = WorkQueue(clock=self.clock)
        self.registry = ProviderRegistry({VARIABLE: TOKEN} if environ is None else environ)
        plugin = SimpleNamespace(
            flipop_ip_providers=hookimpl(lambda: [self._factory("ip", InMemoryIPProvider, required)]),
            flipop_dns_providers=hookimpl(lambda: [self._factory("dns", InMemoryDNSProvider, required)]),
        )
        self.registry.register(plugin, name="cloud")
        self.metrics = Metrics(CollectorRegistry())
        self.woken = 0
        self.opened: list[str] = []
        self.lock = threading.RLock()
        self.verification = Verification(
            self.registry,
            lock=self.lock,
            queue=self.queue,
            metrics=self.metrics,
            clock=self.clock,
            jitter=lambda: 1.0,
            recheck_seconds=RECHECK_SECONDS,
            wake=self._wake,
        )

    def _factory(self, role: str, provider: type[Any], required: bool) -> ProviderFactory:
        def build(context: ProviderContext) -> object:
            assert context.credentials[VARIABLE] == TOKEN
            if self.broken is not None:
                raise self.broken
            return provider(self.clouds[role])

        return ProviderFactory("cloud", "a cloud", (CredentialSpec(VARIABLE, "token", required),), build)

    def _wake(self) -> None:
        self.woken += 1

    def begin(self) -> None:
        with self.lock:
            self.verification.begin()
        self.run_for(UNUSED_SECONDS)

    def use(self, role: Any, provider: Any = None) -> Any:
        """Let a resource use the provider, as an account is built."""
        build = self.registry.ip_provider if role == "ip" else self.registry.dns_provider
        provider = provider or build("cloud")
        with self.lock:
            self.verification.use(role, REF, provider, lambda: self.opened.append(role))
        self.run_for(0.0)
        return provider

    def refuse(self, role: str, error: Exception = DENIED, times: int | None = None) -> Fault:
        return self.clouds[role].faults.add("verify", error=error, times=times)

    def run_for(self, seconds: float) -> None:
        """Let so much time pass, and all that is due end."""
        self.clock.advance(seconds)
        deadline = time.monotonic() + 30.0
        while True:
            key = self.queue.get(timeout_seconds=0)
            if key is not None:
                with self.lock:
                    self.verification.reconcile(key)
                self.queue.done(key)
            elif not self.under_way():
                return
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def under_way(self) -> bool:
        with self.lock:
            return any(account.calls is not None for account in self.verification._accounts.values())

    def calls(self) -> tuple[int, int]:
        """Return how often each role was verified."""
        return len(self.clouds["ip"].faults.calls("verify")), len(self.clouds["dns"].faults.calls("verify"))

    def denied(self, role: Any) -> str:
        hold = self.verification.denied(role, REF)
        assert hold is None or hold.reason == "AccessDenied"
        return hold.message if hold is not None else ""

    def accepted(self, role: str) -> float | None:
        labels = {"provider": "cloud", "role": role}
        return self.metrics.registry.get_sample_value("flipop_providers_credentials_accepted", labels)


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as captured:
        yield captured


def levels(logs: list[Any]) -> list[str]:
    return [line["log_level"] for line in logs]


def test_what_is_configured_is_verified_in_all_roles_though_nothing_uses_it(logs: list[Any]) -> None:
    rig = Rig()
    rig.begin()
    assert rig.calls() == (1, 1)
    assert (rig.accepted("ip"), rig.accepted("dns")) == (1.0, 1.0)
    assert levels(logs) == ["info", "info"]
    assert TOKEN not in str(logs)


@pytest.mark.parametrize("rig", [Rig(environ={}), Rig(required=False)], ids=["not set", "optional"])
def test_what_is_not_configured_is_left_alone(rig: Rig) -> None:
    rig.begin()
    rig.run_for(3 * RECHECK_SECONDS)
    assert rig.calls() == (0, 0)


def test_an_optional_credential_is_verified_once_it_is_used() -> None:
    rig = Rig(required=False)
    rig.begin()
    rig.use("dns")
    assert rig.calls() == (0, 1)


def test_of_a_used_provider_only_the_roles_that_are_used(logs: list[Any]) -> None:
    rig = Rig()
    rig.refuse("dns")
    rig.use("ip")
    rig.begin()
    rig.run_for(3 * RECHECK_SECONDS)
    assert rig.calls() == (1, 0)
    assert levels(logs) == ["info"]


def test_what_has_passed_is_never_verified_again() -> None:
    rig = Rig()
    rig.begin()
    rig.use("ip")
    rig.use("ip")
    rig.begin()
    rig.run_for(10 * RECHECK_SECONDS)
    assert rig.calls() == (1, 1)


def test_a_refusal_is_told_and_tried_again_at_each_recheck_until_it_passes(logs: list[Any]) -> None:
    rig = Rig()
    fault = rig.refuse("dns")
    rig.use("dns")
    message = f"credentials of DNS provider cloud ({VARIABLE}): {DENIED.message}"
    assert rig.denied("dns") == message
    assert rig.denied("ip") == ""
    assert rig.woken == 1
    assert rig.accepted("dns") == 0.0
    (line,) = logs
    assert (line["log_level"], line["provider"], line["role"], line["credentials"]) == (
        "error",
        "cloud",
        "dns",
        VARIABLE,
    )
    assert "zone:read" in line["error"]
    rig.run_for(RECHECK_SECONDS - 1.0)
    assert rig.calls() == (0, 1)
    rig.run_for(1.0)
    assert rig.calls() == (0, 2)
    assert rig.woken == 1, "nothing has changed"
    assert rig.opened == []
    rig.clouds["dns"].faults.remove(fault)
    rig.run_for(RECHECK_SECONDS)
    assert rig.opened == ["dns"]
    assert rig.calls() == (0, 3)
    assert rig.denied("dns") == ""
    assert rig.woken == 2
    assert rig.accepted("dns") == 1.0
    rig.run_for(10 * RECHECK_SECONDS)
    assert rig.calls() == (0, 3)


def test_a_refusal_before_all_that_is_configured_is_looked_at_is_not_tried_again_for_it() -> None:
    rig = Rig()
    rig.refuse("ip")
    with rig.lock:
        rig.verification.begin()
    rig.use("ip")
    rig.run_for(UNUSED_SECONDS)
    assert rig.calls() == (1, 0)
    rig.run_for(RECHECK_SECONDS)
    assert rig.calls() == (2, 0)
    rig.begin()  # leading again
    assert rig.calls() == (3, 0)


def test_a_token_that_is_good_for_nothing_is_an_error_though_nothing_uses_it(logs: list[Any]) -> None:
    rig = Rig()
    rig.refuse("ip")
    rig.refuse("dns")
    rig.begin()
    assert levels(logs) == ["error", "error"]
    rig.run_for(RECHECK_SECONDS)
    assert rig.calls() == (2, 2)


def test_a_token_that_is_too_narrow_for_what_nothing_uses_is_a_warning_and_no_more(logs: list[Any]) -> None:
    rig = Rig()
    rig.refuse("dns")
    rig.begin()
    assert levels(logs) == ["info", "warning"]
    rig.run_for(3 * RECHECK_SECONDS)
    assert rig.calls() == (1, 1)
    assert rig.denied("dns") == ""
    # As soon as it is used it matters.
    rig.use("dns")
    assert rig.calls() == (1, 2)
    assert levels(logs) == ["info", "warning", "error"]
    assert rig.denied("dns")


def test_a_passing_failure_says_nothing_of_the_credentials(logs: list[Any]) -> None:
    rig = Rig()
    rig.refuse("ip", Unavailable("503"), times=1)
    rig.refuse("ip", KeyError("defect"), times=1)
    rig.refuse("ip", RateLimited("slow down", retry_after_seconds=1000.0), times=1)
    rig.use("ip")
    assert (rig.denied("ip"), rig.woken, levels(logs)) == ("", 0, ["warning"])
    rig.run_for(RECHECK_SECONDS)
    assert rig.calls() == (2, 0)
    rig.run_for(RECHECK_SECONDS)
    assert rig.calls() == (3, 0)
    rig.run_for(999.0)
    assert rig.calls() == (3, 0), "a rate limit is waited for"
    rig.run_for(1.0)
    assert rig.calls() == (4, 0)
    assert rig.accepted("ip") == 1.0


def test_a_refusal_stands_while_it_cannot_be_verified() -> None:
    rig = Rig()
    rig.refuse("ip", times=1)
    rig.refuse("ip", Unavailable("503"), times=1)
    rig.use("ip")
    rig.run_for(RECHECK_SECONDS)
    assert rig.denied("ip")
    rig.run_for(RECHECK_SECONDS)
    assert not rig.denied("ip")


def test_a_provider_that_cannot_be_built_is_told_and_tried_again(logs: list[Any]) -> None:
    rig = Rig()
    rig.broken = ConfigError(f"{VARIABLE} holds white space")
    rig.begin()
    assert levels(logs) == ["error", "error"]
    assert VARIABLE in logs[0]["error"]
    rig.broken = None
    rig.run_for(RECHECK_SECONDS)
    assert rig.calls() == (1, 1)


def test_new_credentials_are_verified_again() -> None:
    rig = Rig()
    rig.use("ip")
    rig.refuse("ip")
    rig.use("ip", InMemoryIPProvider(rig.clouds["ip"]))
    assert rig.calls() == (2, 0)
    assert rig.denied("ip")


def test_credentials_of_a_secret_are_named_by_it(logs: list[Any]) -> None:
    rig = Rig()
    rig.refuse("ip")
    ref = AccountRef("cloud", credentials="default/token")
    with rig.lock:
        rig.verification.use("ip", ref, rig.registry.ip_provider("cloud"), lambda: None)
    rig.run_for(0.0)
    hold = rig.verification.denied("ip", ref)
    assert hold is not None
    assert "(Secret default/token)" in hold.message
    assert rig.denied("ip") == ""
    assert logs[0]["provider"] == "cloud@default/token"


def test_a_hang_keeps_nobody_waiting_and_is_waited_for_at_the_end() -> None:
    rig = Rig()
    released = threading.Event()
    rig.clouds["ip"].faults.add("verify", hang=released)
    provider = InMemoryIPProvider(rig.clouds["ip"], timeout_seconds=10.0)
    with rig.lock:
        rig.verification.use("ip", REF, provider, lambda: None)
    key = rig.queue.get(timeout_seconds=0)
    assert key is not None
    with rig.lock:
        rig.verification.reconcile(key)
        rig.verification.reconcile(key)  # it is under way
    rig.queue.done(key)
    assert rig.clouds["ip"].faults.wait_for_calls("verify", 1)
    assert not rig.verification.close(0.01)
    released.set()
    assert rig.verification.close(5.0)
    assert rig.calls() == (1, 0)
