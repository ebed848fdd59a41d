"""EC2 over HTTP, and providers of Elastic IPs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flipop_aws import build_ip_provider
from flipop_aws_testserver import Account, AWSServer, Settings
from flipop_core import CreateRequest, IPProvider, ProviderContext

KEY, SECRET = "AKIA0123456789ADDRES", "addresses-secret-0123456789"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def server() -> Iterator[AWSServer]:
    with AWSServer(Settings(access_key_id=KEY)) as running:
        yield running
    assert running.violations == []


@pytest.fixture
def account(server: AWSServer) -> Account:
    return server.account


@pytest.fixture
def new_provider(server: AWSServer) -> Callable[..., IPProvider]:
    """Return what makes a provider for a region, ``us-east-1`` by default."""

    def make(region: str = "us-east-1", timeout_seconds: float = 7.0) -> IPProvider:
        return build_ip_provider(
            ProviderContext({}, region=region, endpoint=server.url, timeout_seconds=timeout_seconds)
        )

    return make


@pytest.fixture
def provider(new_provider: Callable[..., IPProvider]) -> IPProvider:
    return new_provider()


@pytest.fixture
def request_() -> CreateRequest:
    return CreateRequest("claim-1", region="us-east-1", owner="ns/pool", cluster="production")


@pytest.fixture
def calls(server: AWSServer) -> Callable[[], list[str]]:
    """Return the EC2 actions since the last time, in order."""

    def since() -> list[str]:
        names = [entry.action.removeprefix("ec2:") for entry in server.entries()]
        server.journal.clear()
        return names

    return since
