"""Runs the server as a process of its own, until SIGINT or SIGTERM. Its URL is the first line of its output."""

from __future__ import annotations

import sys

from flipop_cloudflare_testserver.account import Settings
from flipop_cloudflare_testserver.server import CloudflareServer
from tests.support.process import new_parser, serve, settings_of


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    parser = new_parser("flipop_cloudflare_testserver", Settings())
    parser.add_argument("--zone", action="append", default=[], help="a zone to create; may be repeated")
    options = parser.parse_args(arguments)
    with CloudflareServer(settings_of(options, Settings()), host=options.host, port=options.port) as server:
        for zone in options.zone:
            server.account.add_zone(zone)
        return serve(server)


if __name__ == "__main__":
    sys.exit(main())
