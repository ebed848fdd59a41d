"""Answers and errors of AWS as XML."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union
from xml.sax.saxutils import escape

EC2_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
ROUTE53_NAMESPACE = "https://route53.amazonaws.com/doc/2013-04-01/"

Value: TypeAlias = Union[bool, int, str, Sequence["Value"], Mapping[str, "Value"], None]  # noqa: UP007 - quoted parts


class AWSError(Exception):
    """A refusal, as the API words it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        self.code = code
        self.message = message
        self.status = status
        super().__init__(code)


def to_xml(name: str, value: Value, *, item: str = "item") -> str:
    """Return an element: a mapping has its keys inside, a sequence an ``item`` for each; None is no element at all."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        inside = "".join(to_xml(key, each, item=item) for key, each in value.items())
    elif isinstance(value, str):
        inside = escape(value)
    elif isinstance(value, bool | int):
        inside = str(value).lower()
    else:
        inside = "".join(to_xml(item, each, item=item) for each in value)
    return f"<{name}>{inside}</{name}>"


def ec2_answer(action: str, content: Mapping[str, Value]) -> bytes:
    """Return the answer to an action of EC2."""
    body = to_xml("requestId", str(uuid.uuid4())) + "".join(to_xml(name, value) for name, value in content.items())
    return f'<?xml version="1.0"?><{action}Response xmlns="{EC2_NAMESPACE}">{body}</{action}Response>'.encode()


def route53_answer(action: str, content: str) -> bytes:
    """Return the answer to an action of Route 53 from its elements."""
    return f'<?xml version="1.0"?><{action}Response xmlns="{ROUTE53_NAMESPACE}">{content}</{action}Response>'.encode()


def error_answer(service: str, code: str, message: str) -> bytes:
    """Return an error in the form of the service."""
    error = {"Code": code, "Message": message}
    request_id = str(uuid.uuid4())
    if service == "ec2":
        inside = to_xml("Errors", {"Error": error}) + to_xml("RequestID", request_id)
        return f'<?xml version="1.0"?><Response>{inside}</Response>'.encode()
    inside = to_xml("Error", {"Type": "Sender", **error}) + to_xml("RequestId", request_id)
    return f'<?xml version="1.0"?><ErrorResponse xmlns="{ROUTE53_NAMESPACE}">{inside}</ErrorResponse>'.encode()
