"""The coverage-guided fuzzer starts, and finds nothing in its seeds, in hostile texts, or in a short repeatable run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from . import atheris_parsers, hostile

ROOT = Path(__file__).resolve().parents[2]


def test_there_is_a_seed_for_each_parser() -> None:
    assert [seed[0] for seed in atheris_parsers.seeds()] == list(range(len(atheris_parsers.TARGETS)))


@pytest.mark.parametrize("text", [*hostile.TEXTS, *hostile.RAW], ids=lambda text: repr(text[:16]))
def test_every_parser_takes_every_hostile_text(text: str) -> None:
    for index, seed in enumerate(atheris_parsers.seeds()):
        atheris_parsers.run(seed)
        atheris_parsers.run(bytes([index]) + text.encode(errors="surrogatepass"))


@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="needs atheris, which has no wheel for this Python"
)
def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.atheris_parsers",
        "-runs=5000",
        "-seed=1",
        f"-artifact_prefix={tmp_path}/",
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert list(tmp_path.iterdir()) == []
