"""Tokens, exec plugins and certificates that are replaced or refused while the client runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from flipop_core.cluster import LEASES, NODES, PODS, Query
from flipop_core.errors import (
    ClusterError,
    Forbidden,
    Unauthorized,
)
from flipop_core.runtime.kube import HTTPKubeAPI, load_kube_configuration
from tests.controlplane.api import wait_for
from tests.controlplane.cluster import ControlPlane

from .answers import (
    EMPTY_LIST,
    Connect,
    credential,
    exec_plugin,
    status_body,
)
from .scripted_server import Answer, Request, ScriptedServer


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
    exec_plugin(tmp_path, f"import time; time.sleep(6); {credential(token='new')}")
    server.script(accepting("new"))
    began = time.monotonic()
    with pytest.raises(Unauthorized, match="too long"):
        api.list_page(Query(NODES), timeout_seconds=0.5)
    assert time.monotonic() - began < 5

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
