"""Recovery's passes over the consume queues: which were deleted, which lost something, and where each ends."""

from __future__ import annotations

import logging

from pyromq.store.checkpoint import Position
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.deletions import Deletions
from pyromq.store.queue_ends import EndsByTopic
from pyromq.store.queue_look import QueueLook, look_at
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.record_match import named_record
from pyromq.store.replay import Replay

logger = logging.getLogger(__name__)


class QueueRecovery:
    """Brings queues into agreement with the log; `position` and the ends noted with it say how they were left."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        deletions: Deletions,
        position: Position | None,
        noted_ends: EndsByTopic,
    ) -> None:
        self.lost: list[tuple[str, int]] = []
        """Queues that had more entries than are there, after find_lost()."""
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._position = position
        self._noted_ends = noted_ends
        self._looks: dict[ConsumeQueue, QueueLook] = {}

    def forget_deleted(self) -> None:
        """Remove the queues of topics that were deleted, and whose directories have come back."""
        for queue in [queue for queue in self._queues if self._deletions.covers(queue.topic, 0)]:
            last = self._look_at(queue).last
            if last.is_message and self._deletions.covers(queue.topic, last.physical_offset):
                self._queues.remove(queue)

    def find_lost(self) -> None:
        """Look which queues end before the end that was noted."""
        self.lost = list(self._queues.unusable)
        if self._position is None:
            return
        for topic, ends in self._noted_ends.items():
            if self._deletions.covers(topic, self._position.dispatched - 1):
                continue
            self.lost += [(topic, queue_id) for queue_id, end in ends.items() if self._has_lost(topic, queue_id, end)]
        for topic, queue_id in self.lost:
            logger.warning("a queue has lost entries and is made anew topic=%s queue=%d", topic, queue_id)

    def settle(self, replay: Replay, start: int) -> None:
        """Let each queue end where the log says, which was walked from `start` on."""
        for queue in self._queues:
            met = replay.range_of(queue)
            if met is not None:
                queue.checked_offset, end = met
                self._end(queue, end, self._looks.get(queue))
                queue.find_start(self._log.start)
            else:
                look = self._look_at(queue)
                queue.checked_offset = end = self._end_of_right_ones(queue, look, start)
                is_as_it_was = self._end(queue, end, look) and queue.max_offset == look.end
                queue.find_start(self._log.start, look.first if is_as_it_was else None)

    # --- looking

    def _look_at(self, queue: ConsumeQueue) -> QueueLook:
        """Return what a queue's files held when recovery began; they are read once."""
        if queue not in self._looks:
            self._looks[queue] = look_at(queue, self._noted_end(queue))
        return self._looks[queue]

    def _noted_end(self, queue: ConsumeQueue) -> int:
        return self._noted_ends.get(queue.topic, {}).get(queue.queue_id, 0)

    def _has_lost(self, topic: str, queue_id: int, end: int) -> bool:
        queue = self._queues.find(topic, queue_id)
        return (topic, queue_id) not in self.lost and (queue is None or self._look_at(queue).end < end)

    # --- ending

    def _end_of_right_ones(self, queue: ConsumeQueue, look: QueueLook, start: int) -> int:
        """Return where a queue ends that the walk did not meet: entries that are ahead of the log do not count."""
        first, end, entry = queue.segments.start // ENTRY_SIZE, look.end, look.last
        while end > first and not self._is_right(queue, end - 1, entry, start):
            end -= 1
            entry = queue.entry(end - 1)
        return end

    def _is_right(self, queue: ConsumeQueue, offset: int, entry: ConsumeQueueEntry, start: int) -> bool:
        """Tell whether an entry of a queue that the walk did not meet names a record of the log."""
        end = entry.physical_offset + entry.size
        if not entry.is_message or end > self._log.end:
            return False
        if entry.physical_offset < self._log.start or (self._position is not None and end <= start):
            return True  # expired with its record; or flushed
        return named_record(self._log, queue, offset, entry) is not None

    def _end(self, queue: ConsumeQueue, end: int, look: QueueLook | None) -> bool:
        """Let a queue end, with nothing behind; return whether there was nothing."""
        had_nothing = look is not None and not look.has_more and look.end <= end
        if had_nothing:
            queue.settle(end)
        else:
            queue.cut(end)
        self._keep_noted_end(queue)
        return had_nothing

    def _keep_noted_end(self, queue: ConsumeQueue) -> None:
        """Never give an offset twice: a queue whose last records are damaged ends where it ended before."""
        if self._position is None or self._deletions.covers(queue.topic, self._position.dispatched - 1):
            return
        end = self._noted_end(queue)
        if queue.max_offset < end:
            queue.extend(end)
