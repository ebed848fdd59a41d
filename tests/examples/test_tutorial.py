"""The tutorial: its files, put together, are the example, and its commands print what the page says."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path
from zipfile import ZipFile

import pytest

from .installed import EXAMPLE, ROOT, Environment

PAGE = (ROOT / "docs" / "provider-tutorial.md").read_text(encoding="utf-8")
_FILE_BLOCK = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE_BLOCK = re.compile(r"^```console\n\$ (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n", re.MULTILINE)


def _files() -> dict[str, str]:
    """Return what the page says that each file holds; a later block of a file goes on where the last one ended."""
    blocks: defaultdict[str, list[str]] = defaultdict(list)
    for name, code in _FILE_BLOCK.findall(PAGE):
        blocks[name].append(code)
    return {name: "\n".join(parts) for name, parts in blocks.items()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the page's files, and with what the page says to copy."""
    directory = tmp_path_factory.mktemp("tutorial")
    for name, text in _files().items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(EXAMPLE / "flipop_nimbus_testserver", directory / "flipop_nimbus_testserver", ignore=ignore)
    for name in ("README.md", "LICENSE"):
        shutil.copy(EXAMPLE / name, directory)
    return directory


def test_every_block_of_code_is_checked() -> None:
    kinds = _BLOCK.findall(PAGE)
    assert len(_FILE_BLOCK.findall(PAGE)) == kinds.count("python") + kinds.count("toml")
    assert len(_CONSOLE_BLOCK.findall(PAGE)) == kinds.count("console")
    assert set(kinds) == {"python", "toml", "console", "sh"}


@pytest.mark.parametrize("name", sorted(_files()))
def test_the_pages_files_are_the_examples(name: str) -> None:
    """But for blank lines, of which the page has fewer where a file goes on in another block."""
    example = (EXAMPLE / name).read_text(encoding="utf-8")
    assert [line for line in _files()[name].splitlines() if line] == [line for line in example.splitlines() if line]


def test_the_whole_plugin_is_on_the_page() -> None:
    assert {f"flipop_nimbus/{path.name}" for path in (EXAMPLE / "flipop_nimbus").glob("*.py")} <= _files().keys()


@pytest.mark.parametrize(("command", "expected"), _CONSOLE_BLOCK.findall(PAGE), ids=lambda text: text.split("\n")[0])
def test_the_pages_commands(command: str, expected: str, project: Path, installed: Environment) -> None:
    """``…`` on the page stands for anything. The page's own plugin comes before the installed one."""
    program, *arguments = command.split()
    printed = installed.run(program, *arguments, cwd=project, PYTHONPATH=str(project), PYTHONDONTWRITEBYTECODE="1")
    pattern = re.escape(expected.rstrip()).replace("…", ".*")
    trimmed = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
    assert re.fullmatch(pattern, trimmed, re.DOTALL), printed


def test_the_pages_files_make_a_wheel(project: Path, installed: Environment) -> None:
    with ZipFile(installed.build(project)) as wheel:
        modules = {name: wheel.read(name).decode() for name in wheel.namelist() if name.startswith("flipop_nimbus/")}
    written = {name: text for name, text in _files().items() if name.startswith("flipop_nimbus/")}
    assert modules == {**written, **{name: "" for name in modules if name.endswith("py.typed")}}


def test_the_pages_plugin_is_what_its_commands_run(project: Path, installed: Environment) -> None:
    code = "import flipop_nimbus; print(flipop_nimbus.__file__)"
    printed = installed.run("python", "-c", code, cwd=project, PYTHONPATH=str(project))
    assert Path(printed.strip()).parent.parent == project
