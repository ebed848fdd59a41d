"""What a scenario runs on: a control plane, a provider and controllers, stopped and removed at its end."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks import bulk
from benchmarks.cloud import REGION, Cloud, server_arguments
from benchmarks.figures import Options
from flipop_core.resources.types import API_VERSION
from tests.controlplane.api import wait_for
from tests.controlplane.binaries import find_binaries
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.processes import ServerProcess, Watchdog

REPOSITORY = Path(__file__).resolve().parents[1]
NAMESPACE = "default"
LEASE = "floating-ip-pool-controller-leader-election"
_THREADS = 8
_SETTLE_TIMEOUT_SECONDS = 60.0
_FOLLOW_TIMEOUT_SECONDS = 120.0
_REST_SECONDS = 2.0
_EXIT_TIMEOUT_SECONDS = 60.0

T = TypeVar("T")


class Usage(msgspec.Struct, frozen=True):
    """What a process has used: CPU seconds, and its memory now and at its peak in MiB."""

    cpu_seconds: float
    rss_mib: float
    peak_rss_mib: float


class Controller:
    """A running controller; ``started`` is the moment just before its process began (monotonic seconds)."""

    def __init__(self, command: Sequence[str], log_file: Path, watchdog: Watchdog) -> None:
        self.started = time.monotonic()
        self._process = ServerProcess(command, log_file, watchdog)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def require_running(self) -> None:
        """Raise RuntimeError with the end of its log if it has ended."""
        if not self._process.running:
            tail = "\n".join(self._process.log().splitlines()[-20:])
            raise RuntimeError(f"the controller ended with exit code {self._process.exit_code}:\n{tail}")

    def log(self) -> str:
        """Return what it has logged."""
        return self._process.log()

    def usage(self) -> Usage:
        """Return what it has used so far, as Linux tells it."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        sizes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")}
        return Usage(_cpu_seconds(self.pid), int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024)

    def terminate(self) -> float:
        """Send SIGTERM and return the seconds until the process has ended; RuntimeError unless it ended with 0."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        deadline = began + _EXIT_TIMEOUT_SECONDS
        # Popen.wait with a timeout looks every 50 ms only; this leaves the exit code for it to collect.
        while os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the controller has not ended in {_EXIT_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.0005)
        ended = time.monotonic()
        if self._process.exit_code != 0:
            self.require_running()
        return ended - began

    def close(self) -> None:
        """Stop it if it still runs."""
        self._process.stop(_EXIT_TIMEOUT_SECONDS)


class Stage:
    """See the module."""

    def __init__(
        self,
        cluster: ControlPlane,
        cloud: Cloud,
        directory: Path,
        watchdog: Watchdog,
        stack: ExitStack,
        options: Options,
    ) -> None:
        self.cluster = cluster
        self.options = options
        self.cloud = cloud
        self._directory = directory
        self._watchdog = watchdog
        self._stack = stack
        self.kubeconfig = cluster.kubeconfig_for_service_account("flipop", "flipop")

    def serve(self, module: str, plugin: str, *arguments: str) -> str:
        """Start another stand-in of a provider, until the stage's end; return its URL."""
        return _serve(self._stack, module, plugin, arguments, self._directory, self._watchdog)

    @contextmanager
    def controller(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Iterator[Controller]:
        """Run the controller with the account and roles that are shipped, until the end of the block."""
        command = [
            "env",
            f"DIGITALOCEAN_API_URL={self.cloud.url}",
            "DIGITALOCEAN_ACCESS_TOKEN=dop_v1_benchmark",
            *(f"{name}={value}" for name, value in (variables or {}).items()),
            *self._program(arguments),
        ]
        controller = Controller(command, self._directory / "controller.log", self._watchdog)
        try:
            yield controller
            self.cloud.require_no_violation()
        finally:
            controller.close()

    def _program(self, arguments: Sequence[str]) -> list[str]:
        """Return the controller's command line; another controller's own has no ``arguments`` added."""
        if self.options.controller:
            return [part.replace("{kubeconfig}", str(self.kubeconfig)) for part in shlex.split(self.options.controller)]
        flipop = str(Path(sys.executable).with_name("flipop"))
        return [flipop, "run", f"--kubeconfig={self.kubeconfig}", "--metrics-bind-addr=127.0.0.1:0", *arguments]

    def lease_holder(self) -> str:
        """Return who holds the leader lease, empty for nobody."""
        lease = self.cluster.get("Lease", LEASE, "flipop", api_version="coordination.k8s.io/v1")
        return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")

    def wait_leading(self, controller: Controller) -> None:
        """Wait until it has the lease; before, it writes nothing, and the status may be its predecessor's."""

        def leading() -> bool:
            controller.require_running()
            return bool(self.lease_holder())

        wait_for(leading, _SETTLE_TIMEOUT_SECONDS, "the controller to lead")

    def fill(self, count: int, pools: int, *, pods_per_node: int = 10) -> dict[str, int]:
        """Create nodes and pods of usual size at once, with labels that spread them over ``pools``.

        Return the droplet of each node by name.
        """
        nodes = {f"node-{number:05}": droplet for number, droplet in enumerate(self.cloud.add_droplets(count))}
        pool_of = {name: f"p{number % pools}" for number, name in enumerate(nodes)}
        bulk.store(self.cluster.etcd_url, bulk.nodes(nodes, {name: {"pool": pool} for name, pool in pool_of.items()}))
        placed = (
            (f"{name}-{index}", name, {"app": pool}) for name, pool in pool_of.items() for index in range(pods_per_node)
        )
        bulk.store(self.cluster.etcd_url, bulk.pods(placed))
        last = list(nodes)[-1]
        for path in (f"/api/v1/nodes/{last}", f"/api/v1/namespaces/{NAMESPACE}/pods/{last}-{pods_per_node - 1}"):
            wait_for(partial(self._is_cached, path), _FOLLOW_TIMEOUT_SECONDS, f"{path} in the API server's memory")
        wait_for(self._is_at_rest, _FOLLOW_TIMEOUT_SECONDS, "the API server's rest", interval_seconds=0.0)
        return nodes

    def _is_cached(self, path: str) -> bool:
        """Whether the API server, which follows etcd at its own pace, has read the object."""
        status, _ = self.cluster.request("GET", f"{path}?resourceVersion=0")
        return status == 200

    def _is_at_rest(self) -> bool:
        """Whether the API server has nothing left to do for what it read, such as collecting garbage."""
        before = _cpu_seconds(self.cluster.apiserver_pid)
        time.sleep(_REST_SECONDS)
        return _cpu_seconds(self.cluster.apiserver_pid) - before < _REST_SECONDS / 10

    def create_filled_pools(self, pools: int, addresses: int) -> None:
        """Create the pools that `fill` spread nodes and pods over, each with so many addresses."""
        for number in range(pools):
            match = {"nodeLabel": f"pool=p{number}", "podNamespace": NAMESPACE, "podLabel": f"app=p{number}"}
            self.create_pool(f"p{number}", self.cloud.add_addresses(addresses), match)

    def add_nodes(self, count: int, labels: Callable[[int], Mapping[str, str]] = lambda _: {}) -> dict[str, int]:
        """Create droplets and their ready nodes; return the droplet of each node by name. ``labels`` by number."""
        droplets = self.cloud.add_droplets(count)
        nodes = {f"node-{number:05}": droplet for number, droplet in enumerate(droplets)}

        def create(item: tuple[int, tuple[str, int]]) -> None:
            number, (name, droplet) = item
            self.cluster.create_node(name, provider_id=f"digitalocean://{droplet}", labels=labels(number))

        in_parallel(create, enumerate(nodes.items()))
        return nodes

    def create_pool(
        self, name: str, ips: Sequence[str], match: Mapping[str, str] | None = None, **fields: object
    ) -> None:
        """Create a pool of given addresses; ``fields`` are added to its spec."""
        spec = {"provider": "digitalocean", "region": REGION, "ips": list(ips), "match": dict(match or {}), **fields}
        self.cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": "FloatingIPPool",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": spec,
            }
        )

    def pool_status(self, name: str) -> dict[str, Any]:
        """Return the pool's status, empty when it has none yet."""
        pool = self.cluster.get("FloatingIPPool", name, NAMESPACE, api_version=API_VERSION)
        status: dict[str, Any] = (pool or {}).get("status", {})
        return status

    def holders(self, name: str, count: int) -> dict[str, str] | None:
        """Return the node of each address by the pool's status, None unless ``count`` addresses are active."""
        addresses = self.pool_status(name).get("ips", {})
        active = {ip: entry["nodeName"] for ip, entry in addresses.items() if entry["state"] == "active"}
        return active if len(active) == count else None

    def wait_settled(
        self, controller: Controller, name: str, count: int, without: Iterable[str] = ()
    ) -> dict[str, str]:
        """Wait until ``count`` addresses are active, none on the nodes ``without``; return the node of each."""
        dead = frozenset(without)

        def settled() -> dict[str, str] | None:
            controller.require_running()
            holders = self.holders(name, count)
            return None if holders is None or dead & set(holders.values()) else holders

        what = f"{count} active addresses in pool {name}"
        return wait_for(settled, _SETTLE_TIMEOUT_SECONDS, what, interval_seconds=0.05)


@contextmanager
def stage(options: Options, *, apiserver_arguments: Sequence[str] = ()) -> Iterator[Stage]:
    """Start a control plane with the shipped resources and roles, and a provider with the asked latency."""
    with ControlPlane(find_binaries(), apiserver_arguments=apiserver_arguments) as cluster, on(cluster, options) as it:
        yield it


@contextmanager
def on(cluster: ControlPlane, options: Options) -> Iterator[Stage]:
    """Use a control plane that runs, and has nothing of an earlier stage; see `stage`."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="flipop-benchmark-"))
        watchdog = Watchdog(directory)  # which also removes the directory
        stack.callback(watchdog.close)
        latency = server_arguments(options.latency_seconds, options.action_seconds)
        cloud = Cloud(_serve(stack, "flipop_do_testserver", "flipop_do", latency, directory, watchdog))
        stack.callback(cloud.close)
        cloud.warm_up()
        for name in ("crds.yaml", "rbac.yaml"):
            cluster.apply(REPOSITORY / "deploy" / name)
        if options.controller:
            cluster.apply(REPOSITORY / "benchmarks" / "rbac-other.yaml")
        for kind in ("FloatingIPPool", "NodeDNSRecordSet"):
            wait_for(partial(_is_listed, cluster, kind), 30.0, f"{kind} in the API server's list of resources")
        yield Stage(cluster, cloud, directory, watchdog, stack, options)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used so far, as Linux tells it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_listed(cluster: ControlPlane, kind: str) -> bool:
    """Whether the list shows the kind, which it may do some time after the kind is served."""
    try:
        cluster.path_for(kind, api_version=API_VERSION)
    except LookupError:
        return False
    return True


def _serve(
    stack: ExitStack, module: str, plugin: str, arguments: Sequence[str], directory: Path, watchdog: Watchdog
) -> str:
    command = [
        "env",
        f"PYTHONPATH={REPOSITORY / 'plugins' / plugin}:{REPOSITORY}",
        # Checking each answer against the vendor's document takes the server longer than answering it.
        f"FLIPOP_SPECS={directory}",
        sys.executable,
        "-m",
        module,
        *arguments,
    ]
    server = ServerProcess(command, directory / f"{module}.log", watchdog)
    stack.callback(server.stop, 10.0)

    def url() -> str | None:
        if not server.running:
            raise RuntimeError(f"{module} ended with exit code {server.exit_code}:\n{server.log()}")
        return next((line for line in server.log().splitlines() if line.startswith("http://")), None)

    return wait_for(url, 30.0, f"the URL of {module}")


def in_parallel(function: Callable[[T], object], items: Iterable[T]) -> None:
    """Call ``function`` with each item, several at a time; raise the first error."""
    with ThreadPoolExecutor(_THREADS) as executor:
        for _ in executor.map(function, items):
            pass
