"""How a public name is retired: it works on and warns, naming since when, until when, and what to use instead.

A function or class is marked with `deprecated`, a name of a module with `deprecated_names`, anything else, such as an
argument, warned of with `warn_deprecated`. All use `DeprecationWarning`, which points at the line of the caller.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Deprecation(NamedTuple):
    """What is told of a retired name.

    ``since`` is the version that began to warn, ``removal`` the first one without the name; ``mend`` says what to do
    instead. ``target`` (``module:attribute``) is what the name of a module still stands for.
    """

    since: str
    removal: str
    mend: str
    target: str = ""

    def message(self, name: str) -> str:
        """Return the warning for ``name``."""
        return f"{name} is deprecated since flipop {self.since} and will be removed in {self.removal}: {self.mend}"


def warn_deprecated(name: str, deprecation: Deprecation, *, stacklevel: int = 1) -> None:
    """Warn of ``name``. With a ``stacklevel`` of 1 the warning points at who called the function that calls this."""
    warnings.warn(deprecation.message(name), DeprecationWarning, stacklevel=stacklevel + 2)


def deprecated(deprecation: Deprecation) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function, a method or a class: a call of it warns, once for each line that it comes from."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        name = f"{function.__module__}.{function.__qualname__}"
        seen: set[tuple[str, int]] = set()

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if _is_new(seen):
                warn_deprecated(name, deprecation)
            return function(*args, **kwargs)

        if not isinstance(function, type):
            return call
        return _warning_class(function, name, deprecation, seen)

    return decorate


def deprecated_names(module: str, names: Mapping[str, Deprecation]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of ``module``: a name of ``names`` gives its ``target`` and warns once for each line.

    Any other name raises AttributeError, as does one whose target is gone.
    """
    seen: dict[str, set[tuple[str, int]]] = {name: set() for name in names}

    def getattr_of_module(name: str) -> Any:
        deprecation = names.get(name)
        if deprecation is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if _is_new(seen[name]):
            warn_deprecated(f"{module}.{name}", deprecation)
        path, _, attribute = deprecation.target.partition(":")
        return getattr(importlib.import_module(path), attribute)

    return getattr_of_module


def _warning_class(
    decorated: type[Any], name: str, deprecation: Deprecation, seen: set[tuple[str, int]]
) -> Callable[..., Any]:
    """Return the class itself, so that isinstance and inheritance go on to work, with a constructor that warns."""
    construct = decorated.__init__

    @functools.wraps(construct)
    def warn_and_construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if _is_new(seen):
            warn_deprecated(name, deprecation)
        construct(self, *args, **kwargs)

    decorated.__init__ = warn_and_construct
    return decorated


def _is_new(seen: set[tuple[str, int]]) -> bool:
    """Whether the line that called our caller has not been warned of yet. Of two threads at once, both may be told."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame.f_back if frame is not None else None
    # `from module import name` looks the name up from within the import system, too.
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("importlib."):
        frame = frame.f_back
    line = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    if line in seen:
        return False
    seen.add(line)
    return True
