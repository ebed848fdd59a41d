"""`flipop demo`: the real controller on an API server and a provider that live in this process.

It plays a scenario of failures (`scenario`) on a small cluster (`stage`), and shows it live in a terminal (`view`), or
as plain text (`transcript`).
"""

from __future__ import annotations

from flipop_core.demo.run import run_demo

__all__ = ["run_demo"]
