"""Where AWS is called through boto3, and refusals become errors of the core.

The SDK finds the credentials, signs and sends. Reads of EC2 are repeated by the SDK within the time that a call may
take; nothing else is: a change must not be repeated, and Route 53 gives a whole account five requests a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    SSLError,
)

from flipop_core import (
    AccessDenied,
    Busy,
    ConfigError,
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

PROVIDER = "aws"
ACCESS_KEY_VARIABLE = "AWS_ACCESS_KEY_ID"
SECRET_KEY_VARIABLE = "AWS_SECRET_ACCESS_KEY"  # noqa: S105  the name of a variable, no secret
SESSION_TOKEN_VARIABLE = "AWS_SESSION_TOKEN"  # noqa: S105  the name of a variable, no secret

RETRY_AFTER_DEFAULT_SECONDS = 2.0
"""The pause after a refusal for too many requests that asks for none, as those of EC2 and Route 53 never do."""

GLOBAL_REGION = "us-east-1"
"""Where a service without regions, Route 53, is signed for."""

Service = Literal["ec2", "route53"]

_POOL_SIZE = 32
_REPEATED_FROM_SECONDS = 4.0
_MESSAGE_MAX_LENGTH = 300
_NOT_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError, SSLError)
_THROTTLING = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "TooManyRequests",
        "TooManyRequestsException",
        "EC2ThrottledException",
    }
)
_ACCESS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "OptInRequired",
        "Blocked",
    }
)

_ends_at: ContextVar[float] = ContextVar("flipop_aws_ends_at")


class ChangeRefused(Rejected):
    """A change batch of Route 53 was refused as a whole. Does not leave the plugin."""


class Gone(NotFound):
    """What the request names by its AWS ID does not exist, or not yet everywhere."""


_BY_CODE: Mapping[str, type[ProviderError]] = {
    "InvalidChangeBatch": ChangeRefused,
    "NoSuchHostedZone": NotFound,
    "PriorRequestNotComplete": Busy,
    "AddressLimitExceeded": QuotaExceeded,
    "RulesPerSecurityGroupLimitExceeded": QuotaExceeded,
    "SecurityGroupsPerInterfaceLimitExceeded": QuotaExceeded,
    "InsufficientFreeAddressesInAddressPool": QuotaExceeded,
    "InvalidAllocationID.NotFound": Gone,
    "InvalidAddress.NotFound": Gone,
    "InvalidAssociationID.NotFound": Gone,
    "InvalidInstanceID.NotFound": NotFound,
    "InvalidNetworkInterfaceID.NotFound": NotFound,
    "InvalidGroup.NotFound": NotFound,
    "InvalidPermission.NotFound": Gone,
    "Resource.AlreadyAssociated": NodeInUse,
    "InvalidIPAddress.InUse": Busy,
    "IncorrectInstanceState": Busy,
    "OperationNotPermitted": Rejected,
}


class Purpose(NamedTuple):
    """What a call is for. ``operation`` names it in errors; ``permission`` is what it needs, and on what."""

    operation: str
    permission: str
    mutation: bool = False


class Client:
    """One service of one AWS account and region. Safe to share between threads."""

    def __init__(self, context: ProviderContext, service: Service) -> None:
        """Build the SDK's clients; makes no call. Raises ConfigError."""
        self._timeout_seconds = context.timeout_seconds
        try:
            session = _session(context)
            fallback = GLOBAL_REGION if service == "route53" else None
            self.region = context.region or session.region_name or fallback or ""
            if not self.region:
                raise ConfigError(f"provider {PROVIDER!r} has no region: set spec.region, or AWS_REGION")
            self._once = self._new(session, service, context, attempts=1)
            self._repeated = self._once
            if service == "ec2" and context.timeout_seconds >= _REPEATED_FROM_SECONDS:
                self._repeated = self._new(session, service, context, attempts=2)
        except ProfileNotFound as error:
            raise ConfigError(f"provider {PROVIDER!r}: {error}: correct AWS_PROFILE") from None
        except (NoRegionError, ValueError) as error:
            raise ConfigError(f"provider {PROVIDER!r}: {error}: correct the region or AWS_ENDPOINT_URL") from None

    def _new(self, session: boto3.Session, service: Service, context: ProviderContext, *, attempts: int) -> Any:
        # All attempts, and the wait of up to a second between two of them, end within the call's time.
        each = (context.timeout_seconds - (attempts - 1)) / attempts
        return session.client(
            service,
            endpoint_url=context.endpoint or None,
            region_name=self.region,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=each * 0.3,
                read_timeout=each * 0.65,
                max_pool_connections=_POOL_SIZE,
                user_agent_extra=context.user_agent,
            ),
        )

    def __repr__(self) -> str:
        return f"Client(endpoint={self._once.meta.endpoint_url!r}, region={self.region!r})"

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Let all calls of this thread inside the block share one ``timeout_seconds``."""
        token = _ends_at.set(time.monotonic() + self._timeout_seconds)
        try:
            yield
        finally:
            _ends_at.reset(token)

    def ends_at(self) -> float:
        """Return the monotonic time at which the present call must have ended."""
        return _ends_at.get()

    def call(self, purpose: Purpose, method: str, **arguments: Any) -> Any:
        """Make one request and return its answer. Needs a `deadline` around it.

        Errors: those of the contracts, `ChangeRefused`, and `Gone`.
        """
        left = self.ends_at() - time.monotonic()
        if left <= 0:
            raise self._failure(Unavailable, purpose, "not sent: no time is left")
        # The SDK's repetitions need the whole time; what follows another call of the same deadline is sent once.
        repeats = not purpose.mutation and left > self._timeout_seconds * 0.95
        try:
            return getattr(self._repeated if repeats else self._once, method)(**arguments)
        except ClientError as error:
            failure = self._refused(purpose, error)
        except (NoCredentialsError, PartialCredentialsError) as error:
            failure = self._failure(AccessDenied, purpose, f"no AWS credentials were found: {error}")
        except _NOT_SENT as error:
            failure = self._failure(Unavailable, purpose, f"not sent: {type(error).__name__}")
        except HTTPClientError as error:
            text = f"sent, but no complete answer came: {type(error).__name__}"
            failure = self._failure(self._lost(purpose), purpose, text)
        except BotoCoreError as error:
            failure = self._failure(self._lost(purpose), purpose, f"the SDK failed: {type(error).__name__}")
        # The chain is cut: what lies behind may quote headers.
        raise failure from None

    def failure(self, kind: type[ProviderError], operation: str, text: str) -> ProviderError:
        """Return an error that the plugin itself finds."""
        return self._failure(kind, Purpose(operation, ""), text)

    def _refused(self, purpose: Purpose, error: ClientError) -> ProviderError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        meta = error.response.get("ResponseMetadata", {})
        status = int(meta.get("HTTPStatusCode", 0))
        text = f"{code}: {error.response.get('Error', {}).get('Message', '')}"
        request_id = meta.get("RequestId")
        if code in _THROTTLING or status == 429:
            wish = meta.get("HTTPHeaders", {}).get("retry-after", "")
            line, operation = self._shown(text), purpose.operation
            seconds = float(wish) if wish.isdigit() else RETRY_AFTER_DEFAULT_SECONDS
            return RateLimited(
                line, retry_after_seconds=seconds, provider=PROVIDER, operation=operation, request_id=request_id
            )
        if code in _BY_CODE:
            return self._failure(_BY_CODE[code], purpose, text, request_id)
        if status in {401, 403} or code in _ACCESS:
            return self._failure(AccessDenied, purpose, f"{text}: needs {purpose.permission}", request_id)
        if status >= 500:
            return self._failure(self._lost(purpose), purpose, text, request_id)
        return self._failure(NotFound if code.endswith(".NotFound") else Rejected, purpose, text, request_id)

    @staticmethod
    def _lost(purpose: Purpose) -> type[ProviderError]:
        return OutcomeUnknown if purpose.mutation else Unavailable

    @classmethod
    def _failure(
        cls, failure: type[ProviderError], purpose: Purpose, text: str, request_id: str | None = None
    ) -> ProviderError:
        return failure(cls._shown(text), provider=PROVIDER, operation=purpose.operation, request_id=request_id)

    @staticmethod
    def _shown(text: str) -> str:
        line = " ".join(text.split())
        return line if len(line) <= _MESSAGE_MAX_LENGTH else f"{line[: _MESSAGE_MAX_LENGTH - 1]}…"


def _session(context: ProviderContext) -> boto3.Session:
    """Return a session with the given credentials, from an issuer's Secret, else with the SDK's own chain."""
    given = context.credentials
    if ACCESS_KEY_VARIABLE not in given and SECRET_KEY_VARIABLE not in given:
        return boto3.Session()
    missing = [each for each in (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE) if each not in given]
    if missing:
        raise ConfigError(f"provider {PROVIDER!r} lacks {missing[0]}: set both or neither of the two keys")
    return boto3.Session(
        aws_access_key_id=given[ACCESS_KEY_VARIABLE],
        aws_secret_access_key=given[SECRET_KEY_VARIABLE],
        aws_session_token=given.get(SESSION_TOKEN_VARIABLE),
    )
