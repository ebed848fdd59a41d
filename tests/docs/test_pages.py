"""Every manifest of the documentation is valid, and every command does what the page says, on a real API server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore import xform_name
from click.testing import CliRunner

from flipop_core.cli import cli
from flipop_do_testserver import Settings
from tests.controlplane.api import APPLY_PATCH
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import Watchdog
from tests.e2e.aws import AWSWorld
from tests.e2e.world import API_VERSION, DEPLOY, World

from . import scenery
from .blocks import ROOT, Block, blocks, commands, pages, prose
from .session import NOT_RUN, Session

ELSEWHERE = {"docs/provider-tutorial.md": "tests/examples/test_tutorial.py"}
"""Pages whose blocks are tested by another test."""

BLOCKS = [block for page, text in pages().items() if page not in ELSEWHERE for block in blocks(page, text)]
WITH_COMMANDS = sorted({block.page for block in BLOCKS if block.language in {"sh", "console"}})

FRESH = ("README.md", "docs/tutorial/cluster.md")
ALONE = {"docs/howto/aws.md", "docs/howto/migrate.md", *FRESH}
"""Pages that install flipop themselves. The others are followed one after another where it is installed."""

ROUTED = {"docs/howto/routed-ip.md", "docs/howto/migrate-routed-ip.md"}
INSTALLED = [page for page in WITH_COMMANDS if page not in ALONE]


def manifests() -> Iterator[tuple[Block, dict[str, Any]]]:
    for block in BLOCKS:
        if block.language == "yaml":
            yield from ((block, document) for document in yaml.safe_load_all(block.text) if document)


def kubernetes_manifests() -> list[Any]:
    return [
        pytest.param(block, document, id=f"{block.where}-{document['kind']}")
        for block, document in manifests()
        if "apiVersion" in document
    ]


# -- blocks ----------------------------------------------------------------------------------------------------------


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert [
        block.where for block in BLOCKS if block.language not in {"yaml", "sh", "console", "json", "text", "python"}
    ] == []


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_pages_that_are_tested_elsewhere_are(page: str, test: str) -> None:
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_what_is_no_object_is_a_file_that_a_command_names() -> None:
    for block, document in manifests():
        if "apiVersion" not in document:
            assert block.file, block.where
            named = [
                each for other in BLOCKS if other.page == block.page for each in _lines(other) if block.file in each
            ]
            assert named, f"{block.where}: no command of the page names {block.file}"


def _lines(block: Block) -> list[str]:
    return [command.line for command in commands(block)] if block.language in {"sh", "console"} else []


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "json"], ids=lambda block: block.where
)
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "python"], ids=lambda block: block.where
)
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.where, "exec")


@pytest.mark.parametrize(("block", "document"), kubernetes_manifests())
def test_flipop_validate_takes_it(block: Block, document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    result = CliRunner().invoke(cli, ["validate", str(file)], prog_name="flipop")
    assert result.exit_code == 0, result.output


# -- the API server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(cluster: ControlPlane, helm: Path) -> ControlPlane:
    """The definitions; as if the chart had been here, which then goes on with them."""
    for document in cluster.apply(DEPLOY / "crds.yaml"):
        release = {"meta.helm.sh/release-name": "flipop", "meta.helm.sh/release-namespace": "flipop"}
        metadata = {"annotations": release, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
        name = document["metadata"]["name"]
        cluster.patch(document["kind"], name, {"metadata": metadata}, api_version=document["apiVersion"])
    return cluster


@pytest.mark.parametrize(("block", "document"), kubernetes_manifests())
def test_the_api_server_takes_it(served: ControlPlane, block: Block, document: dict[str, Any]) -> None:
    metadata = {**document["metadata"]}
    if "namespace" in metadata:
        metadata["namespace"] = "default"
    path = served.path_for(document["kind"], metadata["name"], "default", api_version=document["apiVersion"])
    query = "?dryRun=All&fieldValidation=Strict&fieldManager=docs&force=true"
    status, answer = served.request("PATCH", path + query, {**document, "metadata": metadata}, APPLY_PATCH)
    assert status in {200, 201}, f"{block.where}: {answer}"


def test_the_api_server_refuses_what_is_wrong(served: ControlPlane) -> None:
    wrong = {
        "apiVersion": API_VERSION,
        "kind": "FloatingIPPool",
        "metadata": {"name": "wrong"},
        "spec": {"provider": "a"},
    }
    path = served.path_for("FloatingIPPool", "wrong", "default", api_version=API_VERSION)
    query = "?dryRun=All&fieldValidation=Strict&fieldManager=docs&force=true"
    for spec, message in (({"provider": "a"}, "desiredIPs"), ({"provider": "a", "desiredIPs": 1, "no": 1}, "no")):
        status, answer = served.request("PATCH", path + query, {**wrong, "spec": spec}, APPLY_PATCH)
        assert status in {400, 422, 500}, answer
        assert message in str(answer)


# -- commands --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_session(
    served: ControlPlane, kubectl: Path, helm: Path, watchdog: Watchdog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[type[World]], Session]]:
    """Make a session in a world of its own; the one before is cleared away, since all have one cluster."""
    open_worlds: list[World] = []

    def close() -> None:
        while open_worlds:
            try:
                open_worlds.pop().close()
            finally:
                scenery.clear(served)

    def make(kind: type[World]) -> Session:
        close()
        directory = tmp_path_factory.mktemp("page")
        settings = () if kind is AWSWorld else (Settings(reserved_ip_limit=0),)
        world = kind(served, tmp_path_factory.mktemp("world"), watchdog, *settings)
        open_worlds.append(world)
        return Session(directory, world, kubectl, helm)

    yield make
    close()


def follow(session: Session, page: str) -> None:
    """Make the files of a page and run its commands, in its order."""
    for block in blocks(page, pages()[page]):
        if block.file:
            session.write(block.file, block.text)
        if block.language in {"sh", "console"}:
            for command in commands(block):
                session.follow(command)
    for program, *arguments in session.noted():
        CHECKS[program](arguments)


@pytest.mark.parametrize("page", FRESH)
def test_a_page_from_nothing(make_session: Callable[[type[World]], Session], page: str) -> None:
    session = make_session(World)
    scenery.droplets(session.world)
    session.write("pool.yaml", scenery.POOL)
    follow(session, page)


def test_aws(make_session: Callable[[type[World]], Session]) -> None:
    session = make_session(AWSWorld)
    assert isinstance(session.world, AWSWorld)
    scenery.instances(session.world)
    follow(session, "docs/howto/aws.md")


def test_the_migration_and_back(make_session: Callable[[type[World]], Session]) -> None:
    session = make_session(World)
    scenery.droplets(session.world)
    scenery.original(session)
    held = session.world.held()
    follow(session, "docs/howto/migrate.md")
    assert session.world.held() == held, "an address has moved"
    (image,) = session.succeed("kubectl get deployment flipop -n flipop -o jsonpath='{..image}'").split()
    assert image == "digitalocean/original:v0.0.1"


@pytest.fixture(scope="module")
def installed(make_session: Callable[[type[World]], Session]) -> Session:
    session = make_session(World)
    scenery.droplets(session.world)
    scenery.installed(session)
    scenery.prometheus_operator(session.world.cluster)
    return session


@pytest.mark.parametrize("page", INSTALLED)
def test_a_page_where_flipop_is_installed(installed: Session, page: str) -> None:
    (scenery.service if page in ROUTED else scenery.pool)(installed)
    follow(installed, page)


def inline(program: str) -> dict[str, set[str]]:
    """The commands of a program in the text of pages, and the flags that they are given there."""
    found: dict[str, set[str]] = {}
    for text in pages().values():
        for code in re.findall(rf"`{program} ([a-z]+[^`]*)`", prose(text)):
            command, *words = code.split()
            found.setdefault(command, set()).update(re.findall(r"(--[a-z-]+)", " ".join(words)))
    return found


@pytest.mark.parametrize("program", ["kubectl", "helm"])
def test_commands_in_the_text_exist(program: str, kubectl: Path, helm: Path) -> None:
    binary = {"kubectl": kubectl, "helm": helm}[program]
    found = inline(program)
    assert len(found) > 1
    for command, flags in found.items():
        arguments = [str(binary), command, "--help"]
        told = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        assert f"{program} {command}" in told.stdout, command
        assert [flag for flag in sorted(flags) if flag not in told.stdout] == [], command


# -- what is not run -------------------------------------------------------------------------------------------------


def check_aws(arguments: list[str]) -> None:
    """The SDK's description of the service has the operation, and the arguments."""
    service, operation, *rest = arguments
    model = botocore.session.get_session().get_service_model(service)
    (name,) = [each for each in model.operation_names if xform_name(each, "-") == operation]
    shape = model.operation_model(name).input_shape
    known = {xform_name(member, "-") for member in shape.members}
    given = {each.removeprefix("--") for each in rest if each.startswith("--")}
    assert given <= known, given - known
    assert {xform_name(member, "-") for member in shape.required_members} <= given


def check_pip(arguments: list[str]) -> None:
    """What is installed is of this repository."""
    assert arguments[0] == "install"
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for requirement in arguments[1:]:
        found = re.fullmatch(r"flipop-core(?:\[([\w,]+)\])?", requirement)
        assert found, requirement
        for extra in (found[1] or "").split(","):
            assert not extra or re.search(rf"^{extra} = \[", text, re.MULTILINE), extra


CHECKS: dict[str, Callable[[list[str]], None]] = {"aws": check_aws, "pip": check_pip}


def test_what_is_not_run_is_checked() -> None:
    assert set(CHECKS) == set(NOT_RUN)
    with pytest.raises(ValueError, match="not enough values"):
        check_aws(["iam", "create-nothing"])
