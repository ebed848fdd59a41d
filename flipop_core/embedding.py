"""The controller as a part of another program: `Controller`, and what it is given.

It takes no signal, sets up no logging, ends no process and keeps nothing in the module, so that several can live side
by side. ``docs/embedding.md`` has the whole of it. In short::

    registry = ProviderRegistry()
    registry.discover()
    controller = Controller(registry, kubernetes=my_api_client, logger=my_logger, metrics_registry=my_metrics)
    controller.run(stop)            # until the threading.Event is set; or start() and stop(), or await run_async()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from enum import Enum
from types import TracebackType
from typing import Self, TypeVar, cast

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from flipop_core.cluster import KubeAPI
from flipop_core.config import Settings
from flipop_core.errors import ConfigError
from flipop_core.loggers import LoggerLike, StructuredLogger, get_logger, use_logger
from flipop_core.registry import PluginInfo, ProviderRegistry, Role
from flipop_core.runtime.external import ExternalElection
from flipop_core.runtime.kube import HTTPKubeAPI, connect, connect_as
from flipop_core.runtime.manager import Manager

__all__ = [
    "Controller",
    "ExternalElection",
    "KubeAPI",
    "LoggerLike",
    "PluginInfo",
    "ProviderRegistry",
    "Role",
    "Settings",
    "StructuredLogger",
]

_log = get_logger(__name__)
_T = TypeVar("_T")

EMBEDDED = Settings(metrics_bind_addr="")
"""What a `Controller` is told unless its caller says otherwise: as `flipop run`, without its HTTP server."""


class _Life(Enum):
    NEW = "new"
    RUNNING = "running"
    ENDED = "ended"


class Controller:
    """One controller for one cluster, in threads of its own. Begins with `start`, and cannot be started again.

    ``registry`` has the providers. ``kubernetes`` is a ``kubernetes.client.ApiClient`` or ``Configuration``, read but
    never changed, or a `KubeAPI`; None finds the cluster as ``settings`` say. ``settings`` are those of ``flipop run``
    (default: without an HTTP server). ``namespace`` is where the leader lease lives, empty for that of ``settings`` or
    else the cluster configuration's. ``election`` replaces the lease by the caller's own election; to act without one,
    set ``leader_election`` of ``settings`` to False. ``logger`` gets all lines of this controller, by default structlog
    as the process has set it up. ``metrics_registry`` has the controller's metrics while it runs, one controller's at
    most; `metrics` has them in any case.

    Methods may be called from any thread; `run_async` from a coroutine.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        *,
        kubernetes: object | None = None,
        settings: Settings = EMBEDDED,
        namespace: str = "",
        election: ExternalElection | None = None,
        logger: LoggerLike | None = None,
        metrics_registry: CollectorRegistry | None = None,
    ) -> None:
        self._registry = registry
        self._kubernetes = kubernetes
        self._settings = settings
        self._namespace = namespace
        self._election = election
        self._logger = logger
        self._metrics_registry = metrics_registry
        self._metrics = CollectorRegistry()
        self._forwarded = _Forwarded(self._metrics)
        self._forwards = False
        self._lock = threading.Lock()
        self._life = _Life.NEW
        self._manager: Manager | None = None
        self._own_api: HTTPKubeAPI | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch, to stand for election and to act, and return.

        Reads the cluster's configuration. Raises ConfigError when that cannot be used, the metrics address cannot be
        bound, or ``metrics_registry`` has the metrics of another controller; RuntimeError if started before.
        """
        with self._lock, use_logger(self._logger):
            if self._life is not _Life.NEW:
                raise RuntimeError("a controller starts once: make another one")
            self._life = _Life.ENDED  # until it has begun, so that a failure leaves nothing behind
            try:
                self._manager = self._begin()
            except BaseException:
                self._withdraw()
                raise
            self._life = _Life.RUNNING
            _log.info("controller started")

    def stop(self, timeout_seconds: float | None = None) -> bool:
        """Finish what is in flight, give the lease away, end all threads; return whether all of it ended in time.

        ``timeout_seconds`` is by default that of ``settings``. What has not ended then is left to itself; the next
        process reads what became of it. Idempotent: True if not running.
        """
        with self._lock, use_logger(self._logger):
            manager, running = self._manager, self._life is _Life.RUNNING
            self._life = _Life.ENDED
            if manager is None or not running:
                return True
            seconds = self._settings.stop_timeout_seconds if timeout_seconds is None else timeout_seconds
            try:
                clean = manager.stop(seconds)
            finally:
                self._withdraw()
            if clean:
                _log.info("controller stopped")
            else:
                _log.warning("stopped before all calls had ended; the next process reads what became of them")
            return clean

    def run(self, stop: threading.Event) -> bool:
        """Start, wait until ``stop`` is set, and stop. Return and raise as `stop` and `start` do."""
        self.start()
        try:
            stop.wait()
        finally:
            clean = self.stop()
        return clean

    async def run_async(self, stop: asyncio.Event | None = None) -> bool:
        """As `run`, beside the event loop: nothing blocks it. When cancelled, it stops the controller and then ends.

        Without ``stop`` it runs until it is cancelled.
        """
        loop = asyncio.get_running_loop()
        beginning: Future[None] = Future()

        def begin() -> None:
            try:
                self.start()
            except BaseException as error:
                beginning.set_exception(error)
            else:
                beginning.set_result(None)

        def end() -> bool:
            # Waits for the beginning; what has not begun here is not ours to stop.
            return self.stop() if beginning.exception() is None else True

        # Futures of the executor and not tasks: the end of an event loop cancels all its tasks at once.
        loop.run_in_executor(None, begin)
        try:
            await asyncio.shield(asyncio.wrap_future(beginning))
            await (stop or asyncio.Event()).wait()
        finally:
            clean = await _completed(loop.run_in_executor(None, end))
        return clean

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what it is like ---------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether it may act now."""
        manager = self._running()
        return manager is not None and manager.leadership.is_leader

    @property
    def metrics(self) -> CollectorRegistry:
        """A registry with this controller's metrics alone, empty before `start`."""
        return self._metrics

    @property
    def metrics_port(self) -> int | None:
        """The port of its HTTP server, None for none."""
        manager = self._running()
        return None if manager is None else manager.server_port

    def unhealthy(self) -> str:
        """Return what keeps it from ever working again, empty for nothing: for a liveness probe."""
        manager = self._running()
        return "the controller does not run" if manager is None else manager.unhealthy()

    def unready(self) -> str:
        """Return what keeps it from being of use now, empty for nothing: for a readiness probe."""
        manager = self._running()
        return "the controller does not run" if manager is None else manager.unready()

    def _running(self) -> Manager | None:
        return self._manager if self._life is _Life.RUNNING else None

    # -- parts -------------------------------------------------------------------------------------------------------

    def _begin(self) -> Manager:
        api = self._api()
        namespace = self._namespace or self._settings.namespace or str(getattr(api, "namespace", "default"))
        manager = Manager(
            api,
            self._registry,
            self._settings,
            namespace=namespace,
            elect=self._settings.leader_election,
            election=None if self._election is None else self._election.follow,
            metrics_registry=self._metrics,
        )
        self._forward_metrics()
        manager.start()
        return manager

    def _api(self) -> KubeAPI:
        given = self._kubernetes
        if hasattr(given, "list_page"):
            return cast("KubeAPI", given)
        if given is None:
            self._own_api = connect(self._settings.kubeconfig, self._settings.context)
        else:
            self._own_api = connect_as(given, self._namespace or self._settings.namespace or "default")
        return self._own_api

    def _forward_metrics(self) -> None:
        if self._metrics_registry is None:
            return
        try:
            self._metrics_registry.register(self._forwarded)
            self._forwards = True
        except ValueError as error:
            raise ConfigError(
                f"the metrics registry has such metrics already: give each controller one of its own: {error}"
            ) from error

    def _withdraw(self) -> None:
        """Leave the caller's things as they were."""
        if self._metrics_registry is not None and self._forwards:
            self._forwards = False
            self._metrics_registry.unregister(self._forwarded)
        if self._own_api is not None:
            self._own_api.close()


class _Forwarded(Collector):
    """A registry's metrics in another registry, where they come and go as one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def describe(self) -> Iterable[Metric]:
        return self._registry.collect()

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()


async def _completed(work: asyncio.Future[_T]) -> _T:
    """Await ``work`` to its end, however often this is cancelled meanwhile; the cancellation is raised afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()
