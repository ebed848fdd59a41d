"""AWS over HTTP: who is let in, and which answer comes, moto's or the layer's own."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from flipop_aws_testserver.account import REGION, Account
from flipop_aws_testserver.answers import AWSError, error_answer
from flipop_aws_testserver.calls import AWSEntry, Call, parse_call
from flipop_aws_testserver.control import new_control
from flipop_aws_testserver.interfaces import SHOWN, with_associations
from flipop_aws_testserver.limits import RateLimits
from flipop_aws_testserver.motoapp import MotoAccount
from flipop_aws_testserver.recordsets import escape_wildcards
from flipop_aws_testserver.settings import Settings
from tests.support.contract import Request
from tests.support.faults import Fault
from tests.support.httpserver import APIServer, Reply
from tests.support.journal import Entry

ADMIN_KEY = "AKIAADMINADMINADMIN0"
"""Whose requests are neither kept, refused, delayed nor disturbed."""

_MAX_FILTER_VALUES = 200
_UNSIGNED = frozenset({"sts:AssumeRoleWithWebIdentity"})
_CODE = re.compile(rb"<Code>([^<]+)</Code>")


class AWSFault(Fault, kw_only=True):
    """A fault of requests whose action, such as ``ec2:AssociateAddress``, ``path`` is found in.

    ``code`` is that of the error that it answers, by default the service's own for the status.
    """

    code: str = ""


class AWSServer(APIServer[AWSFault]):
    """One account behind one loopback port. A context manager. ``url`` is the endpoint of all services."""

    content_type = "text/xml;charset=UTF-8"

    def __init__(self, settings: Settings | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__("aws", "", AWSFault, host=host, port=port)
        self.settings = settings or Settings()
        self._moto = MotoAccount()
        self.account = Account(self._moto, self.settings)
        self.limits = RateLimits(self.settings)
        self._clients: list[Any] = []
        self._waiting = threading.Lock()
        self._acts: list[tuple[re.Pattern[str], Callable[[], object]]] = []
        self._delays: list[tuple[re.Pattern[str], float]] = []
        self._control = new_control(self)

    def stop(self) -> None:
        """Stop serving, and forget the account."""
        for client in self._clients:
            client.close()
        super().stop()
        self._moto.forget()

    # For tests

    def entries(self, action: str = "") -> list[AWSEntry]:
        """Return the requests whose action ``action`` (a regular expression) is found in."""
        found = [entry for entry in self.journal.entries() if isinstance(entry, AWSEntry)]
        return [entry for entry in found if re.search(action, entry.action)]

    def actions(self) -> dict[str, int]:
        """Return how many requests of each action there were since the start or the last ``journal.clear()``."""
        return dict(Counter(entry.action for entry in self.entries()))

    def fail(self, action: str, kind: str, *, times: int = 1, skip: int = 0, **details: Any) -> None:
        """Let ``times`` requests of an action, after the next ``skip``, meet a fault: see `tests.support.faults`."""
        self.faults.add("", f"^{action}$", kind=kind, times=times, skip=skip, **details)

    def throttle(self, action: str, *, retry_after_seconds: float | None = None, times: int = 1, skip: int = 0) -> None:
        """Let requests be refused for their number, as the service words it."""
        status, code = _throttling(action)
        headers = {} if retry_after_seconds is None else {"retry-after": f"{retry_after_seconds:g}"}
        self.fail(action, "status", times=times, skip=skip, status=status, code=code, headers=headers)

    def before(self, action: str, act: Callable[[], object]) -> None:
        """Call ``act`` before the next request of an action has its effect: what somebody else does meanwhile."""
        with self._waiting:
            self._acts.append((re.compile(f"^{action}$"), act))

    def slow(self, action: str, seconds: float) -> None:
        """Let every request of an action wait so long before it has its effect, until the next `reset`."""
        with self._waiting:
            self._delays.append((re.compile(f"^{action}$"), seconds))

    def deny(self, *actions: str) -> None:
        """Refuse these actions from now on, beside those that are refused already."""
        self.settings.denied = ",".join(filter(None, (self.settings.denied, *actions)))

    def reset(self) -> None:
        """Make the account empty, and forget journal, faults, limits, delays and denials. Keep other settings."""
        self._moto.forget()
        self.account.forget()
        self.clear()
        self.settings.denied = ""

    def clear(self) -> None:
        """Forget journal, faults, limits and delays. Keep the account."""
        self.journal.clear()
        self.faults.clear()
        self.violations.clear()
        self.forget_disturbances()

    def forget_disturbances(self) -> None:
        """Forget limits, delays and what was to be called."""
        self.limits.clear()
        with self._waiting:
            self._acts.clear()
            self._delays.clear()

    def most_at_once(self, action: str = "") -> int:
        """Return how many requests of an action (a regular expression, found in it) were under way together at most."""
        found = [entry for entry in self.entries(action) if entry.ended]
        return max((sum(other.time <= entry.time < other.ended for other in found) for entry in found), default=0)

    def admin(self, service: str, region: str = REGION) -> Any:
        """Return the SDK's client of somebody else, closed with the server."""
        import boto3

        session = boto3.Session(aws_access_key_id=ADMIN_KEY, aws_secret_access_key="admin")  # noqa: S106 - no secret
        client = session.client(service, endpoint_url=self.url, region_name=region)
        self._clients.append(client)
        return client

    # What the HTTP side asks

    def latency_seconds(self) -> float:
        """Return 0: `answer` waits, so that a change is under way meanwhile."""
        return 0.0

    def knows(self, method: str, path: str) -> bool:
        """Return True: there is no document to compare with."""
        del method, path
        return True

    def control(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Answer a control request; see `control`."""
        try:
            return self._control.answer(method, path, body)
        except AWSError as error:
            return 400, json.dumps({"error": f"AWSError: {error.code}: {error.message}"}).encode()

    def new_entry(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Entry:
        """Return what the journal says of a request."""
        call = parse_call(method, path, query, headers, body)
        entry = AWSEntry(time.monotonic(), method, path, query)
        entry.user_agent = headers.get("user-agent", "")
        entry.action, entry.region, entry.access_key_id = call.action, call.region, call.access_key_id
        entry.parameters, entry.permissions = call.parameters, call.permissions
        return entry

    def is_watched(self, entry: Entry) -> bool:
        """Return whether it is not the admin's."""
        return not (isinstance(entry, AWSEntry) and entry.access_key_id == ADMIN_KEY)

    def find_fault(self, entry: Entry) -> AWSFault | None:
        """Return the fault for the entry's action."""
        fault = self.faults.take(entry.method, entry.action) if isinstance(entry, AWSEntry) else None
        return _worded(fault, entry.action) if fault is not None and isinstance(entry, AWSEntry) else None

    def answered(self, entry: Entry, status: int, body: bytes) -> None:
        """Note status and outcome."""
        super().answered(entry, status, body)
        if isinstance(entry, AWSEntry):
            code = _CODE.search(body) if status >= 400 else None
            entry.ended = time.monotonic()
            entry.outcome = "ok" if status < 400 else code[1].decode() if code else str(status)

    def error_body(self, fault: AWSFault, status: int) -> bytes:
        """Return the body of an error answer that a fault makes."""
        del status
        service, _, code = fault.code.rpartition("/")
        return error_answer(service, code, fault.message)

    def answer(self, request: Request, query: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer that AWS gives. It has its effect."""
        method, body = request.method.upper(), request.body or b""
        call = parse_call(method, request.path, query, headers, body)
        try:
            self._admit(call)
            return self._reply(call, method, request.path, query, headers, body)
        except AWSError as error:
            return Reply(error.status, error_answer(call.service, error.code, error.message))

    # Inside

    def _admit(self, call: Call) -> None:
        if call.access_key_id == ADMIN_KEY or call.action in _UNSIGNED:
            return
        is_ec2 = call.service == "ec2"
        if not call.access_key_id or self.settings.access_key_id not in {"", call.access_key_id}:
            code = "AuthFailure" if is_ec2 else "InvalidClientTokenId"
            text = "AWS was not able to validate the provided access credentials"
            raise AWSError(code, text, 401 if is_ec2 else 403)
        if not all(map(self.settings.allows, call.permissions)):
            code = "UnauthorizedOperation" if is_ec2 else "AccessDenied"
            raise AWSError(code, "You are not authorized to perform this operation.", 403)
        if not self.limits.admits(call.service):
            status, code = _throttling(call.action)
            raise AWSError(code, "Request limit exceeded.", status)
        if is_ec2 and any(len(values) > _MAX_FILTER_VALUES for values in call.filters().values()):
            raise AWSError("FilterLimitExceeded", f"The maximum number of filter values is {_MAX_FILTER_VALUES}")

    def _reply(self, call: Call, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Reply:
        with self._moto.lock:
            zone_id = self.account.record_sets.begin(call)
        try:
            if call.access_key_id != ADMIN_KEY:
                self._wait(call)
            with self._moto.lock:
                return self._answer_now(call, method, path, query, headers, body)
        finally:
            with self._moto.lock:
                self.account.record_sets.end(zone_id)

    def _wait(self, call: Call) -> None:
        with self._waiting:
            due = next((each for each in self._acts if each[0].search(call.action)), None)
            if due is not None:
                self._acts.remove(due)
            delay = sum(seconds for action, seconds in self._delays if action.search(call.action))
        self.stopping.wait(self.settings.latency_seconds + delay)
        if due is not None:
            due[1]()

    def _answer_now(
        self, call: Call, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> Reply:
        parts = (self.account.elastic_ips, self.account.groups, self.account.record_sets)
        own = next((part.handlers[call.action] for part in parts if call.action in part.handlers), None)
        if own is not None:
            content = own(call)
            if call.action in SHOWN:
                content = with_associations(content, call.region, self.account.elastic_ips, self._moto)
            return Reply(200, content)
        if call.service == "ec2":
            self._moto.ec2(call.region)
        status, answered, content = self._moto.ask(method, path, query, headers, body)
        if status < 400 and call.action in SHOWN:
            content = with_associations(content, call.region, self.account.elastic_ips, self._moto)
        elif call.action == "route53:ListResourceRecordSets":
            content = escape_wildcards(content)
        return Reply(status, content, {k: v for k, v in answered.items() if k in {"location", "content-type"}})


def _throttling(action: str) -> tuple[int, str]:
    """Return how the service of an action refuses requests for their number."""
    return (503, "RequestLimitExceeded") if action.startswith("ec2:") else (400, "Throttling")


def _worded(fault: AWSFault, action: str) -> AWSFault:
    """Return a copy of the fault with the code in the service's own words, after the service's name."""
    service = action.partition(":")[0]
    status = {"retry_after": 429}.get(fault.kind, fault.status)
    plain = {429: "RequestLimitExceeded", 503: "Unavailable" if service == "ec2" else "ServiceUnavailable"}
    code = fault.code or plain.get(status, "InternalError" if service == "ec2" else "InternalFailure")
    return AWSFault(**{**{f: getattr(fault, f) for f in fault.__struct_fields__}, "code": f"{service}/{code}"})
