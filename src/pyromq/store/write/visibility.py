"""Visibility: which written groups consumers can see by now.

    written → durable → confirmed → visible

A group waits here from its write on. It is durable when it is written, or flushed under SYNC_FLUSH. Where a store shows
only what is confirmed (`shows_confirmed_only`), it also waits until confirm() covers it: until then another broker may
become master without it, and this one would have to cut it off. So a message that somebody has seen is never cut, and
an offset of a queue names one message for ever. Groups become visible in the order of the log, and never go back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from pyromq.store.dispatch import WriteGroup

EVERYTHING: Final = 1 << 62
"""An end that no log reaches: confirm(EVERYTHING) covers whatever will be written."""


class Visibility:
    """The groups that wait, in the order of the log, and how far that is durable and confirmed."""

    def __init__(
        self,
        show: Callable[[WriteGroup], None],
        find_unseen: Callable[[int], Iterable[WriteGroup]],
        *,
        confirmed_only: bool,
    ) -> None:
        """`show` lets consumers see a group; `find_unseen` returns what the log has from a place on, as groups."""
        self.durable_end = 0
        """Up to where the log is as safe here as was promised, whether it is confirmed or not."""
        self.confirmed_end = EVERYTHING
        self.shown_timestamp_ms = 0
        """When the last visible message was stored."""
        self._confirmed_only = confirmed_only
        self._show = show
        self._find_unseen = find_unseen
        self._waiting: deque[WriteGroup] = deque()

    @property
    def hidden_from(self) -> int | None:
        """Where the first group begins that waits; None if all is visible."""
        return self._waiting[0].start if self._waiting else None

    def begin(self, durable_end: int, visible_end: int, timestamp_ms: int) -> None:
        """Begin with a log that was opened; the last visible message was stored at `timestamp_ms`."""
        if self._confirmed_only:
            self.confirmed_end = visible_end
        self._begin(durable_end, visible_end, timestamp_ms)

    def go_back(self, end: int, visible_end: int, timestamp_ms: int) -> None:
        """Follow a log that was cut, and is durable: nothing behind its end is confirmed any more."""
        self.stay_within(end)
        self._begin(end, visible_end, timestamp_ms)

    def stay_within(self, end: int) -> None:
        """Forget what was confirmed behind the end of the log."""
        if self._confirmed_only:
            self.confirmed_end = min(end, self.confirmed_end)

    def _begin(self, durable_end: int, visible_end: int, timestamp_ms: int) -> None:
        self.durable_end = durable_end
        self.shown_timestamp_ms = timestamp_ms
        self._waiting = deque(self._find_unseen(visible_end))
        self._settle()

    def look_again(self) -> None:
        """Find the groups that wait once more in the log: their queues are others now. Raises StoreError or OSError."""
        if self._waiting:
            self._waiting = deque(self._find_unseen(self._waiting[0].start))

    def add(self, group: WriteGroup) -> None:
        """Take a group that was written just now, and will be flushed."""
        self._waiting.append(group)

    def add_durable(self, group: WriteGroup) -> None:
        """Take a group that is as durable as was promised, now that it is written."""
        if self._waiting or group.end > self.confirmed_end:
            self._waiting.append(group)
            self.durable(group.end)
        else:  # of all groups that a broker writes, nearly every one
            self.durable_end = group.end
            self.shown_timestamp_ms = group.last_timestamp_ms
            self._show(group)

    def topics_and(self, topics: dict[str, int]) -> dict[str, int]:
        """Return topics with those that wait, each with the number of queues it needs at least."""
        topics = dict(topics)
        for arrival in (one for group in self._waiting for one in group.arrivals):
            topics[arrival.topic] = max(topics.get(arrival.topic, 0), arrival.queue_id + 1)
        return topics

    def durable(self, end: int) -> None:
        """Note up to where the log is durable, and show what waited only for that."""
        self.durable_end = max(end, self.durable_end)
        self._settle()

    def confirm(self, end: int) -> None:
        """Note up to where the log is confirmed, and show what waited only for that.

        The last word counts: a lower end holds back what is not visible yet, and takes nothing back that is.
        """
        if self._confirmed_only:
            self.confirmed_end = end
            self._settle()

    def _settle(self) -> None:
        end, waiting = min(self.durable_end, self.confirmed_end), self._waiting
        while waiting and waiting[0].end <= end:
            group = waiting.popleft()
            self.shown_timestamp_ms = group.last_timestamp_ms
            self._show(group)
        if waiting and waiting[0].start < end:
            head = waiting[0].split(end, self.shown_timestamp_ms)
            if head is not None:
                self._show(head)
