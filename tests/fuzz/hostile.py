"""Values as somebody hostile writes them into an object, and trees with one node replaced by such a value."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

TEXTS = (
    "",
    " ",
    "\x00",
    "a\nb\r\nc",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\u2028\u2029",
    "\u202eesrever",
    "\ufeff",
    "\ud800",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}%s%n${x}",
    "]",
    "a]b",
    "a.b[0]",
    "`key` in `$`",
    "...",
    "²",
    "٣",
    "9" * 5000,
    "x" * 100_000,
    "fe80::1%\x1b[31m",
    "fe80::1%eth0,192.0.2.1",
    "::ffff:192.0.2.1",
    "192.0.2.01",
    "http://169.254.169.254/",
    "../../etc/passwd",
    "xn--",
    "xn--a-ecp.ru",
    "ß" * 300,
    "\u00ad" * 2000,
    "a" * 64,
    "*.*",
    "Infinity",
    "NaN",
)
NUMBERS = (0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"))

texts = st.one_of(st.sampled_from(TEXTS), st.text(max_size=40), st.text("aA1-_.*/=!,() \x00\x1b\n", max_size=60))
scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(), st.floats(), texts)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)

Path = tuple[str | int, ...]


class Raw(str):
    """JSON text that stands for itself in `encode`."""


RAW = (
    Raw("1e999"),
    Raw("-1E-99999"),
    Raw("NaN"),
    Raw("9" * 5000),
    Raw("0." + "1" * 5000),
    Raw("[" * 10_000 + "]" * 10_000),
    Raw('{"a":' * 10_000 + "1" + "}" * 10_000),
    Raw("[" * 100_000),
    Raw('"\\ud800"'),
    Raw('"\\udc00\\ud800"'),
    Raw('"\\u0000"'),
    Raw('"\\u001b[31m"'),
    Raw('{"a":1,"a":[2],"a":{}}'),
    Raw('"' + "x" * 1_000_000 + '"'),
    Raw("[" + ",".join(["0"] * 20_000) + "]"),
    Raw("tru"),
    Raw('"'),
    Raw(""),
)
nodes = st.one_of(values, st.sampled_from(RAW))
"""What a node of a tree is replaced by."""


def paths(tree: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the way to each node of a JSON tree, the root's first."""
    yield above
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, member in members:
        yield from paths(member, (*above, name))


def replaced(tree: Any, path: Path, value: Any) -> Any:
    """Return a copy of the tree with the node at ``path`` replaced."""
    if not path:
        return value
    changed = copy.deepcopy(tree)
    node = changed
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return changed


def without(tree: Any, path: Path) -> Any:
    """Return a copy of the tree without the node at ``path``."""
    if not path:
        return {}
    changed = copy.deepcopy(tree)
    node = changed
    for name in path[:-1]:
        node = node[name]
    del node[path[-1]]
    return changed


def encode(tree: Any) -> bytes:
    """Return the tree as JSON text, `Raw` as it stands; lone surrogates as the escapes that Python's json writes."""
    found: dict[str, Raw] = {}

    def marked(node: Any) -> Any:
        if isinstance(node, Raw):
            mark = f"\x01raw{len(found)}\x01"
            found[json.dumps(mark)] = node
            return mark
        if isinstance(node, dict):
            return {name: marked(member) for name, member in node.items()}
        return [marked(member) for member in node] if isinstance(node, list) else node

    text = json.dumps(marked(tree))
    for mark, raw in found.items():
        text = text.replace(mark, raw)
    return text.encode()


def mutations(trees: tuple[Any, ...]) -> st.SearchStrategy[bytes]:
    """Return JSON texts of the trees with a node or two replaced, left out, or the text cut short."""

    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        tree = draw(st.sampled_from(trees))
        for _ in range(draw(st.integers(1, 2))):
            path = draw(st.sampled_from(tuple(paths(tree))))
            tree = without(tree, path) if draw(st.integers(0, 9)) == 0 else replaced(tree, path, draw(nodes))
        text = encode(tree)
        return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 19)) == 0 else text

    return mutated()
