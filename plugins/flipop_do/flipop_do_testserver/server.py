"""The DigitalOcean API over HTTP: who is let in, and which answer comes."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from flipop_do_testserver import formerpaths
from flipop_do_testserver.account import Account, ApiError, Settings
from flipop_do_testserver.api import Api
from flipop_do_testserver.calls import NOT_FOUND, Call
from flipop_do_testserver.control import new_control
from flipop_do_testserver.domains import Domains
from flipop_do_testserver.faults import DigitalOceanFault
from flipop_do_testserver.firewalls import Firewalls
from flipop_do_testserver.limits import RateLimits
from tests.support.contract import Request
from tests.support.httpserver import APIServer, Reply

DOCUMENT = "digitalocean.yaml"
_CREATIONS = frozenset({"/v2/reserved_ips", "/v2/reserved_ipv6"})


class DigitalOceanServer(APIServer[DigitalOceanFault]):
    """One account behind one loopback port. A context manager. ``url`` is the endpoint."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__("digitalocean", DOCUMENT, DigitalOceanFault, host=host, port=port, ssl_context=ssl_context)
        self.settings = settings or Settings()
        self.account = Account(self.settings)
        self.domains = Domains()
        self.limits = RateLimits(self.settings)
        self.firewalls = Firewalls(self.account)
        self.api = Api(self.account, self.domains, self.firewalls)
        self._control = new_control(self, self.account, self.domains, self.firewalls, self.limits)

    def latency_seconds(self) -> float:
        """Return the setting of that name."""
        return self.settings.latency_seconds

    def knows(self, method: str, path: str) -> bool:
        """Return whether the API has that path for the method."""
        return self.api.find(method, path) is not None

    def control(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Answer a control request; see `control`."""
        return self._control.answer(method, path, body)

    def error_body(self, fault: DigitalOceanFault, status: int) -> dict[str, Any]:
        """Return the body of an error answer that a fault makes."""
        return {"id": "too_many_requests" if status == 429 else fault.id, "message": fault.message}

    def answer(self, request: Request, query: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer that the API gives. It has its effect."""
        present = formerpaths.to_present(request)
        if present is None:
            return self._answer(request, query, headers)
        reply = self._answer(present, query, headers)
        self.check(present, reply, {"content-type": self.content_type}, reply.encoded())
        return formerpaths.to_former(reply)

    def _answer(self, request: Request, query: str, headers: Mapping[str, str]) -> Reply:
        token = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not token or self.settings.token not in {"", token}:
            return _error(ApiError(401, "Unable to authenticate you"))
        creates = request.method == "post" and request.path in _CREATIONS
        admitted, limits = self.limits.admit(creates=creates)
        if not admitted:
            reply = _error(ApiError(429, "API rate limit exceeded.", "too_many_requests"))
        else:
            try:
                reply = self._dispatch(request, query)
            except ApiError as error:
                reply = _error(error)
        return reply._replace(headers=limits)

    def _dispatch(self, request: Request, query: str) -> Reply:
        method, path = request.method.upper(), request.path
        found = self.api.find(method, path)
        if found is None:
            self.violations.append(f"{method} {path}: not a path that this server knows")
            raise ApiError(404, NOT_FOUND)
        fault = self.request_fault(request)
        if fault:
            raise ApiError(400, fault, "bad_request")
        route, variables = found
        if not self.settings.grants(route.scope):
            raise ApiError(403, "You are not authorized to perform this operation")
        body = json.loads(request.body) if request.body else {}
        return route.handler(Call(variables, dict(parse_qsl(query)), body, self.url))


def _error(error: ApiError) -> Reply:
    return Reply(error.status, {"id": error.id, "message": error.message})
