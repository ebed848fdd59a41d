"""Logging of the process: structured, on standard error, without secrets.

The rest of the project calls ``structlog.get_logger`` only. A line of JSON has the shape of the original's logrus:
``time`` (RFC 3339), ``level``, ``msg``, then the fields of the event. What libraries log through `logging`, warnings,
and exceptions that end a thread come out in the same way.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
import threading
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

from flipop_core.cli.output import escaped_json
from flipop_core.cli.structured import structlog
from flipop_core.cli.terminal import uses_colors
from flipop_core.config import KeptSecrets, Secrets
from flipop_core.errors import one_line

Style = Literal["auto", "json", "human"]

_SEVERAL_LINES = frozenset({"exception", "stack"})
_LOGRUS_LEVELS = {"critical": "fatal"}


def configure_logging(
    *,
    debug: bool = False,
    quiet: bool = False,
    style: Style = "auto",
    secrets: Secrets | None = None,
    kept: KeptSecrets | None = None,
) -> None:
    """Set up structlog and `logging` for this process; calling it again replaces what it did before.

    The level is INFO, DEBUG with ``debug``, else WARNING with ``quiet``; of libraries always WARNING. ``auto`` is
    ``human`` when standard error is a terminal. ``secrets`` (default: those of the environment) never appear, nor does
    what is ``kept`` by then.
    """
    human = style == "human" or (style == "auto" and sys.stderr.isatty())
    known = secrets if secrets is not None else Secrets.of_environment(os.environ)
    level = logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            _Redactor(known, kept if kept is not None else KeptSecrets()),
            *(_human_renderers() if human else _json_renderers()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_StandardError,
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryHandler())
    root.setLevel(logging.WARNING)


def log_what_nobody_catches() -> None:
    """Send warnings, and exceptions that end a thread, to the log for the rest of the process."""
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_ended


def _thread_ended(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit:
        return
    name = args.thread.name if args.thread is not None else ""
    error = args.exc_value if args.exc_value is not None else args.exc_type()
    structlog.get_logger(__name__).critical("a thread ended by an exception", thread=name, exc_info=error)


def _json_renderers() -> tuple[structlog.typing.Processor, ...]:
    return structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"), _render_json


def _human_renderers() -> tuple[structlog.typing.Processor, ...]:
    # Exceptions are plain text by now; the default formatter would show local variables, which may hold a credential.
    plain = structlog.dev.plain_traceback
    renderer = structlog.dev.ConsoleRenderer(colors=uses_colors(sys.stderr), exception_formatter=plain)
    return structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False), _printable, renderer


def _printable(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Make visible what could control the terminal. Of lines there are several in a traceback alone."""
    shown: dict[str, Any] = {}
    for key, value in event.items():
        if not isinstance(value, str):
            shown[key] = value  # its repr is shown
        elif key in _SEVERAL_LINES:
            shown[key] = "\n".join(map(one_line, value.split("\n")))
        else:
            shown[key] = one_line(value)
    return shown


def _render_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
    level = event.pop("level", "info")
    line = {
        "time": event.pop("time", ""),
        "level": _LOGRUS_LEVELS.get(level, level),
        "msg": event.pop("event", ""),
    }
    for key, value in event.items():
        line[f"fields.{key}" if key in line else key] = value
    return escaped_json(json.dumps(line, ensure_ascii=False))


class _Redactor:
    """Turns an event into plain JSON values, with nothing of ``secrets`` and of ``kept`` left in them."""

    def __init__(self, secrets: Secrets, kept: KeptSecrets) -> None:
        self._secrets = secrets
        self._kept = kept

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        # An own field called time would be taken for the time of the line.
        return {"fields.time" if key == "time" else key: self._plain(value) for key, value in event.items()}

    def _plain(self, value: object) -> object:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, Mapping):
            return {self._redacted(str(key)): self._plain(part) for key, part in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(part) for part in value]
        return self._redacted(value if isinstance(value, str) else str(value))

    def _redacted(self, text: str) -> str:
        return self._kept.redact(self._secrets.redact(text))


class _StandardError:
    """The innermost logger: writes finished lines. Looks standard error up each time, since it may be replaced."""

    def __init__(self, *_names: object) -> None:
        pass

    def msg(self, line: str) -> None:
        # Whoever read standard error is gone: there is nobody left to tell, and the work goes on.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    log = debug = info = warning = error = critical = msg


class _LibraryHandler(logging.Handler):
    """Passes what libraries log through `logging` on to structlog."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # as in logging: arguments that do not fit are the library's defect, told but not fatal
            self.handleError(record)
            return
        level = max(logging.WARNING, min(logging.CRITICAL, record.levelno // 10 * 10))
        fields = {"exc_info": record.exc_info} if record.exc_info else {}
        structlog.get_logger(record.name).log(level, message, logger=record.name, **fields)
