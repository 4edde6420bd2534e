"""FairQueue: the queues that have something to hand out, served in turn."""

from __future__ import annotations

from typing import Generic, TypeVar

from pyromq.client.consume.assigned_queue import AssignedQueue

Q = TypeVar("Q", bound=AssignedQueue)


class FairQueue(Generic[Q]):
    """Queues in the order in which they became ready; each is in it at most once."""

    def __init__(self) -> None:
        self._queues: dict[Q, None] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def join(self, held: Q) -> bool:
        """Add a queue at the end if it has something to hand out; return True if it has."""
        if held.ready:
            self._queues[held] = None
            return True
        return False

    def next(self) -> Q | None:
        """Remove and return the first queue; skip those that were paused or given up meanwhile."""
        while self._queues:
            held = next(iter(self._queues))
            del self._queues[held]
            if held.ready:
                return held
        return None

    def clear(self) -> None:
        """Remove all queues."""
        self._queues.clear()
