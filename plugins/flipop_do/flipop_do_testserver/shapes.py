"""The objects of the API as JSON, complete enough for the vendor's document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

PROJECT_ID = "746c6152-2fa2-11ed-92d3-27aaa54e4988"
REGIONS = {
    "nyc1": "New York 1",
    "nyc3": "New York 3",
    "ams3": "Amsterdam 3",
    "fra1": "Frankfurt 1",
    "sgp1": "Singapore 1",
}
_SIZE = "s-1vcpu-1gb"
_CREATED = "2024-05-01T12:00:00Z"


def region(slug: str) -> dict[str, Any]:
    """Return the region; ``slug`` is one of `REGIONS`."""
    return {
        "name": REGIONS[slug],
        "slug": slug,
        "features": ["private_networking", "backups", "ipv6", "metadata"],
        "available": True,
        "sizes": [_SIZE],
    }


def droplet(droplet_id: int, name: str, region_slug: str, addresses: list[str]) -> dict[str, Any]:
    """Return the droplet; ``addresses`` are the reserved IPs it holds."""
    host = f"{droplet_id >> 16 & 255}.{droplet_id >> 8 & 255}.{droplet_id & 255}"
    own = [_network(f"10.{host}", "private"), _network(f"100.{host}", "public")]
    ipv4 = [*own, *(_network(address, "public") for address in addresses if ":" not in address)]
    ipv6 = [_ipv6_network(address) for address in addresses if ":" in address]
    return {
        "id": droplet_id,
        "name": name,
        "memory": 1024,
        "vcpus": 1,
        "disk": 25,
        "locked": False,
        "status": "active",
        "kernel": None,
        "created_at": _CREATED,
        "features": ["private_networking"],
        "backup_ids": [],
        "next_backup_window": None,
        "snapshot_ids": [],
        "image": {
            "id": 63663980,
            "name": "24.04 (LTS) x64",
            "distribution": "Ubuntu",
            "slug": "ubuntu-24-04-x64",
            "public": True,
            "regions": sorted(REGIONS),
            "created_at": _CREATED,
            "min_disk_size": 20,
            "type": "base",
            "size_gigabytes": 2.36,
            "description": "",
            "tags": [],
            "status": "available",
            "error_message": "",
        },
        "volume_ids": [],
        "size": {
            "slug": _SIZE,
            "memory": 1024,
            "vcpus": 1,
            "disk": 25,
            "transfer": 1.0,
            "price_monthly": 6.0,
            "price_hourly": 0.00893,
            "regions": sorted(REGIONS),
            "available": True,
            "description": "Basic",
        },
        "size_slug": _SIZE,
        "networks": {"v4": ipv4, "v6": ipv6},
        "region": region(region_slug),
        "tags": ["k8s"],
        "vpc_uuid": "760e09ef-dc84-11e8-981e-3cfdfeaae000",
    }


def _network(address: str, kind: str) -> dict[str, Any]:
    return {
        "ip_address": address,
        "netmask": "255.255.240.0",
        "gateway": address.rsplit(".", 1)[0] + ".1",
        "type": kind,
    }


def _ipv6_network(address: str) -> dict[str, Any]:
    return {"ip_address": address, "netmask": 64, "gateway": "2001:db8:d0::1", "type": "public"}


def reserved_ipv6(address: str, region_slug: str, holder: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the IPv6 address; ``holder`` is its `droplet`, without which there is no such key."""
    held = {} if holder is None else {"droplet": holder}
    return {"ip": address, "region_slug": region_slug, "reserved_at": _CREATED, **held}


def reserved_ip(address: str, region_slug: str, holder: dict[str, Any] | None, *, locked: bool) -> dict[str, Any]:
    """Return the address; ``holder`` is its `droplet` or None."""
    return {
        "ip": address,
        "region": region(region_slug),
        "droplet": holder,
        "locked": locked,
        "project_id": PROJECT_ID,
    }


def page_links(url: str, page: int, per_page: int, total: int, filters: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``links`` of one page; ``url`` is that of the collection, ``filters`` the rest of the query."""
    last = max(1, -(-total // per_page))

    def link(number: int) -> str:
        return f"{url}?{urlencode({**filters, 'page': number, 'per_page': per_page})}"

    pages: dict[str, str] = {}
    if page > 1:
        pages |= {"first": link(1), "prev": link(page - 1)}
    if page < last:
        pages |= {"next": link(page + 1), "last": link(last)}
    return {"pages": pages} if pages else {}
