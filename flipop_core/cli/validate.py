"""Checks manifests without a cluster: the schema, what the types cannot say, and what the installed providers have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import click
import msgspec
import yaml

from flipop_core.cli.frame import BadInput
from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, ROUTED_IP_ISSUERS, ROUTED_IPS
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import decode_issuer, decode_pool, decode_record_set, decode_routed_ip
from flipop_core.resources.routed import RoutedIPIssuerSpec, RoutedIPSpec
from flipop_core.resources.schema import spec_schema
from flipop_core.resources.types import API_VERSION, FloatingIPPoolSpec, NodeDNSRecordSetSpec
from flipop_core.runtime.checks import check_pool, check_target_offline
from flipop_core.runtime.poolrecords import record_type_of

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_MOST_PROBLEMS = 100


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong. ``line`` counts from 1; ``resource`` is ``Kind namespace/name``."""

    file: str
    line: int
    resource: str
    problem: str

    def __str__(self) -> str:
        where = f"{self.resource}: " if self.resource else ""
        return f"{self.file}:{self.line}: {where}{self.problem}"


class Checked(msgspec.Struct, frozen=True):
    """What came of one file: how many resources of ours it holds, how many others, and what is wrong."""

    resources: int
    others: int
    findings: tuple[Finding, ...]


def check_file(path: str, registry: ProviderRegistry) -> Checked:
    """Check a file of YAML or JSON documents, ``-`` for standard input. Raises BadInput when it cannot be read."""
    try:
        with click.open_file(path, encoding="utf-8") as stream:
            return _check("standard input" if path == "-" else path, stream, registry)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}: name a file of manifests") from error


def _check(name: str, stream: IO[Any], registry: ProviderRegistry) -> Checked:
    resources = others = 0
    findings: list[Finding] = []
    try:
        for root in yaml.compose_all(stream, Loader=_TextLoader):
            for node in _items(root):
                document = _constructed(node)
                kind = document.get("kind") if isinstance(document, dict) else None
                if not isinstance(document, dict) or document.get("apiVersion") != API_VERSION or kind not in _CHECKS:
                    others += 1
                    continue
                resources += 1
                findings += _findings(name, node, document, registry)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        findings.append(Finding(name, line, "", f"no YAML: {getattr(error, 'problem', None) or error}"))
    return Checked(resources, others, tuple(findings[:_MOST_PROBLEMS]))


def _items(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield a document, or the items of a List."""
    if root is None:
        return
    document = _constructed(root)
    if document is None:
        return
    if isinstance(document, dict) and document.get("kind") == "List":
        items = _child(root, "items")
        yield from items.value if isinstance(items, yaml.SequenceNode) else ()
    else:
        yield root


class _TextLoader(yaml.SafeLoader):
    """Loads as the API server's clients do: a time stays the text that it is in JSON."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _constructed(node: yaml.Node) -> Any:
    return _TextLoader("").construct_document(node)


def _findings(file: str, node: yaml.Node, document: Mapping[str, Any], registry: ProviderRegistry) -> Iterator[Finding]:
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    identity = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    resource = f"{document['kind']} {identity}".strip()

    def finding(path: str, problem: str) -> Finding:
        return Finding(file, _line_of(node, path), resource, problem)

    if not metadata.get("name") and not metadata.get("generateName"):
        yield finding("metadata", "metadata.name: it is required")
        return
    spec_type, check = _CHECKS[document["kind"]]
    spec = document.get("spec")
    if not isinstance(spec, dict):
        yield finding("spec", "spec: it is required")
        return
    for path in _unknown_fields(spec, spec_schema(spec_type), "spec"):
        yield finding(path, f"{path}: there is no such field: correct its spelling, or remove it")
    try:
        body = msgspec.json.encode({**document, "metadata": {"name": str(metadata.get("name", ""))}, "status": {}})
    except TypeError as error:
        yield finding("spec", f"spec: it is no JSON: {error}")
        return
    problem = check(body, registry)
    if isinstance(problem, ResourceInvalid):
        yield finding(problem.field, str(problem))
    elif problem is not None:
        yield finding("spec", str(problem))


def _unknown_fields(value: object, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, dict) and "properties" in schema:
        for name, member in value.items():
            known = schema["properties"].get(name)
            if known is None:
                yield f"{path}.{name}"
            else:
                yield from _unknown_fields(member, known, f"{path}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for index, member in enumerate(value):
            yield from _unknown_fields(member, schema["items"], f"{path}[{index}]")


def _line_of(node: yaml.Node, path: str) -> int:
    """Return the line of a field, or of the nearest one around it that is there."""
    line = node.start_mark.line
    for name, index in _STEP.findall(path):
        if isinstance(node, yaml.MappingNode) and name:
            found = next(((key, value) for key, value in node.value if key.value == name), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _check_pool(body: bytes, registry: ProviderRegistry) -> ConfigError | None:
    pool = decode_pool(body)
    if pool.spec is None:
        return pool.problem
    try:
        factory = registry.ip_factory(pool.spec.provider)
    except ConfigError as error:
        return _unknown("spec.provider", pool.spec.provider, error)
    problem = check_pool(pool.spec, factory.capabilities)
    if problem is not None or pool.spec.dns_record_set is None:
        return problem
    record_set = pool.spec.dns_record_set
    provider = record_set.provider or pool.spec.provider
    return check_target_offline(record_set, provider, record_type_of(pool.spec), registry)


def _check_record_set(body: bytes, registry: ProviderRegistry) -> ConfigError | None:
    from flipop_core.plan.dnsvalues import node_record_type
    from flipop_core.runtime.recordsets import provider_of

    view = decode_record_set(body)
    if view.spec is None:
        return view.problem
    record_type = node_record_type(view.spec.address_type)
    return check_target_offline(view.spec.dns_record_set, provider_of(view.spec), record_type, registry)


def _check_routed_ip(body: bytes, registry: ProviderRegistry) -> ConfigError | None:
    view = decode_routed_ip(body)
    if view.spec is None or view.spec.dns_record_set is None or not view.spec.dns_record_set.provider:
        return view.problem
    return check_target_offline(view.spec.dns_record_set, view.spec.dns_record_set.provider, "A", registry)


def _check_issuer(body: bytes, registry: ProviderRegistry) -> ConfigError | None:
    view = decode_issuer(body)
    if view.spec is None:
        return view.problem
    try:
        registry.ip_factory(view.spec.provider)
        if view.spec.routed_ip_firewall_name:
            registry.firewall_factory(view.spec.provider)
    except ConfigError as error:
        return _unknown("spec.provider", view.spec.provider, error)
    return None


def _unknown(field: str, value: str, error: ConfigError) -> ResourceInvalid:
    return ResourceInvalid(field, value, f"{error}: install its plugin, or name another")


_CHECKS: dict[str, tuple[type[msgspec.Struct], Callable[[bytes, ProviderRegistry], ConfigError | None]]] = {
    FLOATING_IP_POOLS.kind: (FloatingIPPoolSpec, _check_pool),
    NODE_DNS_RECORD_SETS.kind: (NodeDNSRecordSetSpec, _check_record_set),
    ROUTED_IPS.kind: (RoutedIPSpec, _check_routed_ip),
    ROUTED_IP_ISSUERS.kind: (RoutedIPIssuerSpec, _check_issuer),
}
