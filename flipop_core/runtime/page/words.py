"""How the status page writes ages, times and text that others wrote. The page's script writes ages in the same way."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

LONGEST_TEXT = 600
"""Characters of a message that are shown: a status may hold more than a page bears."""

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""Times as the controller writes them into messages."""

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def visible(text: str, limit: int = LONGEST_TEXT) -> str:
    """Return text of others on one line, not too long, and with what does not print or changes the direction shown."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in short)


def span(seconds: float) -> str:
    """Return a length of time in its largest whole unit."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def duration(seconds: float) -> str:
    """Return how long something took: under ten seconds with a tenth."""
    return f"{seconds:.1f} s" if seconds < 10 else span(seconds)


def distance(unix: float, now: float) -> str:
    """Say how far away a time is, such as ``in 12 s`` or ``3 min ago``."""
    ahead = unix - now
    return f"in {span(ahead)}" if ahead > 0 else f"{span(-ahead)} ago"


def until(unix: float, now: float) -> str:
    """Say when something is due."""
    return distance(unix, now) if unix > now else "now"


def timestamp(unix: float) -> str:
    """Return RFC 3339 in whole seconds."""
    return dt.datetime.fromtimestamp(round(unix), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(unix: float, now: float) -> str:
    """Return the time of day in UTC, with the date unless that is today's."""
    moment, today = (dt.datetime.fromtimestamp(round(value), dt.UTC) for value in (unix, now))
    return moment.strftime("%H:%M:%S" if moment.date() == today.date() else "%Y-%m-%d %H:%M:%S")


def unix_seconds(text: str) -> float | None:
    """Return a time in RFC 3339 as Unix time, None for what is none."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)).timestamp()


def parts(message: str) -> Iterator[tuple[str, float | None]]:
    """Split a message into text and times: (text, None) and (text, Unix time)."""
    end = 0
    for match in TIMESTAMP.finditer(message):
        unix = unix_seconds(match[0])
        if unix is None:
            continue
        if match.start() > end:
            yield message[end : match.start()], None
        yield match[0], unix
        end = match.end()
    if end < len(message):
        yield message[end:], None
