"""moto, in this process: its state of one account, and its answers to requests."""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")  # moto reads it when an account is first used

from moto.ec2.models import EC2Backend, ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.route53.models import Route53Backend, route53_backends
from werkzeug.test import EnvironBuilder, run_wsgi_app

_numbers = itertools.count(1)
_app = DomainDispatcherApplication(create_backend_app)
_lock = threading.RLock()


class MotoAccount:
    """An account that no other in this process shares state with. Hold `lock` around all that reads or changes it."""

    def __init__(self) -> None:
        self.id = f"{100000000000 + os.getpid() % 1000000 * 10000 + next(_numbers)}"
        self.lock = _lock  # moto is not made for threads

    def ec2(self, region: str) -> EC2Backend:
        """Return the state of EC2 in a region. Its default VPC has an internet gateway, as AWS makes them."""
        fresh = region not in set(ec2_backends[self.id])
        backend = ec2_backends[self.id][region]
        if fresh:
            gateway = backend.create_internet_gateway()
            backend.attach_internet_gateway(gateway.id, backend.default_vpc.id)
        return backend

    def route53(self) -> Route53Backend:
        """Return the state of Route 53."""
        return route53_backends[self.id]["aws"]

    def ask(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of moto's answer."""
        passed = {name: value for name, value in headers.items() if name not in {"host", "content-length"}}
        passed["x-moto-account-id"] = self.id
        builder = EnvironBuilder(method=method, path=path, query_string=query, headers=list(passed.items()), data=body)
        content, status, answered = run_wsgi_app(_app, builder.get_environ(), buffered=True)
        kept: dict[str, Any] = {name.lower(): value for name, value in answered.items()}
        answer = b"".join(content).replace(b">request-id<", f">{uuid.uuid4()}<".encode())
        return int(status.split()[0]), kept, answer

    def forget(self) -> None:
        """Drop all state."""
        with self.lock:
            for backends in (ec2_backends, route53_backends):
                if self.id in backends:
                    del backends[self.id]
