"""The reference page for authors of providers, made from the code: ``python -m flipop_core.testing.reference docs``.

Docstrings are the contract, so that the page says what they say: shapes, units, errors and thread rules.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import typing
from pathlib import Path

import msgspec

from flipop_core import errors, hookspecs, model, providers, versions
from flipop_core.testing import conformance

PAGE = "provider-reference.md"

_DECLARED: tuple[type[msgspec.Struct], ...] = (
    providers.ProviderFactory,
    providers.CredentialSpec,
    providers.ProviderContext,
    providers.ProviderCapabilities,
)
_PROTOCOLS: tuple[type[object], ...] = (
    providers.IPProvider,
    providers.DNSProvider,
    providers.FirewallProvider,
    providers.ReportsRateLimit,
)
_VALUES: tuple[type[msgspec.Struct], ...] = (
    model.AddressRecord,
    model.CreateRequest,
    model.Created,
    model.Applied,
    model.InProgress,
    providers.RecordSet,
    providers.Firewall,
    providers.FirewallRule,
    providers.RateLimit,
)
_CONTRACTS = (
    (conformance.IPProviderContract, conformance.IPProviderHarness),
    (conformance.DNSProviderContract, conformance.DNSProviderHarness),
    (conformance.FirewallProviderContract, conformance.FirewallProviderHarness),
)
_INTRODUCTION = """\
# Provider reference

Generated from the code by `python -m flipop_core.testing.reference docs`. The
[tutorial](provider-tutorial.md) shows how the parts go together.

All names without a module are exported by `flipop_core` itself. Names that end in `_seconds` are seconds; addresses are
text in canonical form; a provider ID is what `Node.spec.providerID` says.
"""


def provider_page() -> str:
    """Return the page."""
    parts = [
        _INTRODUCTION,
        "## Rules for every method\n",
        _prose(_after_first_line(providers)),
        "## Hooks\n",
        f"An entry point of the group `{hookspecs.ENTRY_POINT_GROUP}` names what implements one or more of these:\n"
        "a module or an object. Each of its hooks is marked with `flipop_core.hookimpl`.\n",
        *(_hook(name) for name in vars(hookspecs) if name.startswith("flipop_")),
        "## Version of the plugin API\n",
        _prose(_doc(versions)),
        f"The present one is `{versions.PLUGIN_API_VERSION}`.\n",
        "## What a plugin declares and gets\n",
        *(_struct(kind) for kind in _DECLARED),
        *(_protocol(protocol) for protocol in _PROTOCOLS),
        "## Values\n",
        "`MutationResult` is `Applied | InProgress`.\n",
        *(_struct(kind) for kind in _VALUES),
        "## Errors\n",
        _errors(),
        "## Conformance kit\n",
        _prose("`flipop_core.testing.conformance` exports all of these."),
        *(_contract(contract, harness) for contract, harness in _CONTRACTS),
    ]
    return "\n".join(parts)


def main(directory: str) -> None:
    """Write the page into a directory."""
    (Path(directory) / PAGE).write_text(provider_page(), encoding="utf-8")


def _hook(name: str) -> str:
    function = getattr(hookspecs, name)
    return f"### `{name}() -> {_annotation(typing.get_type_hints(function)['return'])}`\n\n{_prose(_doc(function))}"


def _struct(kind: type[msgspec.Struct]) -> str:
    """Return what a value is and the table of its fields, with their meanings where the docstring lists them."""
    hints, fields, text = typing.get_type_hints(kind), msgspec.structs.fields(kind), _doc(kind)
    found = {field.name: re.search(rf"``{field.name}``: (.*?\.)(?=\s|$)", text, re.DOTALL) for field in fields}
    meanings = {name: match[1] for name, match in found.items() if match}
    has_meanings = len(fields) > 0 and len(meanings) == len(fields)
    rows = [("Field", "Type", "Default", "Meaning"), ("---", "---", "---", "---")]
    for field in fields:
        annotation = f"`{_escaped(_annotation(hints[field.name]))}`"
        rows.append((f"`{field.name}`", annotation, _default(field), _inline(meanings.get(field.name, ""))))
    table = "".join(f"| {' | '.join(row if has_meanings else row[:3])} |\n" for row in rows) if fields else ""
    return f"### `{kind.__name__}`\n\n{_prose(text.partition(chr(10))[0] if has_meanings else text)}\n{table}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default
    return f"`{type(value).__name__}()`" if isinstance(value, msgspec.Struct) else f"`{value!r}`"


def _protocol(protocol: type[object]) -> str:
    parts = [f"## `{protocol.__name__}`\n", _prose(_doc(protocol))]
    for name, member in vars(protocol).items():
        if isinstance(member, property):
            returned = typing.get_type_hints(member.fget)["return"]
            parts.append(f"### `{name}: {_annotation(returned)}`\n\n{_prose(_doc(member))}")
        elif inspect.isfunction(member) and not name.startswith("_"):
            parts.append(f"### `{name}{_signature(member)}`\n\n{_prose(_doc(member))}")
    return "\n".join(parts)


def _errors() -> str:
    tree = textwrap.dedent((errors.__doc__ or "").partition("::\n")[2]).strip("\n")
    rows = [
        f"| `{name}` | {_inline(_doc(value))} |"
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ProviderError | errors.ConfigError)
    ]
    head = "The type alone says what to do next; nothing reads a message.\n"
    return "\n".join([head, "```text", tree, "```\n", "| Error | |", "|---|---|", *rows]) + "\n"


def _contract(contract: type[object], harness: type[object]) -> str:
    rules = [
        f"| `{name}` | {_inline(_doc(getattr(contract, name)))} |"
        for name in sorted(dir(contract))
        if name.startswith("test_")
    ]
    table = "\n".join(["| Rule | |", "|---|---|", *rules])
    return (
        f"### `{contract.__name__}`\n\n{_prose(_doc(contract))}\n{table}\n\n"
        f"### `{harness.__name__}`\n\n{_prose(_doc(harness))}\n{_harness(harness)}"
    )


def _harness(harness: type[object]) -> str:
    """Return the table of what a harness has: attributes with the text below them, then methods."""
    source = inspect.getsource(harness)
    attributes = re.findall(r'^    (\w+): ([^\n=]+?)(?: = [^\n]+)?\n    """(.*?)"""$', source, re.MULTILINE | re.DOTALL)
    rows = [f"| `{name}: {_escaped(kind)}` | {_inline(text)} |" for name, kind, text in attributes]
    for name, member in vars(harness).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            rows.append(f"| `{name}{_escaped(_signature(member))}` | {_inline(_doc(member))} |")
    return "\n".join(["| Member | |", "|---|---|", *rows]) + "\n"


def _signature(function: object) -> str:
    if not inspect.isfunction(function):
        raise TypeError(f"{function!r} is no function")
    signature = inspect.signature(function)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=kept))
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:collections\.abc|typing|flipop_core\.\w+)\.", "", text)


def _after_first_line(module: object) -> str:
    return _doc(module).partition("\n")[2].strip()


def _doc(value: object) -> str:
    return inspect.getdoc(value) or ""


def _prose(text: str) -> str:
    """Return a docstring as Markdown: literals in single backticks, blocks after a single colon."""
    return text.replace("``", "`").replace("::\n", ":\n").strip() + "\n"


def _inline(text: str) -> str:
    return _escaped(" ".join(text.replace("``", "`").split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main(*sys.argv[1:])
