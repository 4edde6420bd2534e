"""From the log to queues and index: a record is visible once its queue has its entry, never before it is written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, cast

from pyromq.protocol.messages.properties import DELAY, TAGS, find_property
from pyromq.protocol.messages.record import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.consume_queue import ENTRY, ConsumeQueue
from pyromq.store.index.key_hash import COLUMNS, StoredKeys
from pyromq.store.results import Arrival

_NOT_QUEUED: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
_UNKNOWN_LEVEL_MS: Final = 1_000


def is_queued(sys_flag: int) -> bool:
    """Tell whether a record gets an entry: half messages and rollbacks of RocketMQ's old transactions get none."""
    return sys_flag & TRANSACTION_MASK not in _NOT_QUEUED


def is_indexed(sys_flag: int) -> bool:
    """Tell whether a record can be found by its keys: all but rollbacks can."""
    return sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


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


class WriteGroup:
    """Messages that are written together: their entries wait here until their records are in the log."""

    __slots__ = ("end", "entries", "firsts", "keys", "last_timestamp_ms", "restore", "restored", "start")

    def __init__(self, last_timestamp_ms: int) -> None:
        self.entries: dict[ConsumeQueue, list[bytes]] = {}
        self.firsts: dict[ConsumeQueue, int] = {}
        """The offset of the first entry of each queue."""
        self.keys: StoredKeys = []
        self.start = self.end = 0
        self.last_timestamp_ms = last_timestamp_ms
        self.restore: Callable[[], None] | None = None
        """Writes an entry that is not the next one of its queue: only a record of another log can have such a one."""
        self.restored: list[Arrival] = []
        """The message of that entry."""

    @property
    def count(self) -> int:
        """How many messages consumers will see."""
        return sum(map(len, self.entries.values())) + len(self.restored)

    @property
    def arrivals(self) -> GroupArrivals:
        """The messages that consumers will see, those of a queue side by side."""
        return GroupArrivals(self)

    def add(self, queue: ConsumeQueue, physical_offset: int, size: int, tags_code: int) -> None:
        """Give a record the next offset of its queue."""
        entries = self.entries.get(queue)
        if entries is None:
            entries = self.entries[queue] = []
            self.firsts[queue] = queue.next_offset
        entries.append(ENTRY.pack(physical_offset, size, tags_code))
        queue.next_offset += 1

    def add_run(self, queue: ConsumeQueue, entries: list[bytes]) -> None:
        """Give records, whose entries these are, the next offsets of their queue."""
        before = self.entries.get(queue)
        if before is None:
            self.entries[queue] = entries
            self.firsts[queue] = queue.next_offset
        else:
            before += entries
        queue.next_offset += len(entries)

    def split(self, end: int, last_timestamp_ms: int) -> WriteGroup | None:
        """Take out the messages that end before a place in the log, as a group of their own; None if there are none.

        `last_timestamp_ms` is the store time of the last message before this group: the new one may claim no later.
        """
        counts = {queue: bisect_right(entries, end, key=_entry_end) for queue, entries in self.entries.items()}
        if not any(counts.values()):
            return None
        head = WriteGroup(last_timestamp_ms)
        for queue, count in counts.items():
            entries, first = self.entries.pop(queue), self.firsts.pop(queue)
            if count:
                head.entries[queue], head.firsts[queue] = entries[:count], first
            if count < len(entries):
                self.entries[queue], self.firsts[queue] = entries[count:], first + count
        head.start = self.start
        head.end = self.start = max(_entry_end(entries[-1]) for entries in head.entries.values())
        keys = COLUMNS * bisect_left(cast(list[int], self.keys[2::COLUMNS]), head.end)
        head.keys, self.keys = self.keys[:keys], self.keys[keys:]
        return head


class GroupArrivals:
    """The messages of a group; made one by one only if somebody looks, for mostly nobody waits."""

    __slots__ = ("_group",)

    def __init__(self, group: WriteGroup) -> None:
        self._group = group

    def __iter__(self) -> Iterator[Arrival]:
        for queue, entries in self._group.entries.items():
            for offset, entry in enumerate(entries, self._group.firsts[queue]):
                yield Arrival(queue.topic, queue.queue_id, offset, ENTRY.unpack(entry)[2])
        yield from self._group.restored


def _entry_end(entry: bytes) -> int:
    physical_offset, size, _ = ENTRY.unpack(entry)
    return int(physical_offset + size)
