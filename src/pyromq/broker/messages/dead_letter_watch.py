"""Warns of dead letters that will go with their file of the log before anybody has looked at them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.tables.topic_table import TopicTable
from pyromq.clock import Clock
from pyromq.protocol.names import DLQ_PREFIX
from pyromq.remoting.ticker import Ticker
from pyromq.store.read.readable import ReadableStore

logger = logging.getLogger(__name__)

WATCH_PERIOD = 3600.0
WARNING_SHARE = 0.25
"""The last part of the retention in which a warning is given."""

_HOUR_MS = 3_600_000
_DAY = 86_400.0


class DeadLetterWatch:
    """Looks at the oldest dead letter of each group every hour; each group is warned of once a day."""

    def __init__(
        self,
        store: ReadableStore,
        reads: DiskReads,
        topics: TopicTable,
        clock: Clock,
        reserved_hours: Callable[[], float],
    ) -> None:
        self._store = store
        self._reads = reads
        self._topics = topics
        self._clock = clock
        self._reserved_hours = reserved_hours
        self._warned_at: dict[str, float] = {}
        self._ticker = Ticker(clock, WATCH_PERIOD, self.look)

    def start(self) -> None:
        """Look every hour from now on."""
        self._ticker.start()

    def stop(self) -> None:
        """Look no more."""
        self._ticker.stop()

    def look(self) -> bool:
        """Warn of the groups whose oldest dead letter may soon be removed."""
        for name in [name for name in self._topics.by_name if name.startswith(DLQ_PREFIX)]:
            self._reads.call(partial(self._look_at, name))
        return True

    def _look_at(self, name: str) -> None:
        now, now_ms, reserved_ms = self._clock.monotonic(), self._clock.now_ms(), self._reserved_hours() * _HOUR_MS
        age_ms = self._age_ms(name, now_ms)
        if age_ms is None or age_ms < reserved_ms * (1 - WARNING_SHARE):
            self._warned_at.pop(name, None)
        elif now - self._warned_at.get(name, -_DAY) >= _DAY:
            self._warned_at[name] = now
            self._warn(name, max(reserved_ms - age_ms, 0) / _HOUR_MS)

    def _age_ms(self, name: str, now_ms: int) -> int | None:
        """Return how long the oldest dead letter has lain there; None if there is none."""
        if self._store.min_offset(name, 0) >= self._store.max_offset(name, 0):
            return None
        stored_ms = self._store.earliest_time(name, 0)
        return None if stored_ms < 0 else now_ms - stored_ms

    def _warn(self, name: str, hours: float) -> None:
        logger.warning(
            "dead letters expire in %.1f h (fileReservedTime): group=%s count=%d; `pyromq dlq export` or `resend` them",
            hours, name.removeprefix(DLQ_PREFIX), self._store.max_offset(name, 0) - self._store.min_offset(name, 0),
        )  # fmt: skip
