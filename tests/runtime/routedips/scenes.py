"""A RoutedIP that is served, and what is recorded of its firewall."""

from __future__ import annotations

from tests.runtime.routedrig import RoutedRig


def serve(rig: RoutedRig, *ready: str) -> str:
    """Have one RoutedIP served on the first of the nodes, and return its address."""
    rig.service(*(ready or ("a",)))
    rig.issuer()
    rig.routed_ip()
    rig.start()
    return rig.until_active(skipping=True)


def recorded(rig: RoutedRig, name: str = "web") -> tuple[set[int], set[str]]:
    entries = rig.status(name).get("firewallEntries", [])
    ports = {rule["port"] for each in entries for rule in each["rules"]}
    return ports, {node for each in entries for node in each["nodes"]}
