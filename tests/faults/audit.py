"""The API server's audit log: who wrote what, and when, by the token that each process has to itself."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .history import ClusterWrite, LeaseWrite

ACCOUNT = "system:serviceaccount:flipop:flipop"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "Request",
            "users": [ACCOUNT],
            "verbs": ["create", "update", "patch", "delete"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata", "users": [ACCOUNT], "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


class AuditLog:
    """The log in ``directory``, and what makes an API server write it."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "audit.log"
        policy = directory / "audit-policy.json"
        policy.write_text(json.dumps(POLICY))
        self.arguments = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")

    def read(self, processes: Mapping[str, str], since: float) -> tuple[list[ClusterWrite], list[LeaseWrite]]:
        """Return the writes since ``since`` of the processes, which are named by the ID of their credential."""
        writes, leases = [], []
        for event in self._events():
            time = dt.datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
            credential = event["user"].get("extra", {}).get(_CREDENTIAL, [""])[0]
            if time < since or credential not in processes:
                continue
            reference = event["objectRef"]
            accepted = 200 <= event.get("responseStatus", {}).get("code", 0) < 300
            if event.get("responseStatus", {}).get("code") == 409:
                continue  # refused, since it was based on an older state
            if reference["resource"] != "leases":
                names = [reference.get(name, "") for name in ("resource", "name", "subresource")]
                writes.append(ClusterWrite(time, processes[credential], f"{event['verb']} {'/'.join(names)}"))
            elif accepted:
                holder = event["requestObject"]["spec"].get("holderIdentity") or ""
                leases.append(LeaseWrite(time, processes[credential], holder))
        return sorted(writes), sorted(leases)

    def _events(self) -> Iterator[dict[str, Any]]:
        if not self._log.exists():
            return
        for line in self._log.read_bytes().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # the API server was killed while it wrote this line


def credential_id(token: str) -> str:
    """Return what the audit log calls a service account's token."""
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"JTI={claims['jti']}"
