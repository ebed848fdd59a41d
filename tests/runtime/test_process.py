"""What a process of its own does beside running a controller."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flipop_core.config import Settings
from flipop_core.registry import ProviderRegistry
from flipop_core.runtime.process import run_controller


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("uncollected")
def test_once_started_it_collects_all_but_what_was_imported(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    nowhere = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(yaml.safe_dump(nowhere))
    settings = Settings(kubeconfig=str(kubeconfig), metrics_bind_addr="127.0.0.1:0", leader_election=False)
    stop = threading.Event()
    stop.set()
    assert run_controller(settings, ProviderRegistry({}), stop) == 0
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000
