"""The caller's Kubernetes client: used as it stands, read anew, and never changed."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes import client

from flipop_core import ConfigError, Controller, ProviderRegistry, Settings
from flipop_core.cluster import NODES
from flipop_core.errors import Unauthorized
from flipop_core.runtime.kube import connect_as


class Recorder(ThreadingHTTPServer):
    """Answers every request with an empty object, and remembers its headers. ``token`` is the one that is accepted."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.token = ""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers))
        refused = self.server.token and headers.get("authorization") != f"Bearer {self.server.token}"
        body = json.dumps({"metadata": {"name": "a"}, "items": []}).encode()
        self.send_response(401 if refused else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
        return


@pytest.fixture
def server() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def configuration_for(server: Recorder, token: str = "") -> Any:
    configuration = client.Configuration()
    configuration.host = server.url
    if token:
        configuration.api_key = {"authorization": token}
        configuration.api_key_prefix = {"authorization": "Bearer"}
    return configuration


def get_node(given: object, server: Recorder) -> dict[str, str]:
    """Read a node as the controller would, and return the headers of the request."""
    api = connect_as(given, "default")
    try:
        api.get(NODES, "", "a")
    finally:
        api.close()
    path, headers = server.requests[-1]
    assert path == "/api/v1/nodes/a"
    return headers


def test_a_configuration(server: Recorder) -> None:
    configuration = configuration_for(server, "secret")
    before = dict(vars(configuration))
    assert get_node(configuration, server)["authorization"] == "Bearer secret"
    assert vars(configuration) == before


def test_an_api_client_with_headers_of_its_own(server: Recorder) -> None:
    with client.ApiClient(configuration_for(server, "secret")) as api_client:
        api_client.set_default_header("Impersonate-User", "alice")
        headers = get_node(api_client, server)
    assert (headers["authorization"], headers["impersonate-user"]) == ("Bearer secret", "alice")
    assert headers["user-agent"] == "flipop"


def test_an_authorization_among_the_headers(server: Recorder) -> None:
    with client.ApiClient(configuration_for(server)) as api_client:
        api_client.set_default_header("Authorization", "Bearer of mine")
        assert get_node(api_client, server)["authorization"] == "Bearer of mine"


def test_a_refresh_hook_renews_a_token_that_is_refused(server: Recorder) -> None:
    server.token = "second"
    configuration = configuration_for(server, "first")
    asked: list[int] = []

    def refresh(current: Any) -> None:
        asked.append(1)
        if len(asked) > 1:
            current.api_key["authorization"] = "second"

    configuration.refresh_api_key_hook = refresh
    api = connect_as(configuration, "default")
    try:
        with pytest.raises(Unauthorized):
            api.get(NODES, "", "a")  # read again no sooner than a second after the last time
        threading.Event().wait(1.05)
        assert json.loads(api.get(NODES, "", "a"))["metadata"]["name"] == "a"
    finally:
        api.close()


def test_levels_of_the_callers_loggers_stay(server: Recorder) -> None:
    configuration = configuration_for(server)
    logger = logging.getLogger("urllib3")
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        get_node(configuration, server)
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


def test_a_hook_that_fails_is_a_config_error(server: Recorder) -> None:
    configuration = configuration_for(server, "secret")

    def fail(current: Any) -> None:
        raise OSError("the vault is sealed")

    configuration.refresh_api_key_hook = fail
    with pytest.raises(ConfigError, match="cannot be used: OSError: the vault is sealed"):
        connect_as(configuration, "default")


def test_what_is_no_client_is_refused() -> None:
    controller = Controller(ProviderRegistry({}), kubernetes={"host": "https://x"}, settings=Settings())
    with pytest.raises(ConfigError, match="dict is no Kubernetes client: give a"):
        controller.start()
