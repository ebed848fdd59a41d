"""The command `flipop`. Importing this is quick: what a command needs is imported when it runs."""

from __future__ import annotations

from flipop_core.cli.app import cli, main

__all__ = ["cli", "main"]
