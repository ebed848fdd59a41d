"""Makes the controller under test find a second provider, ``memory``, as an installed plugin."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

_PLUGIN = Path(__file__).parent / "plugin"


def memory_provider(directory: Path, *nodes: str) -> dict[str, str]:
    """Install the plugin into `directory` and return the variables that make the controller find it there."""
    return {**_installed(directory), "E2E_MEMORY_NODES": ",".join(nodes)}


def regional_provider(
    directory: Path, nodes: Mapping[str, str], addresses: Mapping[str, tuple[str, Mapping[str, str]]], capacity: int = 1
) -> dict[str, str]:
    """As `memory_provider`, with an account for each region: of nodes by name, and of addresses, with their tags."""
    about = {address: {"region": region, "tags": dict(tags)} for address, (region, tags) in addresses.items()}
    cloud = {"nodes": dict(nodes), "addresses": about, "capacity": capacity}
    return {**_installed(directory), "E2E_MEMORY_REGIONS": json.dumps(cloud)}


def _installed(directory: Path) -> dict[str, str]:
    metadata = directory / "flipop_e2e_memory-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flipop-e2e-memory\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[flipop]\nmemory = flipop_e2e_memory:plugin\n")
    return {"PYTHONPATH": f"{directory}{os.pathsep}{_PLUGIN}"}
