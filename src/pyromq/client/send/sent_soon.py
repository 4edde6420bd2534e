"""SentSoon: the future of a send that was handed over to the event loop.

A `concurrent.futures.Future` makes a lock, a condition and two lists, and takes the lock to be settled: more work than
the whole send. Most are settled before anybody looks. So this one makes its condition when somebody first waits for it,
and is an ordinary Future from then on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pyromq.client.send_result import SendResult

logger = logging.getLogger(__name__)

_FINISHED = "FINISHED"  # as in concurrent.futures, whose functions `wait` and `as_completed` read the state


class SentSoon(Future[SendResult]):
    """A future that cannot be cancelled: the message may be on its way. `ended` is called once it is settled.

    `guard` decides who is first, the one who waits or the one who settles. It is held for a moment only.
    """

    _state = "RUNNING"
    _result: SendResult | None = None
    _exception: BaseException | None = None

    def __init__(self, guard: threading.Lock, ended: Callable[[SentSoon], None]) -> None:
        self._guard = guard
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        """Make what an ordinary Future has from the start, for the first who waits."""
        if name not in ("_condition", "_waiters", "_done_callbacks"):
            raise AttributeError(name)
        with self._guard:
            if "_condition" not in self.__dict__:
                self._waiters: list[Any] = []
                self._done_callbacks: list[Callable[[Any], object]] = []
                self._condition = threading.Condition()
        return self.__dict__[name]

    def done(self) -> bool:
        return self._state == _FINISHED

    def result(self, timeout: float | None = None) -> SendResult:
        if self._state == _FINISHED and self._exception is None:
            return self._result  # type: ignore[return-value]
        return super().result(timeout)

    def set_result(self, result: SendResult) -> None:
        if not self._settle_unwatched(result, None):
            self._tell(super().set_result, result)
        self._ended(self)

    def set_exception(self, exception: BaseException | None) -> None:
        if not self._settle_unwatched(None, exception):
            self._tell(super().set_exception, exception)
        self._ended(self)

    def _settle_unwatched(self, result: SendResult | None, exception: BaseException | None) -> bool:
        """Settle it if nobody has looked at it yet; return False if somebody has."""
        with self._guard:
            if "_condition" in self.__dict__:
                return False
            self._result, self._exception = result, exception
            self._state = _FINISHED
        return True

    def _tell(self, settle: Callable[[Any], None], outcome: object) -> None:
        try:
            settle(outcome)
        except BaseException as error:  # a callback called sys.exit(): that must not end the loop of all clients
            logger.error("%r in a callback of a send is ignored", error)
