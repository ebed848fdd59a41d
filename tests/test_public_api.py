"""The public surface is pinned: a change of it must be meant, and shows in the diff of the snapshot."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import flipop_core
from flipop_core import cli, hookspecs

SNAPSHOT = Path(__file__).parent / "snapshots" / "public_api.txt"


def test_the_public_surface_is_the_pinned_one() -> None:
    surface = "\n".join(_surface()) + "\n"
    if os.environ.get("FLIPOP_UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(surface, encoding="utf-8")
    assert surface == SNAPSHOT.read_text(encoding="utf-8"), "meant? FLIPOP_UPDATE_SNAPSHOTS=1 pytest " + __file__


def test_each_public_name_exists_once_and_is_described() -> None:
    assert len(set(flipop_core.__all__)) == len(flipop_core.__all__)
    for name in flipop_core.__all__:
        value = getattr(flipop_core, name)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            assert inspect.getdoc(value), name


def test_nothing_public_is_left_out_of_all() -> None:
    public = {
        name for name, value in vars(flipop_core).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - {"annotations"} == set(flipop_core.__all__)


def test_all_errors_a_provider_may_raise_are_public() -> None:
    from flipop_core import errors

    provider_errors = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ProviderError | errors.ConfigError)
    }
    assert provider_errors <= set(flipop_core.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    assert flipop_core.__version__ == importlib.metadata.version("flipop-core")


def test_the_command_offers_its_entry_point() -> None:
    assert cli.__all__ == ["cli", "main"]
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="flipop")
    assert script.load() is cli.main


def _surface() -> Iterator[str]:
    for name in flipop_core.__all__:
        value = getattr(flipop_core, name)
        if not inspect.isclass(value):
            yield f"{name}: {'callable' if callable(value) else value}"
            continue
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield f"class {name}({bases})"
        if hasattr(value, "__struct_fields__"):
            yield from (f"    {field}" for field in value.__struct_fields__)
        elif issubclass(value, BaseException):
            yield f"    ({_parameters(value.__init__)})"
        for member, function in vars(value).items():
            if inspect.isfunction(function) and not member.startswith("_"):
                yield f"    {member}({_parameters(function)})"
            elif isinstance(function, property):
                yield f"    {member}"
    for hook, function in vars(hookspecs).items():
        if hook.startswith("flipop_"):
            yield f"hook {hook}({_parameters(function)})"
            yield from (f"    {line}".rstrip() for line in (inspect.getdoc(function) or "").splitlines())


def _parameters(function: object) -> str:
    assert callable(function)
    return ", ".join(name for name in inspect.signature(function).parameters if name != "self")
