"""From the log to the consume queues: a record is visible once its entry is written, never before the record is."""

from __future__ import annotations

import logging
from typing import Final

from pyromq.errors import StoreError
from pyromq.protocol.filter import tag_code
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.properties import DELAY, TAGS, find_property
from pyromq.protocol.record import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, RecordHead
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.results import Arrival

logger = logging.getLogger(__name__)

_NOT_QUEUED: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
_UNKNOWN_LEVEL_MS: Final = 1_000
_MAX_REPLAYED_BYTES: Final = 4 << 20


def is_queued(sys_flag: int) -> bool:
    """Tell whether a record gets an entry: half messages and rollbacks of RocketMQ's old transactions get none."""
    return sys_flag & TRANSACTION_MASK not in _NOT_QUEUED


def stored_tags_code(topic: str, properties: bytes, store_timestamp_ms: int, delay_levels_ms: tuple[int, ...]) -> int:
    """Return what an entry holds for a filter: the tag's hash, or the delivery time of a delayed message."""
    if topic == SCHEDULE_TOPIC:
        level = _delay_level(properties, len(delay_levels_ms))
        if level > 0:
            delay_ms = delay_levels_ms[level - 1] if delay_levels_ms else _UNKNOWN_LEVEL_MS
            return store_timestamp_ms + delay_ms
    return tag_code(find_property(properties, TAGS))


def _delay_level(properties: bytes, highest: int) -> int:
    try:
        level = int(find_property(properties, DELAY) or 0)
    except ValueError:
        return 0
    return min(level, max(highest, 1))


class Group:
    """Messages that are written together: their entries wait here until their records are in the log."""

    __slots__ = ("_entries", "arrivals", "end", "last_timestamp_ms")

    def __init__(self, last_timestamp_ms: int) -> None:
        self._entries: dict[ConsumeQueue, list[bytes]] = {}
        self.arrivals: list[Arrival] = []
        self.end = 0
        self.last_timestamp_ms = last_timestamp_ms

    def add(self, queue: ConsumeQueue, physical_offset: int, size: int, tags_code: int) -> None:
        """Give a record the next offset of its queue."""
        entries = self._entries.get(queue)
        if entries is None:
            entries = self._entries[queue] = []
        entries.append(ENTRY.pack(physical_offset, size, tags_code))
        # What Arrival(…) does, in half the time: this runs for every message.
        self.arrivals.append(tuple.__new__(Arrival, (queue.topic, queue.queue_id, queue.next_offset, tags_code)))
        queue.next_offset += 1

    def dispatch(self) -> None:
        """Write the entries: one write for each queue."""
        for queue, entries in self._entries.items():
            queue.append(entries)


class Replay:
    """Gives records met in the log again their entries, where these are missing or differ."""

    def __init__(self, queues: ConsumeQueues, delay_levels_ms: tuple[int, ...]) -> None:
        self._queues = queues
        self._delay_levels_ms = delay_levels_ms
        self._runs: dict[ConsumeQueue, tuple[int, bytearray]] = {}
        self._buffered = 0
        self.ends: dict[ConsumeQueue, int] = {}
        """Where each queue that was met ends now."""

    def add(self, head: RecordHead, topic: str, properties: bytes) -> None:
        """Meet one record; those of a queue must come in the log's order."""
        if not is_queued(head.sys_flag):
            return
        try:
            queue = self._queues.get(topic, head.queue_id)
        except StoreError as error:
            logger.warning("no queue for a record physical_offset=%d: %s", head.physical_offset, error)
            return
        code = stored_tags_code(topic, properties, head.store_timestamp_ms, self._delay_levels_ms)
        self._add_entry(queue, head.queue_offset, ENTRY.pack(head.physical_offset, head.total_size, code))

    def _add_entry(self, queue: ConsumeQueue, queue_offset: int, entry: bytes) -> None:
        if self.ends.get(queue, queue_offset) != queue_offset:
            logger.warning(
                "queue offsets are not contiguous topic=%s queue=%d expected=%d found=%d",
                queue.topic, queue.queue_id, self.ends[queue], queue_offset,
            )  # fmt: skip
            self._write(queue)
        if queue not in self._runs:
            self._runs[queue] = (queue_offset, bytearray())
        self._runs[queue][1].extend(entry)
        self.ends[queue] = queue_offset + 1
        self._buffered += ENTRY_SIZE
        if self._buffered >= _MAX_REPLAYED_BYTES:
            self.write()

    def write(self) -> None:
        """Write what was gathered."""
        for queue in list(self._runs):
            self._write(queue)
        self._buffered = 0

    def _write(self, queue: ConsumeQueue) -> None:
        if queue in self._runs:
            offset, entries = self._runs.pop(queue)
            queue.restore(offset, bytes(entries))
