"""All consume queues of a store, by topic and queue id, as directories: `consumequeue/<topic>/<queue id>/`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyromq.errors import LocalProtocolError, StoreError
from pyromq.protocol.names import check_topic
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.files import OsFiles
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile

logger = logging.getLogger(__name__)

_MAX_QUEUE_ID: Final = 0x7FFFFFFF


class ConsumeQueues:
    """The queues that exist, and those that a first message makes."""

    def __init__(self, root: Path, file_size: int, files: OsFiles, pool: DescriptorPool, dirty: DirtyFiles) -> None:
        self._root = os.path.realpath(root)
        self._file_size = file_size
        self._files = files
        self._pool = pool
        self._dirty = dirty
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return (queue for queues in self._topics.values() for queue in queues.values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue that has, or had, messages."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made in memory if need be; raises StoreError for what can be none."""
        queues = self._topics.get(topic)
        queue = None if queues is None else queues.get(queue_id)
        return queue or self._make(topic, queue_id)

    def topics(self) -> list[str]:
        """Return the names of all topics that have queues."""
        return list(self._topics)

    def ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues, in order."""
        return sorted(self._topics.get(topic, ()))

    def load(self) -> None:
        """Find the queues of an existing store; their ends are not known yet."""
        for topic in self._files.subdirectories(self._root):
            directory = os.path.join(self._root, topic)
            for name in self._files.subdirectories(directory):
                if name.isascii() and name.isdigit() and str(int(name)) == name:
                    self._load(topic, int(name), os.path.join(directory, name))

    def _load(self, topic: str, queue_id: int, directory: str) -> None:
        try:
            _check_name(topic, queue_id)
        except StoreError as error:
            logger.warning("left alone a directory that is no queue's: %s", error)
        else:
            self._add(topic, queue_id, directory).segments.load()

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        _check_name(topic, queue_id)
        directory = os.path.join(self._root, topic, str(queue_id))
        # A name cannot leave the store, but a link planted in it could.
        if os.path.realpath(directory) != directory:
            raise StoreError(f"{directory} leads out of the store")
        return self._add(topic, queue_id, directory)

    def _add(self, topic: str, queue_id: int, directory: str) -> ConsumeQueue:
        segments = SegmentedFile(directory, self._file_size, self._files, self._pool, self._dirty)
        queue = self._topics.setdefault(topic, {})[queue_id] = ConsumeQueue(topic, queue_id, segments)
        return queue


def _check_name(topic: str, queue_id: int) -> None:
    try:
        check_topic(topic)
    except LocalProtocolError as error:
        raise StoreError(str(error)) from error
    if not 0 <= queue_id <= _MAX_QUEUE_ID:
        raise StoreError(f"topic {topic} can have no queue with the id {queue_id}")
