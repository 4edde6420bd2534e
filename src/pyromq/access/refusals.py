"""Refusals: counts the requests that were refused, slows down who fails often, and keeps the log short.

Only failures to say who one is count against an address: a wrong or missing signature, an unknown account. An account
without a right is just refused. After ten failures within a minute an address waits a second for each further refusal,
and only for refusals: a good client at the same address notices nothing.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, Final

from pyromq.clock import Clock
from pyromq.errors import AccessRefused, UnknownCaller
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.codes import ONEWAY_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

FREE_FAILURES: Final = 10
WINDOW: Final = 60.0
PAUSE: Final = 1.0
LOG_PERIOD: Final = 10.0
"""Seconds between two lines about one address."""
MOST_ADDRESSES: Final = 10_000


class _Failures:
    """What one address did lately."""

    __slots__ = ("count", "logged_at", "since", "unlogged")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = 0
        self.logged_at = -LOG_PERIOD
        self.unlogged = 0


class Refusals:
    """Makes the answers to refused requests."""

    def __init__(self, clock: Clock) -> None:
        self.unknown = 0
        """Requests without a valid account."""
        self.forbidden = 0
        """Requests of accounts without the right."""
        self.free_failures = FREE_FAILURES
        self._clock = clock
        self._addresses: OrderedDict[str, _Failures] = OrderedDict()

    def answer(
        self, request: RemotingCommand, connection: Connection, error: AccessRefused
    ) -> RemotingCommand | Coroutine[Any, Any, RemotingCommand]:
        """Return the answer to a refused request, or what yields it after a pause."""
        failures = self.note(connection, error)
        answer = response(request, error.code, error.remark.encode(errors="replace").decode())
        is_slow = isinstance(error, UnknownCaller) and failures.count > self.free_failures
        return self._later(answer) if is_slow and not request.flag & ONEWAY_FLAG else answer

    async def _later(self, answer: RemotingCommand) -> RemotingCommand:
        await self._clock.sleep(PAUSE)
        return answer

    def note(self, connection: Connection, error: AccessRefused) -> _Failures:
        """Count a refusal and log it, if not too much was logged about this address lately."""
        host = connection.peer.rpartition(":")[0]
        now = self._clock.monotonic()
        failures = self._addresses.get(host)
        if failures is None:
            failures = self._addresses[host] = _Failures(now)
            if len(self._addresses) > MOST_ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(host)
        if now - failures.since > WINDOW:
            failures.since, failures.count = now, 0
        if isinstance(error, UnknownCaller):
            self.unknown += 1
            failures.count += 1
        else:
            self.forbidden += 1
        self._log(host, failures, error, now)
        return failures

    def _log(self, host: str, failures: _Failures, error: AccessRefused, now: float) -> None:
        if now - failures.logged_at < LOG_PERIOD:
            failures.unlogged += 1
            return
        more = f", and {failures.unlogged} more since the last line" if failures.unlogged else ""
        logger.warning("access refused to a client at %s: %r%s", host, error.reason, more)
        failures.logged_at, failures.unlogged = now, 0

    def figures(self) -> BoundFigures[Refusals]:
        """Return the figures of refusals."""
        return BoundFigures(_FIGURES, lambda: self)


_FIGURES: Final[tuple[Figure[Refusals], ...]] = (
    Figure(
        "access_unknown",
        "Requests refused because they had no valid account or signature.",
        Kind.COUNTER,
        lambda refusals: refusals.unknown,
    ),
    Figure(
        "access_forbidden",
        "Requests refused because their account lacks the right.",
        Kind.COUNTER,
        lambda refusals: refusals.forbidden,
    ),
)
