"""The stand-in itself: what it checks, what it refuses, and how other processes drive it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flipop_cloudflare_testserver import ALL, CloudflareServer, Settings
from flipop_cloudflare_testserver.server import DOCUMENT
from tests.support.contract import load_contract
from tests.support.process import ask, running

A1 = {"name": "www", "type": "A", "content": "192.0.2.1", "ttl": 60}
needs_document = pytest.mark.skipif(
    load_contract(DOCUMENT) is None, reason="the OpenAPI document is absent: the HTTP Cloudflare runs unvalidated"
)


class Client:
    """Asks about the records of one zone and answers with status and result, or with the codes of the errors."""

    def __init__(self, server: CloudflareServer, zone_id: str) -> None:
        self.url = f"{server.url}/zones/{zone_id}/dns_records"

    def __call__(self, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
        status, answer, _ = ask(self.url + path, method, body)
        assert answer["success"] == (status == 200)
        if answer["success"]:
            return status, answer["result"]
        errors = [cause for error in answer["errors"] for cause in (error, *error.get("error_chain", ()))]
        return status, [error["code"] for error in errors]

    def make(self, **fields: Any) -> str:
        status, result = self("POST", body={**A1, **fields})
        assert status == 200, result
        return str(result["id"])


@pytest.fixture
def client(server: CloudflareServer, zone_id: str) -> Client:
    return Client(server, zone_id)


@needs_document
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "", {"type": "A", "content": "192.0.2.1"}),
        ("POST", "", {**A1, "type": "BOGUS"}),
        ("POST", "", {**A1, "ttl": "60"}),
        ("POST", "", {**A1, "ttl": 5}),
        ("PATCH", "/" + "b" * 32, {}),
        ("POST", "/batch", {"patches": [{"content": "192.0.2.1"}]}),
        ("GET", "?per_page=0", None),
        ("GET", "?type=NOPE", None),
    ],
)
def test_invalid_requests_are_noted(
    server: CloudflareServer, client: Client, method: str, path: str, body: Any
) -> None:
    assert client(method, path, body) == (400, [9207])
    assert len(server.violations) == 1
    server.violations.clear()


@needs_document
def test_invalid_responses_are_noted(server: CloudflareServer, client: Client, zone_id: str) -> None:
    record = server.account.add_record(zone_id, "www.example.com", "A", "192.0.2.1")
    server.account.change_record(zone_id, record, created_on="yesterday")
    assert client("GET")[0] == 200
    assert len(server.violations) == 1
    assert "response 200" in server.violations[0]
    server.violations.clear()


def test_an_unknown_path_is_noted(server: CloudflareServer) -> None:
    assert ask(f"{server.url}/accounts")[0] == 404
    assert len(server.violations) == 1
    server.violations.clear()


def test_the_life_of_a_record(server: CloudflareServer, client: Client, zone_id: str) -> None:
    record = client.make(comment="mine", proxied=True)
    shown = client("GET", f"/{record}")[1]
    assert (shown["name"], shown["ttl"], shown["comment"], shown["proxied"]) == ("www.example.com", 1, "mine", True)
    assert "comment_modified_on" in shown
    patched = client("PATCH", f"/{record}", {"proxied": False, "ttl": 120})[1]
    assert (patched["ttl"], patched["comment"], patched["content"]) == (120, "mine", "192.0.2.1")
    put = client("PUT", f"/{record}", {**A1, "content": "192.0.2.2"})[1]
    assert (put["id"], put["content"], put["comment"]) == (record, "192.0.2.2", None)
    assert client("DELETE", f"/{record}") == (200, {"id": record})
    assert client("DELETE", f"/{record}") == (404, [81044])
    assert server.account.records(zone_id) == []


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({"type": "AAAA", "content": "2001:db8::1"}, None),
        ({"type": "TXT", "content": '"a"'}, None),
        ({"content": "192.0.2.9"}, None),
        ({}, [81058]),
        ({"type": "CNAME", "content": "x.example.com"}, [81053]),
        ({"name": "alias"}, [81054]),
        ({"type": "TXT", "content": ""}, [1004, 9207]),
        ({"type": "TXT", "content": '"a"', "proxied": True}, [1004, 9004]),
        ({"content": "192.0.2.9", "ttl": 59}, [1004, 9021]),
        ({"content": "192.0.2.9", "comment": "x" * 101}, [1004, 9313]),
        ({"content": "192.0.2.9", "tags": ["a:b"]}, [1004, 9300]),
    ],
)
def test_rules(client: Client, server: CloudflareServer, fields: dict[str, Any], codes: list[int] | None) -> None:
    client.make()
    client.make(name="alias", type="CNAME", content="x.example.com")
    status, result = client("POST", body={**A1, **fields})
    assert (status, result if status == 400 else None) == (200 if codes is None else 400, codes)
    server.settings.record_quota = len(server.account.records(next(iter(server.account.zones))))
    assert client("POST", body={**A1, "content": "192.0.2.77"}) == (400, [81045])


def test_addresses_are_checked_without_the_document_too(client: Client, server: CloudflareServer) -> None:
    server.contract = None
    assert client("POST", body={**A1, "content": "2001:db8::1"}) == (400, [1004, 9005])
    assert client("POST", body={**A1, "type": "AAAA"}) == (400, [1004, 9006])


class TestBatch:
    def test_runs_in_order(self, client: Client, server: CloudflareServer, zone_id: str) -> None:
        first, second = client.make(), client.make(content="192.0.2.2")
        # The patch needs the deletion, and the creation needs the patch.
        body = {
            "posts": [{**A1, "content": "192.0.2.2"}],
            "patches": [{"id": second, "content": "192.0.2.1"}],
            "deletes": [{"id": first}],
        }
        status, result = client("POST", "/batch", body)
        assert (status, {name: len(records) for name, records in result.items()}) == (
            200,
            {"deletes": 1, "patches": 1, "posts": 1},
        )
        contents = [record.content for record in server.account.records(zone_id)]
        assert contents == ["192.0.2.1", "192.0.2.2"]
        put = {"puts": [{"id": second, **A1, "content": "192.0.2.5"}]}
        assert client("POST", "/batch", put)[1]["puts"][0]["content"] == "192.0.2.5"

    def test_is_all_or_nothing(self, client: Client, server: CloudflareServer, zone_id: str) -> None:
        first = client.make()
        before = server.account.records(zone_id)
        body = {"deletes": [{"id": first}], "posts": [A1, A1]}
        assert client("POST", "/batch", body) == (400, [81058])
        assert client("POST", "/batch", {"deletes": [{"id": first}, {"id": "f" * 32}]}) == (404, [81044])
        assert server.account.records(zone_id) == before

    def test_has_a_limit(self, client: Client, server: CloudflareServer) -> None:
        server.settings.batch_limit = 1
        assert client("POST", "/batch", {"posts": [A1, {**A1, "content": "192.0.2.2"}]})[0] == 400


def test_filters_and_pages(client: Client, server: CloudflareServer) -> None:
    for number in range(1, 6):
        client.make(content=f"192.0.2.{number}", comment="odd" if number % 2 else "")
    client.make(name="mail", type="TXT", content='"Odd"')

    def contents(query: str) -> list[str]:
        return [record["content"] for record in client("GET", query)[1]]

    assert contents("?name.exact=WWW.example.com&type=A&per_page=2&page=2") == ["192.0.2.3", "192.0.2.4"]
    assert contents("?name=mail.example.com") == ['"Odd"']
    assert contents("?content.contains=odd") == ['"Odd"']
    assert contents("?comment.present=true&content.endswith=.1") == ["192.0.2.1"]
    assert contents("?comment.absent=true") == ["192.0.2.2", "192.0.2.4", '"Odd"']
    assert contents("?comment=odd&name.startswith=mail&match=any") == ["192.0.2.1", "192.0.2.3", "192.0.2.5", '"Odd"']
    assert contents("?proxied=true") == []
    answer = ask(f"{client.url}?per_page=4")[1]
    assert answer["result_info"] == {"page": 1, "per_page": 4, "count": 4, "total_count": 6, "total_pages": 2}


def test_tokens(server: CloudflareServer, zone_id: str) -> None:
    other = server.account.add_zone("example.org")
    server.account.add_token("narrow", {zone_id: ALL, other: frozenset()})

    def codes(path: str, token: str) -> list[int]:
        answer = ask(f"{server.url}{path}", token=token)[1]
        return [error["code"] for error in answer["errors"]]

    assert codes("/zones", "x") == [6003]
    assert codes("/zones", "wrong") == [9109]
    assert [zone["name"] for zone in ask(f"{server.url}/zones", token="narrow")[1]["result"]] == ["example.com"]
    assert codes(f"/zones/{other}", "narrow") == [9109]
    assert codes(f"/zones/{other}/dns_records", "narrow") == [10000]
    assert codes(f"/zones/{zone_id}/dns_records", "narrow") == []
    server.account.add_token("all")
    assert codes(f"/zones/{'0' * 32}/dns_records", "all") == [1001]
    assert codes("/zones/not-hex/dns_records", "all") == [7003]


def test_the_rate_limit_blocks(server: CloudflareServer) -> None:
    url = f"{server.url}/zones"
    server.settings.request_limit, server.settings.block_seconds = 2, 0.3
    assert [ask(url)[0] for _ in range(3)] == [200, 200, 429]
    _, answer, headers = ask(url)
    assert (answer["errors"][0]["code"], headers["retry-after"]) == (10429, "1")
    assert headers["ratelimit-policy"] == '"default";q=2;w=300'
    assert ask(url, token="another")[0] == 200
    server.settings.request_limit = 3
    deadline = time.monotonic() + 30
    while ask(url)[0] == 429:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    server.limits.clear()
    assert ask(url)[0] == 200


def test_as_a_process_of_its_own() -> None:
    with running("flipop_cloudflare_testserver", "--zone", "example.com", "--record-quota", "2") as url:
        drive(url)


def drive(url: str) -> None:
    def post(path: str, body: Any) -> Any:
        status, answer, _ = ask(f"{url}/_test/{path}", "POST", body)
        assert status == 200, answer
        return answer

    state = ask(f"{url}/_test/state")[1]
    assert state["settings"]["record_quota"] == Settings(record_quota=2).record_quota
    (zone,) = state["zones"]
    record = {"zone_id": zone["id"], "name": "www.example.com", "kind": "A", "content": "192.0.2.1", "ttl": 60}
    made = post("records", record)["id"]
    other = post("zones", {"name": "example.org"})["id"]
    post("tokens", {"token": "token", "permissions": {"*": ["zone:read", "dns_records:read"]}})
    post("faults", [{"kind": "status", "method": "GET", "path": "dns_records", "status": 503}])
    records = f"{url}/zones/{zone['id']}/dns_records"
    assert ask(records)[0] == 503
    assert [shown["id"] for shown in ask(records)[1]["result"]] == [made]
    assert ask(f"{records}/{made}", "DELETE")[0] == 403
    post("records/delete", {"zone_id": zone["id"], "record_id": made})
    post("zones/delete", {"zone_id": other})
    post("settings", {"latency_seconds": 0.01})
    journal = ask(f"{url}/_test/journal")[1]
    assert [(entry["method"], entry["status"], entry["fault"]) for entry in journal] == [
        ("GET", 503, "status"),
        ("GET", 200, ""),
        ("DELETE", 403, ""),
    ]
    for path, body in [
        ("faults", [{"kind": "magic"}]),
        ("settings", {"speed": 1}),
        ("settings", {"token": 1}),
        ("zones/delete", {"zone_id": "x"}),
    ]:
        assert ask(f"{url}/_test/{path}", "POST", body)[0] == 400
    assert ask(f"{url}/_test/nothing")[0] == 404
    assert ask(f"{url}/_test/violations")[1] == []
    post("reset", {})
    assert ask(f"{url}/_test/journal")[1] == []
