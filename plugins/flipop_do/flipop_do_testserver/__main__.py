"""Runs the server as a process of its own, until SIGINT or SIGTERM. Its URL is the first line of its output."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading

from flipop_do_testserver.account import Settings
from flipop_do_testserver.server import DigitalOceanServer

_OPTIONS = (
    "action_seconds",
    "reserved_ip_limit",
    "latency_seconds",
    "stale_seconds",
    "hourly_limit",
    "minute_limit",
    "create_limit",
    "token",
    "scopes",
)


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="flipop_do_testserver", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--droplets", type=int, default=0, help="how many to create, numbered from 1001")
    parser.add_argument("--region", default="nyc3", help="of those droplets")
    parser.add_argument("--domain", action="append", default=[], help="a DNS zone to create; may be repeated")
    for name in _OPTIONS:
        default = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    ended = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: ended.set())
    settings = Settings(**{name: getattr(options, name) for name in _OPTIONS})
    with DigitalOceanServer(settings, host=options.host, port=options.port) as server:
        for number in range(options.droplets):
            server.account.add_droplet(f"node-{number + 1}", options.region, 1001 + number)
        for domain in options.domain:
            server.domains.add(domain)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
