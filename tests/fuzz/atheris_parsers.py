"""Coverage-guided fuzzing of the parsers, with atheris: ``python -m tests.fuzz.atheris_parsers -max_total_time=60``.

The arguments are libFuzzer's. The first byte of an input chooses the parser, the rest is what it parses; without a
corpus the fuzzer begins with the objects of the other tests. What it finds is written to ``crash-…``, and run again by
giving that file as an argument.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from . import parsers
from .test_objects import CUSTOM, PLAIN

Target = Callable[[bytes], None]


def _text(parse: Callable[[str], None]) -> Target:
    return lambda data: parse(data.decode(errors="surrogateescape"))


def _dns(data: bytes) -> None:
    name, _, zone = data.decode(errors="replace").partition("\n")
    parsers.dns_name(name, zone or "example.org")


def _api_error(data: bytes) -> None:
    header, _, body = data.partition(b"\n")
    parsers.api_error(429, body, header.decode(errors="replace") or None)


def _custom(kind: str) -> Target:
    return lambda data: parsers.custom_object(kind, data)


def _plain(kind: str) -> Target:
    return lambda data: parsers.plain_object(kind, data)


TARGETS: tuple[Target, ...] = (
    *(_custom(kind) for kind in parsers.CUSTOM),
    *(_plain(kind) for kind in parsers.PLAIN),
    *(_text(each) for each in (parsers.selector, parsers.address, parsers.provider_id, parsers.bind_address)),
    _dns,
    _api_error,
)
PARSING = ("selectors", "dnsnames", "resources.parse", "runtime.decode", "runtime.servicedecode", "runtime.apierrors")
"""The modules of the parsers."""
TEXT_SEEDS = (
    "a=b,c in (d,e),!f,g notin (h)",
    "2001:db8::1%0",
    "digitalocean://1",
    "[::1]:8080",
    "*.www\nmünchen.de",
    "5\n{}",
)


def run(data: bytes) -> None:
    """Run one input: the first byte chooses the parser."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> list[bytes]:
    """Return inputs to begin with, one or more for each parser."""
    objects = [json.dumps(tree).encode() for tree in (*CUSTOM.values(), *PLAIN.values())]
    texts = [text.encode() for text in TEXT_SEEDS]
    return [bytes([index]) + body for index, body in enumerate((*objects, *texts))]


def write_seeds(directory: Path) -> None:
    """Write the inputs to begin with as files."""
    for index, seed in enumerate(seeds()):
        (directory / f"seed-{index:02d}").write_bytes(seed)


def functions() -> Iterator[FunctionType]:
    """Yield the functions whose branches guide the fuzzer: those of the parsers alone, since each costs time."""
    for name in PARSING:
        module = importlib.import_module(f"flipop_core.{name}")
        for value in vars(module).values():
            members = vars(value).values() if isinstance(value, type) else (value,)
            yield from (
                each for each in members if isinstance(each, FunctionType) and each.__module__ == module.__name__
            )


def main(arguments: list[str]) -> None:
    """Fuzz until libFuzzer's arguments say to stop. Ends the process."""
    atheris: Any = importlib.import_module("atheris")  # not on every machine, and without types

    with tempfile.TemporaryDirectory() as corpus:
        write_seeds(Path(corpus))
        for function in functions():
            atheris.instrument_func(function)
        atheris.Setup([sys.argv[0], *arguments, corpus], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
