"""Providers' credentials from Secrets: read in the background, by name, and again from time to time.

A Secret is read with ``get`` alone, so that the controller's account needs no more than that, and only where an issuer
names one. A new value replaces the old one within the recheck interval, without a restart.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from flipop_core.cluster import SECRETS, KubeAPI
from flipop_core.errors import ClusterError, ConfigError, Forbidden, ObjectNotFound
from flipop_core.loggers import carried_logger, get_logger
from flipop_core.model import Key

_READ_TIMEOUT_SECONDS = 5.0
RETRY_SECONDS = 15.0
"""How long after a failure a Secret is read again."""

_log = get_logger(__name__)


class CredentialsUnavailable(ConfigError):
    """A Secret with credentials cannot be read, or not be used."""


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(_Secret)


class _Entry:
    """One Secret: its values or what is wrong with it, and who has asked for it since that changed.

    ``used`` are the last values there were, in use even when they are gone. The repr shows no value.
    """

    def __init__(self) -> None:
        self.values: Mapping[str, str] | None = None
        self.used: Mapping[str, str] | None = None
        self.problem: CredentialsUnavailable | None = None
        self.read_at: float | None = None
        self.reading = False
        self.asking: set[Key] = set()


class SecretCredentials:
    """See the module. All methods need the shared lock held; answers come on a thread of its own.

    ``wake`` queues a resource; ``changed`` is told the name of a Secret whose values are not those that were given out.
    """

    def __init__(
        self,
        api: KubeAPI,
        *,
        lock: threading.RLock,
        wake: Callable[[Key], None],
        changed: Callable[[str], None],
        clock: Callable[[], float],
        recheck_seconds: float,
    ) -> None:
        self._api = api
        self._lock = lock
        self._wake = wake
        self._changed = changed
        self._clock = clock
        self._recheck_seconds = recheck_seconds
        self._entries: dict[str, _Entry] = {}
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="secrets", initializer=carried_logger())

    def known(self, name: str, key: Key) -> bool:
        """Whether the Secret ``name`` (``namespace/name``) has been read, or could not be.

        One that was read long ago is read again in the background. ``key`` is woken once the answer is another.
        """
        entry = self._entries.setdefault(name, _Entry())
        self._refresh(name, entry)
        entry.asking.add(key)
        return entry.read_at is not None

    def values(self, name: str) -> Mapping[str, str]:
        """Return the values as last read. Raises CredentialsUnavailable."""
        entry = self._entries.get(name)
        if entry is None or entry.values is None:
            problem = entry.problem if entry is not None else None
            raise problem or CredentialsUnavailable(f"Secret {name} has not been read yet")
        return entry.values

    def close(self) -> None:
        """Read nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _refresh(self, name: str, entry: _Entry) -> None:
        now = self._clock()
        wait = RETRY_SECONDS if entry.problem is not None else self._recheck_seconds
        if entry.reading or (entry.read_at is not None and entry.read_at + wait > now):
            return
        entry.reading = True
        try:
            self._executor.submit(self._read, name, entry)
        except RuntimeError:
            entry.reading = False  # shut down

    def _read(self, name: str, entry: _Entry) -> None:
        namespace, _, secret = name.partition("/")
        values: Mapping[str, str] | None = None
        problem: CredentialsUnavailable | None = None
        try:
            values = _decoded(name, self._api.get(SECRETS, namespace, secret, timeout_seconds=_READ_TIMEOUT_SECONDS))
        except ObjectNotFound:
            problem = CredentialsUnavailable(
                f"spec.credentialsSecretRef: there is no Secret {name}: create it, with the provider's environment "
                "variables as keys"
            )
        except Forbidden:
            problem = CredentialsUnavailable(
                f"spec.credentialsSecretRef: the controller may not read Secret {name}: give its account a Role with "
                f"the verb get on secrets in namespace {namespace}"
            )
        except ClusterError as error:
            # Passing, as far as is known: what was read before stands.
            problem = CredentialsUnavailable(f"spec.credentialsSecretRef: Secret {name} cannot be read: {error}")
            values = entry.values
        except CredentialsUnavailable as error:
            problem = error
        except Exception:
            _log.exception("defect in reading a Secret", secret=name)
            problem = CredentialsUnavailable(f"spec.credentialsSecretRef: Secret {name} cannot be read")
        with self._lock:
            try:
                self._take(name, entry, values, problem)
            except Exception:
                _log.exception("defect in handling a Secret", secret=name)

    def _take(
        self, name: str, entry: _Entry, values: Mapping[str, str] | None, problem: CredentialsUnavailable | None
    ) -> None:
        first, before = entry.read_at is None, (entry.values, str(entry.problem))
        entry.reading, entry.read_at = False, self._clock()
        entry.values = values
        entry.problem = problem if values is None else None
        if problem is not None:
            _log.warning("credentials not read", secret=name, error=str(problem))
        if first or before != (values, str(entry.problem)):
            asking, entry.asking = entry.asking, set()
            for key in asking:
                self._wake(key)
        used = entry.used
        if values is not None:
            entry.used = values
        if values is not None and used is not None and used != values:
            _log.info("credentials changed", secret=name)
            self._changed(name)


def _decoded(name: str, body: bytes) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for key, text in (_decoder.decode(body).data or {}).items():
        try:
            values[key] = base64.b64decode(text, validate=True).decode().strip()
        except (binascii.Error, UnicodeDecodeError):
            raise CredentialsUnavailable(
                f"spec.credentialsSecretRef: key {key} of Secret {name} is no text: write UTF-8"
            ) from None
    if not values:
        raise CredentialsUnavailable(
            f"spec.credentialsSecretRef: Secret {name} is empty: its keys are the provider's environment variables"
        )
    return values
