"""A zone with record sets."""

from __future__ import annotations

import pytest

from flipop_cloudflare_testserver import CloudflareServer

from .zone import World


@pytest.fixture
def world(server: CloudflareServer, zone_id: str) -> World:
    return World(server, zone_id)
