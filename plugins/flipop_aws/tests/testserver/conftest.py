"""The server, and the SDK's clients of it, which repeat nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from flipop_aws_testserver import Account, AWSServer

KEY = "AKIATESTSERVER000000"


@pytest.fixture
def server() -> Iterator[AWSServer]:
    with AWSServer() as running:
        yield running
    assert running.violations == []


@pytest.fixture
def account(server: AWSServer) -> Account:
    return server.account


@pytest.fixture
def client(server: AWSServer) -> Iterator[Callable[..., Any]]:
    """Return what makes a client of a service."""
    made: list[Any] = []

    def make(service: str, region: str = "us-east-1", key: str = KEY, read_timeout: float = 10.0) -> Any:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout)
        session = boto3.Session(key, "secret")
        made.append(session.client(service, endpoint_url=server.url, region_name=region, config=config))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def ec2(client: Callable[..., Any]) -> Any:
    return client("ec2")


@pytest.fixture
def route53(client: Callable[..., Any]) -> Any:
    return client("route53")


@pytest.fixture
def refused() -> Callable[..., str]:
    """Return what makes a call that must be refused, and tells the error's code."""

    def code(call: Callable[..., object], **arguments: Any) -> str:
        with pytest.raises(ClientError) as caught:
            call(**arguments)
        return str(caught.value.response["Error"]["Code"])

    return code
