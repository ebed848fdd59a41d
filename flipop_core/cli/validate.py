"""Checks manifests without a cluster: the schema, what the types cannot say, and what the installed providers have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import click
import msgspec
import yaml

from flipop_core.cli.frame import BadInput
from flipop_core.cli.manifests import Manifest, manifests, without
from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, ROUTED_IP_ISSUERS, ROUTED_IPS
from flipop_core.errors import ConfigError, ResourceInvalid, shortened
from flipop_core.registry import ProviderRegistry
from flipop_core.resources.parse import decode_issuer, decode_pool, decode_record_set, decode_routed_ip
from flipop_core.resources.routed import RoutedIPIssuerSpec, RoutedIPSpec
from flipop_core.resources.schema import spec_schema
from flipop_core.resources.types import API_VERSION, GROUP, FloatingIPPoolSpec, NodeDNSRecordSetSpec
from flipop_core.runtime.checks import check_pool, check_target_offline
from flipop_core.runtime.poolrecords import record_type_of

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
        for manifest in manifests(stream):
            if isinstance(manifest.content, dict) and _is_ours(manifest.content):
                resources += 1
                found = _findings(name, manifest, registry)
                findings += sorted(found, key=lambda finding: finding.line)
            else:
                others += 1
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        findings.append(Finding(name, line, "", f"no YAML: {getattr(error, 'problem', None) or error}"))
    except RecursionError:
        findings.append(Finding(name, 1, "", "it is nested too deeply"))
    return Checked(resources, others, tuple(findings[:_MOST_PROBLEMS]))


def _is_ours(document: Mapping[str, Any]) -> bool:
    group = str(document.get("apiVersion")).partition("/")[0]
    return group == GROUP


def _findings(file: str, manifest: Manifest, registry: ProviderRegistry) -> Iterator[Finding]:
    document = manifest.content
    kind, metadata = document.get("kind"), document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    identity = "/".join(str(metadata[key]) for key in ("namespace", "name") if metadata.get(key))
    resource = f"{kind or ''} {identity}".strip()

    def finding(path: str, problem: str) -> Finding:
        return Finding(file, manifest.line_of(path), resource, problem)

    for line, key in manifest.repeated_keys():
        yield Finding(file, line, resource, f"{key}: it is there twice: remove one")
    if document["apiVersion"] != API_VERSION:
        yield finding("apiVersion", f"apiVersion: {shortened(document['apiVersion'])}: write {API_VERSION}")
    elif not isinstance(kind, str) or kind not in _CHECKS:
        yield finding("kind", f"kind: {shortened(kind)}: write one of {', '.join(_CHECKS)}")
    elif not metadata.get("name") and not metadata.get("generateName"):
        yield finding("metadata", "metadata.name: it is required")
    elif not isinstance(document.get("spec"), dict):
        yield finding("spec", "spec: it is required")
    else:
        problems = dict(_spec_problems(document, registry))
        problems.setdefault("spec.provider", _provider_problem(document, registry))
        for path, problem in problems.items():
            if problem:
                yield finding(path, problem)


def _spec_problems(document: dict[str, Any], registry: ProviderRegistry) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a spec, as field and problem."""
    spec_type, check = _CHECKS[document["kind"]]
    for path in _unknown_fields(document["spec"], spec_schema(spec_type), "spec"):
        yield path, f"{path}: there is no such field: correct its spelling, or remove it"
    name = str(document["metadata"].get("name", ""))
    left: dict[str, Any] | None = {**document, "metadata": {"name": name}, "status": {}}
    first = True
    # A check ends at the first problem; so what is wrong is left out, and the rest is checked again.
    while left is not None:
        try:
            problem = check(msgspec.json.encode(left), registry)
        except TypeError as error:
            yield "spec", f"spec: it is no JSON: {error}"
            return
        except RecursionError:
            yield "spec", "spec: it is no JSON: it is nested too deeply, or an alias in it leads back to it"
            return
        if problem is None:
            return
        path = problem.field if isinstance(problem, ResourceInvalid) else "spec"
        rest = without(left, path) if path != "spec" else None
        if first or rest is not None:  # else it lacks what has been left out
            yield path, str(problem)
        first, left = False, rest


def _provider_problem(document: Mapping[str, Any], registry: ProviderRegistry) -> str:
    """Return what is wrong with the provider, which the checks look at last, and not at all if much is missing."""
    provider = document["spec"].get("provider")
    if document["kind"] not in _WITH_PROVIDER or not isinstance(provider, str) or not provider:
        return ""
    try:
        registry.ip_factory(provider)
    except ConfigError as error:
        return str(_unknown("spec.provider", provider, error))
    return ""


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


_WITH_PROVIDER = (FLOATING_IP_POOLS.kind, ROUTED_IP_ISSUERS.kind)
_CHECKS: dict[str, tuple[type[msgspec.Struct], Callable[[bytes, ProviderRegistry], ConfigError | None]]] = {
    FLOATING_IP_POOLS.kind: (FloatingIPPoolSpec, _check_pool),
    NODE_DNS_RECORD_SETS.kind: (NodeDNSRecordSetSpec, _check_record_set),
    ROUTED_IPS.kind: (RoutedIPSpec, _check_routed_ip),
    ROUTED_IP_ISSUERS.kind: (RoutedIPIssuerSpec, _check_issuer),
}
