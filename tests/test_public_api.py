"""The public surface is pinned: a change of it must be meant, and shows in the diff of the snapshot."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import msgspec
import pytest

import flipop_core
from flipop_core import cli, embedding, hookspecs, planner, testing

SNAPSHOT = Path(__file__).parent / "snapshots" / "public_api.txt"
MODULES: tuple[ModuleType, ...] = (flipop_core, embedding, planner, testing)
"""Public ones."""


def test_the_public_surface_is_the_pinned_one() -> None:
    surface = "\n".join(_surface()) + "\n"
    if os.environ.get("FLIPOP_UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(surface, encoding="utf-8")
    assert surface == SNAPSHOT.read_text(encoding="utf-8"), "meant? FLIPOP_UPDATE_SNAPSHOTS=1 pytest " + __file__


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.__name__))
def test_each_public_name_exists_once_and_is_described(module: ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, BaseException)):
            assert inspect.getdoc(value), name


def test_nothing_public_is_left_out_of_all() -> None:
    for name in flipop_core.__all__:
        getattr(flipop_core, name)
    public = {
        name for name, value in vars(flipop_core).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - {"annotations", "TYPE_CHECKING"} == set(flipop_core.__all__)


def test_names_that_come_late_are_what_type_checkers_are_told() -> None:
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(flipop_core)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    told = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    late = vars(flipop_core)["_MODULE_OF"]
    assert late == told
    assert set(late) <= set(flipop_core.__all__)
    assert set(late) <= set(dir(flipop_core))
    with pytest.raises(AttributeError, match="module 'flipop_core' has no attribute 'Controler'"):
        _ = flipop_core.Controler


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
    shown: set[object] = set()
    for module in MODULES:
        yield f"module {module.__name__}"
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and value in shown:
                yield f"{name}: as above"
                continue
            if isinstance(value, type):
                shown.add(value)
            yield from _described(name, value)
    for hook, function in vars(hookspecs).items():
        if hook.startswith("flipop_"):
            yield f"hook {hook}{_signature(function)}"
            yield from (f"    {line}".rstrip() for line in (inspect.getdoc(function) or "").splitlines())


def _described(name: str, value: object) -> Iterator[str]:
    if inspect.isfunction(value):
        yield f"{name}{_signature(value)}"
    elif not inspect.isclass(value):
        alias = _alias(value)
        yield f"{name}: {alias or ('callable' if callable(value) else repr(value))}"
    else:
        yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
        yield from (f"    {line}" for line in _members(value))


def _members(value: type) -> Iterator[str]:
    annotations = {
        field: annotation for base in reversed(value.__mro__) for field, annotation in _annotations(base).items()
    }
    if issubclass(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            yield f"{field.name}: {annotations[field.name]}{_default(field)}"
    elif issubclass(value, tuple):
        yield from (f"{field}: {annotations[field]}" for field in getattr(value, "_fields", ()))
    elif "__init__" in vars(value) and not getattr(value, "_is_protocol", False):
        yield f"__init__{_signature(vars(value)['__init__'])}"
    elif getattr(value, "_is_protocol", False):
        yield from (f"{name}: {annotation}" for name, annotation in _annotations(value).items())
    for member, function in vars(value).items():
        if inspect.isfunction(function) and not member.startswith("_"):
            kind = "async " if inspect.iscoroutinefunction(function) else ""
            yield f"{kind}{member}{_signature(function)}"
        elif isinstance(function, property) and not member.startswith("_"):
            yield f"{member}: {_annotations(function.fget).get('return')}"
    if value.__name__.endswith("Contract"):
        yield from (rule for rule in sorted(dir(value)) if rule.startswith("test_"))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return f" = {field.default_factory.__name__}()"
    return "" if field.default is msgspec.NODEFAULT else f" = {_shown(field.default)}"


def _shown(value: object) -> str:
    """Return a value as the source would have it: a function by its name, a Struct by what differs from its default."""
    if callable(value):
        return str(getattr(value, "__qualname__", value))
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    plain = {field.name: field.default for field in msgspec.structs.fields(value)}
    differing = {name: each for name, each in msgspec.structs.asdict(value).items() if each and each != plain[name]}
    emptied = {name: each for name, each in msgspec.structs.asdict(value).items() if not each and plain[name]}
    emptied = {name: each for name, each in emptied.items() if plain[name] is not msgspec.NODEFAULT}
    return f"{type(value).__name__}({', '.join(f'{name}={each!r}' for name, each in {**differing, **emptied}.items())})"


def _alias(value: object) -> str:
    """Return what a union or a Literal is made of, empty for what is none."""
    return " | ".join(getattr(part, "__name__", repr(part)) for part in get_args(value))


def _annotations(value: object) -> dict[str, str]:
    """Return annotations as they stand in the source, which is the same for every version of Python."""
    assert callable(value)
    return {
        name: _plain(getattr(annotation, "__forward_arg__", str(annotation)))
        for name, annotation in inspect.get_annotations(value).items()
    }


def _plain(annotation: str) -> str:
    """Return an annotation without what only describes it."""
    return ast.unparse(_Undescribed().visit(ast.parse(annotation, mode="eval"))) if "[" in annotation else annotation


class _Undescribed(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return self.visit(node.slice.elts[0])  # type: ignore[no-any-return]  # so typeshed has it
        return self.generic_visit(node)


def _signature(function: Callable[..., object]) -> str:
    signature, shown, star = inspect.signature(function), [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        prefix = "*" * (parameter.kind is parameter.VAR_POSITIONAL) or "**" * (parameter.kind is parameter.VAR_KEYWORD)
        annotation = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        shown.append(f"{prefix}{parameter.name}{annotation}{default}")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            shown.append("/")
    returns = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    return f"({', '.join(shown)}){returns}"
