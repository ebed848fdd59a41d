"""Runs the demo: a thread that plays, the main thread that shows, and an end by signal or at the last step."""

from __future__ import annotations

import io
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flipop_core.demo.director import Director, Line, Stopped
from flipop_core.demo.logs import controller_logs
from flipop_core.demo.stage import Stage
from flipop_core.demo.transcript import Transcript
from flipop_core.errors import ConfigError

SLOWEST, FASTEST = 0.1, 50.0
"""Limits of ``speed``."""

_LIVE_PAUSE_SECONDS = 2.5
_TRANSCRIPT_PAUSE_SECONDS = 0.1
_REFRESH_SECONDS = 0.1


class _Signals:
    """Remembers that somebody asked to stop. The handler only sets a flag: it may take no lock, wherever it comes."""

    def __init__(self) -> None:
        self.received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.received = True


def run_demo(*, once: bool = False, speed: float = 1.0) -> int:
    """Show the demo until Ctrl-C or SIGTERM; with ``once``, or without a terminal, print one round and end.

    ``speed`` divides the pauses and the provider's time, not the controller's own. Returns the exit code: 0, or 1 when
    a transcript has a step that did not end as it should. Raises ConfigError for a ``speed`` out of range.
    """
    if not (math.isfinite(speed) and SLOWEST <= speed <= FASTEST):
        raise ConfigError(f"--speed: {speed:g}: write a number from {SLOWEST:g} to {FASTEST:g}")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character is no reason to end.
        sys.stdout.reconfigure(errors="replace")
    with _stop_on_signals() as signals:
        if once or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
            return _print_transcript(speed, signals)
        return _show_live(speed, signals)


def _print_transcript(speed: float, signals: _Signals) -> int:
    transcript = Transcript(sys.stdout)
    with controller_logs() as problems, Stage(speed) as stage:
        transcript.begin(stage)
        with _playing(stage, transcript.lines.put, rounds=1, pause_seconds=_TRANSCRIPT_PAUSE_SECONDS / speed) as (
            director,
            playing,
        ):
            while playing() and not signals.received:
                transcript.print_lines(_REFRESH_SECONDS)
        transcript.print_lines(0.0)
    if signals.received:
        return 0
    transcript.end(director, problems)
    return 1 if director.failures or problems else 0


def _show_live(speed: float, signals: _Signals) -> int:
    from flipop_core.demo.view import View

    view = View()
    with (
        controller_logs() as problems,
        Stage(speed) as stage,
        _playing(stage, view.lines.append, rounds=None, pause_seconds=_LIVE_PAUSE_SECONDS / speed) as (
            director,
            playing,
        ),
        view.open(),
    ):
        while playing() and not signals.received:
            view.refresh(director, stage.scene(), problems)
            time.sleep(_REFRESH_SECONDS)
    view.end(director, problems)
    return 0


@contextmanager
def _playing(
    stage: Stage, tell: Callable[[Line], None], *, rounds: int | None, pause_seconds: float
) -> Iterator[tuple[Director, Callable[[], bool]]]:
    """Play in a thread inside the block; end it there, and raise what it raised."""
    stop = threading.Event()
    director = Director(stage, tell, stop, pause_seconds=pause_seconds)
    failure: list[Exception] = []

    def play() -> None:
        try:
            director.play(rounds)
        except Stopped:
            return
        except Exception as error:  # passed on to the main thread below
            failure.append(error)

    thread = threading.Thread(target=play, name="demo")
    thread.start()
    try:
        yield director, thread.is_alive
    finally:
        stop.set()
        thread.join()
    if failure:
        raise failure[0]


@contextmanager
def _stop_on_signals() -> Iterator[_Signals]:
    """Inside the block, SIGINT and SIGTERM set a flag. In another thread than the main one nothing is installed."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    former = {number: signal.signal(number, signals) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
