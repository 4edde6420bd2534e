"""NewQueues: the first files of queues, made in a thread.

A queue has no file before its first message. To make one takes several calls that wait for the file system's journal,
for a third of a second where thousands are made, so the thread that writes has another do it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyromq.errors import StoreError
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.segments import MadeFile

logger = logging.getLogger(__name__)


class NewQueues:
    """The queues of a store that have no file yet."""

    def __init__(self, queues: ConsumeQueues) -> None:
        self._queues = queues
        self._find = queues.find

    def has(self, topic: str, queue_id: int) -> bool:
        """Return True if a queue has no file yet."""
        queue = self._find(topic, queue_id)
        return queue is None or not queue.has_file

    def begin(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue for make(), made in memory; raises StoreError for what can be none."""
        return self._queues.get(topic, queue_id)

    @staticmethod
    def make(queues: Sequence[ConsumeQueue]) -> list[MadeFile | None]:
        """Make the first files of queues, for take_over(); any thread may call this. None stands for one that failed.

        Why it failed is told to whoever puts a message there.
        """
        return [_made(queue) for queue in queues]

    def take_over(self, queue: ConsumeQueue, made: MadeFile | None) -> None:
        """Let a queue have its file, unless it was deleted, or got one from somebody else meanwhile."""
        if made is None:
            return
        if queue.is_removed:
            queue.segments.give_up(made, unlink=self._find(queue.topic, queue.queue_id) is None)
        elif queue.has_file:
            queue.segments.give_up(made, unlink=False)
        else:
            queue.take_over(made)


def _made(queue: ConsumeQueue) -> MadeFile | None:
    try:
        return queue.make_first_file()
    except (OSError, StoreError) as error:
        logger.debug("the file of a queue cannot be made topic=%s queue=%d: %s", queue.topic, queue.queue_id, error)
        return None
