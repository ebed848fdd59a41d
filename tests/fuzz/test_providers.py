"""What a provider's API answers, as hostile as can be: a value or the right `ProviderError`, in time, without a secret.

Every call of every plugin is made against what its test server answered to it, with one node of one answer replaced by
something else, and with answers that are monsters as a whole.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import time
import traceback
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flipop_cloudflare.client
import flipop_do.client
from flipop_core import OutcomeUnknown, ProviderError, RateLimited, Unavailable

from . import hostile
from .parsers import MESSAGE_MAX_LENGTH
from .profile import profile
from .replay import Answer, Exchange, Replay
from .vendors import SECRETS, TIMEOUT_SECONDS, Case, all_cases

MOST_BYTES = 256 * 2**20
"""More than any plugin reads, sockets' buffers included."""

JSON = {"content-type": "application/json"}
XML = {"content-type": "text/xml"}


@pytest.fixture(scope="module", autouse=True)
def _no_metadata() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="module")
def replay() -> Iterator[Replay]:
    with Replay() as running:
        yield running


@pytest.fixture(scope="module")
def cases(replay: Replay) -> dict[str, list[Case]]:
    """The cases of each vendor."""
    found: dict[str, list[Case]] = {}
    for case in all_cases(replay):
        found.setdefault(case.name.partition(" ")[0], []).append(case)
    return found


def spoilt(case: Case, index: int, answer: Answer) -> list[Answer]:
    """Return the answers to a case's requests, with one replaced."""
    answers = [exchange.answer for exchange in case.exchanges]
    answers[index] = answer
    return answers


def outcome(replay: Replay, case: Case) -> ProviderError | None:
    """Make the call; return its error. Anything else fails the test, and so does what it must not say."""
    provider = case.build(replay.url, TIMEOUT_SECONDS)
    begun = time.monotonic()
    try:
        case.call(provider)
    except ProviderError as error:
        check_text(error, provider)
        return error
    finally:
        assert time.monotonic() - begun < 2 * TIMEOUT_SECONDS + 10, "it takes too long"
    return None


def check_text(error: ProviderError, provider: object) -> None:
    """Check that an error is one short line without a secret, and so are all that is behind it."""
    assert len(str(error)) <= MESSAGE_MAX_LENGTH
    assert str(error).isprintable(), str(error)
    told = "".join(traceback.format_exception(error)) + repr(error) + repr(provider) + repr(vars(error))
    for secret in secrets_of(error.provider):
        for form in (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()):
            assert form not in told


def secrets_of(provider: str) -> list[str]:
    """Return the secrets that a provider was given."""
    return [secret for variable, secret in SECRETS.items() if variable.startswith(provider.upper())]


def check_kind(case: Case, exchange: Exchange, error: ProviderError) -> None:
    """Check an error about an answer with a status of success that cannot be read."""
    if exchange.changes:
        assert isinstance(error, OutcomeUnknown), (case.name, exchange.action, repr(error))
    else:
        assert not isinstance(error, OutcomeUnknown), (case.name, exchange.action, repr(error))


# -- one node of a tree ----------------------------------------------------------------------------------------------


@st.composite
def spoilt_bodies(draw: st.DrawFn, body: bytes) -> bytes:
    """Return a body of JSON or XML with one node replaced, doubled or left out."""
    if body.lstrip()[:1] == b"<":
        return _spoilt_xml(draw, body)
    if not body:
        return draw(st.sampled_from(hostile.RAW)).encode()
    return draw(hostile.mutations((json.loads(body),)))


def _spoilt_xml(draw: st.DrawFn, body: bytes) -> bytes:
    root = ET.fromstring(body)
    above = {child: parent for parent in root.iter() for child in parent}
    node = draw(st.sampled_from(list(root.iter())))
    act = draw(st.sampled_from(("text", "text", "text", "remove", "double", "empty", "rename", "move")))
    if act == "text":
        node.text = draw(hostile.texts)
    elif act == "rename":
        node.tag = draw(st.sampled_from(("item", "Error", "nextToken", "x")))
    elif act == "empty" or node is root:
        node.clear()
    elif act == "remove":
        above[node].remove(node)
    elif act == "double":
        above[node].extend([node] * 3)
    else:
        above[node].remove(node)
        root.append(node)
    return ET.tostring(root, encoding="unicode").encode(errors="surrogatepass")


@pytest.mark.parametrize(("vendor", "examples"), [("do", 120), ("cf", 80), ("aws", 30)])
def test_any_node_of_any_answer(vendor: str, examples: int, replay: Replay, cases: dict[str, list[Case]]) -> None:
    @profile(examples)
    @given(st.data())
    def spoil(data: st.DataObject) -> None:
        case = data.draw(st.sampled_from(cases[vendor]))
        index = data.draw(st.integers(0, len(case.exchanges) - 1))
        exchange = case.exchanges[index]
        body = exchange.answer.body
        assert isinstance(body, bytes)
        answer = exchange.answer._replace(body=data.draw(spoilt_bodies(body)))
        if data.draw(st.integers(0, 9)) == 0:
            answer = answer._replace(status=data.draw(st.sampled_from((201, 301, 400, 404, 409, 422, 429, 500, 599))))
        replay.script(spoilt(case, index, answer))
        error = outcome(replay, case)
        if error is not None and 200 <= answer.status < 300 and len(replay.requests) == index + 1:
            check_kind(case, exchange, error)

    spoil()


# -- monsters --------------------------------------------------------------------------------------------------------


def endless() -> Iterable[bytes]:
    piece = b'{"a":"' + b"x" * 2**20
    for _ in range(MOST_BYTES // 2**20 + 1):
        yield piece


def packed() -> Iterable[bytes]:
    """Yield a gzip stream of 4 GiB of nothing, which takes 4 MiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    yield packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(4096):
        yield again


def dripping() -> Iterable[bytes]:
    for _ in range(200):
        yield b" "
        time.sleep(0.05)


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    + "]><r>&a11;</r>"
).encode()
QUADRATIC = b'<!DOCTYPE r [<!ENTITY a "' + b"x" * 50_000 + b'">]><r>' + b"&a;" * 50_000 + b"</r>"
OUTSIDE = b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r>&a;</r>'
DEEP_XML = b"<a>" * 10_000
MONSTERS: dict[str, Answer] = {
    "endless": Answer(200, JSON, endless),
    "gzip bomb": Answer(200, {**JSON, "content-encoding": "gzip"}, packed),
    "no gzip": Answer(200, {**JSON, "content-encoding": "gzip"}, b"{}"),
    "unknown encoding": Answer(200, {**JSON, "content-encoding": "x-rot13"}, b"{}"),
    "deep": Answer(200, JSON, b"[" * 10_000 + b"]" * 10_000),
    "deep members": Answer(200, JSON, b'{"result":' * 10_000 + b"1" + b"}" * 10_000),
    "deep error": Answer(400, JSON, b'{"errors":[{"error_chain":' * 10_000),
    "deep xml": Answer(200, XML, DEEP_XML + b"</a>" * 10_000),
    "billion laughs": Answer(200, XML, LAUGHS),
    "quadratic entities": Answer(200, XML, QUADRATIC),
    "outside entity": Answer(200, XML, OUTSIDE),
    "html": Answer(200, {"content-type": "text/html"}, b"<html><body>It works!</body></html>"),
    "utf-16": Answer(200, {"content-type": "application/json; charset=utf-16"}, '{"a":1}'.encode("utf-16")),
    "unknown charset": Answer(200, {"content-type": "text/xml; charset=klingon"}, b"<r/>"),
    "no charset": Answer(500, {"content-type": "text/xml; charset=\xff"}, b"\xff\xfe<r/>"),
    "latin": Answer(200, JSON, b'{"a":"\xe9\xff"}'),
    "null": Answer(200, JSON, b"null"),
    "cut": Answer(200, {**JSON}, b'{"reserved_ips":[{"ip":"192.0.2.1"'),
    "cut xml": Answer(200, XML, b"<DescribeAddressesResponse><addressesSet><item>"),
    "many headers": Answer(200, {f"x-{number}": "y" * 100 for number in range(300)}, b"{}"),
    "long header": Answer(200, {"x-long": "y" * 100_000}, b"{}"),
    "hostile request id": Answer(400, {"x-request-id": "a\x1b[31m" + "b" * 5000, "cf-ray": "\x9bc" * 900}, b"{}"),
}


@pytest.mark.parametrize("name", MONSTERS)
@pytest.mark.parametrize("vendor", ["do", "cf", "aws"])
def test_a_monster_is_an_error_in_time(vendor: str, name: str, replay: Replay, cases: dict[str, list[Case]]) -> None:
    large = callable(MONSTERS[name].body)
    reads = [case for case in cases[vendor] if case.name.split()[-1] in ("get", "list")]
    for case in reads[:1] if large else [cases[vendor][0], *reads[-1:]]:
        for index, exchange in enumerate(case.exchanges[:1] if large else case.exchanges):
            if exchange.answer.body == b"":
                continue  # what an empty answer would say does not matter
            replay.script(spoilt(case, index, MONSTERS[name]))
            error = outcome(replay, case)
            if error is not None and MONSTERS[name].status == 200:
                check_kind(case, exchange, error)
            assert replay.bytes_sent < MOST_BYTES


@pytest.mark.parametrize("vendor", ["do", "cf", "aws"])
def test_an_answer_that_trickles_ends_in_time(vendor: str, replay: Replay, cases: dict[str, list[Case]]) -> None:
    case = next(case for case in cases[vendor] if case.exchanges[-1].changes)
    index = len(case.exchanges) - 1
    replay.script(spoilt(case, index, Answer(200, JSON, dripping)))
    assert isinstance(outcome(replay, case), OutcomeUnknown)


# -- pages -----------------------------------------------------------------------------------------------------------


def digitalocean_page(following: Callable[[int], int], members: str) -> Callable[[str, str], Answer]:
    def answer(_method: str, path: str) -> Answer:
        number = int(path.replace("?page=", "&page=").partition("&page=")[2].partition("&")[0])
        following_page = {"next": f"https://api.digitalocean.com/v2/x?page={following(number)}"}
        return Answer(200, JSON, json.dumps({members: [], "links": {"pages": following_page}}).encode())

    return answer


def always_same(exchange: Exchange, *edits: tuple[bytes, bytes]) -> Callable[[str, str], Answer]:
    body = exchange.answer.body
    assert isinstance(body, bytes)
    for old, new in edits:
        assert old in body, (old, body)
        body = body.replace(old, new)
    return lambda _method, _path: exchange.answer._replace(body=body)


@pytest.mark.parametrize("following", [lambda n: n, lambda n: 1, lambda n: n + 1, lambda n: 999_999_999 - n])
def test_the_pages_of_digitalocean_end(
    following: Callable[[int], int],
    replay: Replay,
    cases: dict[str, list[Case]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flipop_do.client, "_MAX_PAGES", 20)
    members = {"do list": "reserved_ips", "do dns get": "domain_records", "do firewall get": "firewalls"}
    for case in cases["do"]:
        if case.name in members:
            replay.script([], digitalocean_page(following, members[case.name]))
            provider = case.build(replay.url, TIMEOUT_SECONDS)
            with pytest.raises(Unavailable):
                case.call(provider)
            assert len(replay.requests) <= 20


def test_the_pages_of_cloudflare_end(
    replay: Replay, cases: dict[str, list[Case]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flipop_cloudflare.client, "_MAX_PAGES", 20)
    case = next(each for each in cases["cf"] if each.name == "cf get")
    for index, exchange in enumerate(case.exchanges):
        body = json.loads(exchange.answer.body)  # type: ignore[arg-type]  # recorded, so bytes
        body["result_info"] = {"total_pages": 10**9, "page": 1, "total_count": 10**12}
        spoiled = exchange.answer._replace(body=json.dumps(body).encode())
        replay.script([each.answer for each in case.exchanges[:index]] + [spoiled] * 100)
        assert isinstance(outcome(replay, case), Unavailable)
        assert len(replay.requests) <= 21


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("aws limits", (b"</DescribeInstancesResponse>", b"<nextToken>x</nextToken></DescribeInstancesResponse>")),
        (
            "aws group get",
            (b"</DescribeSecurityGroupsResponse>", b"<nextToken>x</nextToken></DescribeSecurityGroupsResponse>"),
        ),
    ],
)
def test_the_pages_of_ec2_end(
    name: str, edit: tuple[bytes, bytes], replay: Replay, cases: dict[str, list[Case]]
) -> None:
    case = next(each for each in cases["aws"] if each.name == name)
    replay.script([], always_same(case.exchanges[0], edit))
    provider = case.build(replay.url, TIMEOUT_SECONDS)
    with pytest.raises(Unavailable):
        case.call(provider)
    assert 1 < len(replay.requests) <= 100


# -- elsewhere -------------------------------------------------------------------------------------------------------


# The SDK of AWS fails on a 303, without following it, and leaves that connection to the garbage collector.
@pytest.mark.parametrize(
    ("vendor", "status"),
    [
        (vendor, status)
        for vendor in ("do", "cf", "aws")
        for status in (301, 302, 303, 307, 308)
        if (vendor, status) != ("aws", 303)
    ],
)
def test_a_redirect_leads_nowhere(vendor: str, status: int, replay: Replay, cases: dict[str, list[Case]]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as elsewhere:
        elsewhere.settimeout(0.0)
        target = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/steal"
        for case in cases[vendor][:3]:
            replay.script(spoilt(case, 0, Answer(status, {"location": target}, b"<r/>")))
            assert outcome(replay, case) is not None
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


@pytest.mark.parametrize("wish", ["9" * 400, "-5", "²", "nan", "inf", "1e400", "Fri, 31 Dec 9999 23:59:59 GMT"])
@pytest.mark.parametrize("vendor", ["do", "cf", "aws"])
def test_a_wish_to_wait_is_bounded(vendor: str, wish: str, replay: Replay, cases: dict[str, list[Case]]) -> None:
    case = cases[vendor][0]
    headers = {"retry-after": wish, "ratelimit-reset": wish, "date": wish}
    body = b"<Response><Errors><Error><Code>Throttling</Code></Error></Errors></Response>" if vendor == "aws" else b"{}"
    replay.script([Answer(429, headers, body)] * 3)
    error = outcome(replay, case)
    assert isinstance(error, RateLimited)
    assert 0 <= error.retry_after_seconds <= 3600


@pytest.mark.parametrize("status", [400, 401, 403, 422, 429, 500])
@pytest.mark.parametrize("vendor", ["do", "cf", "aws"])
def test_an_api_that_echoes_what_it_was_sent_makes_no_secret_known(
    vendor: str, status: int, replay: Replay, cases: dict[str, list[Case]]
) -> None:
    provider = {"do": "digitalocean", "cf": "cloudflare", "aws": "aws"}[vendor]
    told = " ".join(f"{secret} {quote(secret, safe='')} \x7f\x9b31m" for secret in secrets_of(provider))
    assert len(told) > 40
    bodies = {
        "do": json.dumps({"id": told, "message": told, "request_id": told}),
        "cf": json.dumps({"success": False, "errors": [{"code": 7, "message": told}], "messages": [told]}),
        "aws": f"<R><Errors><Error><Code>{told}</Code><Message>{told}</Message></Error></Errors></R>",
    }
    headers = {"x-request-id": told, "cf-ray": told, "x-amzn-requestid": told, "retry-after": "1"}
    for case in cases[vendor][:1]:
        for index in range(len(case.exchanges)):
            replay.script(spoilt(case, index, Answer(status, headers, bodies[vendor].encode())))
            outcome(replay, case)
