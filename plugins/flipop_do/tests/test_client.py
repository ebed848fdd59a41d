"""Errors: which answer, or which missing answer, becomes which type, and what never gets into one."""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import socket
import ssl
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flipop_core import (
    AccessDenied,
    Busy,
    ConfigError,
    CreateRequest,
    IPProvider,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
)
from flipop_do import CREDENTIAL_VARIABLE, build_ip_provider
from flipop_do_testserver import DigitalOceanServer, Settings
from tests.support.faults import KINDS

TOKEN = "dop_v1_0123456789abcdef"
IP = "198.18.77.7"
Call = Callable[[IPProvider], object]

READS: dict[str, Call] = {
    "list_addresses": lambda provider: provider.list_addresses([]),
    "describe": lambda provider: provider.describe([IP]),
    "find_created": lambda provider: provider.find_created(CreateRequest("claim", region="nyc3")),
}
MUTATIONS: dict[str, Call] = {
    "create": lambda provider: provider.create(CreateRequest("claim", region="nyc3")),
    "assign": lambda provider: provider.assign(IP, "digitalocean://1001"),
    "unassign": lambda provider: provider.unassign(IP),
    "delete": lambda provider: provider.delete(IP),
}
CALLS = READS | MUTATIONS


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer(Settings(action_seconds=60)) as running:
        running.account.add_droplet("node", droplet_id=1001)
        running.account.add_address(ip=IP)
        yield running
    assert running.violations == []


@pytest.fixture
def provider(server: DigitalOceanServer) -> IPProvider:
    return new_provider(server.url)


def new_provider(url: str, timeout_seconds: float = 7.0, token: str = TOKEN) -> IPProvider:
    context = ProviderContext({CREDENTIAL_VARIABLE: token}, endpoint=url, timeout_seconds=timeout_seconds)
    return build_ip_provider(context)


def unknown_for(operation: str) -> type[ProviderError]:
    return OutcomeUnknown if operation in MUTATIONS else Unavailable


@pytest.mark.parametrize("operation", CALLS)
class TestEveryOperation:
    @pytest.mark.parametrize("status", [500, 502, 503, 504, 520, 408])
    def test_5xx(self, provider: IPProvider, server: DigitalOceanServer, operation: str, status: int) -> None:
        server.faults.add(kind="status", status=status)
        with pytest.raises(ProviderError) as caught:
            CALLS[operation](provider)
        assert type(caught.value) is unknown_for(operation)
        assert caught.value.operation == operation
        assert server.journal.count() == 1

    @pytest.mark.parametrize("kind", ["html_502", "drop_before", "drop_after_effect"])
    def test_no_usable_answer(
        self, provider: IPProvider, server: DigitalOceanServer, operation: str, kind: str
    ) -> None:
        server.faults.add(kind=kind)
        with pytest.raises(ProviderError) as caught:
            CALLS[operation](provider)
        assert type(caught.value) is unknown_for(operation)
        assert server.journal.count() == 1

    @pytest.mark.parametrize("kind", ["hang", "hang_after_effect"])
    def test_hang_is_cut(self, server: DigitalOceanServer, operation: str, kind: str) -> None:
        provider = new_provider(server.url, timeout_seconds=0.4)
        server.faults.add(kind=kind)
        start = time.monotonic()
        with pytest.raises(ProviderError) as caught:
            CALLS[operation](provider)
        assert time.monotonic() - start < 10
        assert type(caught.value) is unknown_for(operation)
        assert server.journal.count() == 1

    def test_401(self, server: DigitalOceanServer, operation: str) -> None:
        server.settings.token = "another"
        with pytest.raises(AccessDenied):
            CALLS[operation](new_provider(server.url))
        assert server.journal.count() == 1

    def test_403(self, provider: IPProvider, server: DigitalOceanServer, operation: str) -> None:
        server.faults.add(kind="status", status=403, id="forbidden", message="You lack the scope.")
        verb = {"assign": "update", "unassign": "update"}.get(
            operation, operation if operation in MUTATIONS else "read"
        )
        with pytest.raises(AccessDenied, match=f"the token lacks the scope reserved_ip:{verb} "):
            CALLS[operation](provider)

    def test_429(self, provider: IPProvider, server: DigitalOceanServer, operation: str) -> None:
        server.faults.add(kind="retry_after", seconds=17)
        with pytest.raises(RateLimited) as caught:
            CALLS[operation](provider)
        assert caught.value.retry_after_seconds == 17
        assert server.journal.count() == 1

    def test_redirect_is_not_followed(self, provider: IPProvider, server: DigitalOceanServer, operation: str) -> None:
        if operation == "unassign":
            server.account.move(IP, 1001)
        server.faults.add(kind="status", status=307, headers={"location": f"{server.url}/v2/reserved_ips"})
        with pytest.raises(Rejected):
            CALLS[operation](provider)
        assert [entry.status for entry in server.journal.entries() if entry.status == 307] == [307]
        assert server.journal.count("POST") + server.journal.count("DELETE") <= 1

    def test_refused_connection_was_not_sent(self, operation: str) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            with pytest.raises(Unavailable, match="not sent"):
                CALLS[operation](new_provider(f"http://127.0.0.1:{unused.getsockname()[1]}"))

    def test_no_fault_shows_the_token(
        self, server: DigitalOceanServer, operation: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        provider = new_provider(server.url, timeout_seconds=0.3)
        errors: list[ProviderError] = []
        for kind in KINDS:
            server.faults.add(
                kind=kind, message=f"Bearer {TOKEN} is bad {TOKEN}", id=TOKEN, text=f'"{TOKEN}"', seconds=1
            )
            try:
                CALLS[operation](provider)
            except ProviderError as error:
                errors.append(error)
            server.faults.clear()
        assert len(errors) >= len(KINDS) - 2  # a deletion has no body that could be spoilt
        for caught in errors:
            assert TOKEN not in "".join(traceback.format_exception(caught)) + repr(caught) + str(vars(caught))
            assert len(str(caught)) < 400
        assert TOKEN not in caplog.text
        assert TOKEN not in repr(provider) + str(vars(provider))


NOT_JSON = ("[1", "<html>", "\ufeff", "\x00")
NOT_AN_OBJECT = ("[]", "null", '"x"', "7")
WRONG_OBJECTS = (
    "",
    "{}",
    '{"reserved_ip":{"ip":"x"},"action":{"id":"x"}}',
    '{"reserved_ips":[{"ip":4}],"reserved_ip":7,"action":null}',
    '{"reserved_ips":[{"ip":"1.2.3.4","locked":1}],"reserved_ip":{"ip":"1.2.3.4","droplet":"x"},"action":{"id":1}}',
)


@pytest.mark.parametrize(
    ("operation", "text"),
    # A deletion needs nothing of the body, so that any object will do.
    [
        (name, text)
        for name in CALLS
        for text in (*NOT_JSON, *NOT_AN_OBJECT, *(WRONG_OBJECTS if name != "delete" else ()))
    ],
)
def test_wrong_body(provider: IPProvider, server: DigitalOceanServer, operation: str, text: str) -> None:
    status = {"create": 202, "assign": 201, "unassign": 201}.get(operation, 200)
    if operation == "unassign":
        server.account.move(IP, 1001)
    server.faults.add(kind="body", status=status, text=text)
    with pytest.raises(ProviderError) as caught:
        CALLS[operation](provider)
    assert type(caught.value) is unknown_for(operation)


@pytest.mark.parametrize("operation", [name for name in CALLS if name not in {"delete", "unassign"}])
def test_trickling_answer_is_cut(server: DigitalOceanServer, operation: str) -> None:
    provider = new_provider(server.url, timeout_seconds=0.4)
    server.faults.add(kind="drip")
    start = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        CALLS[operation](provider)
    assert time.monotonic() - start < 10
    assert type(caught.value) is unknown_for(operation)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, "bad", Rejected),
        (404, "gone", NotFound),
        (409, "conflict", Busy),
        (423, "x", Busy),
        (422, "Droplet already has a pending event.", Busy),
        (422, "The floating IP already has a pending event.", Busy),
        (422, "The address is locked", Busy),
        (422, "Droplet already has a floating IP", NodeInUse),
        (422, "You have reached your Reserved IP limit", QuotaExceeded),
        (403, "This would exceed your account's quota", QuotaExceeded),
        (422, "blocked", Rejected),
        (422, "", Rejected),
    ],
)
def test_refusals(
    server: DigitalOceanServer, provider: IPProvider, status: int, message: str, expected: type[ProviderError]
) -> None:
    server.faults.add("POST", kind="status", status=status, id="x", message=message)
    if status == 404:
        expected = Rejected  # creating: there is no address yet, so it is the node that is wrong
    with pytest.raises(ProviderError) as caught:
        provider.create(CreateRequest("claim", region="nyc3", provider_id="digitalocean://1001"))
    assert type(caught.value) is expected
    assert str(status) in caught.value.message
    assert server.journal.count() == 1


class TestRetryAfter:
    def test_by_date(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        headers = {"date": "Sat, 21 Nov 2026 09:00:00 GMT", "retry-after": "Sat, 21 Nov 2026 09:00:42 GMT"}
        server.faults.add(kind="status", status=429, headers=headers)
        assert self.wish(provider) == 42

    def test_by_reset_against_the_servers_clock(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.faults.add(
            kind="status", status=429, headers={"date": "Thu, 01 Jan 1970 00:10:00 GMT", "ratelimit-reset": "630"}
        )
        assert self.wish(provider) == 30

    def test_a_reset_seen_earlier_says_nothing_of_this_refusal(
        self, provider: IPProvider, server: DigitalOceanServer
    ) -> None:
        provider.list_addresses([])
        server.faults.add(kind="status", status=429)
        assert self.wish(provider) == 5

    @pytest.mark.parametrize("value", ["", "soon", "-5", "1e9", "nan"])
    def test_without_a_usable_one(self, provider: IPProvider, server: DigitalOceanServer, value: str) -> None:
        server.faults.add(kind="status", status=429, headers={"retry-after": value, "ratelimit-reset": value})
        assert self.wish(provider) == 5

    def test_is_bounded(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.faults.add(kind="retry_after", seconds=99999)
        assert self.wish(provider) == 3600

    def test_of_the_service(self, provider: IPProvider, server: DigitalOceanServer) -> None:
        server.settings.minute_limit = 2
        provider.list_addresses([])
        provider.list_addresses([])
        assert 50 < self.wish(provider) <= 61

    def wish(self, provider: IPProvider) -> float:
        with pytest.raises(RateLimited) as caught:
            provider.list_addresses([])
        return caught.value.retry_after_seconds


def test_page_links_in_a_circle(provider: IPProvider, server: DigitalOceanServer) -> None:
    text = '{"reserved_ips":[],"links":{"pages":{"next":"https://x/v2/reserved_ips?page=1&per_page=200"}}}'
    server.faults.add(kind="body", status=200, text=text)
    with pytest.raises(Unavailable, match="circle"):
        provider.list_addresses([])


def test_user_agent_and_token_are_sent(server: DigitalOceanServer) -> None:
    server.settings.token = TOKEN
    context = ProviderContext({CREDENTIAL_VARIABLE: f" {TOKEN}\n"}, endpoint=f"{server.url}/", user_agent="flipop/9")
    assert build_ip_provider(context).describe([IP])
    assert server.journal.entries()[0].user_agent.startswith("flipop/9 ")


@pytest.mark.parametrize("token", ["", "  ", "a b", "a\nb", "ä"])
def test_unusable_token(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        new_provider("http://127.0.0.1:1", token=token)
    assert CREDENTIAL_VARIABLE in str(caught.value)


@pytest.mark.parametrize("endpoint", ["api.digitalocean.com", "ftp://x", "http://", "/v2"])
def test_unusable_endpoint(endpoint: str) -> None:
    with pytest.raises(ConfigError):
        new_provider(endpoint)


def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with DigitalOceanServer(ssl_context=context) as server:
        server.account.add_address(ip=IP)
        provider = new_provider(server.url, timeout_seconds=2)
        assert set(provider.list_addresses([])) == {IP}
        for kind in ("hang", "drip"):
            server.faults.add(kind=kind)
            start = time.monotonic()
            with pytest.raises(Unavailable):
                provider.list_addresses([])
            assert time.monotonic() - start < 10
        server.faults.add(kind="drop_after_effect")
        with pytest.raises(OutcomeUnknown):
            provider.delete(IP)
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        with pytest.raises(Unavailable, match="not sent"):
            new_provider(server.url).delete(IP)


def write_certificate(directory: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
