from __future__ import annotations

import email.utils
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from flipop_core.cluster import FLOATING_IP_POOLS, LEASES, NODES, PODS, Query
from flipop_core.errors import (
    ClusterError,
    ClusterUnavailable,
    ConfigError,
    Conflict,
    Expired,
    Forbidden,
    ObjectNotFound,
    Unauthorized,
)
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from flipop_core.runtime.kubewatch import HTTPWatch
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane

from .scripted_server import Answer, Request, ScriptedServer

SECRET = "very-secret-token"
EMPTY_LIST = b'{"metadata":{"resourceVersion":"7"},"items":null}'


def answering(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    return lambda request: request.answer(status, body, **headers)


def status_body(code: int, reason: str = "", **details: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "message": "because", "reason": reason, "code": code, "details": details}
    ).encode()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answering(200, EMPTY_LIST)) as running:
        yield running


WriteKubeconfig = Callable[..., str]
Connect = Callable[..., HTTPKubeAPI]


@pytest.fixture
def kubeconfig(tmp_path: Path, server: ScriptedServer) -> WriteKubeconfig:
    def write(user: dict[str, Any] | None = None, *, name: str = "config", **cluster: Any) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server.url, **cluster}}],
            "users": [{"name": "u", "user": {} if user is None else user}],
            "contexts": [
                {"name": "first", "context": {"cluster": "c", "user": "u", "namespace": "its-own"}},
                {"name": "second", "context": {"cluster": "c", "user": "u"}},
                {"name": "nobody", "context": {"cluster": "c", "user": ""}},
            ],
            "current-context": "first",
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


@pytest.fixture
def connect(kubeconfig: WriteKubeconfig) -> Iterator[Connect]:
    apis: list[HTTPKubeAPI] = []

    def make(user: dict[str, Any] | None = None, *, path: str = "", **options: Any) -> HTTPKubeAPI:
        path = path or kubeconfig(user)
        apis.append(HTTPKubeAPI(lambda: load_kube_configuration(path), **options))
        return apis[-1]

    yield make
    for api in apis:
        api.close()


@pytest.fixture
def api(connect: Connect) -> HTTPKubeAPI:
    return connect({"token": SECRET})


def exec_plugin(tmp_path: Path, script: str) -> dict[str, Any]:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(script)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }


def credential(**status: str) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(json.dumps(answer))})"


# Configuration


def test_the_official_client_is_not_imported_with_the_module() -> None:
    program = "import sys; import flipop_core.runtime.kube as k; k.HTTPKubeAPI; sys.exit('kubernetes' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_named_kubeconfig(kubeconfig: WriteKubeconfig, server: ScriptedServer) -> None:
    configuration = load_kube_configuration(kubeconfig({"token": SECRET}))
    assert configuration.url == server.url
    assert configuration.namespace == "its-own"
    assert configuration.authorization == f"Bearer {SECRET}"
    assert SECRET not in repr(configuration)


def test_another_context(kubeconfig: WriteKubeconfig) -> None:
    assert load_kube_configuration(kubeconfig(), "second").namespace == "default"


def test_the_environment_names_a_kubeconfig(kubeconfig: WriteKubeconfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/no/such/file:{kubeconfig({'token': SECRET})}")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert load_kube_configuration().authorization == f"Bearer {SECRET}"


def test_the_first_file_wins(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(
        yaml.safe_dump({"current-context": "second", "users": [{"name": "u", "user": {"token": "of-first"}}]})
    )
    configuration = load_kube_configuration(f"{first}:{kubeconfig({'token': 'of-second'})}")
    assert (configuration.namespace, configuration.authorization) == ("default", "Bearer of-first")


def test_the_home_directory_has_a_kubeconfig(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    Path(kubeconfig({"token": SECRET})).rename(tmp_path / ".kube" / "config")
    assert load_kube_configuration().authorization == f"Bearer {SECRET}"


def test_no_kubeconfig_anywhere() -> None:
    with pytest.raises(ConfigError, match=r"kubeconfig ~/\.kube/config: .*--kubeconfig"):
        load_kube_configuration()


def test_a_context_that_is_not_there(kubeconfig: WriteKubeconfig) -> None:
    with pytest.raises(ConfigError, match="no context 'third'"):
        load_kube_configuration(kubeconfig(), "third")


def test_no_current_context(kubeconfig: WriteKubeconfig) -> None:
    path = Path(kubeconfig())
    path.write_text(path.read_text().replace("current-context: first", ""))
    with pytest.raises(ConfigError, match="--context"):
        load_kube_configuration(str(path))
    assert load_kube_configuration(str(path), "second").namespace == "default"


@pytest.mark.parametrize("text", ["", "[", "- a", "contexts: 3\ncurrent-context: x\n"])
def test_a_malformed_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        load_kube_configuration(str(path))


def test_the_service_account_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "pod-token\n"), ("ca.crt", "certificates"), ("namespace", "flipop-system")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("flipop_core.runtime.kube._SERVICE_ACCOUNT_NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    configuration = load_kube_configuration()
    assert configuration.url == "https://[fd00::1]:443"
    assert configuration.namespace == "flipop-system"
    assert configuration.authorization.lower() == "bearer pod-token"
    assert configuration.source == "in-cluster"


def test_a_pod_without_a_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", "/no/such/token")
    with pytest.raises(ConfigError, match="service account"):
        load_kube_configuration()


def test_an_exec_plugin_gives_a_token(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    path = kubeconfig(exec_plugin(tmp_path, credential(token="of-plugin")))
    assert load_kube_configuration(path).authorization == "Bearer of-plugin"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('please log in')", "please log in"),
        ("print('no json')", "exec"),
        (credential(), "token"),
        (credential(clientCertificateData="x"), "clientKeyData"),
    ],
)
def test_an_exec_plugin_that_gives_nothing(
    kubeconfig: WriteKubeconfig, tmp_path: Path, script: str, reason: str
) -> None:
    path = kubeconfig(exec_plugin(tmp_path, script))
    with pytest.raises(ConfigError, match=f"no credential for user 'u': .*{reason}"):
        load_kube_configuration(path)


def test_a_missing_exec_plugin(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    user = exec_plugin(tmp_path, "")
    user["exec"]["command"] = "no-such-plugin"
    with pytest.raises(ConfigError, match="no-such-plugin"):
        load_kube_configuration(kubeconfig(user))


def test_an_empty_token_file(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    with pytest.raises(ConfigError, match="no credential"):
        load_kube_configuration(kubeconfig({"tokenFile": str(tmp_path / "token")}))


@pytest.mark.parametrize("context", ["first", "nobody"])
def test_nobody_may_be_wanted(kubeconfig: WriteKubeconfig, context: str) -> None:
    assert load_kube_configuration(kubeconfig({}), context).authorization == ""


# Requests


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


def trickle(request: Request) -> None:
    request.begin_chunks()
    for _ in range(100):
        request.chunk(b" ")
        time.sleep(0.1)


@pytest.mark.parametrize("slow", [trickle, lambda request: time.sleep(3)])
def test_a_timeout_bounds_the_whole_call(api: HTTPKubeAPI, server: ScriptedServer, slow: Answer) -> None:
    server.script(slow)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable):
        api.get(NODES, "", "a", timeout_seconds=0.5)
    assert 0.4 < time.monotonic() - began < 1.5
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


# Credentials


def accepting(*tokens: str) -> Answer:
    def answer(request: Request) -> None:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in tokens:
            request.answer(200, EMPTY_LIST)
        else:
            request.answer(401, status_body(401, "Unauthorized"))

    return answer


def test_a_refused_token_is_read_again(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    times = iter(range(0, 1000, 10))
    api = connect({"tokenFile": str(token)}, clock=lambda: float(next(times)))
    server.script(accepting("new"))
    with pytest.raises(Unauthorized):
        api.list_page(Query(NODES))
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer old"] * 2
    token.write_text("new\n")
    api.list_page(Query(NODES))
    assert [request.headers["Authorization"] for request in server.requests[2:]] == ["Bearer old", "Bearer new"]


def test_a_refused_mutation_is_sent_once_more(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    times = iter(range(0, 1000, 10))
    api = connect({"tokenFile": str(token)}, clock=lambda: float(next(times)))
    server.script(accepting("new"))
    token.write_text("new")
    api.create(LEASES, "ns", {"spec": {}})
    assert [request.body for request in server.requests] == [b'{"spec":{}}'] * 2


def test_a_token_is_read_again_in_time(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    now = [0.0]
    api = connect({"tokenFile": str(token)}, clock=lambda: now[0], refresh_seconds=180)
    token.write_text("new")
    server.script(accepting("old", "new"))
    now[0] = 179.0
    api.list_page(Query(NODES))
    now[0] = 181.0

    def uses_new() -> bool:
        api.list_page(Query(NODES))
        return bool(server.requests[-1].headers["Authorization"] == "Bearer new")

    assert server.requests[-1].headers["Authorization"] == "Bearer old"
    wait_for(uses_new, message="the new token")


def test_an_exec_plugin_runs_again_after_a_refusal(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    times = iter(range(0, 1000, 10))
    api = connect(exec_plugin(tmp_path, credential(token="old")), clock=lambda: float(next(times)))
    exec_plugin(tmp_path, credential(token="new"))
    server.script(accepting("new"))
    api.list_page(Query(NODES))
    exec_plugin(tmp_path, "import sys; sys.exit('log in again')")
    server.script(accepting())
    with pytest.raises(Unauthorized, match="log in again"):
        api.list_page(Query(NODES))
    server.script(accepting("new"))
    api.list_page(Query(NODES))


def test_an_exec_plugin_that_hangs_keeps_no_call(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    times = iter(range(0, 1000, 10))
    api = connect(exec_plugin(tmp_path, credential(token="old")), clock=lambda: float(next(times)))
    exec_plugin(tmp_path, f"import time; time.sleep(2); {credential(token='new')}")
    server.script(accepting("new"))
    began = time.monotonic()
    with pytest.raises(Unauthorized, match="too long"):
        api.list_page(Query(NODES), timeout_seconds=0.5)
    assert time.monotonic() - began < 1.5

    def accepted() -> bool:
        try:
            api.list_page(Query(NODES))
        except Unauthorized:
            return False
        return True

    wait_for(accepted, message="the plugin's second answer")


def test_many_refusals_run_one_reading(connect: Connect, server: ScriptedServer, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = f"open({str(runs)!r}, 'a').write('x'); {credential(token='old')}"
    now = [0.0]
    api = connect(exec_plugin(tmp_path, script), clock=lambda: now[0])
    now[0] = 10.0
    server.script(accepting())
    errors: list[type[ClusterError] | None] = []
    call = partial(api.get, NODES, "", "a")
    threads = [threading.Thread(target=lambda: errors.append(raised(call))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [Unauthorized] * 8
    assert runs.read_text() == "xx"


def test_a_token_of_a_service_account_that_is_replaced(control_plane: ControlPlane, tmp_path: Path) -> None:
    namespace = control_plane.create_namespace()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}}
    control_plane.create(account)
    token = tmp_path / "token"
    token.write_text("neither.a.token")
    document = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    times = iter(range(0, 10_000, 10))
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(path)), clock=lambda: float(next(times)))
    with pytest.raises(Unauthorized):
        api.get(PODS, namespace, "a")
    token.write_text(control_plane.token_for(namespace, "reader"))
    with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:reader"):
        api.get(PODS, namespace, "a")
    api.close()


def test_client_certificates_that_are_replaced(control_plane: ControlPlane, tmp_path: Path) -> None:
    document = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    user = document["users"][0]["user"]
    files = {field: tmp_path / field for field in ("client-certificate", "client-key")}
    valid = {field: Path(user[field]).read_bytes() for field in files}
    unknown = unknown_certificate(tmp_path)
    for field, file in files.items():
        file.write_bytes(unknown[field])
        user[field] = str(file)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    times = iter(range(0, 10_000, 10))
    api = HTTPKubeAPI(lambda: load_kube_configuration(str(path)), clock=lambda: float(next(times)))
    with pytest.raises(Unauthorized):
        api.list_page(Query(NODES))
    for field, file in files.items():
        file.write_bytes(valid[field])
    api.list_page(Query(NODES))
    api.close()


def unknown_certificate(tmp_path: Path) -> dict[str, bytes]:
    """A pair that an authority of its own has signed, which no API server knows."""
    from tests.controlplane.certificates import write_certificates

    directory = tmp_path / "unknown"
    directory.mkdir()
    admin = write_certificates(directory).admin
    return {
        "client-certificate": Path(admin.certificate_file).read_bytes(),
        "client-key": Path(admin.key_file).read_bytes(),
    }


def raised(call: Callable[[], object]) -> type[ClusterError] | None:
    try:
        call()
    except ClusterError as error:
        return type(error)
    return None


# Proxies


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


# Watches


def event(name: str, size: int = 0) -> bytes:
    metadata = {"name": name, "annotations": {"filler": "x" * size}}
    return json.dumps({"type": "ADDED", "object": {"metadata": metadata}}).encode() + b"\n"


def chunks(*data: bytes) -> Answer:
    def answer(request: Request) -> None:
        request.begin_chunks()
        for piece in data:
            request.chunk(piece)
            time.sleep(0.01)
        request.chunk(b"")

    return answer


def watched(api: HTTPKubeAPI) -> list[str]:
    watch = api.watch(Query(NODES), resource_version="5")
    return [json.loads(bytes(event.object))["metadata"]["name"] for event in watch]


def test_a_watch_asks_for_bookmarks_and_an_end(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks())
    assert watched(api) == []
    query = "?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=25"
    assert server.requests[0].path == f"/api/v1/nodes{query}"


def test_events_are_cut_from_any_chunks(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    stream = event("a") + event("b", 300_000) + event("c") + b"\n" + event("d")
    for pieces in ([stream], [stream[:10], stream[10:300], stream[300:]], [bytes([byte]) for byte in event("a")]):
        server.script(chunks(*pieces))
        assert watched(api) == (["a"] if len(pieces) > 3 else ["a", "b", "c", "d"])


def test_a_line_that_is_no_event(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(chunks(event("a"), b"{nonsense\n"))
    with pytest.raises(ClusterUnavailable, match="no watch event"):
        watched(api)


def test_a_watch_that_breaks_off(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    def broken(request: Request) -> None:
        request.begin_chunks()
        request.chunk(event("a"))
        request.close_connection = True

    server.script(broken)
    events = iter(api.watch(Query(NODES), resource_version="5"))
    assert next(events).type == "ADDED"
    with pytest.raises(ClusterUnavailable, match="broke"):
        next(events)


def test_a_silent_watch_is_given_up(api: HTTPKubeAPI, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flipop_core.runtime.kube._WATCH_READ_SECONDS", 0.3)

    def silent(request: Request) -> None:
        request.begin_chunks()
        time.sleep(2)

    server.script(silent)
    began = time.monotonic()
    with pytest.raises(ClusterUnavailable, match="timed out"):
        list(api.watch(Query(NODES), resource_version="5", timeout_seconds=-10))
    assert time.monotonic() - began < 1.5


def test_closing_wakes_the_reader(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    released = threading.Event()

    def silent(request: Request) -> None:
        request.begin_chunks()
        released.wait(10)

    server.script(silent)
    watch = api.watch(Query(NODES), resource_version="5")
    timer = threading.Timer(0.2, watch.close)
    timer.start()
    began = time.monotonic()
    assert list(watch) == []
    assert time.monotonic() - began < 0.7
    timer.join()
    released.set()


def test_closing_the_api_ends_its_watches(api: HTTPKubeAPI, server: ScriptedServer) -> None:
    server.script(trickle)
    watch = api.watch(Query(NODES), resource_version="5")
    timer = threading.Timer(0.2, api.close)
    timer.start()
    assert list(watch) == []
    timer.join()
    assert list(api.watch(Query(NODES), resource_version="5")) == []
