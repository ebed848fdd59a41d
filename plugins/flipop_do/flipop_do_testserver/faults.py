"""Faults that the server injects on request."""

from __future__ import annotations

from tests.support.faults import Fault


class DigitalOceanFault(Fault, kw_only=True):
    """A fault whose error body has ``id``."""

    id: str = "server_error"
