"""A real control plane on this machine: etcd and kube-apiserver on loopback, and the faults that tests inject.

No controller, scheduler or kubelet runs: what they would do, `ClusterObjects` lets a test do.
"""

from __future__ import annotations

import atexit
import base64
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import urllib3
import yaml

from .api import wait_for
from .certificates import Certificates, write_certificates
from .objects import ClusterObjects
from .processes import ServerProcess, Watchdog, free_port

_T = TypeVar("_T")

_PORT_ATTEMPTS = 5
_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_LOG_LINES = 40
_PORT_TAKEN = "address already in use"


class ControlPlaneError(Exception):
    """A server of the control plane did not start; the message ends with the last lines of its log."""


class _PortTaken(ControlPlaneError):
    pass


class ControlPlane(ClusterObjects):
    """etcd and kube-apiserver from `binaries`, with RBAC on; a context manager, or `start` and `stop`.

    Everything lives in a temporary directory that `stop` removes, and so does the end of this process, however it
    ends. `apiserver_arguments` are added to kube-apiserver's, and win over the arguments that are set here.
    """

    def __init__(
        self, binaries: Path, *, apiserver_arguments: Sequence[str] = (), timeout_seconds: float = 60.0
    ) -> None:
        super().__init__()
        self._binaries = binaries
        self._apiserver_arguments = tuple(apiserver_arguments)
        self._timeout_seconds = timeout_seconds
        self._directory: Path | None = None
        self._certificates: Certificates | None = None
        self._watchdog: Watchdog | None = None
        self._etcd: ServerProcess | None = None
        self._apiserver: ServerProcess | None = None
        self._etcd_name = ""
        self._etcd_port = 0
        self._port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Where the data, the logs and the kubeconfigs are; tests may put files of their own there."""
        return _started(self._directory)

    @property
    def ca_file(self) -> Path:
        """The certificate authority that signed the API server's certificate."""
        return _started(self._certificates).ca_file

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig for a member of ``system:masters``."""
        return self.directory / "admin.kubeconfig"

    @property
    def etcd_url(self) -> str:
        """Where etcd answers, in JSON too, without credentials."""
        _started(self._etcd)
        return f"http://127.0.0.1:{self._etcd_port}"

    @property
    def etcd_pid(self) -> int:
        """The process id of etcd."""
        return _started(self._etcd).pid

    @property
    def apiserver_pid(self) -> int:
        """The process id of kube-apiserver."""
        return _started(self._apiserver).pid

    def start(self) -> None:
        """Start both servers and return once the API server is ready; raises `ControlPlaneError`."""
        if self._directory is not None:
            raise RuntimeError("this control plane has been started already")
        self._directory = Path(tempfile.mkdtemp(prefix="flipop-controlplane-"))
        atexit.register(self.stop)
        try:
            self._watchdog = Watchdog(self._directory)
            self._certificates = write_certificates(self._directory)
            self._etcd_name = secrets.token_hex(8)
            _on_free_port(self._start_etcd)
            _on_free_port(self._start_apiserver)
            self._write_kubeconfig(self.admin_kubeconfig, self._admin_user())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both servers and remove their data; does nothing when they are stopped."""
        atexit.unregister(self.stop)
        self._disconnect()
        for server in (self._apiserver, self._etcd):
            if server is not None and server.running:
                server.stop(_STOP_SECONDS)
        if self._watchdog is not None:
            self._watchdog.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._apiserver = self._etcd = self._watchdog = self._directory = self._certificates = None

    def kill_apiserver(self) -> None:
        """End the API server at once (SIGKILL); etcd and its data stay."""
        _started(self._apiserver).kill()

    def freeze_apiserver(self) -> None:
        """Stop the API server where it is (SIGSTOP): connections stay open and nothing is answered."""
        _started(self._apiserver).freeze()

    def thaw_apiserver(self) -> None:
        """Let a frozen API server go on (SIGCONT)."""
        _started(self._apiserver).thaw()

    def restart_apiserver(self) -> None:
        """Stop the API server if it runs, and start it on the same port, with an empty watch cache."""
        server = _started(self._apiserver)
        if server.running:
            server.stop(_STOP_SECONDS)
        self._start_apiserver(self._port)

    def compact_etcd(self) -> int:
        """Drop etcd's history before its present revision, and return that.

        A watch that would need what was dropped is refused (410) only where the API server asks etcd: its watch cache
        goes on answering from memory until `restart_apiserver`.
        """
        answer = self._ask_etcd("/v3/kv/range", {"key": _base64("none")})
        revision = int(answer["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def token_for(self, namespace: str, name: str, expiration_seconds: int = 3600) -> str:
        """Return a token of a service account, as the kubelet would mount it; at least 600 s are granted."""
        path = self.path_for("ServiceAccount", name, namespace, subresource="token")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expiration_seconds},
        }
        return str(self._expect("POST", path, body)["status"]["token"])

    def kubeconfig_for_service_account(self, namespace: str, name: str, path: Path | None = None) -> Path:
        """Write a kubeconfig with a service account's token and return its path."""
        target = path or self.directory / f"{namespace}-{name}.kubeconfig"
        self._write_kubeconfig(target, {"token": self.token_for(namespace, name)}, namespace)
        return target

    def await_access(self, namespace: str, name: str, verb: str, resource: str, group: str = "") -> None:
        """Wait until the API server lets a service account do something in its namespace: it reads roles late."""
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": f"system:serviceaccount:{namespace}:{name}", "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_for(
            lambda: self._expect("POST", path, body)["status"]["allowed"],
            self._timeout_seconds,
            f"{namespace}/{name} to be allowed to {verb} {resource}",
        )

    def _start_etcd(self, port: int) -> None:
        url = f"http://127.0.0.1:{port}"
        peer_url = "http://127.0.0.1:0"  # a lone member is never called
        command = [
            str(self._binaries / "etcd"),
            f"--name={self._etcd_name}",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster={self._etcd_name}={peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        self._etcd_port = port
        self._etcd = ServerProcess(command, self.directory / "etcd.log", _started(self._watchdog))
        self._await("etcd", self._etcd, self._etcd_ready)

    def _start_apiserver(self, port: int) -> None:
        certificates = _started(self._certificates)
        command = [
            str(self._binaries / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={certificates.server.certificate_file}",
            f"--tls-private-key-file={certificates.server.key_file}",
            f"--client-ca-file={certificates.ca_file}",
            f"--service-account-key-file={certificates.service_account_key_file}",
            f"--service-account-signing-key-file={certificates.service_account_key_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            # ServiceAccount wants an account in each pod's namespace, which no controller makes here;
            # TaintNodesByCondition taints each new node, and no controller takes that away again.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            # No loopback address may be an endpoint, and the default would log that for ever.
            "--endpoint-reconciler-type=none",
            *self._apiserver_arguments,
        ]
        self._port = port
        self._connect(f"https://127.0.0.1:{port}", certificates)
        self._apiserver = ServerProcess(command, self.directory / "kube-apiserver.log", _started(self._watchdog))
        self._await("kube-apiserver", self._apiserver, self._apiserver_ready)

    def _await(self, name: str, server: ServerProcess, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        while not ready():
            if not server.running:
                error = _PortTaken if _PORT_TAKEN in server.log() else ControlPlaneError
                raise error(f"{name} ended with exit code {server.exit_code}:\n{_tail(server)}")
            if time.monotonic() >= deadline:
                server.kill()
                raise ControlPlaneError(f"{name} is not ready after {self._timeout_seconds:g} s:\n{_tail(server)}")
            time.sleep(_POLL_SECONDS)

    def _etcd_ready(self) -> bool:
        try:
            members = self._ask_etcd("/v3/cluster/member/list", {})["members"]
        except (urllib3.exceptions.HTTPError, ControlPlaneError, ValueError, KeyError):
            return False
        # Another etcd may have got the port first, and would answer just as well.
        return [member.get("name") for member in members] == [self._etcd_name]

    def _apiserver_ready(self) -> bool:
        # The namespaces come a moment after readiness, and a fresh storage answers 429 at first.
        paths = ["/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"]
        try:
            return all(self.request("GET", path, timeout_seconds=5.0)[0] == 200 for path in paths)
        except urllib3.exceptions.HTTPError:
            return False

    def _ask_etcd(self, path: str, body: Any) -> Any:
        url = f"http://127.0.0.1:{self._etcd_port}{path}"
        with urllib3.PoolManager() as pool:
            response = pool.request("POST", url, json=body, retries=False, timeout=10.0)
            if response.status != 200:
                raise ControlPlaneError(f"etcd answered {path} with {response.status}: {response.data!r}")
            return response.json()

    def _admin_user(self) -> dict[str, str]:
        admin = _started(self._certificates).admin
        return {"client-certificate": str(admin.certificate_file), "client-key": str(admin.key_file)}

    def _write_kubeconfig(self, path: Path, user: dict[str, str], namespace: str = "default") -> None:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self.ca_file.read_text())}
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "current-context": "test",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(kubeconfig))


def _on_free_port(start: Callable[[int], None]) -> None:
    """Call `start` with a free port, and again with another when someone else got it first."""
    for _ in range(_PORT_ATTEMPTS - 1):
        try:
            start(free_port())
        except _PortTaken:
            continue
        return
    start(free_port())


def _started(value: _T | None) -> _T:
    if value is None:
        raise RuntimeError("this control plane is not running")
    return value


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _tail(server: ServerProcess) -> str:
    return "\n".join(server.log().splitlines()[-_LOG_LINES:])
