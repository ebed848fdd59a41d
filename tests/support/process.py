"""Runs a stand-in as a process of its own, until SIGINT or SIGTERM. Its URL is the first line of its output."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from typing import Any, TypeVar

import msgspec

from tests.support.httpserver import APIServer

S = TypeVar("S", bound=msgspec.Struct)


def new_parser(program: str, defaults: msgspec.Struct) -> argparse.ArgumentParser:
    """Return a parser with ``--host``, ``--port`` and an option for each number or text among the settings."""
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    for name in _options(defaults):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser


def settings_of(options: argparse.Namespace, defaults: S) -> S:
    """Return the settings that the command line asks for."""
    return msgspec.structs.replace(defaults, **{name: getattr(options, name) for name in _options(defaults)})


def serve(server: APIServer[Any]) -> int:
    """Print the URL of the started ``server`` and return 0 once a signal came."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    ended = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: ended.set())
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    ended.wait()
    return 0


def _options(defaults: msgspec.Struct) -> list[str]:
    return [name for name in defaults.__struct_fields__ if type(getattr(defaults, name)) in {int, float, str}]
