"""The site: every link leads somewhere, every page is in the navigation, what is generated is as the code makes it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import yaml

from flipop_core.cli import cli
from flipop_core.resources import routed, types

from . import providers, reference
from .blocks import DOCS, ROOT, mismatch, pages, prose
from .site_hooks import REPOSITORY, on_page_markdown

ELSEWHERE = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "deploy/chart/README.md")]
"""Pages that are not on the site, and whose links are looked at all the same."""

CONFIG = ROOT / "mkdocs.yml"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")


class Link(NamedTuple):
    page: str
    target: str


def links() -> Iterator[Link]:
    texts = pages() | {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ELSEWHERE}
    for page, text in texts.items():
        words = _CODE.sub("", prose(text))
        yield from (Link(page, target) for target in _LINK.findall(words) if "://" not in target)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as both GitHub and mkdocs make them of plain words."""
    found = _HEADING.findall(prose(path.read_text(encoding="utf-8")))
    titles = (re.sub(r"[`*]", "", title) for title in found)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_every_link_leads_somewhere() -> None:
    dead = []
    for page, target in links():
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        if not found.exists() or (anchor and anchor not in anchors(found)):
            dead.append(f"{page}: {target}")
    assert dead == []


def test_links_are_looked_at() -> None:
    assert Link("README.md", "docs/howto/aws.md") in set(links())
    assert "custom-resources" in anchors(DOCS / "reference" / "resources.md")


class _Loader(yaml.SafeLoader):
    """Passes over what mkdocs alone knows."""


def navigation() -> list[str]:
    config = yaml.load(CONFIG.read_text(encoding="utf-8"), Loader=_Loader)
    return list(_leaves(config["nav"]))


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from _leaves(list(entry.values()))
    else:
        for each in entry:
            yield from _leaves(each)


def test_the_navigation_has_each_page_once() -> None:
    assert sorted(navigation()) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_the_index_of_how_to_guides_has_each() -> None:
    guides = {path.name for path in (DOCS / "howto").glob("*.md")} - {"index.md"}
    assert {target for page, target in links() if page == "docs/howto/index.md"} == guides


# -- what is made from the code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", reference.pages(), ids=lambda path: path.name)
def test_the_reference_is_as_the_code_makes_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.pages()[path], "run: make docs"


def test_the_reference_has_each_field() -> None:
    page = reference.resources_page()
    for name in ("desiredIPs", "gracePeriods.nodeNotReadySeconds", "match.tolerations[].key", "ips.<key>.state"):
        assert f"| `{name}` |" in page, name
    assert "| `provider` | string | *required* |" in page
    assert "*Must be: not empty; at most 63 characters.*" in page
    assert "one of `Delete`, `Retain`" in page


def test_the_providers_page_tells_every_capability() -> None:
    assert providers.untold_capabilities() == set()
    page = providers.providers_page()
    assert "| `CLOUDFLARE_TOKEN` | yes |" in page
    assert "`ec2:AssociateAddress`" in page


def test_each_annotation_is_on_the_page_of_objects() -> None:
    page = (DOCS / "reference" / "objects.md").read_text(encoding="utf-8")
    found = {
        value
        for module in (types, routed)
        for name, value in vars(module).items()
        if name.endswith(("_ANNOTATION", "_FINALIZER"))
    }
    assert len(found) >= 5
    assert [name for name in sorted(found) if f"| `{name}` |" not in page] == []


def test_each_alert_is_on_the_page_of_monitoring() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    page = (DOCS / "howto" / "monitor.md").read_text(encoding="utf-8")
    assert alerts == set(re.findall(r"^\| `(Flipop\w+)` \|", page, re.MULTILINE))


def test_each_reason_on_the_page_of_troubleshooting_is_one() -> None:
    from flipop_core.resources.reasons import REASONS

    page = (DOCS / "howto" / "troubleshoot.md").read_text(encoding="utf-8")
    named = {
        each for row in re.findall(r"^\| (`[A-Z].*?) \|", page, re.MULTILINE) for each in re.findall(r"`(\w+)`", row)
    }
    assert len(named) > 20
    assert named <= {reason.name for reason in REASONS.values()}


# -- commands in the text --------------------------------------------------------------------------------------------


def inline(program: str) -> Iterator[tuple[str, list[str]]]:
    """The commands in the text of pages: page, and words after the program's name."""
    for page, text in pages().items():
        for code in re.findall(rf"`{program} ([^`]+)`", prose(text)):
            yield page, code.replace("\n", " ").split()


def test_commands_of_flipop_in_the_text_exist() -> None:
    found = [(page, words) for page, words in inline("flipop") if re.fullmatch("[a-z]+", words[0])]
    assert len(found) > 20
    for page, (name, *words) in found:
        assert name in cli.commands, f"{page}: flipop {name}"
        options = {option for each in cli.commands[name].params for option in each.opts} | {"--help", "-h"}
        given = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert given <= options, f"{page}: flipop {name} has no {given - options}"


def test_targets_of_make_in_the_text_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = list(inline("make"))
    assert len(found) > 5
    assert [(page, words[0]) for page, words in found if words[0] not in targets] == []


# -- tools -----------------------------------------------------------------------------------------------------------


_PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="howto/aws.md"))


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("../../deploy/aws/iam-policy.json", f"{REPOSITORY}deploy/aws/iam-policy.json"),
        ("../../deploy/chart/README.md#rights", f"{REPOSITORY}deploy/chart/README.md#rights"),
        ("../metrics.md#pools", "../metrics.md#pools"),
        ("./dns.md", "./dns.md"),
    ],
)
def test_links_out_of_the_site_lead_to_the_repository(link: str, expected: str) -> None:
    assert on_page_markdown(f"See [it]({link}).", page=_PAGE) == f"See [it]({expected})."


@pytest.mark.parametrize(
    ("expected", "printed", "missing"),
    [
        ("NAME  AGE\na     3m", "NAME   AGE\na      12s\n", ""),
        ("NAME  AGE", "NAME  READY  AGE", "NAME  AGE"),
        ("10 ms  moved", "1.3 s  moved", ""),
        ("a\n…\nc", "a\nb\nb\nc", ""),
        ("a\nc", "a\nb\nc", "c"),
        ("a", "a\nb", "(nothing more, but there is: b)"),
        ("a\n…", "a\nb", ""),
        ("a…", "abc", ""),
        ("…\nz", "a\nb", "z"),
    ],
)
def test_output_is_compared(expected: str, printed: str, missing: str) -> None:
    assert mismatch(expected, printed) == missing


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        reason = "mkdocs-material is missing: `make setup` installs it"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--config-file",
            str(CONFIG),
            "--site-dir",
            str(tmp_path),
        ],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    fetched = {
        address
        for path in tmp_path.rglob("*.html")
        for address in re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\s\">]+)", path.read_text("utf-8")
        )
    }
    assert fetched == set(), "a page fetches something from elsewhere"
    assert (tmp_path / "howto" / "aws.html").is_file()
