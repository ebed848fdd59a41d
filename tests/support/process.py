"""A stand-in as a process of its own, which runs until SIGINT or SIGTERM, and how a test starts and asks one.

Its URL is the first line of its output.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def running(module: str, *arguments: str) -> Iterator[str]:
    """Run ``python -m module`` and yield its URL; it must end well when it is told to."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
        assert process.wait(timeout=10) == 0


def ask(url: str, method: str = "GET", body: Any = None, token: str = "token") -> tuple[int, Any, dict[str, str]]:
    """Return status, JSON body and headers of the answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null"), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null"), dict(error.headers)


def _options(defaults: msgspec.Struct) -> list[str]:
    return [name for name in defaults.__struct_fields__ if type(getattr(defaults, name)) in {int, float, str}]
