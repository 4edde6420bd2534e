"""Gives messages their place: in the log, in their queue, and in the open group until that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from pyromq.errors import DiskFull, MessageTooLarge, StoreError
from pyromq.protocol.messages.properties import MAX_PROPERTIES_LENGTH
from pyromq.protocol.messages.record import Record, record_parts, record_size
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.commit_log import BLANK_SIZE, CommitLog
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.dispatch import WriteGroup, is_indexed, is_queued, stored_tags_code
from pyromq.store.index.key_hash import StoredKeys
from pyromq.store.index.message_index import MessageIndex
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.log_walk import WalkedRecord
from pyromq.store.results import PutResult, PutStatus
from pyromq.store.write.no_space import NoSpace

_PUT_OK: Final = PutStatus.PUT_OK
_AROUND_BODY: Final = 64 * 1024  # what may stand around the largest body: hosts, topic and properties


class LanePlace(NamedTuple):
    """What the lane for sends works on (lane/sends.py). It may let plain messages join while the index is not stuck."""

    log: CommitLog
    queues: ConsumeQueues
    message_index: MessageIndex
    groups: Appender
    max_body: int
    max_record: int
    has_index: bool


LayOut = Callable[[int, int, int], tuple[bytes, list[bytes], StoredKeys, str]]
"""Makes records for a place in the log, an offset of the queue and a time: also their entries, keys and ids."""


class RunPlace(NamedTuple):
    """Where the records of a run are: the queue's offset of the first, and the ids of all."""

    queue_offset: int
    ids: str


class Appender:
    """Builds the open group; what it refuses has changed nothing."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: MessageIndex,
        now_ms: Callable[[], int],
        *,
        max_message_size: int,
        delay_levels_ms: tuple[int, ...],
        no_space: NoSpace,
    ) -> None:
        self._no_space = no_space
        self.group = WriteGroup(0)
        self._log = log
        self._queues = queues
        self._index = index
        self._has_index = index.enabled
        self._now_ms = now_ms
        self._max_message_size = max_message_size
        self.max_record_size = 0
        """Bytes of the largest record that is taken, from begin() on."""
        self._delay_levels_ms = delay_levels_ms

    def begin(self, last_timestamp_ms: int) -> None:
        """Begin with an empty group, after recovery."""
        self.group = WriteGroup(last_timestamp_ms)
        self.max_record_size = min(self._max_message_size + _AROUND_BODY, self._log.file_size - BLANK_SIZE)

    def lane_place(self) -> LanePlace:
        """Return what the lane for sends works on, and its limits."""
        return LanePlace(
            self._log, self._queues, self._index, self, self._max_message_size, self.max_record_size, self._has_index
        )

    def take(self) -> WriteGroup:
        """Return the open group, which ends where the log's position is now, and begin the next."""
        group, self.group = self.group, WriteGroup(self.group.last_timestamp_ms)
        group.start, group.end = self._log.end, self._log.position
        return group

    def take_stored(self, start: int, end: int) -> WriteGroup:
        """Return the open group of records that the log has already, from one place to another, and begin the next."""
        group = self.take()
        group.start, group.end = start, end
        return group

    def put(self, record: Record) -> PutResult:
        """Let a message join the open group; raises MessageTooLarge, DiskFull or another StoreError."""
        queue = self._queues.get(record.topic, record.queue_id)
        size = self._checked_size(record, queue)
        queued = is_queued(record.sys_flag)
        try:
            if self._index.is_stuck:
                self._index.make_room()
            self._log.make_room(size)
            place = PutResult(_PUT_OK, self._log.position, queue.next_offset if queued else 0, size, self._now_ms())
            parts = _encode(record, queue, place)
            if queued:
                queue.make_room(1)
        except DiskFull as error:
            self._no_space.note(error, self._log.end)
            raise
        self._join(record, queue, place, parts, queued)
        return place

    def put_batch(self, records: Sequence[Record]) -> list[PutResult]:
        """Let messages of one queue join the open group, all or none, side by side in one file."""
        queue = self._queues.get(records[0].topic, records[0].queue_id)
        _check_batch(records, queue)
        sizes = [self._checked_size(record, queue) for record in records]
        if sum(sizes) > self._log.file_size - BLANK_SIZE:
            raise MessageTooLarge(f"a batch of {sum(sizes)} bytes does not fit into a file of the log")
        try:
            if self._index.is_stuck:
                self._index.make_room()
            self._log.make_room(sum(sizes))
            places = self._places(queue, sizes)
            parts = [_encode(record, queue, place) for record, place in zip(records, places, strict=True)]
            queue.make_room(len(records))
        except DiskFull as error:
            self._no_space.note(error, self._log.end)
            raise
        for record, place, pieces in zip(records, places, parts, strict=True):
            self._join(record, queue, place, pieces, queued=True)
        return places

    def put_run(self, queue: ConsumeQueue, count: int, size: int, lay_out: LayOut) -> RunPlace:
        """Let messages of one queue join the open group, all or none, as records that `lay_out` makes for their place.

        They are so many, and all of them have so many bytes. Raises as put_batch() does.
        """
        if size > self._log.file_size - BLANK_SIZE:
            raise MessageTooLarge(f"a batch of {size} bytes does not fit into a file of the log")
        try:
            if self._index.is_stuck:
                self._index.make_room()
            self._log.make_room(size)
            queue.make_room(count)
        except DiskFull as error:
            self._no_space.note(error, self._log.end)
            raise
        now_ms, first = self._now_ms(), queue.next_offset
        records, entries, keys, ids = lay_out(self._log.position, first, now_ms)
        self._log.append((records,), size)
        self.group.add_run(queue, entries)
        self.group.keys += keys
        self.group.last_timestamp_ms = now_ms
        return RunPlace(first, ids)

    def join_stored(
        self, record: WalkedRecord, data: bytes | None, queue: ConsumeQueue | None, *, has_keys: bool
    ) -> None:
        """Let a record of another log join the open group at the place that it names, which is the next one.

        `data` are its bytes; None for a record that the log has already. `queue` is the queue that gets its entry, as
        the next one; None if none does. `has_keys` if it is indexed. Raises DiskFull or another StoreError, with
        nothing changed.
        """
        physical_offset, size, _, _, _, stored_ms, topic, properties = record
        if self._index.is_stuck:
            self._index.make_room()
        if data is not None:
            self._log.make_room(size)
        if queue is not None:
            queue.make_room(1)
        if data is not None:
            self._log.append((data,), size)
        name = topic.decode("utf-8", "replace") if queue is None else queue.topic
        if queue is not None:
            code = stored_tags_code(name, properties, stored_ms, self._delay_levels_ms)
            self.group.add(queue, physical_offset, size, code)
        if self._has_index and has_keys:
            self.group.keys += (name, properties, physical_offset, stored_ms)
        self.group.last_timestamp_ms = stored_ms

    def join_run(
        self, data: bytes, by_queue: Sequence[tuple[ConsumeQueue, list[bytes]]], keys: StoredKeys, last_ms: int
    ) -> None:
        """Let records of another log join the open group, all or none, at the places that they name.

        `data` are their bytes, which lie in one file; each queue gets entries from its next offset on. The last record
        was stored at `last_ms`. Raises DiskFull or another StoreError, with nothing changed.
        """
        if self._index.is_stuck:
            self._index.make_room()
        self._log.make_room(len(data))
        for queue, entries in by_queue:
            queue.make_room(len(entries))
        self._log.append((data,), len(data))
        for queue, entries in by_queue:
            self.group.add_run(queue, entries)
        self.group.keys += keys
        self.group.last_timestamp_ms = last_ms

    def _places(self, queue: ConsumeQueue, sizes: Sequence[int]) -> list[PutResult]:
        now_ms = self._now_ms()
        starts = accumulate(sizes, initial=self._log.position)
        return [
            PutResult(_PUT_OK, start, queue.next_offset + index, size, now_ms)
            for index, (start, size) in enumerate(zip(starts, sizes, strict=False))
        ]

    def _checked_size(self, record: Record, queue: ConsumeQueue) -> int:
        size = record_size(record, len(queue.topic_name))
        if len(record.body) > self._max_message_size or size > self.max_record_size:
            raise MessageTooLarge(f"a message of {size} bytes is too large: a body may have {self._max_message_size}")
        if len(record.properties) > MAX_PROPERTIES_LENGTH:
            raise MessageTooLarge(f"properties of {len(record.properties)} bytes exceed {MAX_PROPERTIES_LENGTH}")
        return size

    def _join(
        self, record: Record, queue: ConsumeQueue, place: PutResult, parts: tuple[bytes, ...], queued: bool
    ) -> None:
        # Nothing here fails: whoever calls has made room and encoded the record before the first change.
        self._log.append(parts, place.size)
        if queued:
            self.group.add(queue, place.physical_offset, place.size, self._tags_code(record, place.store_timestamp_ms))
        if self._has_index and (queued or is_indexed(record.sys_flag)):
            self.group.keys += (record.topic, record.properties, place.physical_offset, place.store_timestamp_ms)
        self.group.last_timestamp_ms = place.store_timestamp_ms

    def _tags_code(self, record: Record, now_ms: int) -> int:
        if record.topic == SCHEDULE_TOPIC:  # a delivery time, which counts from the store time
            return stored_tags_code(record.topic, record.properties, now_ms, self._delay_levels_ms)
        return record.tags_code


def _encode(record: Record, queue: ConsumeQueue, place: PutResult) -> tuple[bytes, ...]:
    return record_parts(record, queue.topic_name, place.queue_offset, place.physical_offset, place.store_timestamp_ms)


def _check_batch(records: Sequence[Record], queue: ConsumeQueue) -> None:
    if any((record.topic, record.queue_id) != (queue.topic, queue.queue_id) for record in records):
        raise StoreError("the messages of a batch are for different queues")
    if not all(is_queued(record.sys_flag) for record in records):
        raise StoreError("a batch cannot be prepared or rolled back")
