"""Fetch and build all tools of the tests, one after the other: ``python -m tests.tools.prepare``.

Each is kept in the user's cache, so that this takes minutes once and no time afterwards. What cannot be had is told;
the tests that need it are skipped then, or fail where ``CI`` is set.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.dashboard.bundle import find_page
from tests.docs.kubectl_binary import find_kubectl
from tests.packaging.tools import actionlint, packaging_tools

from .debian import unpacked
from .helm import find_helm
from .tool import ToolMissing

BROWSER = "chromium-headless-shell"
TOOLS: Mapping[str, Callable[[], Path]] = {
    "helm": find_helm,
    "kubectl": find_kubectl,
    "actionlint": actionlint,
    "the tools that check releases": packaging_tools,
    "Prometheus": lambda: unpacked("prometheus", with_dependencies=False),
    "Chromium": lambda: unpacked(BROWSER, with_dependencies=True),
    "the page that draws the dashboard": find_page,
}


def main() -> int:
    """Return the process's exit code: 0, also when a tool cannot be had."""
    for name, find in TOOLS.items():
        started = time.monotonic()
        try:
            find()
        except ToolMissing as missing:
            sys.stderr.write(f"{name} is missing: {missing}\n")
        seconds = time.monotonic() - started
        if seconds > 1.0:
            sys.stderr.write(f"{name}: {seconds:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
