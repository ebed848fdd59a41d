"""What providers of any role can do wrong in `verify`, in what they declare and report, each breaking one rule."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from flipop_core import AccessDenied, FirewallRule, ProviderCapabilities, RateLimit, RateLimited, Rejected, Unavailable
from flipop_core.testing.providers import _Client

P = TypeVar("P", bound=_Client)


class VerifiesNothing(_Client):
    def verify(self) -> None:
        return


class VerifyTells(_Client):
    """Returns something."""

    def verify(self) -> bool:  # type: ignore[override]  # wrong on purpose
        super().verify()
        return True


class VerifyWrites(_Client):
    """Tries a change of everything out, and leaves it."""

    def verify(self) -> None:
        super().verify()
        self._cloud.add_address()
        self._cloud.zones.writes += 1
        with suppress(KeyError):
            self._cloud.firewalls.put_rules("fw-1", [FirewallRule("tcp", 1)])


class VerifyDenialIsRejected(_Client):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied as error:
            raise Rejected(error.message) from None


class VerifyShowsSecrets(_Client):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied as error:
            raise AccessDenied(f"{error.message}: {self._token}") from None


class VerifyHidesTheScope(_Client):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied:
            raise AccessDenied("forbidden") from None


class VerifyFailsAsDenied(_Client):
    """Takes any failure for a refusal of the credentials."""

    def verify(self) -> None:
        try:
            super().verify()
        except (RateLimited, Unavailable) as error:
            raise AccessDenied(error.message) from None


class VerifyWaitsTooLong(_Client):
    def verify(self) -> None:
        try:
            super().verify()
        except Unavailable:
            time.sleep(2 * self._timeout_seconds + 1.0)
            raise


class DeclaresOtherwise(_Client):
    """Once built, declares something else than the factory."""

    @property
    def capabilities(self) -> ProviderCapabilities:
        return replace(self._capabilities, max_concurrency=self._capabilities.max_concurrency + 1)


class ReportsNoLimit(_Client):
    @property
    def rate_limit(self) -> RateLimit | None:
        return None


class ReportsALimitTooEarly(_Client):
    """Takes the documented limit for what is left, before any answer."""

    @property
    def rate_limit(self) -> RateLimit | None:
        return self._rate_limit or RateLimit(60, 60, time.monotonic())


class ReportsTheFirstLimit(_Client):
    """Goes on to tell what the first answer told."""

    @property
    def rate_limit(self) -> RateLimit | None:
        first: RateLimit | None = self.__dict__.setdefault("first", self._rate_limit)
        if first is None:
            del self.__dict__["first"]
        return first


class ReportsTheLimitAsWhatIsLeft(_Client):
    @property
    def rate_limit(self) -> RateLimit | None:
        known = self._rate_limit
        return known and replace(known, limit=known.remaining)


class ReportsTheTimeOfDay(_Client):
    @property
    def rate_limit(self) -> RateLimit | None:
        known = self._rate_limit
        return known and replace(known, seen_at=time.time())


class ReportsWhenItIsAsked(_Client):
    """Says that the answer came just now, whenever it did."""

    @property
    def rate_limit(self) -> RateLimit | None:
        known = self._rate_limit
        return known and replace(known, seen_at=time.monotonic())


class AsksForTheLimit(_Client):
    """Makes a call to know what is left."""

    @property
    def rate_limit(self) -> RateLimit | None:
        if self._rate_limit is not None:
            self.verify()
        return self._rate_limit


class ReportsTwoNumbers(_Client):
    @property
    def rate_limit(self) -> RateLimit | None:
        known = self._rate_limit
        return known and (known.limit, known.remaining)  # type: ignore[return-value]  # wrong on purpose


_WRONG: dict[str, list[type[_Client]]] = {
    "test_factory_declares_what_the_provider_does": [DeclaresOtherwise],
    "test_rate_limit_is_reported": [
        ReportsNoLimit,
        ReportsALimitTooEarly,
        ReportsTheFirstLimit,
        ReportsTheLimitAsWhatIsLeft,
        ReportsTheTimeOfDay,
        ReportsWhenItIsAsked,
        AsksForTheLimit,
        ReportsTwoNumbers,
    ],
    "test_verify_accepts_good_credentials": [VerifyWrites, VerifyTells],
    "test_verify_answered_5xx_is_retryable": [VerifyFailsAsDenied],
    "test_verify_names_the_missing_scope": [VerifyHidesTheScope, VerifiesNothing],
    "test_verify_refuses_wrong_credentials": [VerifiesNothing, VerifyDenialIsRejected, VerifyShowsSecrets],
    "test_verify_tells_a_rate_limit": [VerifyFailsAsDenied],
    "test_verify_that_hangs_ends_within_the_timeout": [VerifyWaitsTooLong, VerifyFailsAsDenied],
}


def wrong_providers(base: type[P]) -> dict[str, list[type[P]]]:
    """Return by the rule that they break the providers of one role that are wrong in these ways."""
    return {rule: [type(wrong.__name__, (wrong, base), {}) for wrong in wrongs] for rule, wrongs in _WRONG.items()}
