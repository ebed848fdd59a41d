"""How much is tried: little and always the same, or with ``FLIPOP_HYPOTHESIS_PROFILE=soak`` much and at random."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("FLIPOP_HYPOTHESIS_PROFILE") == "soak"


def profile(examples: int, soak_examples: int = 20_000) -> settings:
    """Return settings for so many examples in CI and in a soak."""
    return settings(
        max_examples=soak_examples if SOAK else examples,
        deadline=None,
        derandomize=not SOAK,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
