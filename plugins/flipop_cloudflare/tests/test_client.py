"""Errors: which answer, or which missing answer, becomes which type, and what never gets into one."""

from __future__ import annotations

import logging
import socket
import ssl
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from flipop_cloudflare import CREDENTIAL_VARIABLE, build_dns_provider
from flipop_cloudflare_testserver import DNS_EDIT, DNS_READ, ZONE_READ, CloudflareServer
from flipop_core import (
    AccessDenied,
    Applied,
    Busy,
    ConfigError,
    DNSProvider,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    RecordSet,
    Rejected,
    Unavailable,
)
from tests.controlplane.certificates import write_certificates
from tests.support.faults import KINDS

TOKEN = "cf_0123456789abcdef"
ZONE, NAME = "example.com", "www.example.com"
A1, A2 = "192.0.2.1", "192.0.2.2"
WRITES = "POST|PATCH|DELETE"
Connect = Callable[..., DNSProvider]
STAGES = {"zone": ("GET", r"^/zones$"), "read": ("GET", "/dns_records$"), "write": (WRITES, "/dns_records")}


def ensure(*values: str) -> Callable[[DNSProvider], object]:
    return lambda provider: provider.ensure_record_set(ZONE, RecordSet(NAME, "A", 60, values))


def delete(provider: DNSProvider) -> object:
    return provider.delete_record_set(ZONE, NAME, "A")


# Per operation: what is there before, and the call.
CALLS: dict[str, tuple[list[str], Callable[[DNSProvider], object]]] = {
    "get": ([A1], lambda provider: provider.get_record_set(ZONE, NAME, "A")),
    "create": ([], ensure(A1)),
    "edit": ([A2], ensure(A1)),
    "batch": ([], ensure(A1, A2)),
    "delete": ([A1], delete),
    "batch-delete": ([A1, A2], delete),
}
WRONG_BODIES = ("", "{", "<html>", "[]", "null", "{}", '{"success":true,"result":null}', '{"success":true,"result":7}')
CASES = [(name, stage) for name in CALLS for stage in STAGES if (name, stage) != ("get", "write")]
SLOW_CASES = [("get", "read"), ("create", "zone"), ("create", "write"), ("batch", "write"), ("delete", "write")]


class Case:
    """One operation against the server, with something going wrong at one of its requests."""

    def __init__(self, server: CloudflareServer, connect: Connect, zone_id: str, name: str, stage: str) -> None:
        self.server = server
        self.connect = connect
        present, self.call = CALLS[name]
        self.before = present
        self.zone_id = zone_id
        self.restore()
        self.method, self.path = STAGES[stage]
        self.unknown = OutcomeUnknown if stage == "write" else Unavailable
        self.requests = list(STAGES).index(stage) + 1

    def fail(self, kind: str, **details: object) -> None:
        self.server.faults.add(self.method, self.path, kind=kind, **details)

    def expect(self, error: type[ProviderError], **options: float) -> ProviderError:
        with pytest.raises(ProviderError) as caught:
            self.call(self.connect(**options))
        assert type(caught.value) is error
        assert caught.value.provider == "cloudflare"
        assert caught.value.operation.endswith("_record_set")
        assert self.server.journal.count() == self.requests
        return caught.value

    def restore(self) -> None:
        """Undo the effects, and forget the requests."""
        for record in self.server.account.records(self.zone_id):
            self.server.account.remove_record(self.zone_id, record.id)
        for value in self.before:
            self.server.account.add_record(self.zone_id, NAME, "A", value, ttl=60)
        self.server.journal.clear()

    def values(self) -> list[str]:
        return [record.content for record in self.server.account.records(self.zone_id)]


@pytest.fixture
def case(request: pytest.FixtureRequest, server: CloudflareServer, connect: Connect, zone_id: str) -> Case:
    return Case(server, connect, zone_id, *request.param)


@pytest.mark.parametrize("case", CASES, indirect=True, ids="-".join)
class TestEveryRequest:
    @pytest.mark.parametrize("status", [500, 408])
    def test_5xx(self, case: Case, status: int) -> None:
        case.fail("status", status=status)
        case.expect(case.unknown)
        assert case.values() == case.before

    @pytest.mark.parametrize("kind", ["html_502", "drop_before", "drop_after_effect", "cut_body"])
    def test_no_usable_answer(self, case: Case, kind: str) -> None:
        case.fail(kind)
        case.expect(case.unknown)

    @pytest.mark.parametrize("status", [401, 403])
    def test_denied(self, case: Case, status: int) -> None:
        case.fail("status", status=status, code=10000, message="Authentication error")
        error = case.expect(AccessDenied)
        permission = "Zone:Read" if case.requests == 1 else "DNS:Edit"
        assert error.message == (
            f"HTTP {status}: Authentication error (10000): the token in CLOUDFLARE_TOKEN is not valid or lacks the "
            f"permission {permission} on zone example.com"
        )

    def test_429(self, case: Case) -> None:
        case.fail("retry_after", seconds=300)
        error = case.expect(RateLimited)
        assert isinstance(error, RateLimited)
        assert error.retry_after_seconds == 300
        assert case.values() == case.before

    def test_a_redirect_is_not_followed(self, case: Case) -> None:
        case.fail("status", status=307, headers={"location": f"{case.server.url}/zones"})
        case.expect(Rejected)

    def test_success_false(self, case: Case) -> None:
        text = '{"success":false,"errors":[{"code":1004,"message":"no"}],"messages":[],"result":null}'
        case.fail("body", status=200, text=text)
        assert "no (1004)" in str(case.expect(Rejected))

    def test_wrong_body(self, case: Case) -> None:
        for text in WRONG_BODIES:
            case.fail("body", status=200, text=text)
            case.expect(case.unknown)
            case.restore()

    def test_a_proxys_404_is_no_answer(self, case: Case) -> None:
        case.fail("body", status=404, text="<h1>404</h1>")
        case.expect(case.unknown)


@pytest.mark.parametrize("case", SLOW_CASES, indirect=True, ids="-".join)
class TestSlowRequests:
    @pytest.mark.parametrize("kind", ["hang", "drip"])
    def test_no_end(self, case: Case, kind: str) -> None:
        case.fail(kind)
        start = time.monotonic()
        case.expect(case.unknown, timeout_seconds=1.0)
        assert time.monotonic() - start < 10

    def test_no_fault_shows_the_token(self, case: Case, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        provider = case.connect(timeout_seconds=0.5, token=TOKEN)
        errors: list[ProviderError] = []
        for kind in KINDS:
            case.fail(kind, message=f"Bearer {TOKEN} is bad {TOKEN}", text=f'"{TOKEN}"', seconds=0.7)
            try:
                case.call(provider)
            except ProviderError as error:
                errors.append(error)
            case.server.faults.clear()
        assert errors
        for caught in errors:
            assert TOKEN not in "".join(traceback.format_exception(caught)) + repr(caught) + str(vars(caught))
            assert len(str(caught)) < 500
        assert TOKEN not in caplog.text + repr(provider) + str(vars(provider))


@pytest.mark.parametrize(
    ("status", "code", "expected", "mend"),
    [
        (400, 1004, Rejected, ""),
        (400, 9300, Rejected, ""),
        (400, 9021, Rejected, "ttl is 60 to 86400 seconds, or 1 for automatic"),
        (400, 9313, Rejected, "a comment has at most 100 characters: shorten the owner ID"),
        (400, 81045, QuotaExceeded, "a free zone holds 200"),
        (400, 81053, Rejected, "remove the CNAME record of that name"),
        (400, 6003, AccessDenied, "DNS:Edit"),
        (400, 6111, AccessDenied, "DNS:Edit"),
        (403, 9109, AccessDenied, "DNS:Edit"),
        (401, 1000, AccessDenied, "DNS:Edit"),
        (404, 7003, NotFound, "check the zone's name or ID"),
        (400, 1001, NotFound, "check the zone's name or ID"),
        (404, 99999, NotFound, ""),
        (409, 99999, Busy, ""),
        (418, 99999, Rejected, ""),
    ],
)
def test_refusals(
    provider: DNSProvider,
    server: CloudflareServer,
    status: int,
    code: int,
    expected: type[ProviderError],
    mend: str,
) -> None:
    server.faults.add("POST", kind="status", status=status, code=code, message="the reason")
    with pytest.raises(ProviderError) as caught:
        ensure(A1)(provider)
    assert type(caught.value) is expected
    assert f"HTTP {status}: the reason ({code})" in caught.value.message
    assert mend in caught.value.message


def test_the_chain_of_causes_decides_and_is_shown(
    provider: DNSProvider, server: CloudflareServer, zone_id: str
) -> None:
    server.settings.comment_limit = 10
    wanted = RecordSet(NAME, "A", 60, (A1,), ("longer than ten",))
    with pytest.raises(Rejected) as caught:
        provider.ensure_record_set(ZONE, wanted)
    assert "DNS Validation Error (1004); DNS record comment exceeds the maximum length" in caught.value.message
    assert "shorten the owner ID" in caught.value.message
    assert caught.value.request_id
    assert server.account.records(zone_id) == []


class TestRateLimits:
    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"retry-after": "17"}, 17),
            ({"retry-after": " 2.5 "}, 2.5),
            ({"retry-after": "99999"}, 3600),
            ({"retry-after": "soon", "ratelimit": '"default";r=0;t=42'}, 42),
            ({"ratelimit": '"burst";r=0;t=7, "default";r=4;t=200'}, 7),
            ({"retry-after": "-5"}, 60),
            ({}, 60),
        ],
    )
    def test_the_wish(
        self, provider: DNSProvider, server: CloudflareServer, headers: dict[str, str], seconds: float
    ) -> None:
        server.faults.add(kind="status", status=429, headers=headers)
        with pytest.raises(RateLimited) as caught:
            ensure(A1)(provider)
        assert caught.value.retry_after_seconds == seconds

    def test_of_the_service(self, provider: DNSProvider, server: CloudflareServer) -> None:
        server.settings.request_limit = 3
        ensure(A1)(provider)
        with pytest.raises(RateLimited) as caught:
            ensure(A1)(provider)
        assert 290 < caught.value.retry_after_seconds <= 300


class TestPermissions:
    """What a token that is too narrow is told, and what it can still do."""

    @pytest.fixture
    def two_zones(self, server: CloudflareServer) -> tuple[str, str]:
        ids = server.account.add_zone("example.com"), server.account.add_zone("example.org")
        server.account.add_token("reader", {"*": frozenset({ZONE_READ, DNS_READ})})
        server.account.add_token("dns-only", {ids[0]: frozenset({DNS_EDIT})})
        server.account.add_token("one-zone", {ids[0]: frozenset({ZONE_READ, DNS_EDIT})})
        return ids

    def test_without_dns_edit(self, connect: Connect, two_zones: tuple[str, str]) -> None:
        reader = connect(token="reader")
        assert reader.get_record_set(ZONE, NAME, "A") is None
        with pytest.raises(AccessDenied, match=r"lacks the permission DNS:Edit on zone example\.com"):
            ensure(A1)(reader)

    def test_without_zone_read_an_id_serves(
        self, connect: Connect, server: CloudflareServer, two_zones: tuple[str, str]
    ) -> None:
        provider = connect(token="dns-only")
        with pytest.raises(AccessDenied, match=r"lacks the permission Zone:Read on zone example\.com"):
            ensure(A1)(provider)
        for _ in range(2):
            wanted = RecordSet(NAME, "A", 60, (A1,))
            assert provider.ensure_record_set(two_zones[0], wanted) == Applied()
        assert server.journal.count("GET", r"^/zones/[0-9a-f]+$") == 1
        assert len(server.account.records(two_zones[0])) == 1

    def test_then_a_name_outside_the_zone_is_told_afterwards(
        self, connect: Connect, server: CloudflareServer, two_zones: tuple[str, str]
    ) -> None:
        provider, wanted = connect(token="dns-only"), RecordSet("www.example.org", "A", 60, (A1,))
        with pytest.raises(Rejected, match=r"www\.example\.org\.example\.com was made instead, remove it"):
            provider.ensure_record_set(two_zones[0], wanted)
        with pytest.raises(Busy, match="identical"):
            provider.ensure_record_set(two_zones[0], wanted)
        assert len(server.account.records(two_zones[0])) == 1

    def test_another_zone(self, connect: Connect, two_zones: tuple[str, str]) -> None:
        provider = connect(token="one-zone")
        ensure(A1)(provider)
        with pytest.raises(NotFound, match=r"sees no zone example\.org"):
            provider.get_record_set("example.org", "www.example.org", "A")
        with pytest.raises(AccessDenied, match=f"DNS:Edit on zone {two_zones[1]}"):
            provider.get_record_set(two_zones[1], "www.example.org", "A")

    def test_an_unknown_token(self, connect: Connect, two_zones: tuple[str, str]) -> None:
        with pytest.raises(
            AccessDenied, match=r"Invalid access token \(9109\): the token in CLOUDFLARE_TOKEN is not valid"
        ):
            ensure(A1)(connect(token="unknown"))

    def test_a_malformed_token(self, connect: Connect, two_zones: tuple[str, str]) -> None:
        with pytest.raises(AccessDenied, match=r"Invalid format for Authorization header \(6111\)"):
            ensure(A1)(connect(token="x"))


def test_all_requests_of_a_method_share_its_timeout(connect: Connect, server: CloudflareServer, zone_id: str) -> None:
    server.settings.latency_seconds = 0.5
    start = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        ensure(A1)(connect(timeout_seconds=1.2))
    assert time.monotonic() - start < 10
    assert isinstance(caught.value, OutcomeUnknown | Unavailable)
    assert server.journal.count() == 3 or isinstance(caught.value, Unavailable)


def test_a_refused_connection_was_not_sent(connect: Connect) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(Unavailable, match="not sent: ConnectError"):
            ensure(A1)(connect(url=f"http://127.0.0.1:{unused.getsockname()[1]}"))


def test_what_is_sent(server: CloudflareServer, zone_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server.settings.token = TOKEN
    for name in ("CLOUDFLARE_API_KEY", "CLOUDFLARE_EMAIL", "CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_USER_SERVICE_KEY"):
        monkeypatch.setenv(name, "somebody-elses")
    monkeypatch.setenv("CLOUDFLARE_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CLOUDFLARE_CUSTOM_HEADERS", "Authorization: Bearer another")
    context = ProviderContext({CREDENTIAL_VARIABLE: f" {TOKEN}\n"}, endpoint=f"{server.url}/", user_agent="flipop/9")
    assert build_dns_provider(context).get_record_set(ZONE, NAME, "A") is None
    assert {entry.user_agent for entry in server.journal.entries()} == {"flipop/9"}


@pytest.mark.parametrize("token", ["", "  ", "a b", "a\nb", "ä"])
def test_unusable_token(connect: Connect, token: str) -> None:
    with pytest.raises(ConfigError, match=CREDENTIAL_VARIABLE):
        connect(token=token)


@pytest.mark.parametrize("endpoint", ["api.cloudflare.com", "ftp://x", "http://", "/client/v4"])
def test_unusable_endpoint(connect: Connect, endpoint: str) -> None:
    with pytest.raises(ConfigError, match="the API URL is not like https://"):
        connect(url=endpoint)


class TestProxy:
    def test_through_a_proxy(
        self, connect: Connect, server: CloudflareServer, zone_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A proxy gets the whole URL of a plain request; the stand-in takes its path and so serves as one.
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/client/v4"))
        monkeypatch.delenv("no_proxy", raising=False)
        provider = connect(url="http://api.cloudflare.invalid/client/v4")
        assert provider.get_record_set(ZONE, NAME, "A") is None
        assert server.journal.count() == 2

    def test_no_proxy(
        self, connect: Connect, server: CloudflareServer, zone_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert connect().get_record_set(ZONE, NAME, "A") is None

    def test_a_tunnel_that_is_refused_was_not_sent(
        self, connect: Connect, server: CloudflareServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("https_proxy", server.url.removesuffix("/client/v4"))
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(Unavailable, match="not sent: ProxyError"):
            connect(url="https://api.cloudflare.invalid/client/v4").get_record_set(ZONE, NAME, "A")

    def test_unusable_proxy(self, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(ConfigError, match="proxy"):
            connect(url="http://api.cloudflare.invalid/client/v4")


def test_over_tls(tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.certificate_file, certificates.server.key_file)
    with CloudflareServer(ssl_context=context) as server:
        zone_id = server.account.add_zone()
        with pytest.raises(Unavailable, match="not sent: ConnectError"):
            ensure(A1)(connect(url=server.url))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca_file))
        provider = connect(url=server.url, timeout_seconds=1.5)
        assert ensure(A1)(provider) == Applied()
        for kind in ("hang", "drip"):
            server.faults.add("GET", kind=kind)
            start = time.monotonic()
            with pytest.raises(Unavailable):
                provider.get_record_set(ZONE, NAME, "A")
            assert time.monotonic() - start < 10
        server.faults.add("DELETE", kind="drop_after_effect")
        with pytest.raises(OutcomeUnknown):
            delete(provider)
        assert server.account.records(zone_id) == []
