"""What the process is told: settings, credentials, API endpoints; and how credentials are kept out of what it says.

Credentials are read from environment variables that the providers' factories name. Nothing here writes one into an
error, a log line or a repr.
"""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import ipaddress
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec

from flipop_core.errors import ConfigError, shortened
from flipop_core.loggers import get_logger
from flipop_core.providers import CredentialSpec, ProviderFactory

LEASE_NAME = "floating-ip-pool-controller-leader-election"
"""The leader lease's name, that of the original controller."""

REDACTED = "***"

_WHOLE_WORD_BELOW = 8
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SECRET_VARIABLE = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|API_?KEY)", re.IGNORECASE)
_POINTER_VARIABLE = re.compile(r"_(FILE|PATH|DIR|URL|URI|NAME)$", re.IGNORECASE)
_PROXY_VARIABLE = re.compile(r"_PROXY$", re.IGNORECASE)


class BindAddress(NamedTuple):
    """Where to listen. An empty ``host`` is every interface, port 0 any free port."""

    host: str
    port: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller is told when it starts. Holds no secret. Raises ConfigError for a value that makes no sense.

    ``kubeconfig`` is a path, empty for $KUBECONFIG, the pod's service account or ~/.kube/config; ``context`` one of its
    contexts, empty for the current one. ``namespace`` is where the leader lease lives, empty for the context's or the
    pod's own. ``metrics_bind_addr`` is ``HOST:PORT`` for the status page, at /, and /metrics, /healthz and /readyz,
    empty for none. ``leader_election`` may be off only where no second process can run. ``recheck_seconds`` is how
    often a pool at rest is compared with the provider, ``provider_timeout_seconds`` bounds one call to a provider.
    ``stop_timeout_seconds`` is how long work in flight may take after SIGTERM. ``max_moves_per_minute`` is how many
    addresses the process may move from node to node within a minute, 0 for any number. ``cluster_name`` tells the
    addresses of several clusters in one account apart, where a provider can tag.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    metrics_bind_addr: str = ":8080"
    debug: bool = False
    leader_election: bool = True
    lease_name: str = LEASE_NAME
    lease_duration_seconds: int = 15
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
    recheck_seconds: float = 300.0
    provider_timeout_seconds: float = 7.0
    stop_timeout_seconds: float = 15.0
    max_moves_per_minute: int = 0
    cluster_name: str = ""

    def __post_init__(self) -> None:
        for name in _DURATIONS:
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"{name}: {value!r}: it must be more than 0 seconds")
        if self.max_moves_per_minute < 0:
            raise ConfigError(f"max_moves_per_minute: {self.max_moves_per_minute}: write 0, for any number, or more")
        if self.leader_election:
            self._check_lease()
        if self.cluster_name and not _CLUSTER_NAME.fullmatch(self.cluster_name):
            raise ConfigError(
                f"cluster_name: {self.cluster_name!r}: write at most 63 letters, digits, '-', '_' and '.', with a "
                "letter or digit at both ends"
            )
        if self.metrics_bind_addr:
            parse_bind_address(self.metrics_bind_addr)

    def _check_lease(self) -> None:
        if not self.lease_duration_seconds > self.renew_deadline_seconds > self.retry_period_seconds:
            raise ConfigError(
                "leader election needs lease_duration_seconds > renew_deadline_seconds > retry_period_seconds, not "
                f"{self.lease_duration_seconds:g}, {self.renew_deadline_seconds:g}, {self.retry_period_seconds:g}"
            )
        longest = self.renew_deadline_seconds - self.retry_period_seconds
        # A call is sent only while more of the lease is left than it may take; at rest this much is left.
        if self.provider_timeout_seconds >= longest:
            raise ConfigError(
                f"provider_timeout_seconds: {self.provider_timeout_seconds!r}: it must be less than {longest:g}, the "
                "renew_deadline_seconds - retry_period_seconds, or calls would wait for a lease that never lasts"
            )

    @property
    def bind_address(self) -> BindAddress:
        """``metrics_bind_addr`` in parts. Raises ConfigError when it is empty, since then there is nothing to bind."""
        return parse_bind_address(self.metrics_bind_addr)


_DURATIONS = tuple(name for name in Settings.__struct_fields__ if name.endswith("_seconds"))


def parse_bind_address(text: str) -> BindAddress:
    """Parse ``:8080``, ``127.0.0.1:0``, ``localhost:8080`` or ``[::1]:8080``. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        usable = ":" in host
    else:
        usable = not re.search(r"[\s:/@\[\]]", host)
    if not (colon and usable and re.fullmatch(r"[0-9]{1,5}", port) and int(port) <= 65535):
        raise ConfigError(
            f"metrics_bind_addr: {shortened(text)}: write HOST:PORT, for example :8080, 127.0.0.1:8080 or [::1]:8080, "
            "or nothing to serve no metrics"
        )
    return BindAddress(host, int(port))


class Credentials(Mapping[str, str]):
    """Credentials by environment variable. Its repr has their names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, variable: str) -> str:
        return self._values[variable]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Credentials(<{', '.join(sorted(self._values))}>)"


def credentials_for(factory: ProviderFactory, environ: Mapping[str, str]) -> Credentials:
    """Return those of the factory's credentials that are set, without the white space that files end with."""
    values = {spec.variable: environ.get(spec.variable, "").strip() for spec in factory.credentials}
    return Credentials({variable: value for variable, value in values.items() if value})


def missing_credentials(factory: ProviderFactory, environ: Mapping[str, str]) -> tuple[CredentialSpec, ...]:
    """Return the credentials without which the provider cannot work and which are not set."""
    have = credentials_for(factory, environ)
    return tuple(spec for spec in factory.credentials if spec.required and spec.variable not in have)


def endpoint_for(
    factory: ProviderFactory, environ: Mapping[str, str], warned: set[tuple[str, str]] | None = None
) -> str:
    """Return the API URL that the environment sets for the provider, empty for the vendor's own.

    http:// is allowed, for a proxy or a stand-in; off loopback it is warned of, unless that is in ``warned``, which it
    is added to: a provider that cannot be built is tried again and again. Raises ConfigError for anything but a plain
    http or https URL.
    """
    variable = factory.endpoint_variable
    url = environ.get(variable, "").strip() if variable else ""
    if not url:
        return ""
    scheme, host = _checked_url(variable, url)
    if scheme == "http" and not _is_loopback(host):
        warned = set() if warned is None else warned
        if (variable, host) not in warned:
            warned.add((variable, host))
            _warn_of_plain_http(variable, host)
    return url


def user_agent_for(factory: ProviderFactory, environ: Mapping[str, str]) -> str:
    """Return the user agent the environment sets for the provider, else ``flipop/<version>``. Raises ConfigError."""
    variable = factory.user_agent_variable
    agent = environ.get(variable, "").strip() if variable else ""
    if not agent:
        return _default_user_agent()
    if not re.fullmatch(r"[ -~]+", agent):
        raise ConfigError(f"{variable}: {agent!r}: write printable ASCII characters in one line")
    return agent


class Secrets:
    """Values that must not be shown. Its repr has their number only.

    A value is found wherever it stands, URL-encoded and in a repr too; one shorter than 8 characters only as a word of
    its own, so that a toy token does not garble every other word.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = frozenset(_stripped_lines(values))
        variants = {form for value in self._values for form in _forms(value)}
        alternatives = [_secret_pattern(variant) for variant in sorted(variants, key=len, reverse=True)]
        self._pattern = re.compile("|".join(alternatives)) if alternatives else None

    @classmethod
    def of_environment(cls, environ: Mapping[str, str], factories: Iterable[ProviderFactory] = ()) -> Secrets:
        """Collect the factories' credentials, what is named like a secret, and the passwords of proxies."""
        declared = {spec.variable for factory in factories for spec in factory.credentials}
        values = [environ[variable] for variable in declared if variable in environ]
        for variable, value in environ.items():
            if _PROXY_VARIABLE.search(variable):
                values += _passwords(value)
            elif _SECRET_VARIABLE.search(variable) and not _POINTER_VARIABLE.search(variable):
                # Nobody said that this is a secret: a short one is rather a switch such as "true".
                values += [value] if len(value.strip()) >= _WHOLE_WORD_BELOW else []
        return cls(values)

    def redact(self, text: str) -> str:
        """Return ``text`` with ``***`` in place of each value."""
        return self._pattern.sub(REDACTED, text) if self._pattern is not None else text

    def __repr__(self) -> str:
        return f"Secrets(<{len(self._values)}>)"


class KeptSecrets:
    """Secrets that become known one after the other. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: frozenset[str] = frozenset()
        self._secrets = Secrets()

    def keep(self, values: Iterable[str]) -> None:
        """Let none of these be shown any more."""
        with self._lock:
            # No real one is short, and a toy would garble what is said of all else.
            whole = self._values | {value for value in values if len(value) >= _WHOLE_WORD_BELOW}
            if whole != self._values:
                self._values, self._secrets = whole, Secrets(whole)

    def redact(self, text: str) -> str:
        """Return ``text`` with ``***`` in place of each value."""
        return self._secrets.redact(text)


def redact(text: str, secrets: Secrets) -> str:
    """Return ``text`` with ``***`` in place of each of the secrets."""
    return secrets.redact(text)


def _stripped_lines(values: Iterable[str]) -> Iterator[str]:
    """Yield each value, and the lines of one that has several (a PEM key), which logs may show one by one."""
    for value in values:
        whole = value.strip()
        if whole:
            yield whole
        yield from (line for line in map(str.strip, whole.splitlines()) if len(line) >= _WHOLE_WORD_BELOW)


def _forms(value: str) -> tuple[str, ...]:
    """Return how a value may stand somewhere: as it is, URL-encoded, in a repr, in base64 as in a Secret."""
    packed = base64.b64encode(value.encode(errors="surrogateescape")).decode()
    return value, quote(value, safe="", errors="surrogateescape"), repr(value)[1:-1], packed, packed.rstrip("=")


def _secret_pattern(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _WHOLE_WORD_BELOW else rf"(?<!\w){escaped}(?!\w)"


def _passwords(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:  # no URL, so nothing in it is a password
        return []
    return [password, unquote(password)] if password else []


def _checked_url(variable: str, url: str) -> tuple[str, str]:
    """Return scheme and host of a usable URL. Raises ConfigError, which does not repeat a password in it."""
    shown = re.sub(r"(?s)^.*@", f"{REDACTED}@", url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"{variable}: {shown!r}: {_URL_MEND}") from error
    if parts.scheme not in ("http", "https") or not host or port == 0 or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ConfigError(f"{variable}: {shown!r}: {_URL_MEND}")
    if "@" in parts.netloc:
        raise ConfigError(f"{variable}: {shown!r}: take user and password out of the URL, they displace the credential")
    if "?" in url or "#" in url:
        raise ConfigError(f"{variable}: {shown!r}: take '?' or '#' and what follows out of the URL")
    return parts.scheme, host


_URL_MEND = "write https://HOST[:PORT][/PATH], or http:// for a proxy or a stand-in"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, and resolving it here would be a network call
        return False


def _warn_of_plain_http(variable: str, host: str) -> None:
    get_logger(__name__).warning(
        "API URL is http: credentials cross the network unencrypted", variable=variable, host=host
    )


@functools.cache
def _default_user_agent() -> str:
    try:
        return f"flipop/{importlib.metadata.version('flipop-core')}"
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "flipop"
