"""What `flipop run` does not load."""

from __future__ import annotations

import subprocess
import sys

_STARTED = "import flipop_core.cli.logs, flipop_core.cli.stopping, flipop_core.runtime.process, sys"


def test_a_start_loads_neither_rich_nor_an_sdk_and_rich_can_be_loaded_later() -> None:
    loaded = "print(sorted({'rich', 'pygments', 'pydo', 'boto3', 'cloudflare', 'kubernetes'} & set(sys.modules)))"
    later = "import rich.console; print(rich.console.Console)"
    code = f"{_STARTED}; {loaded}; {later}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == ["[]", "<class 'rich.console.Console'>"]
