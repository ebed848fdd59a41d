"""Requests for the status page: headers, caching, valid HTML, and what many or slow readers do to the server."""

from __future__ import annotations

import gzip
import http.client
import importlib
import json
import os
import re
import socket
import threading
import time
from types import ModuleType

import pytest

from flipop_core.runtime.page.app import FRESH_SECONDS, Facts, StatusPage
from flipop_core.runtime.page.render import static_files

from .conftest import Serve
from .pagefacts import HOSTILE, FactsBox, calm_facts, empty_facts, hostile_facts, many_facts, troubled_facts

NOW = 1_800_000_000.0
HTML_PATHS = ("/", "/status/content")
ALL_PATHS = (*HTML_PATHS, "/api/status", "/status.css", "/status.js", "/status.svg")


class Answer:
    """What a page answers. Header names are in lower case."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    def start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        assert len(self.headers) == len(headers), "a header is sent twice"


class Client:
    """Asks a page without a server, at a time that the test sets."""

    def __init__(self, facts: Facts) -> None:
        self.now = NOW
        self.box = FactsBox(facts)
        self.page = StatusPage(self.box, monotonic=lambda: self.now, wall=lambda: self.now)

    def get(self, path: str, method: str = "GET", query: str = "", **headers: str) -> Answer:
        given = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        answer = Answer()
        environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "QUERY_STRING": query, **given}
        answer.body = b"".join(self.page(environ, answer.start))
        return answer

    def text(self, path: str) -> str:
        return self.get(path).body.decode()


@pytest.fixture
def client() -> Client:
    return Client(troubled_facts(NOW))


def html5lib_or_skip() -> ModuleType:
    try:
        return importlib.import_module("html5lib")
    except ImportError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("html5lib is not installed")


@pytest.mark.parametrize("path", ALL_PATHS)
def test_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == ("no-cache" if path.startswith("/status.") else "no-store")


@pytest.mark.parametrize("kind", [calm_facts, troubled_facts, hostile_facts])
def test_the_document_is_valid(kind: object) -> None:
    html5lib = html5lib_or_skip()
    assert callable(kind)
    body = Client(kind(NOW)).get("/").body
    html5lib.HTMLParser(strict=True).parse(body, transport_encoding="utf-8")
    with pytest.raises(html5lib.html5parser.ParseError):
        html5lib.HTMLParser(strict=True).parse(body.replace(b"</main>", b"</p></main>"), transport_encoding="utf-8")


@pytest.mark.parametrize("facts", [empty_facts(), troubled_facts(NOW), hostile_facts(NOW), many_facts(NOW, 30, 30)])
def test_identifiers_are_unique_and_what_refers_to_them_is_right(facts: Facts) -> None:
    text = Client(facts).text("/")
    identifiers = re.findall(r'\bid="([^"]*)"', text)
    assert len(set(identifiers)) == len(identifiers)
    referred = re.findall(r'aria-labelledby="([^"]*)"', text) + re.findall(r'href="#([^"]*)"', text)
    assert set(referred) <= set(identifiers)
    assert all(" " not in identifier for identifier in identifiers)
    assert not re.search(r"<[^>]*\s(style|on\w+)=", text), "nothing inline"


def test_tables_say_what_their_cells_are(client: Client) -> None:
    text = client.text("/")
    assert text.count("<table") == text.count("<caption") == 5
    assert not re.search(r"<th(?![^>]*\bscope=)(?!ead)", text)


@pytest.mark.parametrize("path", HTML_PATHS)
def test_what_others_write_is_escaped(path: str) -> None:
    text = Client(hostile_facts(NOW)).text(path)
    assert text.count("<script") == (1 if path == "/" else 0)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;\\x00\\x1b[31m\\u202egpj.exe\\u2028" in text
    assert not {char for char in text if not char.isprintable() and char != "\n"}


def test_it_says_when_a_held_address_moves(client: Client) -> None:
    text = re.sub(r"<[^>]*>", "", client.text("/"))
    expected = (
        "moves in 12 s: the node is not Ready; the address moves at 08:00:12 (in 12 s) unless node-5 is Ready again"
    )
    assert expected in text
    assert "RateLimited again in 33 s" in text


def test_the_json_is_the_overview(client: Client) -> None:
    answer = client.get("/api/status")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == troubled_facts(NOW).overview


def test_what_has_not_changed_is_not_sent_again(client: Client) -> None:
    first = client.get("/status/content")
    tag = first.headers["etag"]
    client.now += 60
    for sent in (tag, f'"other", W/{tag}'):
        again = client.get("/status/content", if_none_match=sent)
        assert (again.status, again.body, again.headers["etag"]) == ("304 Not Modified", b"", tag)
    assert f'data-etag="{tag.replace(chr(34), "&#34;")}"' in client.text("/")
    client.box.put(calm_facts(NOW))
    client.now += FRESH_SECONDS
    changed = client.get("/status/content", if_none_match=tag)
    assert changed.status == "200 OK"
    assert changed.headers["etag"] != tag
    assert client.get("/").status == "200 OK"


def test_without_scripts_it_reloads_unless_told_not_to(client: Client) -> None:
    assert b'<noscript><meta http-equiv="refresh" content="10"></noscript>' in client.get("/").body
    assert b"refresh" not in client.get("/", query="refresh=off").body.split(b"</head>")[0]


def test_large_answers_are_compressed_for_those_who_take_it(client: Client) -> None:
    plain = client.get("/", accept_encoding="br, gzip;q=0")
    packed = client.get("/", accept_encoding="br, gzip;q=0.5")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert int(packed.headers["content-length"]) == len(packed.body)


@pytest.mark.parametrize("path", ALL_PATHS)
def test_head_is_get_without_the_body(client: Client, path: str) -> None:
    got, head = client.get(path), client.get(path, method="HEAD")
    assert (head.status, head.headers, head.body) == (got.status, got.headers, b"")


def test_a_large_cluster_is_a_small_page() -> None:
    client = Client(many_facts(NOW, 100, 1000))
    assert len(client.get("/").body) < 500_000
    assert len(client.get("/", accept_encoding="gzip").body) < 50_000


def test_however_many_ask_it_is_made_once_a_second(client: Client) -> None:
    for _ in range(50):
        client.get("/")
    assert client.box.reads == 1
    client.now += FRESH_SECONDS
    for path in ("/", "/status/content", "/api/status"):
        client.get(path)
    assert client.box.reads == 2


def test_while_it_is_made_others_get_the_last_one() -> None:
    client = Client(calm_facts(NOW))
    first = client.get("/status/content")
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> Facts:
        inside.set()
        assert go_on.wait(10)
        return troubled_facts(NOW)

    client.page._facts = slow
    client.now += FRESH_SECONDS
    made: list[Answer] = []
    maker = threading.Thread(target=lambda: made.append(client.get("/status/content")))
    maker.start()
    assert inside.wait(10)
    try:
        assert client.get("/status/content").headers["etag"] == first.headers["etag"]
    finally:
        go_on.set()
        maker.join(10)
    assert made[0].headers["etag"] != first.headers["etag"]


def test_a_first_page_that_takes_long_keeps_nobody() -> None:
    client = Client(calm_facts(NOW))
    with client.page._making:
        answer = client.get("/")
    assert (answer.status, answer.headers["retry-after"]) == ("503 Service Unavailable", "1")
    assert answer.headers["content-security-policy"]
    assert client.get("/").status == "200 OK"


def test_the_server_answers_probes_beside_many_readers(serve: Serve) -> None:
    served = serve(many_facts(time.time(), 100, 20))
    readers = []
    for _ in range(40):
        # They ask, and never read the answer.
        reader = socket.create_connection(("127.0.0.1", served.server.port))
        reader.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        readers.append(reader)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=10)
        for path, status in (("/healthz", 200), ("/", 200), ("/metrics", 200), ("/nothing", 404), ("/status.css", 200)):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert (path, answer.status) == (path, status)
        connection.request("POST", "/")
        assert connection.getresponse().status == 405
        connection.close()
    finally:
        for reader in readers:
            reader.close()


def test_the_server_closes_although_browsers_keep_their_connections(serve: Serve) -> None:
    served = serve(calm_facts(time.time()))
    connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=10)
    connection.request("GET", "/")
    connection.getresponse().read()
    began = time.monotonic()
    served.close()
    assert time.monotonic() - began < 8
    connection.close()


def channel(value: int) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(digit * 2 for digit in colour)
    red, green, blue = (channel(int(digits[index : index + 2], 16)) for index in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_contrast() -> None:
    sheet = static_files()["status.css"].body.decode()
    schemes = [
        dict(re.findall(r"--([\w-]+): #(\w+)", block)) for block in re.findall(r":root \{(.*?)\n *\}", sheet, re.DOTALL)
    ]
    assert len(schemes) == 2
    for colours in schemes:
        for text in ("ink", "quiet", "link", "good", "busy", "bad", "idle"):
            for ground in ("page", "card", "head", "bad-wash"):
                brighter, darker = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
                assert (brighter + 0.05) / (darker + 0.05) >= 4.5, (text, ground)


def test_the_hostile_text_is_hostile() -> None:
    assert "<script>" in HOSTILE
    assert any(not char.isprintable() for char in HOSTILE)
