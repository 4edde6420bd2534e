"""DueWindow: the messages that are due within seconds, in memory. All others wait on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from pyromq.store.index.pending_table import BEFORE_ALL, Pending


class DueWindow:
    """All waiting messages up to `end`, in order of their time."""

    def __init__(self) -> None:
        self.end = BEFORE_ALL
        """All messages up to this one have been added."""
        self._heap: list[Pending] = []
        self._held: set[Pending] = set()

    def clear(self) -> None:
        """Remove all messages."""
        self.end = BEFORE_ALL
        self._heap.clear()
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message: object) -> bool:
        return message in self._held

    def offer(self, message: Pending) -> bool:
        """Add a message if it is due before `end`; return True if it is now the first one."""
        if message > self.end:
            return False
        self._add(message)
        return self._heap[0] == message

    def extend(self, messages: Iterable[Pending], end: Pending) -> None:
        """Add all messages up to a new end."""
        self.end = max(self.end, end)
        for message in messages:
            self._add(message)

    def _add(self, message: Pending) -> None:
        if message not in self._held:
            self._held.add(message)
            heappush(self._heap, message)

    def discard(self, message: Pending) -> None:
        """Remove a message that must not be delivered any more."""
        self._held.discard(message)  # the heap skips it when its turn comes

    def take_due(self, now_ms: int, limit: int) -> Iterator[Pending]:
        """Remove and yield messages that are due, first one first."""
        while limit and (first := self.first) is not None and first.due_ms <= now_ms:
            heappop(self._heap)
            self._held.discard(first)
            limit -= 1
            yield first

    @property
    def first(self) -> Pending | None:
        """The message that is due first; None if there is none."""
        while self._heap and self._heap[0] not in self._held:
            heappop(self._heap)
        return self._heap[0] if self._heap else None
