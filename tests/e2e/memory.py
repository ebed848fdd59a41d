"""Makes the controller under test find a second provider, ``memory``, as an installed plugin."""

from __future__ import annotations

import os
from pathlib import Path

_PLUGIN = Path(__file__).parent / "plugin"


def memory_provider(directory: Path, *nodes: str) -> dict[str, str]:
    """Install the plugin into `directory` and return the variables that make the controller find it there."""
    metadata = directory / "flipop_e2e_memory-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flipop-e2e-memory\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[flipop]\nmemory = flipop_e2e_memory:plugin\n")
    return {"PYTHONPATH": f"{directory}{os.pathsep}{_PLUGIN}", "E2E_MEMORY_NODES": ",".join(nodes)}
