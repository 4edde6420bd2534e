"""HeldProgress: what a master has done with messages, for a slave that may not have all of its log yet.

The progress of delay levels and transactions counts deliveries, which are in the master's log. Taken over too early it
would be ahead of the log here, and after a promotion those messages would never be delivered. So it is held until the
log here is flushed up to where the master's ended. Older progress is always right: the deliveries since then are found
in the log.
"""

from __future__ import annotations

from typing import NamedTuple

from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.protocol.names import TOPIC_GROUP_SEPARATOR, TRANSACTION_GROUP
from pyromq.store.message_store import MessageStore

OffsetRows = dict[str, dict[int, int]]


class _Progress(NamedTuple):
    log_end: int
    delays: DelayProgress | None
    transactions: OffsetRows


class HeldProgress:
    """The progress of a master until it may be taken over."""

    def __init__(self, tables: Tables, store: MessageStore) -> None:
        self._tables = tables
        self._store = store
        self._held: list[_Progress] = []  # the next one to take over, and the newest

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._held

    def hold(self, log_end: int, delays: DelayProgress | None, offsets: OffsetRows) -> OffsetRows:
        """Hold what the master had done when its log ended there; return the offsets that are none of its own."""
        own = {key: row for key, row in offsets.items() if is_progress(key)}
        if own or delays is not None:
            newest = _Progress(log_end, delays, own)
            if len(self._held) == 2:
                before = self._held.pop()
                newest = _Progress(log_end, delays or before.delays, before.transactions | own)
            self._held.append(newest)
        return {key: row for key, row in offsets.items() if key not in own} if own else offsets

    def take_over(self) -> None:
        """Take over what the log here has, durably."""
        while self._held and self._store.flushed_offset >= self._held[0].log_end:
            progress = self._held.pop(0)
            if progress.delays is not None and progress.delays != self._tables.delays.saved:
                self._tables.delays.save(progress.delays)
            self._tables.offsets.adopt(progress.transactions, ())

    def forget(self) -> None:
        """Forget what waits: it is another master's."""
        self._held.clear()


def is_progress(key: str) -> bool:
    """Return True if a row of committed offsets is the broker's own progress and no consumer's."""
    return key.endswith(TOPIC_GROUP_SEPARATOR + TRANSACTION_GROUP)
