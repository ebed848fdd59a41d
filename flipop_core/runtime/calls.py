"""Calls to one provider, on threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_futures
from typing import TypeVar

from flipop_core.errors import OutcomeUnknown, ProviderError, Unavailable, one_line
from flipop_core.loggers import carried_logger, get_logger
from flipop_core.model import Key
from flipop_core.runtime.metrics import Metrics

T = TypeVar("T")

_MESSAGE_MAX_LENGTH = 1000

_log = get_logger(__name__)


class Calls:
    """Runs work side by side, bounded, and times and counts each call of the provider ``name``.

    ``redact`` takes the secrets out of what the provider says.
    """

    def __init__(
        self,
        name: str,
        *,
        max_workers: int,
        metrics: Metrics,
        clock: Callable[[], float],
        redact: Callable[[str], str],
    ) -> None:
        self._name = name
        self._redact = redact
        self._metrics = metrics
        self._clock = clock
        self._running: set[Future[None]] = set()
        self._executor = ThreadPoolExecutor(max_workers, f"provider-{name}", initializer=carried_logger())

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` on a thread; nothing is started after `close`."""
        try:
            future = self._executor.submit(self._guarded, work)
        except RuntimeError:
            return  # shut down: the process ends, and what was not sent is planned again by the next one
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    def timed(self, call: str, owner: Key, function: Callable[[], T], *, read: bool = False) -> T | ProviderError:
        """Make one call and count it. An exception of a foreign type is the plugin's defect, and is contained."""
        started = self._clock()
        result: T | ProviderError
        try:
            result = function()
        except ProviderError as error:
            result = error
        except Exception as error:
            _log.exception("provider plugin raised a foreign exception", provider=self._name, call=call)
            kind = Unavailable if read else OutcomeUnknown
            result = kind(f"{type(error).__name__} in the provider plugin", provider=self._name, operation=call)
        failed = isinstance(result, ProviderError)
        if isinstance(result, ProviderError):
            result.message = one_line(self._redact(result.message))[:_MESSAGE_MAX_LENGTH]  # it goes into conditions
            # An error may be kept for hours, and would keep with it all that the call had: the provider, an answer.
            result.__cause__ = result.__context__ = result.__traceback__ = None
        self._metrics.provider_call(self._name, call, owner, failed=failed, seconds=self._clock() - started)
        return result

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return shut_down(self._executor, self._running, timeout_seconds)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            _log.exception("defect in handling a provider's answer", provider=self._name)


def shut_down(executor: Executor, running: Collection[Future[None]], timeout_seconds: float) -> bool:
    """Start nothing more on ``executor`` and wait for what is ``running``. Return whether all of it has ended."""
    executor.shutdown(wait=False, cancel_futures=True)
    # One that was cancelled before it was begun never becomes done for `wait`, and may not be out of `running` yet.
    begun = [future for future in tuple(running) if not future.cancelled()]
    return not wait_futures(begun, timeout=timeout_seconds).not_done
