"""What the scripted API server answers, and what a kubeconfig and its exec plugin say."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flipop_core.runtime.kube import HTTPKubeAPI

from .scripted_server import Answer, Request

SECRET = "very-secret-token"
EMPTY_LIST = b'{"metadata":{"resourceVersion":"7"},"items":null}'


def answering(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    return lambda request: request.answer(status, body, **headers)


def status_body(code: int, reason: str = "", **details: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "message": "because", "reason": reason, "code": code, "details": details}
    ).encode()


WriteKubeconfig = Callable[..., str]
Connect = Callable[..., HTTPKubeAPI]


def exec_plugin(tmp_path: Path, script: str) -> dict[str, Any]:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(script)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }


def credential(**status: str) -> str:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print({json.dumps(json.dumps(answer))})"


def trickle(request: Request) -> None:
    request.begin_chunks()
    for _ in range(100):
        request.chunk(b" ")
        time.sleep(0.1)
