"""Where AWS is called through boto3, and refusals become errors of the core.

The SDK finds the credentials, signs and sends. Reads of EC2 are repeated by the SDK within the time that a call may
take; nothing else is: a change must not be repeated, and Route 53 gives a whole account five requests a second.

The SDK's timeouts are fixed when a client is built, and all requests of one call share its time. So there are clients
for the whole time and for parts of it, and a request takes the longest one that still ends in time.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from flipop_aws.bounded import BoundedSession
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
REGION_VARIABLE = "AWS_REGION"
SESSION_TOKEN_VARIABLE = "AWS_SESSION_TOKEN"  # noqa: S105  the name of a variable, no secret

RETRY_AFTER_DEFAULT_SECONDS = 2.0
"""The pause after a refusal for too many requests that asks for none, as those of EC2 and Route 53 never do."""

RETRY_AFTER_MAX_SECONDS = 3600.0

GLOBAL_REGION = "us-east-1"
"""Where a service without regions, Route 53, is signed for."""

Service = Literal["ec2", "route53"]

_POOL_SIZE = 32
_REPEATED_FROM_SECONDS = 4.0
_MESSAGE_MAX_LENGTH = 300
_REQUEST_ID_MAX_LENGTH = 100
_SHARES = (1.0, 0.5, 0.25, 0.1)
"""Of the time of a call: for which there are clients."""

_CREDENTIALS_SHARES = (0.15, 0.3)
"""Of the time of a call: for connecting to where temporary credentials come from, and for its answer."""

_TOLERANCE = 0.04
"""Of the time of a call: what connecting and reading leave over, and the way to the first request may take."""

_NO_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, SSOError, TokenRetrievalError)
_NOT_SENT = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    ProxyConnectionError,
)
_ENCODED = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
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
_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Codes that say that the credentials themselves are not accepted, or no longer."""

_ACCESS = frozenset({"AccessDenied", "AccessDeniedException", "Blocked", "OptInRequired", "UnauthorizedOperation"})

_MENDS: Mapping[str, str] = {
    "AddressLimitExceeded": "raise the region's quota of Elastic IPs, or release some",
}
"""What to do about a refusal that only somebody else can mend."""

_ends_at: ContextVar[float] = ContextVar("flipop_aws_ends_at")
_made: ContextVar[list[Purpose] | None] = ContextVar("flipop_aws_made")


class ChangeRefused(Rejected):
    """A change batch of Route 53 was refused as a whole. Does not leave the plugin."""


class Gone(NotFound):
    """What the request names by its AWS ID does not exist, or not yet everywhere."""


class NoGateway(Rejected):
    """The VPC of an instance has no internet gateway. Does not leave the plugin."""


class NoGroup(NotFound):
    """A security group that the request names does not exist, or not for that VPC. Does not leave the plugin."""


class RuleExists(Rejected):
    """A rule that the request adds to a security group is there already. Does not leave the plugin."""


_BY_CODE: Mapping[str, type[ProviderError]] = {
    "InvalidChangeBatch": ChangeRefused,
    "NoSuchHostedZone": NotFound,
    "PriorRequestNotComplete": Busy,
    "AddressLimitExceeded": QuotaExceeded,
    "RulesPerSecurityGroupLimitExceeded": QuotaExceeded,
    "SecurityGroupsPerInterfaceLimitExceeded": QuotaExceeded,
    "InsufficientAddressCapacity": QuotaExceeded,
    "Gateway.NotAttached": NoGateway,
    "InvalidAllocationID.NotFound": Gone,
    "InvalidAddress.NotFound": Gone,
    "InvalidAssociationID.NotFound": Gone,
    "InvalidInstanceID.NotFound": NotFound,
    "InvalidNetworkInterfaceID.NotFound": NotFound,
    "InvalidGroup.NotFound": NoGroup,
    "InvalidSecurityGroupID.NotFound": NoGroup,
    "InvalidPermission.NotFound": Gone,
    "InvalidSecurityGroupRuleId.NotFound": Gone,
    "InvalidPermission.Duplicate": RuleExists,
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
        """Build the SDK's client for the whole time of a call; makes no call. Raises ConfigError."""
        self._context = context
        self._service: Service = service
        self._timeout_seconds = context.timeout_seconds
        self._lock = threading.Lock()
        self._clients: dict[tuple[float, int], Any] = {}
        try:
            self._session = _session(context)
            fallback = GLOBAL_REGION if service == "route53" else None
            # AWS_REGION is the name that all SDKs know but this one, which reads AWS_DEFAULT_REGION.
            chain = os.environ.get(REGION_VARIABLE) or self._session.region_name
            self.region = context.region or chain or fallback or ""
            if not self.region:
                raise ConfigError(f"provider {PROVIDER!r} has no region: set spec.region, or AWS_REGION")
            self._endpoint = str(self._client_for(_SHARES[0], attempts=1).meta.endpoint_url)
        except ProfileNotFound as error:
            raise ConfigError(f"provider {PROVIDER!r}: {error}: correct AWS_PROFILE") from None
        except (NoRegionError, ValueError) as error:
            raise ConfigError(f"provider {PROVIDER!r}: {error}: correct the region or AWS_ENDPOINT_URL") from None

    def _client_for(self, share: float, *, attempts: int) -> Any:
        """Return the SDK's client whose ``attempts`` end within that share of a call's time, built at first use."""
        with self._lock:
            client = self._clients.get((share, attempts))
            if client is None:
                client = self._clients[share, attempts] = self._new(share * self._timeout_seconds, attempts)
            return client

    def _new(self, seconds: float, attempts: int) -> Any:
        # The SDK waits for up to a second between two attempts.
        each = (seconds - (attempts - 1)) / attempts
        client = self._session.client(
            self._service,
            endpoint_url=self._context.endpoint or None,
            region_name=self.region,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=each * 0.3,
                read_timeout=each * 0.65,
                max_pool_connections=_POOL_SIZE,
                user_agent_extra=self._context.user_agent,
            ),
        )
        endpoint = client._endpoint  # noqa: SLF001  the SDK has no other way to how it reads answers
        endpoint.http_session = BoundedSession(endpoint.http_session, each)
        return client

    def __repr__(self) -> str:
        return f"Client(endpoint={self._endpoint!r}, region={self.region!r})"

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Let all calls of this thread inside the block share one ``timeout_seconds``.

        An answer that lacks a member which the block takes for granted is Unavailable, or OutcomeUnknown after a
        mutation.
        """
        made = _made.get(None)
        made = [] if made is None else made
        token, made_token = _ends_at.set(time.monotonic() + self._timeout_seconds), _made.set(made)
        try:
            yield
        except (KeyError, ValueError) as error:
            if not made:
                raise
            kind = OutcomeUnknown if any(purpose.mutation for purpose in made) else Unavailable
            text = f"an answer that is not what the API documents: {type(error).__name__}"
            raise self._failure(kind, made[-1], text) from None
        finally:
            _ends_at.reset(token)
            _made.reset(made_token)

    def ends_at(self) -> float:
        """Return the monotonic time at which the present call must have ended."""
        return _ends_at.get()

    def call(self, purpose: Purpose, method: str, **arguments: Any) -> Any:
        """Make one request and return its answer. Needs a `deadline` around it.

        Errors: those of the contracts, `ChangeRefused`, and `Gone`.
        """
        # They may have to be fetched. That takes time of the call, and of this request nothing has been sent by then.
        self._attempt(purpose._replace(mutation=False), self._have_credentials)
        client = self._client_in_time(purpose)
        if (made := _made.get(None)) is not None:
            made.append(purpose)
        return self._attempt(purpose, lambda: getattr(client, method)(**arguments))

    def _have_credentials(self) -> None:
        """Let the SDK's chain find credentials, or renew those that end soon. Raises the SDK's errors."""
        credentials = self._session.get_credentials()
        if credentials is None:
            with self._lock:
                self._clients.clear()  # they know of none either, and would not look again
            raise NoCredentialsError
        credentials.get_frozen_credentials()

    def _attempt(self, purpose: Purpose, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except ClientError as error:
            failure = self._refused(purpose, error)
        except _NO_CREDENTIALS as error:
            failure = self._failure(AccessDenied, purpose, f"no AWS credentials were found: {error}")
        except _NOT_SENT as error:
            failure = self._failure(Unavailable, purpose, f"not sent: {type(error).__name__}")
        except ParamValidationError as error:
            failure = self._failure(Rejected, purpose, f"not sent: {error}")
        except (HTTPClientError, ResponseParserError) as error:
            text = f"sent, but no complete answer came: {type(error).__name__}"
            failure = self._failure(self._lost(purpose), purpose, text)
        except (KeyError, ValueError, RecursionError) as error:  # what the SDK lets through: a member that is no number
            text = f"an answer that is not what the API documents: {type(error).__name__}"
            failure = self._failure(self._lost(purpose), purpose, text)
        except BotoCoreError as error:
            failure = self._failure(self._lost(purpose), purpose, f"the SDK failed: {type(error).__name__}")
        # The chain is cut: what lies behind may quote headers.
        raise failure from None

    def failure(self, kind: type[ProviderError], operation: str, text: str) -> ProviderError:
        """Return an error that the plugin itself finds."""
        return self._failure(kind, Purpose(operation, ""), text)

    def _client_in_time(self, purpose: Purpose) -> Any:
        left = (self.ends_at() - time.monotonic()) / self._timeout_seconds + _TOLERANCE
        share = next((share for share in _SHARES if share <= left), None)
        if share is None:
            raise self._failure(Unavailable, purpose, "not sent: no time is left")
        # The SDK's repetitions need the whole time; what follows another request of the same call is sent once.
        long_enough = share == _SHARES[0] and self._timeout_seconds >= _REPEATED_FROM_SECONDS
        repeats = self._service == "ec2" and not purpose.mutation and long_enough
        return self._client_for(share, attempts=2 if repeats else 1)

    def _refused(self, purpose: Purpose, error: ClientError) -> ProviderError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        meta = error.response.get("ResponseMetadata", {})
        status = int(meta.get("HTTPStatusCode", 0))
        message = _ENCODED.sub("", str(error.response.get("Error", {}).get("Message", "")))
        text = f"{code}: {message}"
        request_id = str(meta.get("RequestId", ""))[:_REQUEST_ID_MAX_LENGTH] or None
        if code in _THROTTLING or status == 429:
            wish = meta.get("HTTPHeaders", {}).get("retry-after", "")
            line, operation = self._shown(text), purpose.operation
            usable = wish.isascii() and wish.isdigit() and len(wish) <= 9
            seconds = min(float(wish), RETRY_AFTER_MAX_SECONDS) if usable else RETRY_AFTER_DEFAULT_SECONDS
            shown_id = self._shown(request_id) if request_id else None
            return RateLimited(
                line, retry_after_seconds=seconds, provider=PROVIDER, operation=operation, request_id=shown_id
            )
        if code in _MENDS:
            text = f"{text} ({_MENDS[code]})"
        if code in _BY_CODE:
            return self._failure(_BY_CODE[code], purpose, text, request_id)
        if code in _CREDENTIALS:
            text = f"the credentials are not accepted, which {purpose.permission} needs: {text}"
            return self._failure(AccessDenied, purpose, text, request_id)
        if status in {401, 403} or code in _ACCESS:
            return self._failure(AccessDenied, purpose, f"not allowed: needs {purpose.permission}: {text}", request_id)
        if status >= 500:
            return self._failure(self._lost(purpose), purpose, text, request_id)
        return self._failure(_kind_of(code), purpose, text, request_id)

    @staticmethod
    def _lost(purpose: Purpose) -> type[ProviderError]:
        return OutcomeUnknown if purpose.mutation else Unavailable

    def _failure(
        self, failure: type[ProviderError], purpose: Purpose, text: str, request_id: str | None = None
    ) -> ProviderError:
        shown_id = self._shown(request_id) if request_id else None
        return failure(self._shown(text), provider=PROVIDER, operation=purpose.operation, request_id=shown_id)

    def _shown(self, text: str) -> str:
        for secret in _secrets(self._context):
            text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        line = "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
        return line if len(line) <= _MESSAGE_MAX_LENGTH else f"{line[: _MESSAGE_MAX_LENGTH - 1]}…"


def _kind_of(code: str) -> type[ProviderError]:
    """Return what a refusal is whose code says nothing but its kind: each sort of pool has codes of its own."""
    if code.endswith(".NotFound"):
        return NotFound
    return QuotaExceeded if code.startswith("Insufficient") else Rejected


def _secrets(context: ProviderContext) -> list[str]:
    """Return what must not be shown, of an issuer's Secret or of the environment."""
    variables = (SECRET_KEY_VARIABLE, SESSION_TOKEN_VARIABLE)
    found = [source.get(variable, "") for source in (context.credentials, os.environ) for variable in variables]
    return [secret for secret in found if secret]


@functools.cache
def _loader(data_path: str | None) -> Any:
    """Return what loads the SDK's models, one for all sessions: that of EC2 takes 0.2 s and 20 MiB each time."""
    return botocore.loaders.create_loader(data_path)


def _session(context: ProviderContext) -> boto3.Session:
    """Return a session with the given credentials, from an issuer's Secret, else with the SDK's own chain."""
    given = context.credentials
    core = botocore.session.Session()
    core.register_component("data_loader", _loader(core.get_config_variable("data_path")))
    # For what the chain itself asks, which is STS; by default it would wait for minutes.
    connect_timeout, read_timeout = (share * context.timeout_seconds for share in _CREDENTIALS_SHARES)
    limits = Config(connect_timeout=connect_timeout, read_timeout=read_timeout, retries={"total_max_attempts": 1})
    core.set_default_client_config(limits)
    if ACCESS_KEY_VARIABLE not in given and SECRET_KEY_VARIABLE not in given:
        return boto3.Session(botocore_session=core)
    missing = [each for each in (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE) if each not in given]
    if missing:
        raise ConfigError(f"provider {PROVIDER!r} lacks {missing[0]}: set both or neither of the two keys")
    return boto3.Session(
        botocore_session=core,
        aws_access_key_id=given[ACCESS_KEY_VARIABLE],
        aws_secret_access_key=given[SECRET_KEY_VARIABLE],
        aws_session_token=given.get(SESSION_TOKEN_VARIABLE),
    )
