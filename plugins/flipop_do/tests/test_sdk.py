"""The SDK without its documentation works as it does with it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import typing
from flipop_do.sdk import load

sdk = load()
assert load() is sdk
from pydo.operations import _operations as operations

left = 0
for owner in vars(operations).values():
    if isinstance(owner, type) and owner.__module__ == operations.__name__:
        for method in filter(callable, vars(owner).values()):
            for function in (method, getattr(method, "__wrapped__", None), *typing.get_overloads(method)):
                code = getattr(function, "__code__", None)
                texts = [each for each in code.co_consts if isinstance(each, str)] if code else []
                left += sum(map(len, [*texts, getattr(function, "__doc__", None) or ""]))
print(left, sdk.__name__, operations.ReservedIPsOperations.list.__name__)
"""


def test_no_long_docstring_is_left() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    left, sdk, operation = ended.stdout.split()
    assert int(left) < 1_000_000  # characters, of 30 million
    assert (sdk, operation) == ("pydo", "list")
