"""The Dockerfile: what it says, and what its commands make when they are run without a container engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

import flipop_core
from tests.packaging.dockerfile import assignments, carry_out, ignored, parse
from tests.packaging.tools import REPOSITORY

TEXT = (REPOSITORY / "Dockerfile").read_text()
DOCKERFILE = parse(TEXT)
BUILD, FINAL = DOCKERFILE.stages
IGNORED = [line for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
UID = "65532"
EXTRA = "aws"  # one is enough, and is compiled sooner than all


class TestText:
    def test_hadolint(self, tools: Path) -> None:
        done = subprocess.run(
            [tools / "hadolint", REPOSITORY / "Dockerfile"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout

    def test_hadolint_finds_what_is_wrong(self, tools: Path, tmp_path: Path) -> None:
        wrong = tmp_path / "Dockerfile"
        wrong.write_text("FROM python\nRUN cd /src && pip install flipop-core\n")
        done = subprocess.run([tools / "hadolint", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "DL3006" in done.stdout

    def test_both_stages_start_from_one_image_with_a_place_for_its_digest(self) -> None:
        assert BUILD.base == FINAL.base == "python:${PYTHON_VERSION}-slim-${DEBIAN_RELEASE}${PYTHON_DIGEST}"
        version = DOCKERFILE.arguments["PYTHON_VERSION"]
        assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
        assert DOCKERFILE.arguments["PYTHON_DIGEST"] == ""

    def test_the_controller_is_a_numbered_user_and_gets_signals(self) -> None:
        assert FINAL.of("USER") == [f"{UID}:{UID}"]
        assert FINAL.of("ENTRYPOINT") == ['["flipop"]']
        assert FINAL.of("STOPSIGNAL") == ["SIGTERM"]
        assert FINAL.of("CMD") == []

    def test_it_agrees_with_the_deployment(self) -> None:
        documents = yaml.safe_load_all((REPOSITORY / "deploy" / "workload.yaml").read_text())
        (pod,) = (each["spec"]["template"]["spec"] for each in documents if each and each["kind"] == "Deployment")
        assert str(pod["securityContext"]["runAsUser"]) == UID
        ports = [port["containerPort"] for port in pod["containers"][0]["ports"]]
        assert [str(port) for port in ports] == FINAL.of("EXPOSE")

    def test_all_extras_are_in_by_default(self) -> None:
        (extras,) = (assignments(value)["EXTRAS"] for value in BUILD.of("ARG") if value.startswith("EXTRAS="))
        assert set(extras.split(",")) == set(PROJECT["optional-dependencies"])

    def test_labels(self) -> None:
        labels = assignments(FINAL.of("LABEL")[0])
        prefix = "org.opencontainers.image."
        assert labels[f"{prefix}licenses"] == PROJECT["license"]
        assert labels[f"{prefix}description"] == PROJECT["description"]
        assert labels[f"{prefix}source"] == PROJECT["urls"]["Source"]
        assert {f"{prefix}{name}" for name in ("title", "version", "revision", "created", "url")} <= labels.keys()

    def test_the_final_stage_runs_nothing_and_takes_only_the_environment(self) -> None:
        assert FINAL.of("RUN") == []
        assert FINAL.of("ADD") == BUILD.of("ADD") == []
        assert FINAL.of("COPY") == ["--from=build /opt/flipop /opt/flipop"]

    def test_every_installation_demands_hashes(self) -> None:
        installing = [line for line in BUILD.of("RUN") if "pip install" in line or "uv build" in line]
        assert len(installing) == 3
        for line in installing:
            assert "--require-hashes" in line

    def test_the_context_has_no_tests_and_no_secrets(self) -> None:
        left_out = ["plugins/flipop_do/tests/test_dns.py", "plugins/flipop_aws/flipop_aws_testserver/server.py", ".env"]
        assert [path for path in left_out if not ignored(path, IGNORED)] == []
        taken = [
            "pyproject.toml",
            "plugins/flipop_do/flipop_do/dns.py",
            "plugins/flipop_do/LICENSE",
            "flipop_core/cli/app.py",
        ]
        assert [path for path in taken if ignored(path, IGNORED)] == []
        assert ignored("flipop_core/cli/__pycache__/app.cpython-314.pyc", IGNORED)


class Image(msgspec.Struct, frozen=True):
    """What the final image would hold, below a directory, and whom its programs are run as."""

    root: Path
    as_user: tuple[str, ...]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point as the image would."""
        environment = assignments(FINAL.of("ENV")[0])
        environment["PATH"] = (
            environment["PATH"].replace("/opt/", f"{self.root}/opt/").replace("$PATH", "/usr/bin:/bin")
        )
        command = [*self.as_user, f"{self.root}/opt/flipop/bin/flipop", *arguments]
        return subprocess.run(
            command, cwd="/", env={**environment, "HOME": "/"}, capture_output=True, text=True, timeout=60, check=False
        )

    def files(self) -> dict[str, float]:
        """Return all paths with the times of their last change."""
        return {str(path): path.lstat().st_mtime for path in self.root.rglob("*")}


def _interpreter() -> tuple[Path, tuple[str, ...]]:
    """Return a Python that the image's user can run, and the command that becomes that user.

    Only root can become another user. Where no Python suits that one, root stays but loses the power to write where
    permissions forbid it.
    """
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return Path(sys.executable), ()
    become = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups")
    fits = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    for candidate in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        if subprocess.run([*become, candidate, "-c", fits], capture_output=True, check=False).returncode == 0:
            return candidate, become
    return Path(sys.executable), ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not in pytest's directory, which no other user may enter.
    root = Path(tempfile.mkdtemp(prefix="flipop-image-"))
    root.chmod(0o755)
    python, as_user = _interpreter()
    (root / "bin").mkdir()
    (root / "bin" / "python").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (root / "bin" / "python").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment.update(PATH=f"{root / 'bin'}:{environment['PATH']}", EXTRAS=EXTRA)
    # The image wants no cache; a test that downloads all packages each time helps nobody.
    cached = [
        msgspec.structs.replace(each, value=each.value.replace("UV_NO_CACHE=1", "")) for each in BUILD.instructions
    ]
    try:
        carry_out(msgspec.structs.replace(BUILD, instructions=tuple(cached)), REPOSITORY, IGNORED, root, environment)
        shutil.rmtree(root / "src")
        subprocess.run(["chmod", "-R", "a-w", root], check=True)
        yield Image(root, as_user)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{error}\n{error.stdout}\n{error.stderr}")
    finally:
        subprocess.run(["chmod", "-R", "u+w", root], check=True)
        shutil.rmtree(root)


class TestCommands:
    def test_the_controller_runs_read_only_and_writes_nothing(self, image: Image) -> None:
        before = image.files()
        version = image.run("version")
        assert (version.returncode, version.stderr) == (0, "")
        assert version.stdout.startswith(f"flipop {flipop_core.__version__} ")
        providers = image.run("providers")
        assert providers.returncode == 0
        assert [name for name in PROJECT["optional-dependencies"] if name in providers.stdout] == [EXTRA]
        crds = image.run("crds")
        assert crds.stdout == (REPOSITORY / "deploy" / "crds.yaml").read_text()
        assert image.files() == before

    def test_its_user_cannot_write(self, image: Image) -> None:
        target = image.root / "opt" / "flipop" / "bin" / "written"
        done = subprocess.run([*image.as_user, "touch", target], capture_output=True, check=False)
        assert done.returncode != 0
        assert not target.exists()

    def test_all_is_compiled_and_checked_against_nothing(self, image: Image) -> None:
        sources = [
            path for path in (image.root / "opt/flipop/lib").rglob("*.py") if "site-packages/flipop" in str(path)
        ]
        assert len(sources) > 80
        for source in sources:
            (compiled,) = (source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc")
            # Bit 0: checked by a hash, not by time; bit 1, to look at the source's hash, is not set.
            assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 1

    def test_only_what_is_needed_is_in_it(self, image: Image) -> None:
        (packages,) = image.root.glob("opt/flipop/lib/python3*/site-packages")
        present = {path.name for path in packages.iterdir()}
        assert {name for name in present if name.startswith("flipop") and "-" not in name} == {
            "flipop_core",
            "flipop_aws",
        }
        assert not present & {"pydo", "pip", "uv", "hatchling", "pytest", "moto", "mypy"}


def test_an_unknown_extra_ends_the_build(image: Image) -> None:
    script = str(REPOSITORY / "requirements" / "wheels.py")
    command = [sys.executable, script, str(image.root / "opt/wheels"), "azure"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no extra 'azure': choose from aws, cloudflare, digitalocean" in done.stderr
