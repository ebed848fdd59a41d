"""The generated CRDs: structural, described, and in step with the types, without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from flipop_core.cluster import FLOATING_IP_POOLS, NODE_DNS_RECORD_SETS, ROUTED_IP_ISSUERS, ROUTED_IPS
from flipop_core.resources.routed import (
    RoutedIPIssuerSpec,
    RoutedIPIssuerStatus,
    RoutedIPSpec,
    RoutedIPStatus,
)
from flipop_core.resources.schema import custom_resource_definitions, spec_schema, to_yaml
from flipop_core.resources.statuses import FloatingIPPoolStatus, NodeDNSRecordSetStatus
from flipop_core.resources.types import LABEL_SELECTOR_PATTERN, FloatingIPPoolSpec, NodeDNSRecordSetSpec
from flipop_core.selectors import SelectorError, parse_selector

CRDS = custom_resource_definitions()
POOLS, RECORD_SETS, ROUTED, ISSUERS = CRDS

# What apiextensions.k8s.io/v1 allows in a structural schema, as far as it is of use here.
KEYWORDS = {
    "additionalProperties",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-validations",
}


def version_of(crd: dict[str, Any]) -> dict[str, Any]:
    (version,) = crd["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def root_of(crd: dict[str, Any]) -> dict[str, Any]:
    root = version_of(crd)["schema"]["openAPIV3Schema"]
    assert isinstance(root, dict)
    return root


def nodes_of(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema in a schema with its path; ``*`` stands for any key and ``[]`` for any item."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes_of(part, f"{path}.{name}")
    for keyword, step in (("items", "[]"), ("additionalProperties", ".*")):
        if keyword in schema:
            yield from nodes_of(schema[keyword], path + step)


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["spec"]["names"]["kind"])
def test_schemas_are_structural(crd: dict[str, Any]) -> None:
    for path, schema in nodes_of(root_of(crd)):
        assert set(schema) <= KEYWORDS, path
        assert schema["type"] in {"array", "boolean", "integer", "number", "object", "string"}, path
        assert ("items" in schema) == (schema["type"] == "array"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path
        assert schema.get("required") != [], path


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["spec"]["names"]["kind"])
def test_every_field_is_described(crd: dict[str, Any]) -> None:
    not_ours = {".apiVersion", ".kind", ".metadata"}
    bare = [path for path, schema in nodes_of(root_of(crd)) if not schema.get("description")]
    assert [path for path in bare if path not in not_ours and not path.endswith("[]")] == []


@pytest.mark.parametrize(
    ("crd", "spec", "status"),
    [
        (POOLS, FloatingIPPoolSpec, FloatingIPPoolStatus),
        (RECORD_SETS, NodeDNSRecordSetSpec, NodeDNSRecordSetStatus),
        (ROUTED, RoutedIPSpec, RoutedIPStatus),
        (ISSUERS, RoutedIPIssuerSpec, RoutedIPIssuerStatus),
    ],
)
def test_every_field_of_the_types_is_in_the_schema(
    crd: dict[str, Any], spec: type[msgspec.Struct], status: type[msgspec.Struct]
) -> None:
    properties = root_of(crd)["properties"]
    for name, struct in (("spec", spec), ("status", status)):
        assert set(properties[name]["properties"]) == set(struct.__struct_encode_fields__)
        required = {field.encode_name for field in msgspec.structs.fields(struct) if field.required}
        assert set(properties[name].get("required", ())) == required


@pytest.mark.parametrize(
    ("crd", "lists"),
    [
        (
            POOLS,
            {
                ".spec.ips",
                ".spec.match.tolerations",
                ".status.addresses",
                ".status.nodeErrors",
                ".status.assignableNodes",
                ".status.allocatedIPs",
                ".status.adoptedIPs",
                ".status.records",
            },
        ),
        (RECORD_SETS, {".spec.match.tolerations", ".status.records"}),
        (
            ROUTED,
            {
                ".spec.match.tolerations",
                ".status.ports",
                ".status.allocatedIPs",
                ".status.firewallEntries",
                ".status.firewallEntries[].nodes",
                ".status.firewallEntries[].rules",
                ".status.firewallEntries[].rules[].sources",
                ".status.records",
            },
        ),
        (ISSUERS, {".spec.serviceNamespaces", ".status.routedIPs"}),
    ],
)
def test_lists_say_how_they_merge(crd: dict[str, Any], lists: set[str]) -> None:
    found = {path: schema for path, schema in nodes_of(root_of(crd)) if schema["type"] == "array"}
    conditions = found.pop(".status.conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert {path: schema["x-kubernetes-list-type"] for path, schema in found.items()} == dict.fromkeys(lists, "atomic")


def test_what_rules_read_is_bounded() -> None:
    """The API server estimates the cost of a rule from these bounds, and refuses a rule over what has none."""
    for crd in CRDS:
        for path, schema in nodes_of(root_of(crd)):
            if schema["type"] == "string" and "x-kubernetes-validations" in schema:
                assert schema["maxLength"], path
    properties = root_of(POOLS)["properties"]["spec"]["properties"]
    assert properties["ips"]["maxItems"] == 1000
    assert properties["ipSelector"]["properties"]["tags"]["maxProperties"] == 50


def test_names() -> None:
    for crd, resource, short_name, scope in (
        (POOLS, FLOATING_IP_POOLS, "fip", "Namespaced"),
        (RECORD_SETS, NODE_DNS_RECORD_SETS, "nodedns", "Namespaced"),
        (ROUTED, ROUTED_IPS, "rip", "Namespaced"),
        (ISSUERS, ROUTED_IP_ISSUERS, "ripissuer", "Cluster"),
    ):
        assert crd["metadata"]["name"] == f"{resource.plural}.flipop.digitalocean.com"
        assert crd["spec"]["group"] == "flipop.digitalocean.com"
        assert crd["spec"]["scope"] == scope
        names = crd["spec"]["names"]
        assert (names["kind"], names["plural"]) == (resource.kind, resource.plural)
        assert (names["shortNames"], names["categories"]) == ([short_name], ["flipop"])
        assert version_of(crd)["name"] == "v1alpha1"
        assert version_of(crd)["subresources"] == {"status": {}}


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["spec"]["names"]["kind"])
def test_columns_and_selectable_fields_point_at_fields(crd: dict[str, Any]) -> None:
    known = {path.replace("[]", "") for path, _ in nodes_of(root_of(crd))} | {".metadata.creationTimestamp"}
    paths = [column["jsonPath"] for column in version_of(crd)["additionalPrinterColumns"]]
    paths += [field["jsonPath"] for field in version_of(crd)["selectableFields"]]
    for path in paths:
        assert re.sub(r"\[\?\(.*\)\]", "", path) in known


def test_yaml_says_the_same_in_the_same_words() -> None:
    text = to_yaml(*CRDS)
    assert list(yaml.safe_load_all(text)) == list(CRDS)
    assert text == to_yaml(*custom_resource_definitions())
    assert "&id" not in text
    assert text.startswith("# Generated by ")


def test_what_is_returned_is_the_callers_own() -> None:
    custom_resource_definitions()[0]["spec"]["versions"].clear()
    match = root_of(custom_resource_definitions()[0])["properties"]["spec"]["properties"]["match"]["properties"]
    match["nodeLabel"]["x-kubernetes-validations"].clear()
    assert match["podLabel"]["x-kubernetes-validations"]
    assert custom_resource_definitions() == CRDS


def test_a_union_has_no_structural_schema() -> None:
    class Either(msgspec.Struct):
        value: Annotated[int | str, msgspec.Meta(description="Both.")] = 0

    with pytest.raises(TypeError, match="a structural schema has no alternatives"):
        spec_schema(Either)


def test_a_literal_of_one_value_is_an_enum() -> None:
    class Fixed(msgspec.Struct, tag="fixed"):
        value: int = 0

    assert spec_schema(Fixed)["properties"]["type"] == {"type": "string", "enum": ["fixed"]}


# In CEL the pattern stands between single quotes; RE2 and Python read it alike, but for a final newline.
SELECTOR_PATTERN = re.compile(LABEL_SELECTOR_PATTERN.removesuffix("$"), re.ASCII)
WORDS = st.sampled_from(
    ["a", "B9", "a-b_c.d", "example.com/a", "in", "notin", "a" * 63, "a" * 64, "-a", "A/b", "", "/", "é", "a.b/c", "0"]
)
SIGNS = st.sampled_from(
    ["=", "==", "!=", "!", "<", ">", ",", "(", ")", " in ", " notin ", " in(", " ", "  ", "\t", "\n", ", "]
)
NEAR_SELECTORS = st.lists(WORDS | SIGNS, max_size=10).map("".join)


def admitted(text: str) -> bool:
    return SELECTOR_PATTERN.fullmatch(text) is not None


def parsed(text: str) -> bool:
    try:
        parse_selector(text)
    except SelectorError:
        return False
    return True


@given(NEAR_SELECTORS | st.text(alphabet="ab1=!<>,() \t", max_size=12))
@example("a in (),b in (,c),d notin ( , )")
@example("in in (in),notin=notin,!in")
@example("a>1,b < 2,in>" + "9" * 18)
@example("a>" + "9" * 19)
@example("a=,b!=,c==")
def test_what_admission_takes_the_parser_takes(text: str) -> None:
    assert parsed(text) or not admitted(text)


@given(NEAR_SELECTORS | st.text(alphabet="ab1=!<>,() \t", max_size=12))
@example("a in (b c)")
@example("a in (),b in (,c),d notin ( , )")
@example("a=,b!=,c==")
def test_what_the_parser_takes_admission_takes(text: str) -> None:
    assert admitted(text) or not parsed(text)


def test_the_pattern_fits_into_a_cel_string() -> None:
    assert "'" not in LABEL_SELECTOR_PATTERN


def test_admission_leaves_the_length_of_a_prefix_to_the_parser() -> None:
    text = "a" * 254 + "/b"
    assert admitted(text)
    assert not parsed(text)
