"""Requests, the errors that answers become, timeouts, connections and proxies."""

from __future__ import annotations

import email.utils
import json
import socket
import time

import pytest

from flipop_core.cluster import FLOATING_IP_POOLS, NODES, PODS, Query
from flipop_core.errors import (
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Expired,
    Forbidden,
    ObjectNotFound,
)
from flipop_core.runtime.kube import HTTPKubeAPI
from flipop_core.runtime.kubewatch import HTTPWatch

from .answers import (
    SECRET,
    Connect,
    WriteKubeconfig,
    answering,
    status_body,
    trickle,
)
from .scripted_server import Answer, Request, ScriptedServer


def test_a_request(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(answering(200, b'{"answer":1}'))
    body = {"spec": {"size": 1}}
    assert api.merge_patch(FLOATING_IP_POOLS, "n/s", "a b", body, subresource="status") == b'{"answer":1}'
    (request,) = server.requests
    group = "/apis/flipop.digitalocean.com/v1alpha1"
    assert (request.method, request.path) == ("PATCH", f"{group}/namespaces/n%2Fs/floatingippools/a%20b/status")
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert request.headers["User-Agent"] == "flipop"
    assert json.loads(request.body) == body


def test_a_server_with_a_path(connect: Connect, kubeconfig: WriteKubeconfig, server: ScriptedServer) -> None:
    api = connect(path=kubeconfig(server=f"{server.url}/k8s/clusters/c-1/"))
    api.list_page(Query(PODS, "ns", label_selector="a in (b,c)", field_selector="spec.nodeName=x"), limit=3)
    assert server.requests[0].path == (
        "/k8s/clusters/c-1/api/v1/namespaces/ns/pods"
        "?labelSelector=a+in+%28b%2Cc%29&fieldSelector=spec.nodeName%3Dx&limit=3"
    )


def test_a_list_of_nothing(api: HTTPKubeAPI) -> None:
    page = api.list_page(Query(NODES))
    assert (page.items, page.resource_version, page.continue_token) == ((), "7", "")


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"metadata":3}'])
def test_a_list_that_is_none(api: HTTPKubeAPI, server: ScriptedServer, body: bytes) -> None:
    server.script(answering(200, body))
    with pytest.raises(ClusterUnavailable, match="no list"):
        api.list_page(Query(NODES))


def test_a_list_may_come_as_protobuf_or_not(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    page = api.list_page(Query(PODS, protobuf=True))
    assert (page.protobuf, page.resource_version) == (False, "7")
    assert server.requests[0].headers["Accept"] == "application/vnd.kubernetes.protobuf, application/json"
    server.script(answering(200, b"k8s\0\x12\x07\x0a\x05\x12\x01\x39\x1a\x00"))
    page = api.list_page(Query(PODS, protobuf=True))
    assert (page.protobuf, page.resource_version, page.items) == (True, "9", ())
    server.script(answering(200, b"k8s\0\xff"))
    with pytest.raises(ClusterUnavailable, match="no list"):
        api.list_page(Query(PODS, protobuf=True))
    server.script(answering(503, b"k8s\0\xff"))
    with pytest.raises(ClusterUnavailable, match="no Status"):
        api.list_page(Query(PODS, protobuf=True))


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (400, "BadRequest", ClusterError),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", ObjectNotFound),
        (409, "AlreadyExists", Conflict),
        (410, "Expired", Expired),
        (422, "Invalid", ClusterError),
        (429, "TooManyRequests", ClusterUnavailable),
        (500, "InternalError", ClusterUnavailable),
        (503, "ServiceUnavailable", ClusterUnavailable),
        (504, "Timeout", ClusterUnavailable),
        (301, "", ClusterError),
    ],
)
def test_each_status_has_its_error(
    api: HTTPKubeAPI, server: ScriptedServer, status: int, reason: str, expected: type[ClusterError]
) -> None:
    server.script(answering(status, status_body(status, reason), Location="/elsewhere"))
    with pytest.raises(ClusterError, match="because") as caught:
        api.get(NODES, "", "a")
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert SECRET not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 422])
def test_a_version_that_means_nothing_is_expired(api: HTTPKubeAPI, server: ScriptedServer, status: int) -> None:
    server.script(answering(status, status_body(status)))
    with pytest.raises(Expired):
        api.watch(Query(NODES), resource_version="5")
    with pytest.raises(Expired):
        api.list_page(Query(NODES), continue_token="x")
    with pytest.raises(ClusterError) as caught:
        api.list_page(Query(NODES))
    assert type(caught.value) is ClusterError


def test_an_error_that_is_no_status(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(answering(502, b"<html>bad gateway</html>\xff" * 100))
    with pytest.raises(ClusterUnavailable, match="bad gateway") as caught:
        api.get(NODES, "", "a")
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        ({"Retry_After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({"Retry_After": "7"}, {"retryAfterSeconds": 3}, 7.0),
        ({"Retry_After": "soon"}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {}, None),
    ],
)
def test_the_server_says_when_to_try_again(
    api: HTTPKubeAPI, server: ScriptedServer, header: dict[str, str], details: dict[str, int], expected: float | None
) -> None:
    server.script(answering(429, status_body(429, "TooManyRequests", **details), **header))
    with pytest.raises(ClusterUnavailable) as caught:
        api.get(NODES, "", "a")
    assert caught.value.retry_after_seconds == expected


def test_the_server_says_when_to_try_again_as_a_date(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(answering(503, Retry_After=email.utils.formatdate(time.time() + 20, usegmt=True)))
    with pytest.raises(ClusterUnavailable) as caught:
        api.get(NODES, "", "a")
    assert caught.value.retry_after_seconds == pytest.approx(20, abs=3)


def test_nobody_listens(connect: Connect, kubeconfig: WriteKubeconfig) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        api = connect(path=kubeconfig(server=f"http://127.0.0.1:{bound.getsockname()[1]}"))
        with pytest.raises(ClusterUnavailable) as caught:
            api.get(NODES, "", "a")
    assert caught.value.status == 0


@pytest.mark.parametrize("slow", [trickle, lambda request: time.sleep(6)])
def test_a_timeout_bounds_the_whole_call(api: HTTPKubeAPI, server: ScriptedServer, slow: Answer) -> None:
    server.script(slow)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable):
        api.get(NODES, "", "a", timeout_seconds=0.5)
    assert 0.4 < time.monotonic() - began < 5
    assert len(server.requests) == 1


def test_an_answer_that_breaks_off(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    def broken(request: Request) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "100")
        request.end_headers()
        request.wfile.write(b"{")
        request.close_connection = True

    server.script(broken)
    with pytest.raises(ClusterUnavailable, match="broke off"):
        api.get(NODES, "", "a")


def test_connections_are_used_again_and_watched_by_the_kernel(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    for _ in range(3):
        api.list_page(Query(NODES))
    assert len({request.client for request in server.requests}) == 1
    server.script(trickle)
    watch = api.watch(Query(NODES), resource_version="1")
    assert isinstance(watch, HTTPWatch)
    connection = watch._socket
    assert connection is not None
    assert connection.gettimeout() == 30.0
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    watch.close()


def test_the_environments_proxy(
    kubeconfig: WriteKubeconfig,
    connect: Connect,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    api = connect(path=kubeconfig(server="http://kubernetes.invalid:6443"))
    api.list_page(Query(NODES))
    assert server.requests[0].path.startswith("http://kubernetes.invalid:6443/api/v1/nodes")


def test_hosts_without_a_proxy(
    kubeconfig: WriteKubeconfig,
    connect: Connect,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8,127.0.0.0/8")
    connect(path=kubeconfig()).list_page(Query(NODES))
    assert server.requests[0].path.startswith("/api/v1/nodes")


def test_the_kubeconfigs_proxy(kubeconfig: WriteKubeconfig, connect: Connect, server: ScriptedServer) -> None:
    api = connect(path=kubeconfig(server="http://kubernetes.invalid:6443", **{"proxy-url": server.url}))
    api.list_page(Query(NODES))
    assert server.requests[0].path.startswith("http://kubernetes.invalid:6443/")
