"""The vendor's SDK as it is imported here: without its documentation, which is 20 MiB of every process's memory.

Each operation's docstring holds the JSON of its answers, nearly all of them for products that no controller touches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import get_overloads

_LONG_CHARACTERS = 500
_lock = threading.Lock()


def load() -> ModuleType:
    """Import the SDK, drop the long docstrings of its operations, and return it. Thread-safe."""
    import pydo
    from pydo.operations import _operations as operations

    with _lock:
        for function in _functions(operations):
            _drop_docstring(function)
    sdk: ModuleType = pydo
    return sdk


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the methods of the module's own classes: what decorates them, what that wraps, and their overloads."""
    for owner in vars(module).values():
        if not isinstance(owner, type) or owner.__module__ != module.__name__:
            continue
        for method in vars(owner).values():
            inner = method
            while isinstance(inner, FunctionType):
                yield inner
                yield from (each for each in get_overloads(inner) if isinstance(each, FunctionType))
                inner = getattr(inner, "__wrapped__", None)


def _drop_docstring(function: FunctionType) -> None:
    text = function.__doc__
    if text is None or len(text) < _LONG_CHARACTERS:
        return
    function.__doc__ = None
    constants = function.__code__.co_consts
    if constants and constants[0] == text:  # where the compiler puts it; only the docstring is that long
        function.__code__ = function.__code__.replace(co_consts=("", *constants[1:]))
