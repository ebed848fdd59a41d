"""Runs the server as a process of its own, until SIGINT or SIGTERM. Its URL is the first line of its output."""

from __future__ import annotations

import sys

from flipop_do_testserver.account import Settings
from flipop_do_testserver.server import DigitalOceanServer
from tests.support.process import new_parser, serve, settings_of


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    parser = new_parser("flipop_do_testserver", Settings())
    parser.add_argument("--droplets", type=int, default=0, help="how many to create, numbered from 1001")
    parser.add_argument("--region", default="nyc3", help="of those droplets")
    parser.add_argument("--domain", action="append", default=[], help="a DNS zone to create; may be repeated")
    options = parser.parse_args(arguments)
    with DigitalOceanServer(settings_of(options, Settings()), host=options.host, port=options.port) as server:
        for number in range(options.droplets):
            server.account.add_droplet(f"node-{number + 1}", options.region, 1001 + number)
        for domain in options.domain:
            server.domains.add(domain)
        return serve(server)


if __name__ == "__main__":
    sys.exit(main())
