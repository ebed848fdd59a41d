"""The core alone, with each plugin, and with all, installed from wheels into clean environments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import flipop_core
from tests.packaging.distributions import PLUGINS, Distributions, Environment, create

COMBINATIONS: dict[str, tuple[str, ...]] = {
    "core": (),
    **{extra: (extra,) for extra in PLUGINS},
    "all": tuple(PLUGINS),
}

#: Top-level packages of SDKs, and those that only `flipop run` and the terminal need.
HEAVY = {"boto3", "botocore", "pydo", "azure", "requests", "cloudflare", "httpx", "kubernetes", "rich", "waitress"}

_LOADED = "import sys, json; {}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
_DISCOVER = "from flipop_core.registry import ProviderRegistry; r = ProviderRegistry(); r.discover()"

Find = Callable[[str], Environment]


@pytest.fixture(scope="module")
def environment(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Find:
    made: dict[str, Environment] = {}

    def find(name: str) -> Environment:
        if name not in made:
            made[name] = create(tmp_path_factory.mktemp(name) / "env", distributions, COMBINATIONS[name])
        return made[name]

    return find


@pytest.mark.parametrize("name", COMBINATIONS)
class TestEveryCombination:
    def test_the_command_works(self, environment: Find, name: str) -> None:
        version = environment(name).call("flipop", "version")
        assert (version.returncode, version.stdout.split()[:2]) == (0, ["flipop", flipop_core.__version__])
        crds = environment(name).call("flipop", "crds")
        assert (crds.returncode, crds.stdout.count("kind: CustomResourceDefinition")) == (0, 4)

    def test_providers_are_exactly_those_installed(self, environment: Find, name: str) -> None:
        listed = environment(name).call("flipop", "providers", "--output", "json")
        document = json.loads(listed.stdout)
        assert sorted({each["name"] for each in document["providers"]}) == sorted(COMBINATIONS[name])
        assert all(not plugin["error"] for plugin in document["plugins"])

    def test_every_module_finds_what_it_imports(self, environment: Find, name: str) -> None:
        # The kit for tests needs pytest, which is not for users.
        code = (
            "import importlib, json, pkgutil\n"
            "names = [each.name for each in pkgutil.iter_modules() if each.name.startswith('flipop_')]\n"
            "paths = {n: importlib.import_module(n).__path__ for n in names}\n"
            "modules = [m.name for n in names for m in pkgutil.walk_packages(paths[n], n + '.')"
            " if not m.name.startswith('flipop_core.testing')]\n"
            "[importlib.import_module(m) for m in modules]\n"
            "print(json.dumps([names, len(modules)]))"
        )
        packages, modules = environment(name).evaluate(code)
        assert packages == sorted(["flipop_core", *(PLUGINS[extra].replace("-", "_") for extra in COMBINATIONS[name])])
        assert modules > 100

    def test_no_sdk_is_imported_with_the_core_or_to_find_plugins(self, environment: Find, name: str) -> None:
        for code in ("import flipop_core", _DISCOVER):
            loaded = set(environment(name).evaluate(_LOADED.format(code)))
            assert "flipop_core" in loaded
            assert not loaded & HEAVY

    def test_only_the_sdks_of_the_installed_plugins_are_there(self, environment: Find, name: str) -> None:
        code = "import json, importlib.metadata as m; print(json.dumps([d.name.lower() for d in m.distributions()]))"
        there = set(environment(name).evaluate(code)) & {"boto3", "pydo", "cloudflare"}
        sdks = {"aws": "boto3", "digitalocean": "pydo", "cloudflare": "cloudflare"}
        assert there == {sdks[extra] for extra in COMBINATIONS[name]}

    def test_each_installed_distribution_agrees_with_the_others(self, environment: Find, name: str) -> None:
        checked = environment(name)
        code = (
            "import json, importlib.metadata as m\n"
            "paths = [str(f.locate()) for d in m.distributions() if d.name.startswith('flipop') for f in d.files]\n"
            "print(json.dumps([p for p in paths if p.endswith('py.typed')]))"
        )
        typed = checked.evaluate(code)
        assert len(typed) == 1 + len(COMBINATIONS[name])
        assert all(Path(path).is_file() for path in typed)


def test_every_plugin_builds_a_provider_with_its_sdk(environment: Find) -> None:
    code = (
        "import json\n"
        "from flipop_core import ProviderContext\n"
        "from flipop_core.registry import ProviderRegistry\n"
        "r = ProviderRegistry({'DIGITALOCEAN_ACCESS_TOKEN': 'x', 'CLOUDFLARE_TOKEN': 'x', 'AWS_ACCESS_KEY_ID': 'x',"
        " 'AWS_SECRET_ACCESS_KEY': 'x', 'AWS_REGION': 'us-east-1'})\n"
        "r.discover()\n"
        "names = ['aws', 'cloudflare', 'digitalocean']\n"
        "print(json.dumps([type(r.dns_provider(name)).__module__.split('.')[0] for name in names]))"
    )
    assert environment("all").evaluate(code) == ["flipop_aws", "flipop_cloudflare", "flipop_do"]
