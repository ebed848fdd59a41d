"""Broken plugins installed beside good ones, each from a wheel: `flipop providers` names them, and the rest works."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.distributions import Distributions, Environment, create
from tests.packaging.tools import install

_OFFER = """
from flipop_core import CredentialSpec, ProviderCapabilities, ProviderFactory, hookimpl

@hookimpl
def flipop_dns_providers():
    return [{}]
"""
_FACTORY = "ProviderFactory(name={!r}, summary='s', credentials=(), build=object, capabilities={})"

#: Of each plugin: its module, and what is said of it.
PLUGINS: Mapping[str, tuple[str, str]] = {
    "fails-at-import": ("raise RuntimeError('at import')", "cannot be imported: RuntimeError: at import"),
    "needs-missing-sdk": ("import a_missing_sdk", "No module named 'a_missing_sdk': reinstall or uninstall"),
    "wrong-syntax": ("def (", "cannot be imported: SyntaxError"),
    "exits": ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    "wrong-type": (_OFFER.format("'cloud'"), "str is no ProviderFactory"),
    "wrong-capabilities": (_OFFER.format(_FACTORY.format("mine", "{}")), "must be ProviderCapabilities, not dict"),
    "taken-name": (
        _OFFER.format(_FACTORY.format("cloudflare", "ProviderCapabilities()")),
        "dns provider 'cloudflare' is already offered by plugin 'cloudflare'",
    ),
    "no-hook": ("", "implements no hook"),
    "slow-import": (
        "import time; time.sleep(1.5)" + _OFFER.format(_FACTORY.format("slow", "ProviderCapabilities()")),
        "s to load, which every command waits for: import SDKs in build only",
    ),
    "too-new": ("flipop_api_version = '9.0'" + _OFFER.format("'never asked'"), "upgrade flipop-core"),
    "too-old": ("flipop_api_version = '0.1'" + _OFFER.format("'never asked'"), "upgrade acme-too-old"),
}

#: Plugins that are told of and work all the same.
USABLE = {"slow-import"}


def make_wheel(directory: Path, name: str, code: str) -> Path:
    """Write the wheel of a distribution ``acme-<name>`` whose entry point is a module with this code."""
    distribution = f"acme_{name.replace('-', '_')}"
    information = f"{distribution}-2.0.dist-info"
    files = {
        f"{distribution}.py": code,
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: 2.0\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/entry_points.txt": f"[flipop]\n{name} = {distribution}\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    wheel = directory / f"{distribution}-2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{information}/RECORD": f"{record}{information}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


@pytest.fixture(scope="module")
def environment(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    directory = tmp_path_factory.mktemp("broken")
    made = create(directory / "env", distributions, ["cloudflare"])
    install(made.python, ["--no-deps", *(make_wheel(directory, name, code) for name, (code, _) in PLUGINS.items())])
    return made


@pytest.fixture(scope="module")
def listed(environment: Environment) -> dict[str, Any]:
    done = environment.call("flipop", "providers", "--output", "json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("name", PLUGINS)
def test_each_is_named_with_what_is_wrong(listed: dict[str, Any], name: str) -> None:
    (plugin,) = (each for each in listed["plugins"] if each["name"] == name)
    assert (plugin["distribution"], plugin["version"]) == (f"acme-{name}", "2.0")
    assert PLUGINS[name][1] in plugin["warning" if name in USABLE else "error"]
    assert (plugin["error"] is None) is (name in USABLE)


def test_the_good_ones_work(listed: dict[str, Any], environment: Environment) -> None:
    offered = {each["name"]: each["distribution"] for each in listed["providers"]}
    assert offered == {"cloudflare": "flipop-cloudflare", "slow": "acme-slow-import"}
    code = (
        "import json; from flipop_core.registry import ProviderRegistry\n"
        "r = ProviderRegistry({'CLOUDFLARE_TOKEN': 'x'}); r.discover()\n"
        "print(json.dumps(type(r.dns_provider('cloudflare')).__module__))"
    )
    assert environment.evaluate(code).startswith("flipop_cloudflare")


def test_the_table_names_them_too(environment: Environment) -> None:
    done = environment.call("flipop", "providers")
    shown = done.stdout + done.stderr
    assert done.returncode == 0
    assert [name for name in PLUGINS if name not in shown] == []


def test_neither_version_nor_crds_loads_a_plugin(environment: Environment) -> None:
    for command in ("version", "crds"):
        done = environment.call("flipop", command)
        assert (done.returncode, done.stderr) == (0, "")
