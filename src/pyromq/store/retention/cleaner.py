"""Removes what has expired or was deleted: files of the log first, then what queues and index still hold of them.

A pass decides and takes files out of use at once; a thread removes them. Queues are many, so they follow the log a few
at a time: until its turn comes a queue names records that are gone, which reads skip.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final

from pyromq.errors import DiskFull
from pyromq.protocol.names import LMQ_PREFIX, SCHEDULE_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.store.commit_log import CommitLog
from pyromq.store.config import StoreConfig
from pyromq.store.consume_queue import ENTRY, ConsumeQueue
from pyromq.store.dispatch import is_queued, stored_tags_code
from pyromq.store.files import OsFiles
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.log_walk import walk_log
from pyromq.store.retention.deletions import Deletions
from pyromq.store.retention.remover import Remover
from pyromq.store.retention.retention import DiskLevel, Retention
from pyromq.store.segments import NotInMemory
from pyromq.store.write.no_space import NoSpace
from pyromq.store.write.visibility import Visibility

logger = logging.getLogger(__name__)

_QUEUES_AT_A_TIME: Final = 50  # about 2 ms


FreeTo = Callable[[int], int]
"""Returns up to where, at most the given place, nothing in the log is needed any more.

Whoever answers with less is asked again in the next pass.
"""


class Cleaner:
    """Keeps a store within its limits; called on the thread that writes."""

    def __init__(
        self,
        config: StoreConfig,
        log: CommitLog,
        queues: ConsumeQueues,
        deletions: Deletions,
        files: OsFiles,
        visibility: Visibility,
        *,
        now_ms: Callable[[], int],
        durable_end: Callable[[], int],
        expire_index: Callable[[int], object],
        no_space: NoSpace,
    ) -> None:
        self.no_space = no_space
        """Whether the disk refused space to a message."""
        self.retention = Retention(config, files, now_ms)
        self.refuses_messages = False
        """Whether the disk is too full to take another message."""
        self._free_to: list[FreeTo] = []
        self._config = config
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._visibility = visibility
        self._durable_end = durable_end
        self._expire_index = expire_index
        self._remover = Remover(files)
        self._following: Iterator[ConsumeQueue] = iter(())

    def configure(self, config: StoreConfig) -> None:
        """Take over other limits; they count from the next pass on."""
        self._config = config
        self.retention.configure(config)

    def ask_before_deleting(self, free_to: FreeTo) -> Callable[[], None]:
        """Ask from now on, before files of the log go; call what is returned to end that."""
        self._free_to.append(free_to)
        return lambda: self._free_to.remove(free_to)

    def open(self) -> None:
        """Begin with a loaded store: look at the disk, and go on with what was left over."""
        self.check_disk()
        self._deletions.forget_before(self._log.start)
        self._remove_leftovers()

    def close(self) -> None:
        """Wait until what is being removed is gone."""
        self._remover.wait()

    def check_disk(self) -> None:
        """Look how full the disk is; above the warning level no message is taken, and below it they are again."""
        self.retention.check_disk()
        self.no_space.look(self._log.end, self.retention.usable)
        self.refuses_messages = self.retention.level is DiskLevel.NO_MORE_MESSAGES

    def refusal(self) -> DiskFull:
        """Say why no message is taken."""
        limit = round(self._config.disk_space_warning_level_ratio * 100)
        return DiskFull(f"the disk is {self.retention.disk_percent}% full, messages are taken up to {limit}%")

    # --- by age and size

    def run(self) -> None:
        """Make one pass over disk and log; go_on() then takes care of the queues."""
        self.check_disk()
        start = self.retention.log_start(self._log, min(self._durable_end(), self._visible_end))
        if start > self._log.start:
            start = self._log.segments.file_start(min([start, *(free_to(start) for free_to in self._free_to)]))
        if start > self._log.start:
            self._drop_log(start)
        self._remover.start()

    @property
    def _visible_end(self) -> int:
        hidden_from = self._visibility.hidden_from
        return self._log.end if hidden_from is None else hidden_from

    def delete_soon(self) -> None:
        """Remove expired files now and in the passes to come, whatever the hour."""
        self.retention.delete_soon()
        self.run()

    def expired_files(self) -> tuple[int, int]:
        """Return how many files of the log have expired and could go, and their bytes."""
        start = self.retention.expired_end(self._log, min(self._durable_end(), self._visible_end))
        if start > self._log.start:
            start = self._log.segments.file_start(min([start, *(free_to(start) for free_to in self._free_to)]))
        held = max(start - self._log.start, 0)
        return -(-held // self._log.file_size), held

    def _drop_log(self, start: int) -> None:
        logger.info("the log begins later now start=%d before=%d", start, self._log.start)
        for path, held in self._log.drop_before(start):
            self._remover.add_file(path, held)
        self._remover.add(lambda: self._expire_index(start))
        self._deletions.forget_before(start)
        self._following = iter(list(self._queues))

    def go_on(self) -> bool:
        """Let some more queues follow the log; tell whether there are others.

        If it must not wait for the disk and raises NotInMemory, the next call goes on where it was.
        """
        queues = list(islice(self._following, _QUEUES_AT_A_TIME))
        for queue in queues:
            try:
                self._follow(queue)
            except NotInMemory:
                self._following = chain(queues[queues.index(queue) :], self._following)
                raise
        self._remover.start()
        return bool(queues)

    def _follow(self, queue: ConsumeQueue) -> None:
        if queue.is_removed:
            return
        try:
            self._remove_files(queue.drop_before(self._log.start))
        except OSError as error:
            logger.error("cannot clean a queue topic=%s queue=%d: %s", queue.topic, queue.queue_id, error)

    def _remove_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._remover.add_file(path)

    # --- by order of an administrator

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues; save_deletions() makes that durable. Its records stay in the log until they expire.

        Raises OSError if a directory cannot be renamed; queues that were forgotten before then come back by a restart.
        """
        for queue_id in self._queues.ids(topic):
            self._queues.remove(self._queues.get(topic, queue_id))
        self._deletions.add(topic, self._log.position)
        self._remove_leftovers()

    def delete_topic_before(self, topic: str, log_end: int) -> None:
        """Forget what a topic's queues hold of the log before an end, as another store did when its log ended there.

        A topic of that name that was made later keeps its messages. Raises OSError.
        """
        for queue_id in self._queues.ids(topic):
            self._queues.remove(self._queues.get(topic, queue_id))
        self._deletions.add(topic, log_end)
        self._deletions.save()
        self._remove_leftovers()
        visible_end = self._visible_end
        for physical_offset, size, queue_id, _, sys_flag, stored_ms, name, properties in walk_log(self._log, log_end):
            if physical_offset >= visible_end:
                break
            if name == topic.encode() and is_queued(sys_flag):
                queue = self._queues.get(topic, queue_id)
                queue.make_room(1)
                queue.next_offset += 1
                code = stored_tags_code(topic, properties, stored_ms, self._config.delay_levels_ms)
                queue.append([ENTRY.pack(physical_offset, size, code)])
        self._visibility.look_again()

    def deleted_at(self, topic: str) -> int:
        """Return where the log ended when a topic was deleted; 0 if that is not known, or was never."""
        return self._deletions.end_of(topic)

    @property
    def deletions(self) -> dict[str, int]:
        """Topics that were deleted, each with where the log ended then, as far as the log still has their records."""
        return self._deletions.ends

    def unused_topics(self, is_known: Callable[[str], bool]) -> list[str]:
        """Return the topics that have queues and that nobody knows."""
        return [topic for topic in self._queues.topics() if not (is_known(topic) or _never_has_a_row(topic))]

    def delete_unused_topics(self, is_known: Callable[[str], bool]) -> list[str]:
        """Forget the queues of topics that nobody knows; return those topics."""
        unused = self.unused_topics(is_known)
        for topic in unused:
            self.delete_topic(topic)
        return unused

    def delete_expired_queues(self, is_in_use: Callable[[str, int], bool]) -> list[tuple[str, int]]:
        """Forget the queues that are out of use and whose messages have all expired; return topic and id of each.

        One that may be written to again stays, and with it its offsets: consumers have committed them.
        """
        expired = [queue for queue in self._queues if self._is_dead(queue, is_in_use)]
        for queue in expired:
            self._queues.remove(queue)
        self._remove_leftovers()
        return [(queue.topic, queue.queue_id) for queue in expired]

    def expired_queues(self, is_in_use: Callable[[str, int], bool]) -> list[tuple[str, int]]:
        """Return the queues that `delete_expired_queues` would forget."""
        return [
            (queue.topic, queue.queue_id)
            for queue in self._queues
            if queue.topic != SCHEDULE_TOPIC and not is_in_use(queue.topic, queue.queue_id) and self._is_over(queue)
        ]

    def _is_over(self, queue: ConsumeQueue) -> bool:
        """Return True if the log has none of a queue's messages any more, whether the queue has followed it or not."""
        if queue.min_offset >= queue.next_offset:
            return True
        return queue.entry(queue.next_offset - 1).physical_offset < self._log.start

    def _is_dead(self, queue: ConsumeQueue, is_in_use: Callable[[str, int], bool]) -> bool:
        if queue.topic == SCHEDULE_TOPIC or is_in_use(queue.topic, queue.queue_id):
            return False
        self._follow(queue)
        return queue.min_offset >= queue.next_offset

    def drop_log_before(self, start: int) -> None:
        """Remove the files of the log before a place, whoever still wants them."""
        if start > self._log.start:
            self._drop_log(start)
            self._remover.start()

    def delete_queues(self) -> None:
        """Forget the queues of all topics; raises OSError."""
        for queue in list(self._queues):
            self._queues.remove(queue)
        self._remove_leftovers()

    def save_deletions(self) -> None:
        """Make durable which topics are deleted; raises OSError. It waits for the disk, so a server uses a thread."""
        self._deletions.save()

    def _remove_leftovers(self) -> None:
        for directory in self._queues.take_leftovers():
            self._remover.add_directory(directory)
        self._remover.start()


def _never_has_a_row(topic: str) -> bool:
    """Tell whether a topic has queues without being in the table of topics."""
    return topic in (SCHEDULE_TOPIC, TRANSACTION_OP_TOPIC) or topic.startswith(LMQ_PREFIX)
