"""The HTTP DigitalOcean of the scenarios: a process of its own, with latency, and a journal of its calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import urllib3

REGION = "nyc3"


class Call(msgspec.Struct, frozen=True):
    """A request that the provider has received. ``time`` is monotonic seconds; ``assigns``: it asks to assign."""

    time: float
    method: str
    path: str
    assigns: bool


class Cloud:
    """Drives the server at ``url`` through its control paths. Thread-safe."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(maxsize=8)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def warm_up(self) -> None:
        """Make a first call to the API: the server imports what it needs at that moment, for 0.3 s."""
        headers = {"Authorization": "Bearer dop_v1_warm_up"}
        response = self._pool.request("GET", f"{self.url}/v2/reserved_ips", headers=headers, timeout=30.0)
        if response.status != 200:
            raise RuntimeError(f"the provider answered {response.status}: {response.data!r}")

    def add_droplets(self, count: int) -> list[int]:
        """Create droplets and return their numbers."""
        ids: list[int] = self._post("droplets", {"count": count, "region": REGION})["ids"]
        return ids

    def add_addresses(self, count: int) -> list[str]:
        """Create reserved IPs that no droplet holds, and return them."""
        ips: list[str] = self._post("addresses", {"count": count, "region": REGION})["ips"]
        return ips

    def add_domain(self, domain: str) -> None:
        """Create a DNS zone."""
        self._post("domains", {"domain": domain})

    def move(self, address: str, droplet: int | None) -> None:
        """Put an address on a droplet, or on none, at once."""
        self._post("move", {"ip": address, "droplet_id": droplet})

    def holders(self) -> dict[str, int | None]:
        """Return the droplet of each address that is not being moved; None for no droplet."""
        addresses = self._request("GET", "addresses")
        return {entry["ip"]: entry["droplet_id"] for entry in addresses if entry["action_id"] is None}

    def calls(self, since: float) -> list[Call]:
        """Return what has been received after the moment ``since``."""
        entries = self._request("GET", "journal")
        return [_call(entry) for entry in entries if entry["time"] > since]

    def assigns(self, since: float) -> list[float]:
        """Return when each request to assign was received after the moment ``since``."""
        return [call.time for call in self.calls(since) if call.assigns]

    def require_no_violation(self) -> None:
        """Raise RuntimeError if a request made no sense to the server, or the server failed."""
        violations = self._request("GET", "violations")
        if violations:
            raise RuntimeError(f"{len(violations)} violations at the provider, first: {violations[0]}")

    def _post(self, path: str, body: Any) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        response = self._pool.request(
            method, f"{self.url}/_test/{path}", body=None if body is None else json.dumps(body), timeout=30.0
        )
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {response.data!r}")
        return json.loads(response.data)


def _call(entry: dict[str, Any]) -> Call:
    body = entry["body"]
    assigns = isinstance(body, dict) and body.get("type") == "assign"
    return Call(entry["time"], entry["method"], entry["path"], assigns)


def server_arguments(latency_seconds: float, action_seconds: float) -> Sequence[str]:
    """Return the server's arguments: the given latency, and no limit on addresses or rates."""
    return [
        f"--latency-seconds={latency_seconds}",
        f"--action-seconds={action_seconds}",
        "--reserved-ip-limit=0",
        "--hourly-limit=1000000000",
        "--minute-limit=0",
        "--create-limit=0",
    ]
