"""The reference page is what the code says, and the code says all that an author needs. The page pins the kit, too."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

from flipop_core import DNSProvider, FirewallProvider, IPProvider
from flipop_core.testing import conformance
from flipop_core.testing.reference import PAGE, main, provider_page

from .rules import rules_of

PATH = Path(__file__).resolve().parents[2] / "docs" / PAGE
CONTRACTS = (
    conformance.IPProviderContract,
    conformance.DNSProviderContract,
    conformance.FirewallProviderContract,
)
PURE = {"normalize", "capabilities"}


def test_the_page_is_what_the_code_says() -> None:
    if os.environ.get("FLIPOP_UPDATE_SNAPSHOTS"):
        main(str(PATH.parent))
    assert PATH.read_text(encoding="utf-8") == provider_page(), "run python -m flipop_core.testing.reference docs"


def test_main_writes_the_page(tmp_path: Path) -> None:
    main(str(tmp_path))
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == provider_page()


@pytest.mark.parametrize("protocol", [IPProvider, DNSProvider, FirewallProvider])
def test_every_method_names_its_errors(protocol: type[object]) -> None:
    for name, member in vars(protocol).items():
        if inspect.isfunction(member) and not name.startswith("_") and name not in PURE:
            assert "Errors:" in (inspect.getdoc(member) or ""), f"{protocol.__name__}.{name}"


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_rule_is_described(contract: type[object]) -> None:
    for rule in rules_of(contract):
        assert f"| `{rule}` | {inspect.getdoc(getattr(contract, rule))}"[:40] in provider_page()
        assert inspect.getdoc(getattr(contract, rule))


@pytest.mark.parametrize(
    "harness",
    [conformance.IPProviderHarness, conformance.DNSProviderHarness, conformance.FirewallProviderHarness],
)
def test_every_member_of_a_harness_is_on_the_page(harness: type[object]) -> None:
    page = provider_page()
    section = page.partition(f"### `{harness.__name__}`")[2].partition("\n### ")[0]
    members = {*inspect.get_annotations(harness), *(name for name in vars(harness) if not name.startswith("_"))}
    assert set(re.findall(r"^\| `(\w+)[:(].* \| \S", section, re.MULTILINE)) == members


def test_the_kits_rules_of_thumb_are_rules() -> None:
    """The table in the kit's docstring names rules that there are."""
    named = set(re.findall(r"``(test_\w+)``", conformance.__doc__ or ""))
    assert len(named) > 15
    assert named <= set(rules_of(conformance.IPProviderContract))
