"""Running the rules of a conformance contract one by one, outside the test classes of their own."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def rules_of(contract: type[object]) -> list[str]:
    return sorted(name for name in dir(contract) if name.startswith("test_"))


def run_rule_of(contract: type[object], rule: str, harness: object) -> None:
    check: Callable[[object], None] = getattr(contract(), rule)
    check(harness)


def exercise(contract: type[object], rule: str, harness: object) -> None:
    """Run a rule, which must not be skipped."""
    try:
        run_rule_of(contract, rule, harness)
    except unittest.SkipTest as skip:
        pytest.fail(f"{rule} was not exercised: {skip}")


def skipped_rules(contract: type[object], new_harness: Callable[[], object]) -> dict[str, str]:
    """Run every rule, each with a new harness, and return the reasons of those that are skipped."""
    reasons = {}
    for rule in rules_of(contract):
        try:
            run_rule_of(contract, rule, new_harness())
        except unittest.SkipTest as skip:
            reasons[rule] = str(skip)
    return reasons


def joined(*wrong: Mapping[str, Sequence[T]]) -> dict[str, list[T]]:
    """Return all wrong providers by the rule that they break."""
    rules = sorted({rule for each in wrong for rule in each})
    return {rule: [provider for each in wrong for provider in each.get(rule, ())] for rule in rules}
