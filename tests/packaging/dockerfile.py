"""Read a Dockerfile and a .dockerignore, and carry out a stage's instructions without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec


class Instruction(msgspec.Struct, frozen=True):
    """One instruction: its keyword in capitals, and the rest with its line continuations joined."""

    keyword: str
    value: str


class Stage(msgspec.Struct, frozen=True):
    """One stage: the image it starts from, its name if it has one, and its instructions."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def of(self, keyword: str) -> list[str]:
        """Return the values of the instructions with this keyword, in order."""
        return [each.value for each in self.instructions if each.keyword == keyword]


class Dockerfile(msgspec.Struct, frozen=True):
    """The arguments before the first stage with their defaults, and the stages."""

    arguments: Mapping[str, str]
    stages: tuple[Stage, ...]


def parse(text: str) -> Dockerfile:
    """Return what ``text`` says. Here-documents and escapes other than line ends are not understood."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for each in _instructions(text):
        if each.keyword == "FROM":
            base, _, name = re.sub(r"--\S+\s+", "", each.value).partition(" AS ")
            stages.append((base.strip(), name.strip(), []))
        elif stages:
            stages[-1][2].append(each)
        else:
            name, _, default = each.value.partition("=")
            arguments[name] = default.strip('"')
    return Dockerfile(arguments, tuple(Stage(base, name, tuple(content)) for base, name, content in stages))


def assignments(value: str) -> dict[str, str]:
    """Return the ``NAME=value`` pairs of an ENV, LABEL or ARG instruction."""
    pairs = re.findall(r'([\w.]+)=("[^"]*"|\S*)', value)
    return {name: text.strip('"') for name, text in pairs}


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for joined in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if joined.strip():
            keyword, _, value = joined.strip().partition(" ")
            yield Instruction(keyword.upper(), value.strip())


def ignored(path: str, patterns: list[str]) -> bool:
    """Tell whether a .dockerignore with these lines leaves ``path`` (relative, with ``/``) out; the last match wins."""
    out = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        expression = pattern.lstrip("!").rstrip("/")
        if any(_matches(prefix, expression) for prefix in _prefixes(path)):
            out = not negated
    return out


def _prefixes(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[: end + 1]) for end in range(len(parts)))


def _matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(path.rpartition("/")[2], pattern.removeprefix("**/"))
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def carry_out(stage: Stage, context: Path, patterns: list[str], root: Path, environment: dict[str, str]) -> None:
    """Do what ``stage`` says with the files of ``context``, below ``root`` in place of ``/``.

    COPY takes files and directories of the context that ``patterns`` leave in; RUN runs in sh. A failure raises
    `subprocess.CalledProcessError`.
    """
    variables = dict(environment)
    directory = root
    for each in stage.instructions:
        if each.keyword == "WORKDIR":
            directory = root / each.value.strip("/")
            directory.mkdir(parents=True, exist_ok=True)
        elif each.keyword in {"ENV", "ARG"}:
            defaults = assignments(each.value)
            variables.update(defaults if each.keyword == "ENV" else {**defaults, **_given(defaults, variables)})
        elif each.keyword == "COPY":
            *sources, target = each.value.split()
            for source in sources:
                _copy(context, source, directory / target, patterns)
        elif each.keyword == "RUN":
            (root / "opt").mkdir(exist_ok=True)
            script = each.value.replace("/opt/", f"{root}/opt/")
            subprocess.run(
                ["sh", "-e", "-c", script], cwd=directory, env=variables, check=True, text=True, capture_output=True
            )
        else:
            raise NotImplementedError(f"the build stage has {each.keyword}, which this cannot carry out")


def _given(defaults: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    return {name: variables[name] for name in defaults if name in variables}


def _copy(context: Path, source: str, target: Path, patterns: list[str]) -> None:
    origin = context / source.rstrip("/")
    if not origin.is_dir():
        if ignored(source, patterns):
            raise FileNotFoundError(f"{source} is left out by .dockerignore")
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(origin, target / origin.name)
        return
    for path, _, files in os.walk(origin):
        for name in files:
            relative = (Path(path) / name).relative_to(context)
            if not ignored(relative.as_posix(), patterns):
                copied = target / relative.relative_to(source.rstrip("/"))
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(context / relative, copied)
