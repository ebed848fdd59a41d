"""The error tree. The type alone says what to do next; nothing reads a message.

::

    FlipopError
    ├── ConfigError                  wrong until somebody edits it
    │   ├── ResourceInvalid          a custom resource: field, value and mend are named
    │   ├── PluginLoadError          a plugin could not be loaded or broke its contract
    │   └── UnknownProvider          no installed plugin provides that name
    ├── ProviderError                provider, operation, request_id
    │   ├── Retryable                try again soon (the fast schedule)
    │   │   ├── RateLimited          not before retry_after_seconds
    │   │   ├── Unavailable          5xx, refused or dropped before the request was sent
    │   │   └── Busy                 another operation on the address or the node is pending
    │   ├── Final                    trying again soon cannot help (the slow schedule)
    │   │   ├── NotFound             the address, node, zone or firewall does not exist
    │   │   ├── NodeInUse            the node already holds as many addresses as it may
    │   │   ├── AccessDenied         401 or 403: the credentials are wrong or too narrow
    │   │   ├── QuotaExceeded        an account limit
    │   │   ├── Unsupported          the provider cannot do this at all
    │   │   └── Rejected             the provider understood and refused
    │   └── OutcomeUnknown           sent, answer lost: read before any retry
    └── ClusterError                 the Kubernetes API: status, reason
        ├── ClusterUnavailable       no usable answer; retry_after_seconds when the server gave it
        ├── Conflict                 409: somebody else wrote first
        ├── ObjectNotFound           404
        ├── Expired                  410, or a resourceVersion that means nothing here: list again
        ├── Unauthorized             401: read the credentials again
        └── Forbidden                403: the account lacks a role
"""

from __future__ import annotations

import reprlib


class FlipopError(Exception):
    """Base of every error the project raises on purpose."""


class ConfigError(FlipopError):
    """Something is configured wrongly, and stays wrong until it is edited."""


class ResourceInvalid(ConfigError):
    """A custom resource cannot be acted on.

    ``field`` is a path such as ``spec.match.nodeLabel``, ``value`` what stands there, ``mend`` what to write instead.
    ``reason`` is the CamelCase word for the status condition.
    """

    def __init__(self, field: str, value: object, mend: str, *, reason: str = "InvalidSpec") -> None:
        self.field = field
        self.value = value
        self.mend = mend
        self.reason = reason
        super().__init__(f"{field}: {shortened(value)}: {mend}")

    def __eq__(self, other: object) -> bool:
        """Whether the same thing is wrong: a view that holds it is then equal to one decoded anew."""
        return isinstance(other, ResourceInvalid) and (other.args, other.reason) == (self.args, self.reason)

    def __hash__(self) -> int:
        return hash((self.args, self.reason))


class PluginLoadError(ConfigError):
    """A plugin failed to load or broke the hook contract; ``plugin`` is its entry point's name."""

    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        super().__init__(f"plugin {plugin!r}: {message}")


class UnknownProvider(ConfigError):
    """No installed plugin provides ``name`` for ``role`` (``ip``, ``dns`` or ``firewall``)."""

    def __init__(self, name: str, role: str, known: tuple[str, ...] = ()) -> None:
        self.name = name
        self.role = role
        self.known = known
        have = ", ".join(known) if known else "none"
        super().__init__(f"no installed plugin provides {name!r} as {role} provider (installed: {have})")


class ProviderError(FlipopError):
    """A provider call failed. Never carries a credential, nor a whole request or response."""

    def __init__(self, message: str, *, provider: str = "", operation: str = "", request_id: str | None = None) -> None:
        self.message = message
        self.provider = provider
        self.operation = operation
        self.request_id = request_id
        super().__init__(message)

    def __str__(self) -> str:
        where = " ".join(part for part in (self.provider, self.operation) if part)
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{where}: {self.message}{request}" if where else f"{self.message}{request}"


class Retryable(ProviderError):
    """Passing: the same call may succeed soon."""


class RateLimited(Retryable):
    """The provider asks to slow down: nothing more to it before ``retry_after_seconds`` have passed."""

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: float,
        provider: str = "",
        operation: str = "",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, provider=provider, operation=operation, request_id=request_id)
        self.retry_after_seconds = max(0.0, retry_after_seconds)


class Unavailable(Retryable):
    """The provider is not there, or answered 5xx to a read."""


class Busy(Retryable):
    """Another operation is pending on the address, the node or the zone."""


class Final(ProviderError):
    """Repeating the call soon cannot help."""


class NotFound(Final):
    """The address, node, zone, record or firewall does not exist."""


class NodeInUse(Final):
    """The node already holds as many addresses as the provider allows."""


class AccessDenied(Final):
    """The credentials are wrong, expired or too narrow."""


class QuotaExceeded(Final):
    """An account limit is reached."""


class Unsupported(Final):
    """The provider cannot do this at all."""


class Rejected(Final):
    """The provider understood the request and refused it."""


class OutcomeUnknown(ProviderError):
    """The request was sent and its answer lost: it may or may not have had its effect. Read before any retry."""


class ClusterError(FlipopError):
    """The Kubernetes API refused or failed. ``status`` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        super().__init__(message)


class ClusterUnavailable(ClusterError):
    """No usable answer: connection, timeout, 429 or 5xx. ``retry_after_seconds`` is the server's wish, if any."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_seconds = retry_after_seconds


class Conflict(ClusterError):
    """The object was changed, or created, by somebody else first."""


class ObjectNotFound(ClusterError):
    """The object, or the whole resource type, does not exist."""


class Expired(ClusterError):
    """The resourceVersion is too old, or from another history: list again."""


class Unauthorized(ClusterError):
    """The credentials were not accepted."""


class Forbidden(ClusterError):
    """The account is known and lacks the permission."""


def one_line(text: str) -> str:
    """Return ``text`` as one line, with what could control a terminal, or hide in a page, made visible."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shortened(value: object, limit: int = 80) -> str:
    """Return ``repr(value)`` in one line of at most ``limit`` characters, however large or deep the value is."""
    try:
        text = repr(value[:limit]) if isinstance(value, str) and len(value) > limit else _brief.repr(value)
    except ValueError:  # an integer of thousands of digits has no text
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_brief = reprlib.Repr()
_brief.maxlevel = 6
_brief.maxdict = _brief.maxlist = _brief.maxtuple = 20
_brief.maxstring = _brief.maxlong = _brief.maxother = 200
_brief.fillvalue = "…"
