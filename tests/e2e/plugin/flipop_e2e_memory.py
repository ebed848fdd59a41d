"""A plugin that the controller under test discovers: the simulated cloud of `flipop_core.testing`, as ``memory``.

Its machines are those that the environment variable E2E_MEMORY_NODES names, with commas between them.
"""

from __future__ import annotations

import os

from flipop_core.testing import InMemoryCloud, in_memory_factories

_cloud = InMemoryCloud()
for _name in filter(None, os.environ.get("E2E_MEMORY_NODES", "").split(",")):
    _cloud.add_node(_name)

plugin = in_memory_factories(_cloud)
