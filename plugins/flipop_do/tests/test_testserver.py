"""The stand-in itself: what it checks, what it refuses, and how other processes drive it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from flipop_do_testserver import DOCUMENT, DigitalOceanServer, Settings
from tests.support.contract import load_contract
from tests.support.process import ask, running


@pytest.fixture
def server() -> Iterator[DigitalOceanServer]:
    with DigitalOceanServer() as running:
        yield running


needs_document = pytest.mark.skipif(
    load_contract(DOCUMENT) is None, reason="the OpenAPI document is absent: the HTTP DigitalOcean runs unvalidated"
)


@needs_document
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v2/reserved_ips", {}),
        ("POST", "/v2/reserved_ips", {"region": 4}),
        ("POST", "/v2/reserved_ips", {"region": "nyc3", "droplet_id": 1}),
        ("POST", "/v2/reserved_ips/198.18.0.1/actions", {"type": "assign"}),
        ("POST", "/v2/reserved_ips/198.18.0.1/actions", {"type": "explode"}),
        ("GET", "/v2/reserved_ips?per_page=201", None),
        ("GET", "/v2/reserved_ips?page=0", None),
        ("GET", "/v2/reserved_ips/not-an-ip", None),
        ("POST", "/v2/reserved_ipv6", {"region": "nyc3"}),
        ("POST", "/v2/reserved_ipv6/2001:db8::1/actions", {"type": "assign"}),
        ("GET", "/v2/domains/example.com/records?type=WKS", None),
        ("POST", "/v2/domains/example.com/records", {"type": "A", "name": "www"}),
        ("PATCH", "/v2/domains/example.com/records/1", {"data": "192.0.2.1"}),
    ],
)
def test_invalid_requests_are_noted(server: DigitalOceanServer, method: str, path: str, body: Any) -> None:
    status, answer, _ = ask(server.url + path, method, body)
    assert (status, answer["id"]) == (400, "bad_request")
    assert len(server.violations) == 1


@needs_document
def test_invalid_responses_are_noted(server: DigitalOceanServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flipop_do_testserver.shapes.PROJECT_ID", 7)
    server.account.add_address()
    assert ask(f"{server.url}/v2/reserved_ips")[0] == 200
    assert len(server.violations) == 1
    assert "response 200" in server.violations[0]


def test_unknown_path_is_noted(server: DigitalOceanServer) -> None:
    assert ask(f"{server.url}/v2/nothing")[0] == 404
    assert len(server.violations) == 1


def test_every_path_answers_as_documented(server: DigitalOceanServer) -> None:
    droplet = server.account.add_droplet()
    uuid = server.account.add_prefix("192.0.2.0/28")
    server.account.move("192.0.2.1", server.account.add_droplet())
    _, created, _ = ask(f"{server.url}/v2/reserved_ips", "POST", {"droplet_id": droplet})
    ip = created["reserved_ip"]["ip"]
    action = created["links"]["actions"][0]["id"]
    paths = ["droplets", f"droplets/{droplet}", "byoip_prefixes", f"byoip_prefixes/{uuid}/ips", "reserved_ips"]
    paths += [f"reserved_ips/{ip}", f"reserved_ips/{ip}/actions", f"reserved_ips/{ip}/actions/{action}"]
    for path in paths:
        assert ask(f"{server.url}/v2/{path}")[0] == 200, path
    assert ask(f"{server.url}/v2/reserved_ips/192.0.2.1/actions", "POST", {"type": "unassign"})[0] == 201
    assert ask(f"{server.url}/v2/reserved_ips/192.0.2.1/actions/1")[0] == 404
    assert ask(f"{server.url}/v2/reserved_ips/{ip}", "DELETE")[0] == 204
    assert server.violations == []


def test_addresses_answer_to_their_former_name(server: DigitalOceanServer) -> None:
    droplet = server.account.add_droplet()
    url = f"{server.url}/v2/floating_ips"
    status, created, _ = ask(url, "POST", {"region": "nyc3"})
    ip = created["floating_ip"]["ip"]
    assert status == 202
    status, begun, _ = ask(f"{url}/{ip}/actions", "POST", {"type": "assign", "droplet_id": droplet})
    assert (status, begun["action"]["resource_type"]) == (201, "floating_ip")
    assert ask(f"{url}/{ip}/actions/{begun['action']['id']}")[0] == 200
    assert ask(f"{url}/{ip}")[1]["floating_ip"]["droplet"]["id"] == droplet
    assert [item["ip"] for item in ask(url)[1]["floating_ips"]] == [ip]
    assert server.violations == []
    assert ask(f"{url}/{ip}/actions", "POST", {"type": "assign"})[0] == 400
    assert ask(f"{url}/{ip}/elsewhere")[0] == 404
    assert len(server.violations) == 2


def test_every_ipv6_path_answers_as_documented(server: DigitalOceanServer) -> None:
    droplet = server.account.add_droplet()
    url = f"{server.url}/v2/reserved_ipv6"
    status, created, _ = ask(url, "POST", {"region_slug": "nyc3"})
    ip = created["reserved_ipv6"]["ip"]
    assert (status, created["reserved_ipv6"]["region_slug"]) == (201, "nyc3")
    quoted = f"{url}/{ip.replace(':', '%3A')}"
    assert ask(f"{quoted}/actions", "POST", {"type": "assign", "droplet_id": droplet})[0] == 201
    assert ask(quoted)[1]["reserved_ipv6"]["droplet"]["networks"]["v6"][0]["ip_address"] == ip
    assert [item["ip"] for item in ask(url)[1]["reserved_ipv6s"]] == [ip]
    assert ask(f"{server.url}/v2/reserved_ips")[1]["reserved_ips"] == []
    assert ask(quoted, "DELETE")[0] == 422
    assert ask(f"{quoted}/actions", "POST", {"type": "unassign"})[0] == 201
    assert ask(quoted, "DELETE")[0] == 204
    assert ask(quoted)[0] == 404
    assert server.violations == []


class TestDomains:
    def test_every_path_answers_as_documented(self, server: DigitalOceanServer) -> None:
        server.domains.add("example.com")
        url = f"{server.url}/v2/domains/example.com/records"
        body = {"type": "TXT", "name": "www", "data": "x", "flags": None, "tag": None}
        status, created, _ = ask(url, "POST", body)
        record = created["domain_record"]
        assert (status, record["ttl"]) == (201, 1800)
        status, changed, _ = ask(f"{url}/{record['id']}", "PATCH", {"type": "TXT", "ttl": 60})
        assert (status, changed["domain_record"]) == (200, {**record, "ttl": 60})
        assert ask(f"{url}/{record['id']}")[1] == changed
        assert ask(f"{url}?name=www.example.com&type=TXT")[1]["domain_records"] == [changed["domain_record"]]
        assert {item["type"] for item in ask(f"{url}?name=example.com")[1]["domain_records"]} == {"NS", "SOA"}
        for filters in ("name=www.example.com&type=A", "name=ww.example.com", "name=www"):
            assert ask(f"{url}?{filters}")[1]["domain_records"] == []
        assert ask(f"{url}/{record['id']}", "DELETE")[0] == 204
        for method in ("GET", "DELETE"):
            assert ask(f"{url}/{record['id']}", method)[0] == 404
        assert ask(f"{server.url}/v2/domains/example.org/records")[0] == 404
        assert server.violations == []

    def test_pages_keep_the_filter(self, server: DigitalOceanServer) -> None:
        server.domains.add("example.com")
        for number in range(3):
            server.domains.add_record("example.com", "A", "www", f"192.0.2.{number}")
        url = f"{server.url}/v2/domains/example.com/records?name=www.example.com&type=A&per_page=2"
        _, page, _ = ask(url)
        following = page["links"]["pages"]["next"]
        assert len(page["domain_records"]) == 2
        assert [item["data"] for item in ask(following)[1]["domain_records"]] == ["192.0.2.2"]

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"type": "A", "name": "alias", "data": "192.0.2.1"}, "CNAME records cannot share a name"),
            ({"type": "CNAME", "name": "www", "data": "x.example."}, "CNAME records cannot share a name"),
            ({"type": "CNAME", "name": "@", "data": "x.example."}, "CNAME records cannot share a name"),
            ({"type": "A", "name": "www", "data": "192.0.2.1", "ttl": 29}, "30"),
            ({"type": "A", "name": "www", "data": "2001:db8::1"}, "IPv4"),
            ({"type": "AAAA", "name": "www", "data": "192.0.2.1"}, "IPv6"),
            ({"type": "TXT", "name": "www", "data": "x" * 513, "flags": None, "tag": None}, "512"),
            ({"type": "A", "name": "www.example.com.", "data": "192.0.2.1"}, "relative"),
        ],
    )
    def test_refusals(self, server: DigitalOceanServer, body: dict[str, Any], message: str) -> None:
        server.domains.add("example.com")
        server.domains.add_record("example.com", "CNAME", "alias", "www")
        server.domains.add_record("example.com", "A", "www", "192.0.2.9")
        before = server.domains.records("example.com")
        status, answer, _ = ask(f"{server.url}/v2/domains/example.com/records", "POST", body)
        assert (status, message in answer["message"]) == (422, True)
        assert server.domains.records("example.com") == before

    def test_identical_records_are_taken(self, server: DigitalOceanServer) -> None:
        server.domains.add("example.com")
        body = {"type": "A", "name": "www", "data": "192.0.2.1"}
        for _ in range(2):
            assert ask(f"{server.url}/v2/domains/example.com/records", "POST", body)[0] == 201
        assert server.domains.values("example.com", "www") == ["192.0.2.1"] * 2


def test_scopes(server: DigitalOceanServer) -> None:
    server.domains.add("example.com")
    server.settings.scopes = "reserved_ip:read, domain:read"
    records = f"{server.url}/v2/domains/example.com/records"
    assert ask(records)[0] == ask(f"{server.url}/v2/reserved_ips")[0] == 200
    assert ask(records, "POST", {"type": "A", "name": "www", "data": "192.0.2.1"})[0] == 403
    assert ask(f"{server.url}/v2/droplets")[0] == 403
    assert server.violations == []


def test_pages(server: DigitalOceanServer) -> None:
    for _ in range(5):
        server.account.add_address()
    _, page, _ = ask(f"{server.url}/v2/reserved_ips?per_page=2&page=2")
    assert (len(page["reserved_ips"]), page["meta"]["total"]) == (2, 5)
    assert page["links"]["pages"]["next"].endswith("page=3&per_page=2")
    _, last, _ = ask(f"{server.url}/v2/reserved_ips?per_page=2&page=3")
    assert "next" not in last["links"]["pages"]
    assert server.violations == []


def test_token_and_rate_limits(server: DigitalOceanServer) -> None:
    url = f"{server.url}/v2/reserved_ips"
    server.settings.token = "right"
    assert ask(url, token="wrong")[0] == 401
    server.settings.create_limit = 1
    server.settings.hourly_limit = 3
    assert ask(url, "POST", {"region": "nyc3"}, token="right")[0] == 202
    status, _, headers = ask(url, "POST", {"region": "nyc3"}, token="right")
    assert (status, headers["ratelimit-remaining"]) == (429, "2")
    assert 0 < int(headers["retry-after"]) <= 61
    assert [ask(url, token="right")[0] for _ in range(3)] == [200, 200, 429]
    assert int(ask(url, token="right")[2]["ratelimit-reset"]) > time.time() + 3000
    assert server.violations == []


def test_reads_may_lag_behind() -> None:
    with DigitalOceanServer(Settings(stale_seconds=0.3)) as server:
        server.account.add_address()
        time.sleep(0.4)
        _, created, _ = ask(f"{server.url}/v2/reserved_ips", "POST", {"region": "nyc3"})
        url = f"{server.url}/v2/reserved_ips/{created['reserved_ip']['ip']}"
        assert ask(url)[0] == 404
        deadline = time.monotonic() + 30
        while ask(url)[0] == 404:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert server.violations == []


def test_as_a_process_of_its_own() -> None:
    options = ["--droplets", "2", "--region", "ams3", "--action-seconds", "0.05"]
    options += ["--domain", "example.com", "--domain", "example.org"]
    with running("flipop_do_testserver", *options) as url:
        drive(url)


def drive(url: str) -> None:
    def post(path: str, body: Any) -> Any:
        status, answer, _ = ask(f"{url}/_test/{path}", "POST", body)
        assert status == 200, answer
        return answer

    state = ask(f"{url}/_test/state")[1]
    assert [droplet["id"] for droplet in state["droplets"]] == [1001, 1002]
    assert sorted(state["domains"]) == ["example.com", "example.org"]
    post("domains", {"domain": "example.net"})
    record = {"domain": "example.net", "record_type": "A", "name": "www", "data": "192.0.2.1", "ttl": 60}
    ids = [post("records", record)["id"] for _ in range(2)]
    post("records/delete", {"domain": "example.net", "record_id": ids[0]})
    post("domains/delete", {"domain": "example.org"})
    state = ask(f"{url}/_test/state")[1]["domains"]
    assert [item["id"] for item in state["example.net"] if item["name"] == "www"] == ids[1:]
    assert sorted(state) == ["example.com", "example.net"]
    assert ":" in post("addresses", {"region": "ams3", "ipv6": True})["ips"][0]
    (ip,) = post("addresses", {"region": "ams3"})["ips"]
    assert len(post("droplets", {"count": 2, "region": "ams3"})["ids"]) == 2
    post("move", {"ip": ip, "droplet_id": 1002})
    post("faults", [{"kind": "status", "method": "GET", "path": "reserved_ips", "status": 503}])
    post("settings", {"action_seconds": 0.0})
    assert ask(f"{url}/v2/reserved_ips/{ip}")[0] == 503
    assert ask(f"{url}/v2/reserved_ips/{ip}")[1]["reserved_ip"]["droplet"]["id"] == 1002
    post("droplets/delete", {"id": 1002})
    assert ask(f"{url}/v2/reserved_ips/{ip}")[1]["reserved_ip"]["droplet"] is None
    journal = ask(f"{url}/_test/journal")[1]
    assert [(entry["method"], entry["status"], entry["fault"]) for entry in journal] == [
        ("GET", 503, "status"),
        ("GET", 200, ""),
        ("GET", 200, ""),
    ]
    assert abs(time.monotonic() - journal[-1]["time"]) < 60
    for path, body in [
        ("faults", [{"kind": "magic"}]),
        ("settings", {"speed": 1}),
        ("move", {}),
        ("settings", {"token": 1}),
    ]:
        assert ask(f"{url}/_test/{path}", "POST", body)[0] == 400
    assert ask(f"{url}/_test/violations")[1] == []
    post("reset", {})
    assert ask(f"{url}/_test/journal")[1] == []
