"""Clean up after a test process that has died, however it died.

A control plane runs this file as a process of its own and holds the other end of its standard input. Each line read is
``add PID`` or ``forget PID``. When the input ends, the test process is gone: what is still listed is killed, and the
directory named on the command line is removed.

A signal on the parent's death (``PR_SET_PDEATHSIG``) would come too early: it is sent when the *thread* that started
the child ends, and a test may start a server from any thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def watch(lines: Iterable[str], directory: Path) -> None:
    """Follow `lines` to their end, then kill the processes still listed and remove `directory`."""
    listed: dict[int, int | None] = {}
    for line in lines:
        verb, _, number = line.strip().partition(" ")
        pid = int(number)
        if verb == "add":
            listed[pid] = _handle(pid)
        elif (handle := listed.pop(pid, None)) is not None:
            os.close(handle)
    for pid, handle in listed.items():
        _kill(pid, handle)
    shutil.rmtree(directory, ignore_errors=True)


def _handle(pid: int) -> int | None:
    """Return a handle that means this process even when its number is used again, where the system has any."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _kill(pid: int, handle: int | None) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "linux" and handle is not None:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    watch(sys.stdin, Path(sys.argv[1]))
