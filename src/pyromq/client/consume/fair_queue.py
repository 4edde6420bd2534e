"""Queues that have something to hand out, each in its turn."""

from __future__ import annotations

from typing import Generic, TypeVar

from pyromq.client.consume.assigned_queue import AssignedQueue

Q = TypeVar("Q", bound=AssignedQueue)


class FairQueue(Generic[Q]):
    """First come, first served; a queue stands in it at most once."""

    def __init__(self) -> None:
        self._queues: dict[Q, None] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def join(self, held: Q) -> bool:
        """Put a queue at the end of the line if it has something to hand out; return whether it has."""
        if held.ready:
            self._queues[held] = None
            return True
        return False

    def next(self) -> Q | None:
        """Take the first queue out of the line, passing over those that were paused or given up meanwhile."""
        while self._queues:
            held = next(iter(self._queues))
            del self._queues[held]
            if held.ready:
                return held
        return None

    def clear(self) -> None:
        """Send everybody home."""
        self._queues.clear()
