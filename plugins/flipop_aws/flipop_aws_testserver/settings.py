"""How the server behaves."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, kw_only=True):
    """May be changed while the server runs.

    ``access_key_id``: the one that is accepted, any when empty. ``denied`` and ``granted`` are actions, separated by
    commas (``ec2:ReleaseAddress``): those refused, and, unless empty, all that are allowed. ``address_limit``: Elastic
    IPs per region that are of no pool, 0 for no limit. ``allocation_lag_seconds``, ``association_lag_seconds``: how
    long DescribeAddresses shows what was before. ``change_seconds``: until a change of record sets is INSYNC.
    ``latency_seconds``: how long each request waits. ``requests_per_second`` of each service, 0 for no limit.
    ``rules_per_group``: inbound rules of a security group; ``groups_per_interface``; ``group_lag_seconds``: how long
    reads show the rules of a group, and the groups of an interface, as they were before. ``page_size``: how much a
    page of these reads has at most.
    """

    access_key_id: str = ""
    denied: str = ""
    granted: str = ""
    address_limit: int = 5
    allocation_lag_seconds: float = 0.0
    association_lag_seconds: float = 0.0
    change_seconds: float = 0.0
    latency_seconds: float = 0.0
    requests_per_second: int = 0
    rules_per_group: int = 60
    groups_per_interface: int = 5
    group_lag_seconds: float = 0.0
    page_size: int = 1000

    def allows(self, action: str) -> bool:
        """Return whether the credentials may call ``action``."""
        if self.granted and action not in _words(self.granted):
            return False
        return action not in _words(self.denied)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.split(",")}
