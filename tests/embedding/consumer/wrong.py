"""Mistakes that a type checker has to find, each on a line that says so."""

from __future__ import annotations

import threading

from flipop_core import AddressRecord, Controller, IPProvider, ProviderContext, ProviderRegistry, Settings
from flipop_core.planner import plan_pool


class Half:
    """Lacks nearly everything."""

    def verify(self) -> None:
        return None


def build(context: ProviderContext) -> IPProvider:
    """Return what is no provider."""
    return Half()  # wrong


controller = Controller(ProviderRegistry(), logger="a name")  # wrong
clean: str = controller.run(threading.Event())  # wrong
record = AddressRecord(address=1)  # wrong
settings = Settings(recheck="1m")  # wrong
plan = plan_pool({}, 0.0)  # wrong
controller.start(1)  # wrong
