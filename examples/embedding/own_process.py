"""The controller as a part of a program that has its own Kubernetes client, signals, logging, metrics and election.

    python own_process.py --kubeconfig ~/.kube/config --metrics-port 9100 --lock-file /run/my-operator.lock

The providers are those that are installed, with the credentials of the environment, as for ``flipop run``. The program
is the leader while it holds the lock of a file: an election for processes of one machine, to show one of the caller's.
Without ``--lock-file`` the controller uses a Lease, as ``flipop run`` does.
"""

from __future__ import annotations

import argparse
import fcntl
import logging
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import kubernetes
from prometheus_client import CollectorRegistry, start_http_server

from flipop_core import Controller, ExternalElection, FlipopError, ProviderRegistry


def main() -> int | str:
    """Run until SIGTERM or SIGINT, and return the exit code, or what keeps it from running."""
    parser = argparse.ArgumentParser(description="a program with a flipop controller in it")
    parser.add_argument("--kubeconfig", default=None)
    parser.add_argument("--namespace", default="default", help="of the leader lease")
    parser.add_argument("--metrics-port", type=int, default=0)
    parser.add_argument("--lock-file", type=Path, default=None)
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(levelname)s %(message)s")
    log = logging.getLogger("my-operator")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())

    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(options.kubeconfig, client_configuration=configuration)
    metrics = CollectorRegistry()
    server, serving = start_http_server(options.metrics_port, "127.0.0.1", registry=metrics)
    log.info("metrics on port %d", server.server_port)

    providers = ProviderRegistry()
    providers.discover()
    election = ExternalElection("lock file") if options.lock_file else None
    controller = Controller(
        providers,
        kubernetes=kubernetes.client.ApiClient(configuration),
        namespace=options.namespace,
        election=election,
        logger=log.getChild("flipop"),
        metrics_registry=metrics,
    )
    try:
        with leading_while_locked(election, options.lock_file, stop, log):
            clean = controller.run(stop)
    except FlipopError as error:
        return str(error)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    return 0 if clean else 1


@contextmanager
def leading_while_locked(
    election: ExternalElection | None, path: Path | None, stop: threading.Event, log: logging.Logger
) -> Generator[None, None, None]:
    """Lead from when the file's lock is had until the controller has stopped."""
    if election is None or path is None:
        yield
        return
    with path.open("w") as file:

        def elect() -> None:
            while not stop.wait(0.2):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                log.info("the lock is ours")
                election.lead()
                return

        elector = threading.Thread(target=elect, name="lock-file", daemon=True)
        elector.start()
        try:
            yield
        finally:
            stop.set()
            elector.join()
            election.step_down()


if __name__ == "__main__":
    sys.exit(main())
