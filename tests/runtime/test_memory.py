"""Freed memory goes back to the system: in processes of their own, since the C library's settings are the process's."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from flipop_core.runtime import memory
from flipop_core.runtime.memory import give_back_after

GLIBC = platform.libc_ver()[0] == "glibc"

_PROGRAM = """
import threading
from pathlib import Path
from flipop_core.runtime.memory import bound_heaps, give_back

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024

def read(kept):
    # What a list leaves behind: small blocks that stay, each after large ones that do not.
    for _ in range(20):
        pieces = [bytes(16_384) for _ in range(64)]
        kept.append(bytes(600))
        del pieces

if {bounded}:
    assert bound_heaps()
before = resident()
kept = [[] for _ in range(8)]
barrier = threading.Barrier(8)
threads = [threading.Thread(target=lambda each=each: (barrier.wait(), read(each))) for each in kept]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
give_back()
print(resident() - before)
"""


@pytest.mark.skipif(not GLIBC, reason="only glibc keeps freed memory, and can be told not to")
def test_what_threads_have_freed_is_given_back() -> None:
    program = _PROGRAM.format(bounded=True)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) <= 4  # MiB, of eight threads with a MiB each


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not memory.bound_heaps()
    assert not memory.give_back()


def test_memory_is_given_back_once_the_lists_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [0, 0, 2, 5, 5, 5, 6, 6, 6]
    given_back: list[int] = []
    remaining: Iterator[int] = iter(counts)
    monkeypatch.setattr(memory, "give_back", lambda: given_back.append(0))
    looks: list[float] = []

    def wait(seconds: float) -> bool:
        looks.append(seconds)
        return len(looks) > len(counts)

    give_back_after(lambda: next(remaining), wait)
    assert len(given_back) == 2  # when five lists had been read, and when one was read again
