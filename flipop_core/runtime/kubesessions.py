"""Connection settings and credentials that change while the process runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
import urllib3

from flipop_core.errors import Unauthorized
from flipop_core.loggers import get_logger, with_logger

_LOG = get_logger(__name__)

_LEAST_SECONDS_BETWEEN_READINGS = 1.0


class KubeConfiguration(msgspec.Struct, frozen=True):
    """How to reach an API server, read once.

    ``url`` is where it is; ``namespace`` the context's or the pod's own; ``source`` says where all this was found.
    ``authorization`` is that header's value, empty for client certificates and anonymous use. ``fingerprint`` changes
    with everything that needs connections of its own, which ``new_pool`` makes: addresses, certificates, proxies.
    ``headers`` are sent beside the usual ones, such as those that impersonate a user.
    """

    url: str
    namespace: str
    source: str
    authorization: str
    fingerprint: str
    new_pool: Callable[[], urllib3.PoolManager]
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"KubeConfiguration(url={self.url!r}, namespace={self.namespace!r}, source={self.source!r})"


class Session:
    """One reading of the configuration, and the connections made with it."""

    def __init__(self, configuration: KubeConfiguration, before: Session | None = None) -> None:
        self.configuration = configuration
        self.pool: urllib3.PoolManager
        if before is not None and before.configuration.fingerprint == configuration.fingerprint:
            self.pool = before.pool
        else:
            self.pool = configuration.new_pool()

    def serves_as(self, other: Session) -> bool:
        """Whether requests made with either are the same."""
        mine, others = self.configuration, other.configuration
        return (mine.authorization, mine.headers, mine.fingerprint) == (
            others.authorization,
            others.headers,
            others.fingerprint,
        )


class Sessions:
    """The present session. Reads the configuration again in a thread of its own, one reading at a time.

    A thread, since an exec plugin may hang, and a call with a timeout must not.
    """

    def __init__(
        self, load: Callable[[], KubeConfiguration], refresh_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._load = load
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._session = Session(load())
        self._read_at = clock()
        self._reading: threading.Event | None = None
        self._failure: Exception | None = None

    def current(self) -> Session:
        """Return the session for the next call, and see to it that an old one is read again meanwhile."""
        if self._clock() - self._read_at > self._refresh_seconds:
            self._read_if_older_than(self._refresh_seconds)
        return self._session

    def after_refusal(self, refused: Session, timeout_seconds: float) -> Session:
        """Read the configuration again unless that has happened since ``refused``; raises Unauthorized if it fails."""
        if self._session is not refused:
            return self._session
        done = self._read_if_older_than(_LEAST_SECONDS_BETWEEN_READINGS)
        if done is not None:
            if not done.wait(timeout_seconds):
                raise Unauthorized("401: reading the credentials again takes too long", status=401)
            failure = self._failure
            if failure is not None:
                raise Unauthorized(f"401, and reading the credentials again failed: {failure}", status=401)
        return self._session

    def _read_if_older_than(self, seconds: float) -> threading.Event | None:
        """Return what tells the end of the reading under way, begun now if need be; None when the last one will do."""
        with self._lock:
            if self._reading is None:
                if self._clock() - self._read_at < seconds:
                    return None
                self._reading = threading.Event()
                read = with_logger(self._read)
                threading.Thread(target=read, args=(self._reading,), name="kube-credentials", daemon=True).start()
            return self._reading

    def _read(self, done: threading.Event) -> None:
        old = self._session
        try:
            new = Session(self._load(), old)
            self._failure = None
            if not new.serves_as(old):
                self._session = new
                if new.pool is not old.pool:
                    old.pool.clear()
                _LOG.info("credentials changed")
        except Exception as error:  # told to whoever waits, and the old credentials may still serve
            self._failure = error
            _LOG.warning("credentials could not be read again", error=str(error))
        finally:
            with self._lock:
                self._read_at = self._clock()
                self._reading = None
            done.set()
