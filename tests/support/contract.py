"""Checks requests and responses against a vendor's OpenAPI document, which lies beside the project."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

import yaml


def document_path(document: str) -> Path:
    """Return where the document should be: in the directory ``FLIPOP_SPECS``, else beside the repository."""
    directory = os.environ.get("FLIPOP_SPECS")
    base = Path(directory) if directory else Path(__file__).resolve().parents[2].parent / "shared" / "specs"
    return base / document


class Request:
    """A request in the form that openapi-core reads."""

    def __init__(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> None:
        from openapi_core.datatypes import RequestParameters
        from werkzeug.datastructures import Headers, ImmutableMultiDict

        self.host_url = "http://localhost"
        self.method = method.lower()
        self.path = path
        self.body = body or None
        self.content_type = headers.get("content-type", "application/octet-stream")
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(parse_qsl(query, keep_blank_values=True)), header=Headers(dict(headers))
        )

    def at(self, path: str) -> Self:
        """Return the same request of another path."""
        other = copy.copy(self)
        other.path = path
        return other


class Response:
    """A response in the form that openapi-core reads."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        from werkzeug.datastructures import Headers

        self.status_code = status
        self.headers = Headers(dict(headers))
        self.data = body
        self.content_type = headers.get("content-type", "")


class Contract:
    """The loaded document. Thread-safe."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        from openapi_core import OpenAPI

        # The document knows the vendor's host alone; the paths are the same here.
        self._api = OpenAPI.from_dict({**document, "servers": [{"url": "/"}]})

    def request_fault(self, request: Request) -> str | None:
        """Return what is wrong with the request, None when nothing is."""
        from openapi_core.exceptions import OpenAPIError

        try:
            self._api.validate_request(request)
        except OpenAPIError as error:
            return _explain(error)
        return None

    def response_fault(self, request: Request, response: Response) -> str | None:
        """Return what is wrong with the response, None when nothing is."""
        from openapi_core.exceptions import OpenAPIError

        try:
            self._api.validate_response(request, response)
        except OpenAPIError as error:
            return _explain(error)
        return None


@functools.cache
def load_contract(document: str) -> Contract | None:
    """Return the contract, loaded once per process, or None when the document is absent."""
    path = document_path(document)
    if not path.is_file():
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return Contract(yaml.load(path.read_text(encoding="utf-8"), Loader=loader))


def _explain(error: BaseException) -> str:
    """Return the error with what caused it: openapi-core's outermost message says little."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        parts.append(str(current))
        parts.extend(str(item.message) for item in getattr(current, "schema_errors", ()))
        current = current.__cause__
    return "; ".join(dict.fromkeys(part[:300] for part in parts if part))
