"""How refusals and failures of EC2 reach the core."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from flipop_aws import build_ip_provider
from flipop_aws_testserver import Account, AWSServer
from flipop_core import (
    AccessDenied,
    Busy,
    ConfigError,
    IPProvider,
    NodeInUse,
    NotFound,
    OutcomeUnknown,
    ProviderContext,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Rejected,
    Unavailable,
)

SECRET = "wrong-secret-9876543210"

CODES: list[tuple[str, int, type[ProviderError]]] = [
    ("RequestLimitExceeded", 503, RateLimited),
    ("Throttling", 400, RateLimited),
    ("AddressLimitExceeded", 400, QuotaExceeded),
    ("AuthFailure", 401, AccessDenied),
    ("UnauthorizedOperation", 403, AccessDenied),
    ("ExpiredToken", 400, AccessDenied),
    ("RequestExpired", 400, AccessDenied),
    ("InvalidNetworkInterfaceID.NotFound", 400, NotFound),
    ("InvalidInstanceID.NotFound", 400, NotFound),
    ("Resource.AlreadyAssociated", 400, NodeInUse),
    ("IncorrectInstanceState", 400, Busy),
    ("OperationNotPermitted", 400, Rejected),
    ("InvalidParameterValue", 400, Rejected),
    ("InternalError", 500, OutcomeUnknown),
    ("Unavailable", 503, OutcomeUnknown),
]


@pytest.mark.parametrize(("code", "status", "expected"), CODES)
def test_code_of_a_change(
    account: Account, provider: IPProvider, server: AWSServer, code: str, status: int, expected: type[ProviderError]
) -> None:
    node, address = account.add_instance(), account.add_address()
    server.fail("ec2:AssociateAddress", "status", status=status, code=code, message="why it is so")
    with pytest.raises(expected) as caught:
        provider.assign(address, node.provider_id)
    assert type(caught.value) is expected
    assert code in caught.value.message
    assert caught.value.provider == "aws"
    assert caught.value.operation == "assign"
    assert caught.value.request_id
    assert len(server.entries("AssociateAddress")) == 1


def test_page_of_a_proxy_is_no_outcome(account: Account, provider: IPProvider, server: AWSServer) -> None:
    node, address = account.add_instance(), account.add_address()
    server.fail("ec2:AssociateAddress", "html_502")
    with pytest.raises(OutcomeUnknown):
        provider.assign(address, node.provider_id)
    server.fail("ec2:DescribeAddresses", "html_502", times=5)
    with pytest.raises(Unavailable):
        provider.describe([address])


@pytest.mark.parametrize("kind", ["cut_body", "drop_after_effect"])
def test_answer_that_breaks_off(account: Account, provider: IPProvider, server: AWSServer, kind: str) -> None:
    node, address = account.add_instance(), account.add_address()
    server.fail("ec2:AssociateAddress", kind)
    with pytest.raises(OutcomeUnknown):
        provider.assign(address, node.provider_id)
    assert account.holder(address) == (node.id, node.private_addresses[0])


def test_what_is_not_sent_is_unavailable(new_provider: Callable[..., IPProvider]) -> None:
    provider = build_ip_provider(
        ProviderContext({}, region="us-east-1", endpoint="http://127.0.0.1:9", timeout_seconds=1.0)
    )
    with pytest.raises(Unavailable, match="not sent"):
        provider.assign("198.18.0.1", "aws:///us-east-1a/i-0123456789abcdef0")


@pytest.mark.parametrize(("wish", "expected"), [(None, 2.0), (9.0, 9.0)])
def test_throttling(
    provider: IPProvider, account: Account, server: AWSServer, wish: float | None, expected: float
) -> None:
    address = account.add_address()
    server.throttle("ec2:ReleaseAddress", retry_after_seconds=wish)
    with pytest.raises(RateLimited) as caught:
        provider.delete(address)
    assert caught.value.retry_after_seconds == expected
    assert address in account.addresses()


@pytest.mark.parametrize(
    ("action", "call"),
    [
        ("ec2:DescribeAddresses", lambda provider, address, node: provider.list_addresses([address])),
        ("ec2:DescribeInstances", lambda provider, address, node: provider.node_limits([node])),
        ("ec2:AssociateAddress", lambda provider, address, node: provider.assign(address, node)),
        ("ec2:ReleaseAddress", lambda provider, address, node: provider.delete(address)),
    ],
)
def test_missing_permission_is_named(
    account: Account,
    provider: IPProvider,
    server: AWSServer,
    action: str,
    call: Callable[[IPProvider, str, str], object],
) -> None:
    node, address = account.add_instance(), account.add_address()
    server.settings.denied = action
    with pytest.raises(AccessDenied, match=action):
        call(provider, address, node.provider_id)


def test_missing_permission_to_tag_is_named(account: Account, provider: IPProvider, server: AWSServer) -> None:
    from flipop_core import CreateRequest

    server.settings.denied = "ec2:CreateTags"
    with pytest.raises(AccessDenied, match="ec2:CreateTags"):
        provider.create(CreateRequest("claim-1", region="us-east-1"))
    assert account.addresses() == {}


def test_no_credentials(
    server: AWSServer, monkeypatch: pytest.MonkeyPatch, tmp_path: object, new_provider: Callable[..., IPProvider]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, f"{tmp_path}/absent")
    with pytest.raises(AccessDenied, match="no AWS credentials"):
        new_provider().verify()
    assert server.entries() == []


def test_wrong_credentials_show_nowhere(server: AWSServer) -> None:
    given = {"AWS_ACCESS_KEY_ID": "AKIAWRONG", "AWS_SECRET_ACCESS_KEY": SECRET}
    provider = build_ip_provider(ProviderContext(given, region="us-east-1", endpoint=server.url))
    with pytest.raises(AccessDenied, match="AuthFailure") as caught:
        provider.verify()
    text = "".join(traceback.format_exception(caught.value)) + f"{provider!r} {vars(caught.value)}"
    assert SECRET not in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("given", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_half_of_the_keys(given: str) -> None:
    (missing,) = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} - {given}
    with pytest.raises(ConfigError, match=missing):
        build_ip_provider(ProviderContext({given: "x"}, region="us-east-1"))


def test_no_region(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/absent")
    with pytest.raises(ConfigError, match="AWS_REGION"):
        build_ip_provider(ProviderContext({}))
