"""Keeps the process as small as what it holds: freed memory goes back to the system.

Lists of pods are megabytes of JSON, read and decoded by many threads, of which kilobytes stay. With its defaults glibc
keeps a heap for each of several threads, and never gives back what lies below its last used byte: at 10,000 pods that
is half of the process. Where the C library is another one, nothing of this is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_HEAPS = 1
_LARGE_BYTES = 128 * 1024
_TRIM_SECONDS = 2.0


def bound_heaps() -> bool:
    """Have what is large allocated on its own and the rest in one heap; return whether the C library knows how.

    For the start of a process that is this controller's own, before it has threads.
    """
    mallopt = _function("mallopt", ctypes.c_int, ctypes.c_int)
    if mallopt is None:
        return False
    # Set, the thresholds stay: by default each large block that is freed raises them.
    options = ((_M_ARENA_MAX, _HEAPS), (_M_MMAP_THRESHOLD, _LARGE_BYTES), (_M_TRIM_THRESHOLD, _LARGE_BYTES))
    taken = [mallopt(option, value) == 1 for option, value in options]
    return all(taken)


def give_back() -> bool:
    """Give free memory back to the system, a matter of milliseconds; return whether there was some."""
    trim = _function("malloc_trim", ctypes.c_size_t)
    return trim is not None and trim(0) == 1


def give_back_after(lists: Callable[[], int], wait: Callable[[float], bool]) -> None:
    """Give memory back whenever ``lists`` has counted more complete lists and is at rest, until ``wait`` returns True.

    ``wait`` waits for so many seconds, or until the process is to end.
    """
    done, before = 0, 0
    while not wait(_TRIM_SECONDS):
        now = lists()
        if now == before and now != done:
            give_back()
            done = now
        before = now


def _function(name: str, *types: Any) -> Callable[..., int] | None:
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # musl has no mallopt, Windows no such library
        return None
    function.argtypes, function.restype = types, ctypes.c_int
    checked: Callable[..., int] = function
    return checked
