"""The clocks and the chance that the runtime passes to the pure core."""

from __future__ import annotations

import datetime as dt
import random
import time

import msgspec

_chance = random.SystemRandom()


class Clocks(msgspec.Struct, frozen=True):
    """Real time; tests pass their own functions of the same names."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Return Unix time in seconds."""
        return time.time()

    def timestamp(self) -> str:
        """Return the wall time as RFC 3339, in whole seconds as Kubernetes writes it."""
        return dt.datetime.fromtimestamp(self.wall(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def jitter(self) -> float:
        """Return a factor between 0.9 and 1.1."""
        return _chance.uniform(0.9, 1.1)

    def recheck_jitter(self) -> float:
        """Return a factor between 1.0 and 1.1: rechecks are spread, and never more frequent than configured."""
        return _chance.uniform(1.0, 1.1)
