"""axe-core, the accessibility checker that runs inside of a page: one pinned release, fetched by npm into the cache."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.tools.debian import debian_cache_directory

from .chromium import Browser

_PACKAGE = "axe-core@4.14.1"
_INTEGRITY = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_RUN = """axe.run(document, {resultTypes: ["violations"]}).then((found) => JSON.stringify(found.violations.map(
    (each) => [each.id, each.help, each.nodes.map((node) => node.target.join(" ") + ": " + node.failureSummary)])))"""


def violations(browser: Browser, source: str) -> list[Any]:
    """Return what axe-core finds wrong with the page that is open: rules with their elements."""
    browser.run(f"{source}; 0")
    found: list[Any] = json.loads(browser.run(_RUN))
    return found


def axe_source_or_skip() -> str:
    """Return axe-core's source. Skips without npm, which nothing else here needs; fails when its answer is another."""
    cached = debian_cache_directory().parent / "npm" / f"{_PACKAGE}.js"
    if not cached.is_file():
        if shutil.which("npm") is None:
            pytest.skip(f"{_PACKAGE}: npm is missing")
        cached.parent.mkdir(parents=True, exist_ok=True)
        _fetch(cached)
    return cached.read_text()


def _fetch(target: Path) -> None:
    command = ["npm", "pack", _PACKAGE, "--silent", "--pack-destination", str(target.parent)]
    subprocess.run(command, cwd=target.parent, check=True, capture_output=True, timeout=120)
    archive = target.parent / f"{_PACKAGE.replace('@', '-')}.tgz"
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    assert digest == _INTEGRITY, f"{archive.name} is not the release that is pinned"
    with tarfile.open(archive) as files:
        member = files.extractfile("package/axe.min.js")
        assert member is not None
        partial = target.with_suffix(".partial")
        partial.write_bytes(member.read())
    partial.rename(target)
