"""The messages that are due next, in memory: a few seconds of them, whatever number waits on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from pyromq.store.index.pending_table import BEFORE_ALL, Pending


class DueWindow:
    """All waiting messages up to `end`, in order of their time."""

    def __init__(self) -> None:
        self.end = BEFORE_ALL
        """All messages up to this one have been here."""
        self._heap: list[Pending] = []
        self._held: set[Pending] = set()

    def clear(self) -> None:
        """Begin anew, with nothing."""
        self.end = BEFORE_ALL
        self._heap.clear()
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message: object) -> bool:
        return message in self._held

    def offer(self, message: Pending) -> bool:
        """Take a message if its time is near; tell whether it is now the first one."""
        if message > self.end:
            return False
        self._add(message)
        return self._heap[0] == message

    def extend(self, messages: Iterable[Pending], end: Pending) -> None:
        """Take all the messages up to a new end."""
        self.end = max(self.end, end)
        for message in messages:
            self._add(message)

    def _add(self, message: Pending) -> None:
        if message not in self._held:
            self._held.add(message)
            heappush(self._heap, message)

    def discard(self, message: Pending) -> None:
        """Let go of a message that is not to be delivered any more."""
        self._held.discard(message)  # it is passed over when its turn comes

    def take_due(self, now_ms: int, limit: int) -> Iterator[Pending]:
        """Take out messages that are due, one after the other."""
        while limit and (first := self.first) is not None and first.due_ms <= now_ms:
            heappop(self._heap)
            self._held.discard(first)
            limit -= 1
            yield first

    @property
    def first(self) -> Pending | None:
        """The message that is due first, None if there is none."""
        while self._heap and self._heap[0] not in self._held:
            heappop(self._heap)
        return self._heap[0] if self._heap else None
