"""CustomResourceDefinitions, generated from the types: structural schemas with CEL rules, for Kubernetes 1.30 and newer.

Types refuse null defaults and references; the API server wants neither (a *structural* schema): references are inlined,
an optional field is simply not required (the API server drops a null for it), and defaults stay out, so that a stored
object holds what its author wrote and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, ResourceType
from flipop_core.resources.types import (
    SPEC_RULES,
    FloatingIPPoolSpec,
    FloatingIPPoolStatus,
    NodeDNSRecordSetSpec,
    NodeDNSRecordSetStatus,
)

CATEGORY = "flipop"

_HEADER = "# Generated from flipop_core/resources/types.py by `flipop crds`. Edit that, not this. Needs Kubernetes 1.30.\n"

_REF_PREFIX = "#/"
_DROPPED = frozenset({"$ref", "anyOf", "const", "default", "title"})


class _Column(msgspec.Struct, frozen=True):
    """A printer column; a ``wide`` one shows with ``kubectl get -o wide`` only."""

    name: str
    json_path: str
    type: str = "string"
    wide: bool = False

    def definition(self) -> dict[str, Any]:
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return column | {"priority": 1} if self.wide else column


class _Definition(msgspec.Struct, frozen=True):
    """What a CRD says beyond its types."""

    resource: ResourceType
    short_name: str
    description: str
    spec: type[msgspec.Struct]
    status: type[msgspec.Struct]
    columns: tuple[_Column, ...]


_READY = '.status.conditions[?(@.type=="Ready")]'
_AGE = _Column("Age", ".metadata.creationTimestamp", "date")
_READY_COLUMNS = (
    _Column("Ready", f"{_READY}.status"),
    _Column("Reason", f"{_READY}.reason", wide=True),
    _Column("Message", f"{_READY}.message", wide=True),
)

_DEFINITIONS = (
    _Definition(
        resource=FLOATING_IP_POOLS,
        short_name="fip",
        description="A pool of floating IP addresses that follow healthy nodes.",
        spec=FloatingIPPoolSpec,
        status=FloatingIPPoolStatus,
        columns=(
            _Column("Provider", ".spec.provider"),
            _Column("Region", ".spec.region", wide=True),
            _Column("Desired", ".status.desiredCount", "integer"),
            _Column("Active", ".status.activeCount", "integer"),
            _Column("Nodes", ".status.candidateCount", "integer"),
            *_READY_COLUMNS,
            _Column("Allocated", ".status.allocatedIPs", wide=True),
            _AGE,
        ),
    ),
    _Definition(
        resource=NODE_DNS_RECORD_SETS,
        short_name="nodedns",
        description="A DNS record set that holds an address of each healthy node.",
        spec=NodeDNSRecordSetSpec,
        status=NodeDNSRecordSetStatus,
        columns=(
            _Column("Zone", ".spec.dnsRecordSet.zone"),
            _Column("Record", ".spec.dnsRecordSet.recordName"),
            _Column("Type", ".spec.addressType"),
            *_READY_COLUMNS,
            _AGE,
        ),
    ),
)


def custom_resource_definitions() -> tuple[dict[str, Any], ...]:
    """Return the CRDs of FloatingIPPool and NodeDNSRecordSet, whole: the API server adds nothing to their spec."""
    return tuple(_crd(definition) for definition in _DEFINITIONS)


def to_yaml(*crds: Mapping[str, Any]) -> str:
    """Return ``crds`` as YAML, the documents separated by ``---``. The same CRDs give the same text."""
    return _HEADER + "---\n".join(
        yaml.dump(crd, Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True) for crd in crds
    )


class _PlainDumper(yaml.SafeDumper):
    """Writes out what occurs twice; an anchor would tell the reader of an accident in memory."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _crd(definition: _Definition) -> dict[str, Any]:
    resource = definition.resource
    singular = resource.kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": singular,
                "shortNames": [definition.short_name],
                "categories": [CATEGORY],
            },
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "selectableFields": [{"jsonPath": ".spec.provider"}],
                    "additionalPrinterColumns": [column.definition() for column in definition.columns],
                    "schema": {"openAPIV3Schema": _object_schema(definition)},
                }
            ],
        },
    }


def _object_schema(definition: _Definition) -> dict[str, Any]:
    spec = _structural_schema(definition.spec)
    if rules := SPEC_RULES[definition.resource.kind]:
        spec["x-kubernetes-validations"] = [dict(rule) for rule in rules]
    return {
        "description": definition.description,
        "type": "object",
        # The API server checks these itself, and takes only a bare schema for metadata.
        "properties": {
            "apiVersion": {"description": f"{definition.resource.api_version}.", "type": "string"},
            "kind": {"description": f"{definition.resource.kind}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _structural_schema(definition.status),
        },
        "required": ["spec"],
    }


def _structural_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    (schema,), components = msgspec.json.schema_components([struct], ref_template=_REF_PREFIX + "{name}")
    return _structural(schema, components)


def _structural(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``schema`` with everything resolved that a structural schema cannot say; its own keywords win."""
    if "anyOf" in schema:
        alternatives = [option for option in schema["anyOf"] if option != {"type": "null"}]
        if len(alternatives) != 1:
            raise TypeError(f"a structural schema has no alternatives: {schema['anyOf']}")
        schema = {**alternatives[0], **schema}
    if "$ref" in schema:
        schema = {**components[schema["$ref"].removeprefix(_REF_PREFIX)], **schema}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    if "enum" in schema:
        schema = {"type": "string", **schema}

    result = {keyword: value for keyword, value in schema.items() if keyword not in _DROPPED}
    if result.get("type") == "array":
        result.setdefault("x-kubernetes-list-type", "atomic")
    if not result.get("required", True):
        del result["required"]
    for keyword in ("items", "additionalProperties"):
        if keyword in result:
            result[keyword] = _structural(result[keyword], components)
    if "properties" in result:
        result["properties"] = {name: _structural(part, components) for name, part in result["properties"].items()}
    return _description_first(result)


def _description_first(schema: Mapping[str, Any]) -> dict[str, Any]:
    first = ("description", "type", "format", "enum")
    return {key: schema[key] for key in first if key in schema} | dict(schema)
