"""What the command `flipop run` does, without its command line."""

from __future__ import annotations

import gc
import threading
from contextlib import closing
from importlib.metadata import version

from flipop_core.config import Settings
from flipop_core.loggers import get_logger
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.kube import connect
from flipop_core.runtime.manager import Manager
from flipop_core.runtime.memory import bound_heaps, give_back_after

_log = get_logger(__name__)


def run_controller(settings: Settings, registry: ProviderRegistry, stop: threading.Event) -> int:
    """Run a controller on the configured cluster until ``stop`` is set. Return the exit code, 0 after a clean end.

    Raises ConfigError when there is no usable cluster configuration, or the metrics address cannot be bound.
    """
    bound_heaps()
    with closing(connect(settings.kubeconfig, settings.context)) as api:
        manager = Manager(
            api, registry, settings, namespace=settings.namespace or api.namespace, elect=settings.leader_election
        )
        manager.start()
        gc.freeze()  # what was imported stays, and no collection need look at it while an address waits to be moved
        gc.enable()
        _log.info("started", version=version("flipop-core"), metrics_port=manager.server_port)
        give_back_after(lambda: sum(each.list_count for each in manager.interests.reflectors()), stop.wait)
        clean = manager.stop(settings.stop_timeout_seconds)
    if not clean:
        _log.warning("stopped before all calls had ended; the next process reads what became of them")
    return 0
