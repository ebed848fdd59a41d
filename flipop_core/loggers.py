"""Where the library's log lines go: to structlog as the process has set it up, or to the logger an embedder gave.

A controller's logger belongs to its threads, so that two controllers in one process can have one each. A thread does
not inherit it: what starts one passes it on with `with_logger` or `carried_logger`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class StructuredLogger(Protocol):
    """A logger that takes an event and its values, as those of structlog do."""

    def debug(self, event: str, /, **values: Any) -> Any:
        """Log what helps to find a defect."""
        ...

    def info(self, event: str, /, **values: Any) -> Any:
        """Log what has happened."""
        ...

    def warning(self, event: str, /, **values: Any) -> Any:
        """Log what may need somebody's attention."""
        ...

    def error(self, event: str, /, **values: Any) -> Any:
        """Log what does need somebody's attention. ``exc_info`` may be among the values."""
        ...


LoggerLike = logging.Logger | logging.LoggerAdapter[Any] | StructuredLogger
"""What a caller may give as a logger: one of the standard library, or one such as structlog's."""

_LOGGER: ContextVar[LoggerLike | None] = ContextVar("flipop_logger", default=None)


class Logger:
    """A module's logger. Each line goes to the logger of the thread's controller, else to structlog."""

    def __init__(self, name: str, bound: dict[str, Any] | None = None) -> None:
        self._name = name
        self._bound = bound or {}

    def bind(self, **values: Any) -> Logger:
        """Return a logger whose lines have ``values`` as well."""
        return Logger(self._name, {**self._bound, **values})

    def debug(self, event: str, **values: Any) -> None:
        """Log what helps to find a defect."""
        self._write("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """Log what has happened."""
        self._write("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Log what may need somebody's attention."""
        self._write("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Log what does need somebody's attention."""
        self._write("error", event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Log an error with the exception that is being handled."""
        self._write("error", event, {"exc_info": True, **values})

    def _write(self, level: str, event: str, values: dict[str, Any]) -> None:
        values = {**self._bound, **values}
        target = _LOGGER.get()
        if target is None:
            import structlog

            getattr(structlog.get_logger(self._name), level)(event, **values)
        elif isinstance(target, logging.Logger | logging.LoggerAdapter):
            _write_standard(target, level, event, values)
        else:
            getattr(target, level)(event, **values)


def get_logger(name: str) -> Logger:
    """Return the logger of the module ``name``."""
    return Logger(name)


@contextmanager
def use_logger(logger: LoggerLike | None) -> Iterator[None]:
    """Let what this thread logs meanwhile go to ``logger``, to structlog for None."""
    token = _LOGGER.set(logger)
    try:
        yield
    finally:
        _LOGGER.reset(token)


def with_logger(function: Callable[P, T]) -> Callable[P, T]:
    """Return ``function`` as it logs here, whichever thread calls it."""
    logger = _LOGGER.get()

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with use_logger(logger):
            return function(*args, **kwargs)

    return run


def carried_logger() -> Callable[[], None]:
    """Return an initializer for the threads of an executor, which then log as this one does now."""
    logger = _LOGGER.get()

    def adopt() -> None:
        _LOGGER.set(logger)

    return adopt


def _write_standard(
    target: logging.Logger | logging.LoggerAdapter[Any], level: str, event: str, values: dict[str, Any]
) -> None:
    exc_info = values.pop("exc_info", None)
    shown = "".join(f" {name}={_quoted(value)}" for name, value in values.items())
    number = logging.getLevelNamesMapping()[level.upper()]
    # Three frames up is who logged: past `_write`, and past the method that it was called by.
    target.log(number, "%s%s", event, shown, exc_info=exc_info, extra={"flipop": values}, stacklevel=4)


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and not any(character.isspace() or character in "\"'=" for character in text) else repr(text)
