"""What is in the wheels and source distributions, and what their metadata say."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import flipop_core
from tests.packaging.distributions import CORE, DIRECTORIES, PLUGINS, Distributions
from tests.packaging.tools import REPOSITORY

NAMES = tuple(DIRECTORIES)


def members(distributions: Distributions, name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(distributions.wheel(name)) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def metadata(distributions: Distributions, name: str) -> Message:
    (text,) = (data for path, data in members(distributions, name).items() if path.endswith(".dist-info/METADATA"))
    return Parser().parsestr(text.decode())


def checked_in(package: Path) -> set[str]:
    """The files of ``package`` that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", package.name]
    listed = subprocess.run(command, cwd=package.parent, capture_output=True, text=True, check=True).stdout.split()
    return {path for path in listed if (package.parent / path).is_file()}


@pytest.mark.parametrize("name", NAMES)
class TestContents:
    def test_wheel_holds_the_package_and_nothing_else(self, distributions: Distributions, name: str) -> None:
        package = DIRECTORIES[name] / name.replace("-", "_")
        inside = {path for path in members(distributions, name) if ".dist-info/" not in path}
        assert inside == checked_in(package)
        assert f"{package.name}/py.typed" in inside
        assert not [path for path in inside if "testserver" in path or "/tests/" in path]

    def test_license_in_both(self, distributions: Distributions, name: str) -> None:
        (in_wheel,) = (
            data for path, data in members(distributions, name).items() if path.endswith(".dist-info/licenses/LICENSE")
        )
        text = (REPOSITORY / "LICENSE").read_bytes()
        assert in_wheel == text
        with tarfile.open(distributions.sdist(name)) as archive:
            (top,) = {member.name.split("/")[0] for member in archive.getmembers()}
            in_sdist = archive.extractfile(f"{top}/LICENSE")
            assert in_sdist is not None
            assert in_sdist.read() == text

    def test_sdist_holds_no_tests(self, distributions: Distributions, name: str) -> None:
        with tarfile.open(distributions.sdist(name)) as archive:
            paths = [member.name.partition("/")[2] for member in archive.getmembers()]
        parts = {path.split("/")[0] for path in paths}
        expected = {name.replace("-", "_"), "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
        assert parts == expected | ({"deploy"} if name == CORE else set())


@pytest.mark.parametrize("name", NAMES)
class TestMetadata:
    def test_version_is_that_of_the_core(self, distributions: Distributions, name: str) -> None:
        assert metadata(distributions, name)["Version"] == flipop_core.__version__

    def test_what_an_index_shows(self, distributions: Distributions, name: str) -> None:
        found = metadata(distributions, name)
        assert found["License-Expression"] == "Apache-2.0"
        assert found["Requires-Python"] == ">=3.11"
        assert found["Description-Content-Type"] == "text/markdown"
        labels = {url.partition(",")[0] for url in found.get_all("Project-URL", [])}
        assert labels == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
        classifiers = found.get_all("Classifier", [])
        assert "Typing :: Typed" in classifiers
        assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= set(classifiers)

    def test_entry_points(self, distributions: Distributions, name: str) -> None:
        (text,) = (data for path, data in members(distributions, name).items() if path.endswith("/entry_points.txt"))
        lines = text.decode().split("\n")
        if name == CORE:
            assert lines[:2] == ["[console_scripts]", "flipop = flipop_core.cli:main"]
        else:
            (extra,) = (extra for extra, plugin in PLUGINS.items() if plugin == name)
            assert lines[:2] == ["[flipop]", f"{extra} = {name.replace('-', '_')}"]

    def test_pyproject_is_valid(self, tools: Path, name: str) -> None:
        document = DIRECTORIES[name] / "pyproject.toml"
        done = subprocess.run([tools / "validate-pyproject", document], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_index_would_take_them(distributions: Distributions, tools: Path) -> None:
    files = [path for name in NAMES for path in (distributions.wheel(name), distributions.sdist(name))]
    checks = {
        "twine": ["check", "--strict", *map(str, files)],
        "check-wheel-contents": [str(distributions.wheel(name)) for name in NAMES],
    }
    for program, arguments in checks.items():
        done = subprocess.run([tools / program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_extras_are_the_plugins(distributions: Distributions) -> None:
    assert set(metadata(distributions, CORE).get_all("Provides-Extra", [])) == set(PLUGINS)


def test_a_plugin_takes_this_core_and_no_later_minor_version(distributions: Distributions) -> None:
    major, minor = flipop_core.__version__.split(".")[:2]
    for name in PLUGINS.values():
        needed = [line for line in metadata(distributions, name).get_all("Requires-Dist", []) if "flipop" in line]
        assert needed == [f"flipop-core<{major}.{int(minor) + 1},>={major}.{minor}"]


def test_the_version_is_written_once() -> None:
    for directory in DIRECTORIES.values():
        document = tomllib.loads((directory / "pyproject.toml").read_text())
        assert document["project"]["dynamic"] == ["version"]
        source = directory / document["tool"]["hatch"]["version"]["path"]
        assert source.resolve() == REPOSITORY / "flipop_core" / "__init__.py"
    images = [
        container["image"]
        for document in yaml.safe_load_all((REPOSITORY / "deploy" / "workload.yaml").read_text())
        if document and document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert [image.rpartition(":")[2] for image in images] == [flipop_core.__version__]
