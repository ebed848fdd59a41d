"""`flipop completion`: the scripts by which shells complete commands, flags and their values."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


def completion_script(command: click.Command, shell: str) -> str:
    """Return the script for ``shell``, one of `SHELLS`: it asks the command itself what may come next."""
    complete = SHELLS[shell](command, {}, "flipop", "_FLIPOP_COMPLETE")
    return ShellComplete.source(complete)  # and not BashComplete's own, which starts a bash to ask for its version
