"""Failures of the SDK, and what they become."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flipop_aws.route53 import build_dns_provider
from flipop_core import AccessDenied, ProviderContext, RecordSet, Unavailable


@pytest.fixture
def _without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


@pytest.fixture
def closed_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.usefixtures("_without_credentials")
def test_no_credentials_are_access_denied(closed_url: str) -> None:
    provider = build_dns_provider(ProviderContext({}, endpoint=closed_url))
    with pytest.raises(AccessDenied, match="no AWS credentials were found"):
        provider.get_record_set("example.com", "www.example.com", "A")


def test_nobody_there_is_unavailable_and_not_sent(closed_url: str) -> None:
    provider = build_dns_provider(ProviderContext({}, endpoint=closed_url))
    with pytest.raises(Unavailable, match="not sent"):
        provider.ensure_record_set("example.com", RecordSet("www.example.com", "A", 60, ("192.0.2.1",)))


def test_the_endpoint_is_shown_and_no_key(closed_url: str) -> None:
    assert closed_url in repr(build_dns_provider(ProviderContext({}, endpoint=closed_url)))
