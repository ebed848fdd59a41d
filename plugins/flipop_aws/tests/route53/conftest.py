"""Route 53 over HTTP, and providers for it."""

from __future__ import annotations

import copy
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Self

import boto3
import pytest
from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.route53.exceptions import Route53ClientError
from moto.route53.models import FakeZone, Route53Backend
from moto.route53.models import RecordSet as MotoRecordSet
from werkzeug.serving import WSGIRequestHandler, make_server

from flipop_aws.route53 import build_dns_provider
from flipop_core import DNSProvider, ProviderContext
from flipop_core.testing.conformance import FaultKind

ADMIN_KEY = "AKIAADMIN"
KEY, SECRET = "AKIA0123456789CONFRM", "conformance-secret-0123456789"


class Fault(NamedTuple):
    """What happens to one request: an error answer, silence, an act of somebody else before it, or a lost answer."""

    pattern: str
    kind: Literal["answer", "hang", "lost_answer", "act"]
    status: int = 503
    code: str = "ServiceUnavailable"
    retry_after: str = ""
    act: Callable[[], object] = bool


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        """Keep quiet."""


class Server:
    """moto behind a layer that knows the keys, keeps a journal and makes faults."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._latency: dict[str, float] = {}
        self._changing = 0
        self._round = 0
        self._closing = threading.Event()
        self.most_at_once = 0
        self.journal: list[str] = []
        self._http = make_server("127.0.0.1", 0, self._answer, True, request_handler=_Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def reset(self) -> None:
        """Forget what the last test did."""
        with self._lock:
            # Requests that still hang are the last test's.
            self._round += 1
            self._changing = self.most_at_once = 0
        self._faults.clear()
        self._latency.clear()
        self.journal.clear()

    def refuse(self, pattern: str, status: int, code: str, retry_after: str = "") -> None:
        """Answer the next request that matches with an error."""
        self._faults.append(Fault(pattern, "answer", status, code, retry_after))

    def before(self, pattern: str, act: Callable[[], object]) -> None:
        """Let something happen before the next request that matches."""
        self._faults.append(Fault(pattern, "act", act=act))

    def disturb(self, pattern: str, kind: FaultKind, retry_after_seconds: float) -> None:
        """Make a fault of the conformance kit."""
        if kind == "rate_limited":
            self.refuse(pattern, 400, "Throttling", f"{retry_after_seconds:g}")
        elif kind == "unavailable":
            self.refuse(pattern, 503, "ServiceUnavailable")
        else:
            self._faults.append(Fault(pattern, kind))

    def latency(self, pattern: str, seconds: float) -> None:
        """Let every request that matches take so long."""
        self._latency[pattern] = seconds

    def _answer(self, environ: Any, start_response: Any) -> Any:
        line = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO'].removesuffix('/')}"
        key = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        if key is not None and key[1] == ADMIN_KEY:
            return self._moto(environ, start_response)
        with self._lock:
            self.journal.append(line)
            fault = next((fault for fault in self._faults if re.search(fault.pattern, line)), None)
            if fault is not None:
                self._faults.remove(fault)
        if key is None or key[1] != KEY:
            return _error(start_response, 403, "InvalidClientTokenId")
        with self._one_of(line):
            return self._answer_with(fault, environ, start_response)

    @contextmanager
    def _one_of(self, line: str) -> Iterator[None]:
        weight = int(line.startswith("POST"))
        with self._lock:
            begun = self._round
            self._changing += weight
            self.most_at_once = max(self.most_at_once, self._changing)
        self._closing.wait(sum(seconds for pattern, seconds in self._latency.items() if re.search(pattern, line)))
        try:
            yield
        finally:
            with self._lock:
                self._changing -= weight if begun == self._round else 0

    def _answer_with(self, fault: Fault | None, environ: Any, start_response: Any) -> Any:
        if fault is not None and fault.kind == "answer":
            return _error(start_response, fault.status, fault.code, fault.retry_after)
        if fault is None or fault.kind == "act":
            if fault is not None:
                fault.act()
            return self._moto(environ, start_response)
        if fault.kind == "hang":
            self._closing.wait(10.0)
        else:
            list(self._moto(environ, lambda *_: None))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return []


def _error(start_response: Any, status: int, code: str, retry_after: str = "") -> list[bytes]:
    body = (
        '<?xml version="1.0"?><ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error>'
        f"<Type>Sender</Type><Code>{code}</Code><Message>The request is refused</Message></Error>"
        "<RequestId>b25f48e8-84fd-11e6-80d9-574e0c4664cb</RequestId></ErrorResponse>"
    ).encode()
    headers = [("content-type", "text/xml"), ("content-length", str(len(body)))]
    start_response(f"{status} Refused", headers + ([("retry-after", retry_after)] if retry_after else []))
    return [body]


def _same(held: MotoRecordSet, record_set: dict[str, Any]) -> bool:
    values = sorted(record["Value"] for record in record_set.get("ResourceRecords", []))
    return held.ttl == record_set.get("TTL") and sorted(held.records) == values


def _refuse(text: str) -> Route53ClientError:
    return Route53ClientError("InvalidChangeBatch", text)


def _apply(zone: FakeZone, sets: list[MotoRecordSet], change: dict[str, Any]) -> list[MotoRecordSet]:
    record_set = copy.deepcopy(change["ResourceRecordSet"])
    name = record_set["Name"] = record_set["Name"].lower().removesuffix(".") + "."
    action, kind = change["Action"], record_set["Type"]
    if name != zone.name and not name.endswith(f".{zone.name}"):
        raise _refuse(f"RRSet with DNS name {name} is not permitted in zone {zone.name}")
    same_name = [held for held in sets if held.name == name]
    found = [h for h in same_name if h.type == kind and h.set_identifier == record_set.get("SetIdentifier")]
    if action == "DELETE":
        if not found:
            raise _refuse(f"Tried to delete resource record set [name='{name}', type='{kind}'] but it was not found")
        if not _same(found[0], record_set):
            raise _refuse(f"Tried to delete [name='{name}', type='{kind}'] but the values provided do not match")
    elif action == "CREATE" and found:
        raise _refuse(f"Tried to create resource record set [name='{name}', type='{kind}'] but it already exists")
    elif any(len(record["Value"]) > 4000 for record in record_set.get("ResourceRecords", [])):
        raise _refuse("Value is too long: more than 4000 characters")
    elif any((held.type == "CNAME") != (kind == "CNAME") for held in same_name):
        raise _refuse(f"RRSet of type {kind} with DNS name {name} is not permitted as it conflicts with other records")
    kept = [held for held in sets if held not in found]
    if action == "DELETE":
        return kept
    record_set["ResourceRecords"] = [record["Value"] for record in record_set.get("ResourceRecords", [])]
    kind_of_set: Any = MotoRecordSet  # typed as if it were abstract
    return [*kept, kind_of_set(record_set)]


@pytest.fixture(autouse=True)
def _as_aws_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make moto judge a batch as a whole and against what is there, escape wildcards, and list zones from a name on."""

    transaction = threading.Lock()

    def change(backend: Route53Backend, zone_id: str, changes: list[dict[str, Any]]) -> None:
        zone = backend.get_hosted_zone(zone_id)
        with transaction:
            sets = list(zone.rrsets)
            for entry in changes:
                sets = _apply(zone, sets, entry)
            zone.rrsets = sets

    def zones(backend: Route53Backend, name: str | None) -> tuple[str | None, list[FakeZone]]:
        def place(text: str) -> str:
            return ".".join(reversed(text.lower().removesuffix(".").split("."))) + "."

        listed = sorted(backend.zones.values(), key=lambda zone: place(zone.name))
        return name, [zone for zone in listed if not name or place(zone.name) >= place(name)]

    inner = FakeZone.get_record_sets

    def record_sets(zone: FakeZone, start_type: str, start_name: str) -> list[MotoRecordSet]:
        shown = []
        for held in inner(zone, start_type, (start_name or "").replace(r"\052", "*")):
            escaped = copy.copy(held)
            escaped.name = held.name.replace("*", r"\052")
            shown.append(escaped)
        return shown

    monkeypatch.setattr(Route53Backend, "change_resource_record_sets", change)
    monkeypatch.setattr(Route53Backend, "list_hosted_zones_by_name", zones)
    monkeypatch.setattr(FakeZone, "get_record_sets", record_sets)


def reset_backends() -> None:
    for account in get_backend("route53").values():
        for backend in account.values():
            backend.reset()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    reset_backends()
    running.reset()
    return running


@pytest.fixture
def provider(server: Server) -> DNSProvider:
    return build_dns_provider(ProviderContext({}, endpoint=server.url))


@pytest.fixture
def calls(server: Server) -> Callable[[], list[str]]:
    """Return the calls since the last time: ``zones``, ``read`` and ``change``."""

    def since() -> list[str]:
        lines, server.journal[:] = server.journal[:], []
        return [_word(line) for line in lines]

    return since


def _word(line: str) -> str:
    if line.endswith("/hostedzonesbyname"):
        return "zones"
    return {"GET": "read", "POST": "change"}[line.partition(" ")[0]] if line.endswith("/rrset") else line


class Account:
    """What somebody else does in the account."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def add_zone(self, name: str, *, private: bool = False) -> str:
        config = {"PrivateZone": private, "Comment": ""}
        vpc = {"VPC": {"VPCRegion": "us-east-1", "VPCId": "vpc-1"}} if private else {}
        reference = f"{name}-{time.monotonic_ns()}"
        made = self.client.create_hosted_zone(Name=name, CallerReference=reference, HostedZoneConfig=config, **vpc)
        return str(made["HostedZone"]["Id"]).rpartition("/")[2]

    def remove_zone(self, zone_id: str) -> None:
        self.client.delete_hosted_zone(Id=zone_id)

    def change(self, zone_id: str, action: str, **record_set: Any) -> None:
        batch = {"Changes": [{"Action": action, "ResourceRecordSet": record_set}]}
        self.client.change_resource_record_sets(HostedZoneId=zone_id, ChangeBatch=batch)

    def put(self, zone_id: str, name: str, kind: str, *values: str, ttl: int = 60, **extra: Any) -> None:
        records = {"TTL": ttl, "ResourceRecords": [{"Value": value} for value in values]} if values else {}
        self.change(zone_id, "UPSERT", Name=name, Type=kind, **records, **extra)

    def sets(self, zone_id: str, name: str) -> list[dict[str, Any]]:
        answer = self.client.list_resource_record_sets(HostedZoneId=zone_id)
        return [held for held in answer["ResourceRecordSets"] if held["Name"] == f"{name}."]

    def values(self, zone_id: str, name: str, kind: str = "A") -> list[str]:
        return [
            record["Value"]
            for held in self.sets(zone_id, name)
            if held["Type"] == kind
            for record in held["ResourceRecords"]
        ]


@pytest.fixture(scope="session")
def admin(running: Server) -> Iterator[Any]:
    """Return the SDK's client of somebody else, whose calls are neither in the journal nor disturbed."""
    client = boto3.Session(ADMIN_KEY, "admin").client("route53", endpoint_url=running.url, region_name="us-east-1")
    yield client
    client.close()


@pytest.fixture
def account(server: Server, admin: Any) -> Account:
    del server
    return Account(admin)


@pytest.fixture
def zone_id(account: Account) -> str:
    return account.add_zone("example.com")
