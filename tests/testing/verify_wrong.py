"""IP providers whose `verify` each breaks one rule of the contract."""

from __future__ import annotations

import time

from flipop_core import AccessDenied, RateLimited, Rejected, Unavailable
from flipop_core.testing import InMemoryIPProvider


class VerifiesNothing(InMemoryIPProvider):
    def verify(self) -> None:
        return


class VerifyTells(InMemoryIPProvider):
    """Returns something."""

    def verify(self) -> bool:  # type: ignore[override]  # wrong on purpose
        super().verify()
        return True


class VerifyWrites(InMemoryIPProvider):
    def verify(self) -> None:
        super().verify()
        self._cloud.add_address()


class VerifyDenialIsRejected(InMemoryIPProvider):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied as error:
            raise Rejected(error.message) from None


class VerifyShowsSecrets(InMemoryIPProvider):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied as error:
            raise AccessDenied(f"{error.message}: {self._token}") from None


class VerifyHidesTheScope(InMemoryIPProvider):
    def verify(self) -> None:
        try:
            super().verify()
        except AccessDenied:
            raise AccessDenied("forbidden") from None


class VerifyFailsAsDenied(InMemoryIPProvider):
    """Takes any failure for a refusal of the credentials."""

    def verify(self) -> None:
        try:
            super().verify()
        except (RateLimited, Unavailable) as error:
            raise AccessDenied(error.message) from None


class VerifyWaitsTooLong(InMemoryIPProvider):
    def verify(self) -> None:
        try:
            super().verify()
        except Unavailable:
            time.sleep(2 * self._timeout_seconds + 1.0)
            raise
