"""The Cloudflare API over HTTP: who is let in, and which answer comes.

Control paths beside those of `tests.support.control`::

    GET   /_test/state           zones with their records, and the settings
    POST  /_test/zones           {"name": "example.com"}: {"id": "…"}
    POST  /_test/zones/delete    {"zone_id": "…"}
    POST  /_test/tokens          {"token": "…", "permissions": {"*": ["dns_records:edit"]}}
    POST  /_test/records         {"zone_id", "name", "kind", "content", …}: {"id": "…"}
    POST  /_test/records/delete  {"zone_id": "…", "record_id": "…"}
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from flipop_cloudflare_testserver.account import Account, Settings
from flipop_cloudflare_testserver.api import Api, Call
from flipop_cloudflare_testserver.limits import RateLimits
from flipop_cloudflare_testserver.records import ApiError
from tests.support.contract import Request
from tests.support.control import Control
from tests.support.faults import Fault
from tests.support.httpserver import APIServer, Reply

DOCUMENT = "cloudflare.yaml"


class CloudflareFault(Fault, kw_only=True):
    """A fault whose error body has ``code``."""

    code: int = 10500


class CloudflareServer(APIServer[CloudflareFault]):
    """One account behind one loopback port. A context manager. ``url`` is the endpoint, ``…/client/v4``."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            "cloudflare",
            DOCUMENT,
            CloudflareFault,
            prefix="/client/v4",
            host=host,
            port=port,
            ssl_context=ssl_context,
        )
        self.settings = settings or Settings()
        self.account = Account(self.settings)
        self.limits = RateLimits(self.settings)
        self.api = Api(self.account)
        account = self.account
        self._control = Control(
            self,
            self.settings,
            {
                ("GET", "/_test/state"): self._state,
                ("POST", "/_test/zones"): lambda body: {"id": account.add_zone(**body)},
                ("POST", "/_test/zones/delete"): lambda body: account.remove_zone(**body),
                ("POST", "/_test/tokens"): _add_token(account),
                ("POST", "/_test/records"): lambda body: {"id": account.add_record(**body)},
                ("POST", "/_test/records/delete"): lambda body: account.remove_record(**body),
            },
            also_reset=self.limits.clear,
        )

    def latency_seconds(self) -> float:
        """Return the setting of that name."""
        return self.settings.latency_seconds

    def knows(self, method: str, path: str) -> bool:
        """Return whether the API has that path for the method."""
        return self.api.find(method, path) is not None

    def control(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Answer a control request; see the module."""
        return self._control.answer(method, path, body)

    def error_body(self, fault: CloudflareFault, status: int) -> dict[str, Any]:
        """Return the body of an error answer that a fault makes."""
        return ApiError(status, fault.code, fault.message).body()

    def answer(self, request: Request, query: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer that the API gives. It has its effect."""
        limits: Mapping[str, str] = {}
        try:
            token = self._token(headers)
            admitted, limits = self.limits.admit(token)
            reply = self._dispatch(request, query, token) if admitted else _too_many_requests()
        except ApiError as error:
            reply = Reply(error.status, error.body())
        return reply._replace(headers={"cf-ray": f"{id(request):x}-TST", **limits})

    def _token(self, headers: Mapping[str, str]) -> str:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or len(token) < 3:
            raise ApiError(400, 6003, "Invalid request headers", [(6111, "Invalid format for Authorization header")])
        self.account.authenticate(token)
        return token

    def _dispatch(self, request: Request, query: str, token: str) -> Reply:
        method, path = request.method.upper(), request.path
        found = self.api.find(method, path)
        if found is None:
            self.violations.append(f"{method} {path}: not a path that this server knows")
            raise ApiError(404, 7000, "No route for that URI")
        fault = self.request_fault(request)
        if fault:
            raise ApiError(400, 9207, fault)
        handler, variables = found
        body = json.loads(request.body) if request.body else {}
        return handler(Call(token, variables, dict(parse_qsl(query, keep_blank_values=True)), body))

    def _state(self, _: Any) -> object:
        with self.account.lock:
            zones = [
                {"id": zone.id, "name": zone.name, "status": zone.status, "records": zone.records.all()}
                for zone in self.account.zones.values()
            ]
            return {"zones": zones, "settings": self.settings}


def _too_many_requests() -> Reply:
    return Reply(429, ApiError(429, 10429, "Please wait and consider throttling your request speed").body())


def _add_token(account: Account) -> Any:
    def add(body: dict[str, Any]) -> None:
        permissions = body.get("permissions")
        granted = None if permissions is None else {zone: frozenset(names) for zone, names in permissions.items()}
        account.add_token(body["token"], granted)

    return add
