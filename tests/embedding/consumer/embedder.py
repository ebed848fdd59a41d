"""A program with controllers in it, as somebody else writes one: only public names."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from flipop_core import Controller, ExternalElection, ProviderRegistry, Settings
from flipop_core.embedding import KubeAPI, LoggerLike, PluginInfo
from flipop_core.planner import (
    AddressRecord,
    AssignAddress,
    Plan,
    PoolObservation,
    ProviderCapabilities,
    observe_pool,
    plan_pool,
)


def registry() -> ProviderRegistry:
    """Return the installed providers."""
    providers = ProviderRegistry({"EXAMPLE_TOKEN": "token"}, timeout_seconds=3.0)
    providers.discover()
    plugins: tuple[PluginInfo, ...] = providers.plugins
    for plugin in plugins:
        if plugin.error is not None:
            print(plugin.name, plugin.error)
    return providers


def controllers(client: object, api: KubeAPI, loggers: Sequence[LoggerLike]) -> list[Controller]:
    """Return one with everything of the caller's, and one for each logger."""
    election = ExternalElection("mine")
    election.lead(for_seconds=10.0)
    whole = Controller(
        registry(),
        kubernetes=client,
        settings=Settings(metrics_bind_addr="", recheck_seconds=60.0),
        namespace="default",
        election=election,
        logger=logging.getLogger("flipop"),
        metrics_registry=CollectorRegistry(),
    )
    others = [Controller(registry(), kubernetes=api, logger=logger) for logger in loggers]
    adapted = Controller(registry(), kubernetes=api, logger=logging.LoggerAdapter(logging.getLogger("a"), {}))
    bound = Controller(registry(), kubernetes=api, logger=structlog.get_logger("b").bind(site="b"))
    return [whole, *others, adapted, bound]


def until(controller: Controller, stop: threading.Event) -> bool:
    """Run one until the event is set."""
    clean: bool = controller.run(stop)
    port: int | None = controller.metrics_port
    problem: str = controller.unready() or controller.unhealthy()
    print(port, problem, controller.is_leader)
    return clean and controller.stop(timeout_seconds=1.0)


async def beside(controller: Controller, stop: asyncio.Event) -> bool:
    """Run one beside the event loop."""
    return await controller.run_async(stop)


def moves(pool: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return which address would go to which node."""
    observed: PoolObservation = observe_pool(
        pool, nodes, records=[AddressRecord("192.0.2.1")], capabilities=ProviderCapabilities(), unix_seconds=0.0
    )
    plan: Plan = plan_pool(observed, 0.0)
    return {action.address: action.node for action in plan.actions if isinstance(action, AssignAddress)}
