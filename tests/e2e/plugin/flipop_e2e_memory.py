"""A plugin that the controller under test discovers: the simulated cloud of `flipop_core.testing`, as ``memory``.

Its machines are those that the environment variable E2E_MEMORY_NODES names, with commas between them, and each call
takes E2E_MEMORY_LATENCY_SECONDS. With
E2E_MEMORY_REGIONS, a JSON object, each region is an account of its own: ``nodes`` maps names to regions, ``addresses``
maps addresses to ``{"region": …, "tags": {…}}``, and ``capacity`` is how many addresses a node holds.
"""

from __future__ import annotations

import json
import os

from flipop_core.providers import ProviderCapabilities
from flipop_core.testing import CloudConfig, InMemoryCloud, in_memory_factories

_regional = json.loads(os.environ.get("E2E_MEMORY_REGIONS", "null"))
if _regional is None:
    _cloud = InMemoryCloud(CloudConfig(latency_seconds=float(os.environ.get("E2E_MEMORY_LATENCY_SECONDS", "0"))))
    for _name in filter(None, os.environ.get("E2E_MEMORY_NODES", "").split(",")):
        _cloud.add_node(_name)
else:
    _capabilities = ProviderCapabilities(node_limits=True, address_tags=True, address_pools=True)
    _regions = tuple(sorted(set(_regional["nodes"].values())))
    _cloud = InMemoryCloud(CloudConfig(capabilities=_capabilities, regions=_regions, regional=True))
    for _name, _region in _regional["nodes"].items():
        _cloud.add_node(_name, region=_region, capacity=_regional["capacity"])
    for _address, _about in _regional["addresses"].items():
        _cloud.add_address(_address, region=_about["region"], tags=_about["tags"])

plugin = in_memory_factories(_cloud)
