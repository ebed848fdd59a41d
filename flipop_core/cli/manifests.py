"""The objects in a file of YAML or JSON documents, with the lines on which their fields stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

import msgspec
import yaml

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_LIST = "List"


class Manifest(msgspec.Struct, frozen=True):
    """A document, or an item of a list. ``content`` is an object of Kubernetes only if it is a mapping."""

    content: Any
    node: yaml.Node

    def line_of(self, path: str) -> int:
        """Return the line of a field, such as ``spec.ips[1]``, or of the nearest one around it that is there."""
        node, line = self.node, self.node.start_mark.line
        for name, index in _STEP.findall(path):
            if isinstance(node, yaml.MappingNode) and name:
                # Of a key that is there twice, what the second one has counts.
                found = next(((key, value) for key, value in reversed(node.value) if key.value == name), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line, found[1]
            elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
                node = node.value[int(index)]
                line = node.start_mark.line
            else:
                break
        return line + 1

    def repeated_keys(self) -> Iterator[tuple[int, str]]:
        """Yield line and name of each key that its mapping has already, which the API server refuses."""
        return _repeated_keys(self.node, set())


def manifests(stream: IO[Any]) -> Iterator[Manifest]:
    """Yield what is in a file: documents, or the items of those that are lists. Raises yaml.YAMLError."""
    for root in yaml.compose_all(stream, Loader=_TextLoader):
        content = None if root is None else _constructed(root)
        if content is None:
            continue
        items = _items(root) if isinstance(content, dict) and str(content.get("kind", "")).endswith(_LIST) else None
        if items is None:
            yield Manifest(content, root)
        else:
            for item in items:
                yield Manifest(_typed(_constructed(item), content), item)


def without(content: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return a copy that lacks a field, of an element of a list the list. None when the field is not there."""
    names = [name for name, _ in _STEP.findall(path.partition("[")[0])]
    if not names or not isinstance(content.get(names[0]), dict if len(names) > 1 else object):
        return None
    if names[0] not in content:
        return None
    if len(names) == 1:
        return {name: value for name, value in content.items() if name != names[0]}
    inner = without(content[names[0]], ".".join(names[1:]))
    return None if inner is None else {**content, names[0]: inner}


class _TextLoader(yaml.SafeLoader):
    """Loads as the API server's clients do: a time stays the text that it is in JSON."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _constructed(node: yaml.Node) -> Any:
    return _TextLoader("").construct_document(node)


def _items(root: yaml.Node) -> list[yaml.Node] | None:
    found = next((value for key, value in root.value if key.value == "items"), None)
    return found.value if isinstance(found, yaml.SequenceNode) else None


def _typed(item: Any, whole: Mapping[str, Any]) -> Any:
    """Give an item of a list such as ``FloatingIPPoolList`` the kind that it need not name itself."""
    kind = str(whole["kind"]).removesuffix(_LIST)
    if not isinstance(item, dict) or not kind:
        return item
    return {"apiVersion": whole.get("apiVersion"), "kind": kind, **item}


def _repeated_keys(node: yaml.Node, visited: set[int]) -> Iterator[tuple[int, str]]:
    if id(node) in visited:  # an alias, which may lead back to where it is
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key.start_mark.line + 1, key.value
                seen.add(key.value)
            yield from _repeated_keys(value, visited)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated_keys(value, visited)
