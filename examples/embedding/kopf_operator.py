"""The controller inside an operator that is built with kopf, which keeps its own handlers, probes and signals.

pip install kopf flipop-core flipop-do
kopf run --all-namespaces --liveness http://127.0.0.1:8080/healthz kopf_operator.py
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import kopf
import kubernetes

from flipop_core import Controller, ProviderRegistry


@kopf.on.startup()
async def start_flipop(memo: kopf.Memo, **_: Any) -> None:
    """Begin with the operator. ConfigError keeps it from starting."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_config(client_configuration=configuration)
    providers = ProviderRegistry()
    providers.discover()
    memo.flipop = Controller(providers, kubernetes=configuration, logger=logging.getLogger("flipop"))
    try:
        await asyncio.to_thread(memo.flipop.start)
    except Exception as error:
        raise kopf.PermanentError(f"flipop: {error}") from error


@kopf.on.cleanup()
async def stop_flipop(memo: kopf.Memo, logger: kopf.Logger, **_: Any) -> None:
    """End with the operator."""
    clean = await asyncio.to_thread(memo.flipop.stop)
    logger.info("flipop has stopped, cleanly: %s", clean)


@kopf.on.probe(id="flipop")
def probe_flipop(memo: kopf.Memo, **_: Any) -> str:
    """Say in the answer to the liveness probe how the controller is."""
    return str(memo.flipop.unready() or "ready")


@kopf.on.event("flipop.digitalocean.com", "v1alpha1", "floatingippools")
def show_addresses(name: str | None, status: kopf.Status, logger: kopf.Logger, **_: Any) -> None:
    """Do the operator's own work: here, tell where each pool's addresses are. Changes nothing of the pool."""
    holders = {address: ip.get("nodeName", "") for address, ip in (status.get("ips") or {}).items()}
    logger.info("pool %s has %s", name, holders)
