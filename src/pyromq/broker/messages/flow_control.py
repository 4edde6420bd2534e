"""Flow control: sends are refused with SYSTEM_BUSY while taking them would make everything worse.

    queue wait   The loop takes turns: what arrives during one round is read in the next. A round that takes longer than
                 `waitTimeMillsInSendQueue` has made others wait that long. Once such rounds have come for a second,
                 more arrives than can be stored, and after each of them sends are refused for as long as the limit.
                 One long round alone is no reason: who waited for it is served at once.
    page cache   A write of the log blocks the loop, and with it pulls and heartbeats. After one that takes longer than
                 `osPageCacheBusyTimeOutMills` sends are refused for as long as it took, so that others get their turn.
    paused       An operator has paused writes (`pyromqWritesPaused`). NO_PERMISSION lets producers try another broker.

The first two are measured once a round, not once a message. The answer has RocketMQ's code and, in brackets, its word
for the cause; Java's producers hand it to the application at once and do not try another broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Final

from msgspec import Struct

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.errors import NoPermission, SystemBusy
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.remoting.round import Round
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_PATIENCE: Final = 1.0
_LONGEST: Final = 10.0  # of a refusal


class Cause(Enum):
    """What sends are refused for, in RocketMQ's words."""

    WAIT = "TIMEOUT_CLEAN_QUEUE"
    WRITE = "PCBUSY_CLEAN_QUEUE"


class _Refusal(Struct, frozen=True):
    """Why sends are refused, and until when unless it goes on."""

    cause: Cause
    remark: str
    until: float


class SendFlowControl:
    """Watches rounds and writes; while `refuses` is true, check() tells whether a send is to be refused."""

    def __init__(
        self,
        round: Round,
        store: MessageStore,
        *,
        wait_limit: float | None,
        write_limit: float,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        """`wait_limit` is None where sends may wait as long as they have to; `timer` is that of rounds and writes."""
        self.refuses = False
        self.refused = dict.fromkeys(Cause, 0)
        """How many sends were refused."""
        self.refused_while_paused = 0
        self.longest_round = 0.0
        self._round = round
        self._writes = store.write_times
        self._wait_limit = float("inf") if wait_limit is None else wait_limit
        self._write_limit = write_limit
        self._timer = timer
        self._slow_since = self._slow_until = float("-inf")
        self._waited = 0.0
        self._refusal: _Refusal | None = None
        self._is_paused = False
        self.close = round.at_end(self.end_round)
        """Measures no more."""

    def configure(self, config: BrokerConfig) -> None:
        """Take over settings, at the start and when they change."""
        self._is_paused = config.writes_paused
        self.refuses = self._is_paused or self._refusal is not None

    def check(self) -> None:
        """Raise SystemBusy, with what was measured, or NoPermission if a send is to be refused now."""
        if self._is_paused:
            self.refused_while_paused += 1
            raise NoPermission("writes are paused at this broker: send to another one")
        refusal = self._refusal
        if refusal is None or self._timer() >= refusal.until:
            self._end_refusal()
            return
        self.refused[refusal.cause] += 1
        raise SystemBusy(refusal.remark)

    @property
    def recent_wait_ms(self) -> int:
        """How long requests waited in the latest slow round; 0 if that is long ago."""
        is_recent = self._timer() < self._slow_until + _PATIENCE
        return round(self._waited * 1000) if is_recent else 0

    def figures(self) -> BoundFigures[SendFlowControl]:
        """Return the figures of waiting and refusing."""
        return BoundFigures(_FIGURES, lambda: self)

    def end_round(self) -> None:
        """Look at the round that ends; the round itself calls this, after the group was written."""
        now = self._timer()
        took = now - self._round.began
        if took > self.longest_round:
            self.longest_round = took
        if took >= self._wait_limit or self._writes.last >= self._write_limit:
            self._end_slow_round(took, now)

    def _end_slow_round(self, took: float, now: float) -> None:
        write, self._writes.last = self._writes.last, 0.0
        if now - took > self._slow_until + _PATIENCE:
            self._slow_since = now  # whoever waited for this first one is served now
        self._slow_until, self._waited = now, took
        if write >= self._write_limit:
            self._refuse(Cause.WRITE, f"a write took {_compared(write, self._write_limit)}", min(write, _LONGEST), now)
        elif now - self._slow_since >= _PATIENCE:
            measured = f"requests wait {_compared(took, self._wait_limit)}, since {now - self._slow_since:.1f} s"
            self._refuse(Cause.WAIT, measured, self._wait_limit, now)

    def _refuse(self, cause: Cause, measured: str, seconds: float, now: float) -> None:
        if not self.refuses:
            logger.warning("sends are refused for a while: %s", measured)
        self._refusal = _Refusal(cause, f"[{cause.value}]{measured}; try again later", now + seconds)
        self.refuses = True

    def _end_refusal(self) -> None:
        logger.info("sends are taken again, refused so far: %d", sum(self.refused.values()))
        self._refusal = None
        self.refuses = self._is_paused


_FIGURES: Final[tuple[Figure[SendFlowControl], ...]] = (
    Figure(
        "sends_refused_for_waiting",
        "Sends refused because requests waited too long.",
        Kind.COUNTER,
        lambda flow: flow.refused[Cause.WAIT],
    ),
    Figure(
        "sends_refused_for_slow_writes",
        "Sends refused because a write of the log took too long.",
        Kind.COUNTER,
        lambda flow: flow.refused[Cause.WRITE],
    ),
    Figure(
        "sends_refused_while_paused",
        "Sends refused because writes are paused.",
        Kind.COUNTER,
        lambda flow: flow.refused_while_paused,
    ),
    Figure(
        "longest_round_ms",
        "The longest round of the event loop.",
        Kind.GAUGE,
        lambda flow: flow.longest_round * 1000,
    ),
    Figure(
        "send_wait_ms",
        "How long requests waited in the latest slow round; 0 if that is long ago.",
        Kind.GAUGE,
        lambda flow: flow.recent_wait_ms,
        runtime="sendThreadPoolQueueHeadWaitTimeMills",
        in_varz=False,
        exporter="rocketmq_brokeruntime_send_threadpoolqueue_headwait_timemills",
    ),
)


def _compared(measured: float, limit: float) -> str:
    return f"{measured * 1000:.0f} ms, more than {limit * 1000:.0f} ms"
