"""The pages of ``docs/reference`` that are made from the code: custom resources, and providers.

``python -m tests.docs.reference`` writes them anew; `make docs` does so before it builds the site.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from flipop_core.resources import schema as schemas
from tests.docs.providers import providers_page

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "reference"

_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
}
_NOT_EMPTY = frozenset({"minItems", "minProperties", "minLength"})


def pages() -> dict[Path, str]:
    """Return the generated pages, and what they must hold."""
    return {DIRECTORY / "resources.md": resources_page(), DIRECTORY / "providers.md": providers_page()}


def resources_page() -> str:
    """Return the reference of the custom resources."""
    return "\n".join(_resources()) + "\n"


def _resources() -> Iterator[str]:
    yield "# Custom resources\n"
    yield "Generated from `flipop_core/resources` by `make docs`. `kubectl explain fip.spec` prints the same.\n"
    yield "A field without a default may be absent, and then counts as the description says; *required* ones may not."
    yield "`[]` stands for each item of a list, `<key>` for each key of a map. What is wrong is refused by the API"
    yield "server, and found before that, with its line, by `flipop validate`.\n"
    for definition, resource in zip(schemas._DEFINITIONS, schemas.custom_resource_definitions(), strict=True):
        yield from _resource(resource["spec"], definition.spec, definition.status)


def _resource(
    spec: Mapping[str, Any], spec_type: type[msgspec.Struct], status_type: type[msgspec.Struct]
) -> Iterator[str]:
    kind, (version,) = spec["names"]["kind"], spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {kind}\n"
    yield f"{schema['description']}\n"
    yield from table(
        ("", ""),
        (
            ("`apiVersion`", f"`{spec['group']}/{version['name']}`"),
            ("scope", spec["scope"].lower()),
            ("short name", f"`{spec['names']['shortNames'][0]}`"),
            ("columns", ", ".join(_columns(version["additionalPrinterColumns"], wide=False))),
            ("with `-o wide`", ", ".join(_columns(version["additionalPrinterColumns"], wide=True))),
        ),
    )
    body = schema["properties"]["spec"]
    yield f"\n### {kind} spec\n"
    yield from table(
        ("field", "type", "default", "meaning"),
        (_spec_row(*each) for each in _fields(spec_type, body, "")),
    )
    stated = [each for part in (body, schema) for each in part.get("x-kubernetes-validations", ())]
    rules = [f"- `{rule.get('fieldPath', '').removeprefix('.spec')}` {rule['message']}." for rule in stated]
    yield from (("", *rules) if rules else ())
    yield f"\n### {kind} status\n"
    yield from table(
        ("field", "type", "meaning"),
        (
            (f"`{path}`", _type_name(schema), _text(schema.get("description", "")))
            for path, schema, *_ in _fields(status_type, schema["properties"]["status"], "")
        ),
    )
    yield ""


def _columns(columns: Iterable[Mapping[str, Any]], *, wide: bool) -> Iterator[str]:
    yield from (column["name"] for column in columns if (column.get("priority", 0) == 1) is wide)


_Field = tuple[str, Mapping[str, Any], object, bool]
"""Path, schema, default (None: none), whether it is required."""


def _fields(struct: type[msgspec.Struct], schema: Mapping[str, Any], prefix: str) -> Iterator[_Field]:
    for field in msgspec.structs.fields(struct):
        own = schema["properties"][field.encode_name]
        path = f"{prefix}{field.encode_name}"
        default = None if field.default is msgspec.NODEFAULT else field.default
        yield path, own, default, field.encode_name in schema.get("required", ())
        nested = _struct_in(field.type)
        if nested is not None:
            yield from _fields(nested, *_inner(own, path))


def _inner(schema: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], str]:
    """Return the schema of the object that a field holds, and the beginning of its fields' paths."""
    if schema["type"] == "array":
        return schema["items"], f"{path}[]."
    if "additionalProperties" in schema:
        return schema["additionalProperties"], f"{path}.<key>."
    return schema, f"{path}."


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    found = (_struct_in(each) for each in get_args(annotation))
    return next((each for each in found if each is not None), None)


def _spec_row(path: str, schema: Mapping[str, Any], default: object, required: object) -> tuple[str, ...]:
    shown = "*required*" if required else _default(default)
    limits = "; ".join(_limits(schema))
    meaning = schema["description"] + (f" *Must be: {limits}.*" if limits else "")
    return f"`{path}`", _type_name(schema), shown, _text(meaning)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{value:g}`"
    return f"`{value}`" if isinstance(value, str) and value else ""


def _type_name(schema: Mapping[str, Any]) -> str:
    if schema["type"] == "array":
        return f"list of {_type_name(schema['items'])}s"
    if "additionalProperties" in schema:
        return f"map of {_type_name(schema['additionalProperties'])}s"
    return str(schema["type"])


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{each}`" for each in schema["enum"] if each)
    if "pattern" in schema:
        yield f"like `{schema['pattern']}`"
    for key, text in _LIMITS.items():
        if key in schema:
            yield "not empty" if key in _NOT_EMPTY and schema[key] == 1 else text.format(schema[key])
    yield from (
        rule["message"].removeprefix("must be ").replace("*", "\\*")
        for rule in schema.get("x-kubernetes-validations", ())
    )
    if schema["type"] == "array" and schema["items"]["type"] != "object":
        yield from (f"each {each}" for each in _limits(schema["items"]))


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(head)} |".replace("|  |", "| |")
    yield f"|{'---|' * len(head)}"
    for row in rows:
        line = f"| {' | '.join(row)} |"
        while "|  |" in line:
            line = line.replace("|  |", "| |")
        yield line


def main() -> int:
    """Write the pages that differ, and name them; return the process's exit code."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(DIRECTORY.parents[1])}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
