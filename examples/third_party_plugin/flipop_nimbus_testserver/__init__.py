"""A stand-in for the Nimbus API: one project, with state, behind a loopback port. For tests, and to try things out."""

from __future__ import annotations

from flipop_nimbus_testserver.project import APIError, Project
from flipop_nimbus_testserver.server import Fault, NimbusServer

__all__ = ["APIError", "Fault", "NimbusServer", "Project"]
