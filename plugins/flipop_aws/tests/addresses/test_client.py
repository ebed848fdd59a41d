"""The SDK's clients: time, region, endpoint, credentials, and what an error says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from flipop_aws import build_ip_provider, inventory
from flipop_aws.client import Client, Purpose
from flipop_aws_testserver import Account, AWSServer
from flipop_core import (
    AccessDenied,
    ConfigError,
    CreateRequest,
    IPProvider,
    OutcomeUnknown,
    ProviderContext,
    Rejected,
    Unavailable,
)

from .conftest import KEY

READ = Purpose("verify", "ec2:DescribeAddresses")


class TestTime:
    def test_requests_of_one_call_share_its_time(
        self, new_provider: Callable[..., IPProvider], server: AWSServer
    ) -> None:
        provider = new_provider(timeout_seconds=3.9)
        server.settings.latency_seconds = 2.0
        started = time.monotonic()
        with pytest.raises(Unavailable):
            provider.verify()
        assert time.monotonic() - started < 9
        assert server.actions() == {"ec2:DescribeAddresses": 1, "ec2:DescribeInstances": 1}

    def test_change_after_a_slow_read_ends_in_time(
        self, new_provider: Callable[..., IPProvider], server: AWSServer, account: Account
    ) -> None:
        provider = new_provider(timeout_seconds=3.9)
        node, address = account.add_instance(), account.add_address()
        provider.list_addresses([])
        server.settings.latency_seconds = 2.0
        started = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            provider.assign(address, node.provider_id)
        assert time.monotonic() - started < 9

    def test_each_page_of_many_has_its_own(
        self,
        new_provider: Callable[..., IPProvider],
        server: AWSServer,
        account: Account,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(inventory, "_PAGE_SIZE", 50)
        provider = new_provider(timeout_seconds=3.9)
        nodes = [account.add_instance().provider_id for _ in range(250)]
        server.settings.latency_seconds = 0.85
        assert provider.node_limits(nodes) == dict.fromkeys(nodes, 1)
        assert server.actions() == {"ec2:DescribeInstances": 5}

    def test_without_time_nothing_is_sent(self, server: AWSServer) -> None:
        client = Client(ProviderContext({}, region="us-east-1", endpoint=server.url, timeout_seconds=0.2), "ec2")
        with client.deadline():
            time.sleep(0.2)
            with pytest.raises(Unavailable, match="not sent: no time is left"):
                client.call(READ, "describe_addresses")
        assert server.entries() == []


class TestRegion:
    @pytest.fixture(autouse=True)
    def _plain(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    @pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
    def test_of_the_environment(self, server: AWSServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        monkeypatch.setenv(variable, "eu-west-1")
        build_ip_provider(ProviderContext({}, endpoint=server.url)).list_addresses([])
        assert [entry.region for entry in server.entries()] == ["eu-west-1"]

    def test_of_the_profile(self, server: AWSServer, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("[default]\nregion = eu-west-2\n")
        build_ip_provider(ProviderContext({}, endpoint=server.url)).list_addresses([])
        assert [entry.region for entry in server.entries()] == ["eu-west-2"]

    def test_of_the_context_wins(self, server: AWSServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_REGION", "eu-west-1")
        build_ip_provider(ProviderContext({}, endpoint=server.url, region="us-west-2")).list_addresses([])
        assert [entry.region for entry in server.entries()] == ["us-west-2"]

    @pytest.mark.parametrize("region", ["no region", "a/b"])
    def test_that_cannot_be(self, region: str) -> None:
        with pytest.raises(ConfigError, match="correct the region"):
            build_ip_provider(ProviderContext({}, region=region))


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"])
def test_endpoint_of_the_environment(server: AWSServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, server.url)
    build_ip_provider(ProviderContext({}, region="us-east-1", user_agent="flipop/1.2.3")).list_addresses([])
    (entry,) = server.entries()
    assert entry.user_agent.endswith(" flipop/1.2.3")


@pytest.fixture
def agent() -> Iterator[str]:
    """Serve credentials as the agent of EKS Pod Identity does, and return its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                {
                    "AccessKeyId": "ASIAPOD",
                    "SecretAccessKey": "x",
                    "Token": "y",
                    "Expiration": (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}/v1/credentials"
        http.shutdown()
        thread.join()


class TestCredentials:
    @pytest.fixture(autouse=True)
    def _any_key(self, server: AWSServer) -> None:
        server.settings.access_key_id = ""

    def read_with(self, server: AWSServer, given: dict[str, str]) -> str:
        build_ip_provider(ProviderContext(given, region="us-east-1", endpoint=server.url)).list_addresses([])
        return server.entries()[-1].access_key_id

    def test_those_given_win_over_the_environment(self, server: AWSServer) -> None:
        assert self.read_with(server, {}) == KEY
        given = {"AWS_ACCESS_KEY_ID": "AKIAGIVEN", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": "y"}
        assert self.read_with(server, given) == "AKIAGIVEN"

    def test_profile(self, server: AWSServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        path = tmp_path / "credentials"
        path.write_text("[work]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = x\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
        monkeypatch.setenv("AWS_PROFILE", "work")
        assert self.read_with(server, {}) == "AKIAPROFILE"

    @pytest.fixture
    def irsa(self, server: AWSServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        (tmp_path / "token").write_text("a.service.account")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/flipop")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)

    @pytest.mark.usefixtures("irsa")
    def test_irsa(self, server: AWSServer) -> None:
        assert self.read_with(server, {}).startswith("ASIA")
        assert server.actions() == {"sts:AssumeRoleWithWebIdentity": 1, "ec2:DescribeAddresses": 1}

    @pytest.mark.usefixtures("irsa")
    def test_credentials_that_hang_count_against_the_time_of_the_call(
        self, server: AWSServer, new_provider: Callable[..., IPProvider], request_: CreateRequest
    ) -> None:
        server.slow("sts:AssumeRoleWithWebIdentity", 20.0)
        provider, began = new_provider(timeout_seconds=1.0), time.monotonic()
        with pytest.raises(Unavailable):  # the outcome is known: nothing was sent
            provider.create(request_)
        assert time.monotonic() - began < 10
        assert not server.actions().keys() & {"ec2:AllocateAddress", "ec2:DescribeAddresses"}

    @pytest.mark.usefixtures("irsa")
    def test_a_change_that_the_credentials_fail_was_not_sent(
        self, server: AWSServer, new_provider: Callable[..., IPProvider], account: Account
    ) -> None:
        node, address = account.add_instance(), account.add_address()
        server.fail("sts:AssumeRoleWithWebIdentity", "status", status=500)
        with pytest.raises(Unavailable):
            new_provider().assign(address, node.provider_id)
        assert account.holder(address) is None

    def test_credentials_that_come_late_are_found(
        self, server: AWSServer, new_provider: Callable[..., IPProvider], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        provider = new_provider()
        with pytest.raises(AccessDenied, match="no AWS credentials"):
            provider.list_addresses([])
        assert server.entries() == []
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "late-secret-0123456789")
        assert provider.list_addresses([]) == {}

    def test_pod_identity(self, server: AWSServer, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent)
        assert self.read_with(server, {}) == "ASIAPOD"

    def test_profile_that_is_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("AWS_PROFILE", "absent")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        with pytest.raises(ConfigError, match="correct AWS_PROFILE"):
            build_ip_provider(ProviderContext({}, region="us-east-1"))


def test_long_refusals_name_the_permission(provider: IPProvider, server: AWSServer) -> None:
    blob = "Encoded authorization failure message: " + "x" * 2000
    message = f"You are not authorized to perform this operation. User: arn:aws:iam::1:user/u is not. {blob}"
    server.fail("ec2:DescribeAddresses", "status", status=403, code="UnauthorizedOperation", message=message)
    with pytest.raises(AccessDenied, match="needs ec2:DescribeAddresses") as caught:
        provider.list_addresses([])
    assert "arn:aws:iam::1:user/u" in caught.value.message
    assert "xxxx" not in caught.value.message


def test_what_somebody_else_must_mend_is_said(provider: IPProvider, account: Account) -> None:
    node, address = account.add_instance(subnet_id=account.add_subnet()), account.add_address()
    with pytest.raises(Rejected, match="attach an internet gateway"):
        provider.assign(address, node.provider_id)
