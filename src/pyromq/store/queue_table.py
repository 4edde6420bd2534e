"""All consume queues of a store, by topic and queue id, as directories: `consumequeue/<topic>/<queue id>/`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from pyromq.errors import LocalProtocolError, StoreError
from pyromq.protocol.names import check_topic
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.files import OsFiles
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile

logger = logging.getLogger(__name__)

_MAX_QUEUE_ID: Final = 0x7FFFFFFF
_REMOVED: Final = ".removed"


class ConsumeQueues:
    """The queues that exist, and those that a first message makes."""

    def __init__(self, root: Path, file_size: int, files: OsFiles, pool: DescriptorPool, dirty: DirtyFiles) -> None:
        self.file_size = file_size
        self.unusable: list[tuple[str, int]] = []
        """Queues whose files could not be loaded; they were set aside and have to be made anew."""
        self._leftovers: list[str] = []
        self.root = os.path.realpath(root)
        self._files = files
        self._pool = pool
        self._dirty = dirty
        self.by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        """All queues, by topic and id; only this class changes it."""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        # Copied, for the flusher's thread goes through them while others are made and removed.
        return (queue for queues in list(self.by_topic.values()) for queue in list(queues.values()))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue that has, or had, messages."""
        queues = self.by_topic.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made in memory if need be; raises StoreError for what can be none."""
        queues = self.by_topic.get(topic)
        queue = None if queues is None else queues.get(queue_id)
        return queue or self._make(topic, queue_id)

    def topics(self) -> list[str]:
        """Return the names of all topics that have queues."""
        return list(self.by_topic)

    def ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues, in order."""
        return sorted(self.by_topic.get(topic, ()))

    def load(self) -> None:
        """Find the queues of an existing store; their ends are not known yet."""
        for topic in self._files.subdirectories(self.root):
            for name in self._files.subdirectories(f"{self.root}/{topic}"):
                directory = f"{self.root}/{topic}/{name}"
                if name.isascii() and name.isdigit() and str(int(name)) == name:
                    self._load(topic, int(name), directory)
                elif name.endswith(_REMOVED):
                    self._leftovers.append(directory)

    def remove(self, queue: ConsumeQueue) -> None:
        """Forget a queue; its directory gets out of the way of a new one and is left over for removal.

        RocketMQ's brokers, and ours, take no directory in a topic's for a queue whose name is not a number. Raises
        OSError, with nothing changed, if the directory cannot be renamed.
        """
        directory = queue.segments.directory
        numbered = (f"{directory}.{number}{_REMOVED}" for number in count())
        target = next(path for path in numbered if not self._files.exists(path))
        with suppress(FileNotFoundError):  # it never had an entry
            self._files.rename(directory, target)
            self._dirty.add_directories(os.path.dirname(directory))
            self._leftovers.append(target)
        queue.is_removed = True
        queue.tail = b""
        queue.segments.drop_before(queue.segments.stop)
        del self.by_topic[queue.topic][queue.queue_id]
        if not self.by_topic[queue.topic]:
            del self.by_topic[queue.topic]

    def take_leftovers(self) -> list[str]:
        """Return the directories that are to be removed, and forget them."""
        leftovers, self._leftovers = self._leftovers, []
        return leftovers

    def _load(self, topic: str, queue_id: int, directory: str) -> None:
        try:
            _check_name(topic, queue_id)
        except StoreError as error:
            logger.warning("left alone a directory that is no queue's: %s", error)
        else:
            queue = self._add(topic, queue_id, directory)
            try:
                queue.segments.load()
            except StoreError as error:
                logger.warning("set aside a queue that cannot be used topic=%s queue=%d: %s", topic, queue_id, error)
                self.unusable.append((topic, queue_id))
                self.remove(queue)

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        _check_name(topic, queue_id)
        directory = os.path.join(self.root, topic, str(queue_id))
        # A name cannot leave the store, but a link planted in it could.
        if os.path.realpath(directory) != directory:
            raise StoreError(f"{directory} leads out of the store")
        return self._add(topic, queue_id, directory)

    def _add(self, topic: str, queue_id: int, directory: str) -> ConsumeQueue:
        segments = SegmentedFile(directory, self.file_size, self._files, self._pool, self._dirty)
        queue = self.by_topic.setdefault(topic, {})[queue_id] = ConsumeQueue(topic, queue_id, segments)
        return queue


def _check_name(topic: str, queue_id: int) -> None:
    try:
        check_topic(topic)
    except LocalProtocolError as error:
        raise StoreError(str(error)) from error
    if not 0 <= queue_id <= _MAX_QUEUE_ID:
        raise StoreError(f"topic {topic} can have no queue with the id {queue_id}")
