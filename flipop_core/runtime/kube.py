"""The Kubernetes API over HTTP: `HTTPKubeAPI` serves the port `flipop_core.cluster.KubeAPI` with urllib3.

The official client finds the configuration (kubeconfig with exec plugins, token files and client certificates;
in-cluster service account; proxies) and builds the connection pool from it. It is imported when that happens, not with
this module. Its typed models and API classes are not used: they cost seconds and gigabytes at scale.

Credentials are read again at once when the API server refuses them (401), and every few minutes without that, since
tokens and certificates are replaced in their files before they expire.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import urllib3

from flipop_core.cluster import ListPage, Query, ResourceType, Watch
from flipop_core.errors import ClusterUnavailable, ConfigError, Unauthorized
from flipop_core.runtime.kubehttp import JSON, MERGE_PATCH, Request, read, send, target_of
from flipop_core.runtime.kubelists import read_list
from flipop_core.runtime.kubesessions import KubeConfiguration, Session, Sessions
from flipop_core.runtime.kubewatch import PROTOBUF, HTTPWatch

__all__ = ["HTTPKubeAPI", "KubeConfiguration", "load_kube_configuration"]

_Answer = TypeVar("_Answer")

_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_WATCH_OPEN_SECONDS = 15.0
_WATCH_READ_SECONDS = 30.0
_SUSPICION_SECONDS = 5.0  # between two times that all connections are made anew
_POOL_SIZE = 64


def load_kube_configuration(kubeconfig: str | None = None, context: str | None = None) -> KubeConfiguration:
    """Read the configuration: ``kubeconfig``, else $KUBECONFIG, else the pod's service account, else ~/.kube/config.

    ``context`` (default: the current one) needs a kubeconfig. Raises ConfigError, also when a credential is configured
    and could not be had.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if not path and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster_configuration()
    return _kubeconfig_configuration(path or "~/.kube/config", context)


def connect(kubeconfig: str, context: str) -> HTTPKubeAPI:
    """Return the API of the configured cluster; empty texts are as None of `load_kube_configuration`."""
    return HTTPKubeAPI(lambda: load_kube_configuration(kubeconfig or None, context or None))


def connect_as(client: Any, namespace: str) -> HTTPKubeAPI:
    """Return the API that a caller's ``kubernetes.client.ApiClient`` or ``Configuration`` stands for.

    It is read again as a kubeconfig is, refresh hook included, and never changed. Raises ConfigError when it cannot be
    used.
    """
    if not hasattr(getattr(client, "configuration", client), "get_api_key_with_prefix"):
        raise ConfigError(
            f"{type(client).__name__} is no Kubernetes client: give a kubernetes.client.ApiClient or Configuration"
        )
    return HTTPKubeAPI(lambda: _caller_configuration(client, namespace))


def _caller_configuration(client: Any, namespace: str) -> KubeConfiguration:
    configuration = getattr(client, "configuration", client)
    headers = {**getattr(client, "default_headers", {})}
    if cookie := getattr(client, "cookie", None):
        headers["Cookie"] = cookie
    try:
        authorization = _authorization(configuration) or headers.get("Authorization", "")
        described = _described(configuration, namespace, "the caller's client", authorization)
    except Exception as error:  # a hook of the caller's raises whatever it likes
        raise ConfigError(f"the caller's Kubernetes client cannot be used: {type(error).__name__}: {error}") from error
    own = {"Authorization", "User-Agent"}
    return msgspec.structs.replace(
        described,
        headers=tuple(sorted((name, value) for name, value in headers.items() if name not in own)),
        # A shallow copy, made without the setters, one of which sets levels of the process's loggers.
        new_pool=lambda: _pool(copy.copy(configuration)),
    )


def _official_client() -> tuple[Any, Any]:
    # Typed as Any: parts of it have no annotations.
    from kubernetes import client, config

    return client, config


def _in_cluster_configuration() -> KubeConfiguration:
    client, config = _official_client()
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
        namespace = _SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
        authorization = _authorization(configuration)
    except (config.ConfigException, OSError, ValueError) as error:
        raise ConfigError(f"the pod's service account cannot be used: {error}") from error
    if not authorization:
        raise ConfigError("the pod's service account has no token")
    return _described(configuration, namespace, "in-cluster", authorization)


def _kubeconfig_configuration(path: str, context: str | None) -> KubeConfiguration:
    client, config = _official_client()
    configuration = client.Configuration()
    log = _RecordsOfThisThread()
    try:
        files = _Kubeconfig(path)
        name, details = files.context(context)
        with log:
            config.load_kube_config(path, name, configuration)
        cluster = files.entry("clusters", details.get("cluster")).get("cluster") or {}
        configuration.proxy = cluster.get("proxy-url") or configuration.proxy  # releases before 37 leave it out
        authorization = _authorization(configuration)
    except Exception as error:  # besides its own, the client raises whatever a malformed file leads to
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    # When the exec plugin or another source of credentials fails, the client goes on without, as nobody.
    user = details.get("user")
    if not authorization and not configuration.cert_file and files.entry("users", user).get("user"):
        reason = "; ".join(log.messages) or "none of its fields gave one"
        raise ConfigError(f"kubeconfig {path}: no credential for user {user!r}: {reason}")
    return _described(configuration, details.get("namespace"), path, authorization)


class _Kubeconfig:
    """The files of a kubeconfig as they stand; as for kubectl, the first file that names something wins."""

    def __init__(self, path: str) -> None:
        import yaml

        files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
        if not any(file.is_file() for file in files):
            raise ConfigError("there is no such file, and this is no pod: use --kubeconfig or KUBECONFIG")
        self._documents = [yaml.safe_load(file.read_bytes()) or {} for file in files if file.is_file()]

    def context(self, name: str | None) -> tuple[str, Mapping[str, Any]]:
        """Return the name and the content of a context, the current one by default."""
        current = (str(document.get("current-context") or "") for document in self._documents)
        chosen = name or next(filter(None, current), "")
        if not chosen:
            raise ConfigError("it has no current-context: use --context")
        content = self.entry("contexts", chosen).get("context")
        if not content:
            raise ConfigError(f"it has no context {chosen!r}")
        return chosen, content

    def entry(self, section: str, name: str | None) -> Mapping[str, Any]:
        """Return the entry ``name`` of a section, empty when there is none."""
        for document in self._documents:
            for entry in document.get(section) or ():
                if entry.get("name") == name:
                    return dict(entry)
        return {}


def _authorization(configuration: Any) -> str:
    if not configuration.api_key and configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook(configuration)  # without a key the client does not ask for one
    # Releases differ in the name that the key goes by, and in 36.0 reading and writing it do.
    bearer = configuration.auth_settings().get("BearerToken")
    value = bearer["value"] if bearer else configuration.get_api_key_with_prefix("authorization")
    return str(value or "").strip()  # token files end with a line break, which no header may hold


class _RecordsOfThisThread(logging.Handler):
    """Keeps what this thread logs while it is entered: the client logs why an exec plugin failed, and goes on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.messages.append(record.getMessage())

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)


def _described(configuration: Any, namespace: str | None, source: str, authorization: str) -> KubeConfiguration:
    return KubeConfiguration(
        url=str(configuration.host).rstrip("/"),
        namespace=namespace or "default",
        source=source,
        authorization=authorization,
        fingerprint=_fingerprint(configuration),
        new_pool=lambda: _pool(configuration),
    )


def _pool(configuration: Any) -> urllib3.PoolManager:
    client, _ = _official_client()
    configuration.socket_options = _socket_options()
    configuration.connection_pool_maxsize = _POOL_SIZE
    pool: urllib3.PoolManager = client.ApiClient(configuration).rest_client.pool_manager
    return pool


def _socket_options() -> list[tuple[int, int, int]]:
    """Let the kernel find a dead peer within half a minute, whether the connection is idle or has bytes under way."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    # Not every platform has all of them.
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(_WATCH_READ_SECONDS * 1000)),
    ):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _fingerprint(configuration: Any) -> str:
    digest = hashlib.sha256()
    for field in ("host", "verify_ssl", "assert_hostname", "tls_server_name", "proxy", "no_proxy"):
        digest.update(f"{field}={getattr(configuration, field, None)!r}\0".encode())
    for field in ("ssl_ca_cert", "cert_file", "key_file"):
        file = getattr(configuration, field, None)
        digest.update(f"{field}={file!r}\0".encode())
        if file:  # their contents are replaced under the same name
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()


class HTTPKubeAPI:
    """`flipop_core.cluster.KubeAPI` over HTTP. Thread-safe.

    ``load`` reads the configuration; it is called at once, every ``refresh_seconds`` and after a 401, and raises
    ConfigError. A call that met a 401 is repeated once with the credentials read again.
    """

    def __init__(
        self,
        load: Callable[[], KubeConfiguration] = load_kube_configuration,
        *,
        user_agent: str = "flipop",
        refresh_seconds: float = 180.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = Sessions(load, refresh_seconds, clock)
        self._user_agent = user_agent
        self._lock = threading.Lock()
        self._watches: set[HTTPWatch] = set()
        self._closed = False
        self._suspected_at = float("-inf")

    @property
    def namespace(self) -> str:
        """The namespace that the configuration names, or ``default``."""
        return self._sessions.current().configuration.namespace

    def close(self) -> None:
        """End the open watches and drop the idle connections; watches opened later are refused."""
        with self._lock:
            self._closed = True
            watches = tuple(self._watches)
        for watch in watches:
            watch.close()
        self._sessions.current().pool.clear()

    def list_page(
        self,
        query: Query,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        timeout_seconds: float = 30.0,
    ) -> ListPage:
        """See `KubeAPI.list_page`. A ``limit`` of 0 asks for everything in one page."""
        parameters = _selectors(query) | {
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": resource_version,
        }
        target = target_of(query.resource, query.namespace, query=parameters)
        accept = f"{PROTOBUF}, {JSON}" if query.protobuf else JSON
        request = Request("GET", target, accept=accept, resume=bool(continue_token or resource_version))
        return read_list(request.action, self._receive(request, timeout_seconds))

    def watch(self, query: Query, *, resource_version: str, timeout_seconds: int = 25) -> Watch:
        """See `KubeAPI.watch`. A resourceVersion that is too old may also come as an ERROR event."""
        parameters = _selectors(query) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        target = target_of(query.resource, query.namespace, query=parameters)
        accept = f"{PROTOBUF};stream=watch, {JSON}" if query.protobuf else JSON
        request = Request("GET", target, accept=accept, resume=True)
        deadline = time.monotonic() + _WATCH_OPEN_SECONDS
        response = self._authorized(
            lambda session: send(session, request, deadline, user_agent=self._user_agent), deadline
        )
        # Bookmarks come once a minute only, so a longer watch may rightly be silent for longer.
        silence = _WATCH_READ_SECONDS if timeout_seconds <= _WATCH_READ_SECONDS - 5 else timeout_seconds + 5.0
        watch = HTTPWatch(response, request.action, read_timeout_seconds=silence, on_end=self._forget)
        with self._lock:
            self._watches.add(watch)
            closed = self._closed
        if closed:
            watch.close()
        return watch

    def get(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> bytes:
        """See `KubeAPI.get`."""
        return self._call(Request("GET", target_of(resource, namespace, name)), timeout_seconds)

    def create(
        self, resource: ResourceType, namespace: str, body: Mapping[str, Any], *, timeout_seconds: float = 5.0
    ) -> bytes:
        """See `KubeAPI.create`."""
        return self._call(Request("POST", target_of(resource, namespace), msgspec.json.encode(body)), timeout_seconds)

    def replace(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        timeout_seconds: float = 5.0,
    ) -> bytes:
        """See `KubeAPI.replace`."""
        target = target_of(resource, namespace, name)
        return self._call(Request("PUT", target, msgspec.json.encode(body)), timeout_seconds)

    def merge_patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        timeout_seconds: float = 5.0,
    ) -> bytes:
        """See `KubeAPI.merge_patch`."""
        target = target_of(resource, namespace, name, subresource)
        request = Request("PATCH", target, msgspec.json.encode(patch), MERGE_PATCH)
        return self._call(request, timeout_seconds)

    def delete(self, resource: ResourceType, namespace: str, name: str, *, timeout_seconds: float = 5.0) -> None:
        """See `KubeAPI.delete`."""
        self._call(Request("DELETE", target_of(resource, namespace, name)), timeout_seconds)

    def _call(self, request: Request, timeout_seconds: float) -> bytes:
        return bytes(self._receive(request, timeout_seconds))

    def _receive(self, request: Request, timeout_seconds: float) -> bytearray:
        started = time.monotonic()
        deadline = started + timeout_seconds
        try:
            return self._authorized(
                lambda session: read(
                    send(session, request, deadline, user_agent=self._user_agent), request.action, deadline
                ),
                deadline,
            )
        except ClusterUnavailable as error:
            if isinstance(error.__cause__, urllib3.exceptions.TimeoutError):
                self._suspect(started)
            raise

    def _suspect(self, since: float) -> None:
        """Make all connections anew that have carried nothing since ``since``: a call remained without an answer.

        The network may have forgotten them all, which a watch would notice only when its silence has lasted too long.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._suspected_at < _SUSPICION_SECONDS:
                return
            self._suspected_at = now
            watches = tuple(self._watches)
        self._sessions.current().pool.clear()
        for watch in watches:
            watch.give_up_unless_heard(since, "another call to the API server was not answered")

    def _authorized(self, call: Callable[[Session], _Answer], deadline: float) -> _Answer:
        session = self._sessions.current()
        try:
            return call(session)
        except Unauthorized:
            return call(self._sessions.after_refusal(session, deadline - time.monotonic()))

    def _forget(self, watch: HTTPWatch) -> None:
        with self._lock:
            self._watches.discard(watch)


def _selectors(query: Query) -> dict[str, str]:
    return {"labelSelector": query.label_selector, "fieldSelector": query.field_selector}
