"""A DigitalOcean for tests: stateful, over real HTTP, each request and response checked against the vendor's document.

In a test::

    with DigitalOceanServer(Settings(action_seconds=0.2)) as server:
        droplet_id = server.account.add_droplet("node-1", "nyc3")
        server.domains.add("example.com")
        server.faults.add("POST", r"/actions$", kind="status", status=500)
        ...                                     # a client with endpoint=server.url
        assert server.journal.count("POST") == 1
        assert server.violations == []

As a process of its own: ``python -m flipop_do_testserver --droplets 3``, driven through ``/_test/…`` (see `control`).
It is not part of the distribution, and needs the repository's root on the path.
"""

from __future__ import annotations

from flipop_do_testserver.account import Account, Settings
from flipop_do_testserver.domains import Domains, Record
from flipop_do_testserver.faults import DigitalOceanFault
from flipop_do_testserver.firewalls import CloudFirewall, Firewalls
from flipop_do_testserver.server import DOCUMENT, DigitalOceanServer

__all__ = [
    "DOCUMENT",
    "Account",
    "CloudFirewall",
    "DigitalOceanFault",
    "DigitalOceanServer",
    "Domains",
    "Firewalls",
    "Record",
    "Settings",
]
