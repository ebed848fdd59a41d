"""Runs the server as a process of its own, until SIGINT or SIGTERM. Its URL is the first line of its output."""

from __future__ import annotations

import sys

from flipop_aws_testserver.server import AWSServer
from flipop_aws_testserver.settings import Settings
from tests.support.process import new_parser, serve, settings_of


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    parser = new_parser("flipop_aws_testserver", Settings())
    parser.add_argument("--instances", type=int, default=0, help="how many to start")
    parser.add_argument("--zone", default="us-east-1a", help="the availability zone of those instances")
    parser.add_argument("--hosted-zone", action="append", default=[], help="a DNS zone to create; may be repeated")
    options = parser.parse_args(arguments)
    with AWSServer(settings_of(options, Settings()), host=options.host, port=options.port) as server:
        for _ in range(options.instances):
            server.account.add_instance(zone=options.zone)
        for name in options.hosted_zone:
            server.account.add_zone(name)
        return serve(server)


if __name__ == "__main__":
    sys.exit(main())
