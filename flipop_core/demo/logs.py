"""Keeps the controller's log out of the picture, but not what it reports as its own defects."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog

_KEPT = 20


@contextmanager
def controller_logs() -> Iterator[deque[str]]:
    """Inside the block nothing is logged to the terminal; yield a list that gets what is logged as an error.

    Failures that the scenario makes are warnings, and are part of the story.
    """
    problems: deque[str] = deque(maxlen=_KEPT)

    def keep(_logger: object, _method: str, event: MutableMapping[str, Any]) -> NoReturn:
        problems.append(" ".join([str(event.pop("event", "")), *(f"{key}={value}" for key, value in event.items())]))
        raise structlog.DropEvent

    configured, former = structlog.is_configured(), structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=False,
    )
    try:
        yield problems
    finally:
        if configured:
            structlog.configure(**former)
        else:
            structlog.reset_defaults()
