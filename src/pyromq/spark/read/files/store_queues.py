"""Topics and queue offsets as the files of a store show them, for planning."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import Self

from pyromq.errors import ConfigError, OffsetOutOfRange
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets
from pyromq.spark.options.store_options import STORE
from pyromq.spark.read.plan.queue_source import is_for_patterns
from pyromq.store.check.table_check import CONFIG_NAME
from pyromq.store.consume_queue import ENTRY, ConsumeQueueEntry
from pyromq.store.read.reader import StoreReader
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import OFFSETS, TOPICS

_GLANCE_EVERY = 0.02
_NO_ENTRY = ConsumeQueueEntry(0, 0, 0)


class StoreQueues:
    """The queues of one store; answers are consistent until `topics` or `reachable_max_offsets` looks again."""

    def __init__(self, directory: str, broker_name: str | None) -> None:
        self._reader = StoreReader(directory)
        self._broker_name = broker_name or STORE
        self._is_looked_at = False
        self._noticed: set[tuple[MessageQueue, int]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reader.close()

    # --- topics and queues

    def topics(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """Return the named topics, or those that match a pattern, as of now."""
        if self._is_looked_at:
            self._reader.refresh()
        self._is_looked_at = True
        if pattern is None:
            return list(names)
        return [name for name in self._reader.topics if re.fullmatch(pattern, name) and is_for_patterns(name, pattern)]

    def queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Return the queues of the topics that have or had messages; raise ConfigError for an unknown topic."""
        return sorted(queue for topic in topics for queue in self._queues_of(topic))

    def _queues_of(self, topic: str) -> list[MessageQueue]:
        ids = self._reader.queue_ids(topic)
        if not ids and topic not in self._configured():
            known = self._reader.topics
            near = get_close_matches(topic, known, n=1) or known[:5]
            hint = f"it has {', '.join(near)}" if near else "it has no messages at all"
            raise ConfigError(f"no topic {topic!r} in the store {self._reader.root}; {hint}")
        return [MessageQueue(topic, self._broker_name, queue_id) for queue_id in ids]

    def _configured(self) -> set[str]:
        """Return the topics that the broker knows, with or without messages."""
        table = read_table(self._reader.root / CONFIG_NAME, TOPICS)
        return set(table.topic_config_table) if table else set()

    # --- offsets

    def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset of each queue whose message still exists."""
        return {queue: self._reader.min_offset(queue.topic, queue.queue_id) for queue in queues}

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the offset after the last visible message of each queue."""
        return {queue: self._reader.max_offset(queue.topic, queue.queue_id) for queue in queues}

    def reachable_min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the same as min_offsets: files are always reachable, or an error."""
        return self.min_offsets(queues)

    def reachable_max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Look again, and return the offset after the last visible message of each queue."""
        self._reader.refresh()
        return self.max_offsets(queues)

    def ends_at_brokers(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the same as max_offsets, for queues whose files are gone; other brokers are not in this store."""
        return self.max_offsets(queue for queue in queues if queue.broker_name == self._broker_name)

    def offsets_since(self, queues: Iterable[MessageQueue], timestamp_ms: int, group: str | None) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time."""
        since = self._reader.first_offset_since
        return {queue: since(queue.topic, queue.queue_id, timestamp_ms) for queue in queues}

    def committed_offsets(self, queues: Iterable[MessageQueue], group: str) -> Offsets:
        """Return what the group had committed when the broker last saved its offsets; other queues are left out."""
        table = read_table(self._reader.root / CONFIG_NAME, OFFSETS)
        by_topic = table.offset_table if table else {}
        found = {queue: by_topic.get(f"{queue.topic}@{group}", {}).get(queue.queue_id) for queue in queues}
        return {queue: offset for queue, offset in found.items() if offset is not None and offset >= 0}

    def commit(self, offsets: Offsets, group: str) -> Offsets:
        """Accept nothing: files are only read."""
        return {}

    def wait_for_message(self, positions: Offsets, group: str | None, timeout: float) -> None:
        """Return as soon as there is an entry at one of the positions, or after `timeout` seconds.

        An entry that was noticed before and is still not visible, for example because it is damaged, does not count.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = {place for place in positions.items() if self._is_written(*place)}
            if found - self._noticed:
                self._noticed = found
                return
            time.sleep(_GLANCE_EVERY)

    def _is_written(self, queue: MessageQueue, offset: int) -> bool:
        return self._reader.has_entry(queue.topic, queue.queue_id, offset)

    # --- entries

    def entry(self, queue: MessageQueue, offset: int) -> ConsumeQueueEntry:
        """Return the entry at a visible offset, or an entry of zeros if it is gone meanwhile."""
        try:
            data = self._reader.raw_entries(queue.topic, queue.queue_id, offset, offset + 1)
        except OffsetOutOfRange:
            return _NO_ENTRY
        return ConsumeQueueEntry(*ENTRY.unpack(data)) if data else _NO_ENTRY
