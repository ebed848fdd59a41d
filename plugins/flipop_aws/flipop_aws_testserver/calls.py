"""What a request to AWS asks for: service, action, region and parameters, whatever its protocol."""

from __future__ import annotations

import functools
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import botocore.session
import msgspec

from tests.support.journal import Entry

_SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request")
_STS_VERSION = "2011-06-15"
_LISTS = frozenset({"Changes", "ResourceRecords"})


class AWSEntry(Entry):
    """A request in the journal. ``outcome`` is ``ok``, the error's code, or empty when nothing was answered.

    ``action`` is as IAM names it, ``ec2:AssociateAddress``; ``permissions`` are all actions that IAM asks for;
    ``parameters`` are those of `Call`. ``ended`` is when the answer began, monotonic seconds, 0 without one.
    """

    action: str = ""
    permissions: tuple[str, ...] = ()
    region: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    access_key_id: str = ""
    outcome: str = ""
    ended: float = 0.0


class Call(NamedTuple):
    """A request. ``action`` is as IAM names it, ``ec2:AssociateAddress``. ``parameters`` are flat for EC2.

    For Route 53 they are those of path and query, and the body as nested dictionaries and lists.
    """

    action: str
    region: str
    parameters: dict[str, Any]
    access_key_id: str

    @property
    def service(self) -> str:
        """The part of the action before the colon."""
        return self.action.partition(":")[0]

    @property
    def name(self) -> str:
        """The part of the action after the colon."""
        return self.action.partition(":")[2]

    @property
    def permissions(self) -> tuple[str, ...]:
        """The IAM actions that the request needs: one that tags what it makes needs two."""
        tags = self.service == "ec2" and any(each.startswith("TagSpecification.") for each in self.parameters)
        return (self.action, "ec2:CreateTags") if tags else (self.action,)

    def get(self, name: str) -> str:
        """Return a parameter, empty when it is absent."""
        return str(self.parameters.get(name, ""))

    def members(self, name: str) -> list[str]:
        """Return the values of ``name.1``, ``name.2`` and so on."""
        values: list[str] = []
        while (value := self.parameters.get(f"{name}.{len(values) + 1}")) is not None:
            values.append(str(value))
        return values

    def filters(self) -> dict[str, list[str]]:
        """Return the values of each filter."""
        found: dict[str, list[str]] = {}
        number = 1
        while name := self.get(f"Filter.{number}.Name"):
            found[name] = self.members(f"Filter.{number}.Value")
            number += 1
        return found

    def tags(self) -> dict[str, str]:
        """Return the tags of the first tag specification."""
        prefix = "TagSpecification.1.Tag"
        tags: dict[str, str] = {}
        while key := self.get(f"{prefix}.{len(tags) + 1}.Key"):
            tags[key] = self.get(f"{prefix}.{len(tags) + 1}.Value")
        return tags


def parse_call(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Call:
    """Return what is asked for. A request without a signature is one of EC2 in no region."""
    scope = _SCOPE.search(headers.get("authorization", ""))
    access_key_id, region, service = scope.groups() if scope else ("", "", "")
    if service in {"", "ec2", "sts"}:
        form = dict(parse_qsl(body.decode() or query, keep_blank_values=True))
        service = "sts" if form.pop("Version", "") == _STS_VERSION else "ec2"
        return Call(f"{service}:{form.pop('Action', '')}", region, form, access_key_id)
    for operation, expected, pattern in _routes(service):
        match = pattern.fullmatch(path)
        if match and expected == method:
            parameters = {**match.groupdict(), **dict(parse_qsl(query)), **_from_xml(body)}
            return Call(f"{service}:{operation}", region, parameters, access_key_id)
    return Call(f"{service}:{method} {path}", region, {}, access_key_id)


@functools.cache
def _routes(service: str) -> list[tuple[str, str, re.Pattern[str]]]:
    """Return operation, method and path of each operation that a REST service has, by the SDK's own model."""
    model = botocore.session.Session().get_service_model(service)
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = str(http["requestUri"]).partition("?")[0].rstrip("/")
        pattern = re.sub(r"\{(\w+)\+?\}", r"(?P<\1>[^/]+)", path)
        routes.append((str(name), str(http["method"]), re.compile(f"{pattern}/?")))
    return routes


def _from_xml(body: bytes) -> dict[str, Any]:
    if not body.lstrip().startswith(b"<"):
        return {}
    value = _value(ET.fromstring(body))  # noqa: S314 - the body is a test's own
    return value if isinstance(value, dict) else {}


def _value(element: ET.Element) -> Any:
    """Return the text of a leaf, a list where the API has one, otherwise the children by their names."""
    children = list(element)
    if _local_name(element) in _LISTS:
        return [_value(child) for child in children]
    if not children:
        return element.text or ""
    return {_local_name(child): _value(child) for child in children}


def _local_name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
