"""Every queue entry against the record it should name, and every record against the entry it should have.

The log says what each queue must hold. Expected entries are gathered queue by queue and compared as bytes, thousands at
a time; only where they differ is each one looked at. What no record stands behind must be expired, or fill the space
before a queue's first message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS_MS
from pyromq.protocol.messages.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, find_property
from pyromq.protocol.names import LMQ_PREFIX, SCHEDULE_TOPIC
from pyromq.store.check.findings import Finding, relative
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.dispatch import is_queued, stored_tags_code
from pyromq.store.read.file_view import SegmentView
from pyromq.store.read.log_walk import LogWalk, WalkedRecord

_MOST_GATHERED: Final = 4 << 20
_ENTRIES_A_READ: Final = 1 << 16
_MULTI_DISPATCH: Final = INNER_MULTI_DISPATCH.encode()
_LOWEST_CODE: Final = -(1 << 31)

QueueKey = tuple[str, int]


class _Expected:
    """What the log says of one queue: runs of entries that are not compared yet, and the offsets that were."""

    __slots__ = ("_next", "_runs", "covered")

    def __init__(self) -> None:
        self._next = -1
        self._runs: list[tuple[int, bytearray]] = []
        self.covered: list[range] = []

    def add(self, offset: int, entry: bytes) -> None:
        if offset != self._next or not self._runs:
            self._runs.append((offset, bytearray()))
        self._runs[-1][1].extend(entry)
        self._next = offset + 1

    def take(self) -> list[tuple[int, bytearray]]:
        """Return what was gathered, and begin anew."""
        runs, self._runs = self._runs, []
        for start, entries in runs:
            self._cover(range(start, start + len(entries) // ENTRY_SIZE))
        return runs

    def _cover(self, offsets: range) -> None:
        if self.covered and self.covered[-1].stop == offsets.start:
            self.covered[-1] = range(self.covered[-1].start, offsets.stop)
        else:
            self.covered.append(offsets)


class QueueCheck:
    """Compares queues with the log, as records come."""

    def __init__(
        self,
        queues: dict[QueueKey, ConsumeQueue],
        log: SegmentView,
        root: str,
        *,
        has_extensions: bool,
        is_deleted: Callable[[str, int], bool],
        visible_end: int,
    ) -> None:
        """Prepare to compare; records from `visible_end` on are not confirmed, and need no entry."""
        self._queues = queues
        self._log = log
        self._root = root
        self._has_extensions = has_extensions
        self._is_deleted = is_deleted
        self._visible_end = visible_end
        self._expected: dict[QueueKey, _Expected] = {}
        self._names: dict[bytes, str] = {}
        self._gathered = 0
        self.missing: list[tuple[QueueKey, range]] = []
        """Records that have no entry."""
        self.unconfirmed = 0
        """How many have none because they are not confirmed."""
        self.contradicted: list[range] = []
        """Records that say they belong elsewhere than a queue has them."""
        self.has_other_delays = False
        """Whether delayed messages wait for other times than they would by default."""

    def add(self, record: WalkedRecord) -> None:
        """Meet a record of the log."""
        physical_offset, size, queue_id, queue_offset, sys_flag, store_timestamp_ms, name, properties = record
        if not is_queued(sys_flag):
            return
        topic = self._names.get(name)
        if topic is None:
            topic = self._names[name] = name.decode("utf-8", "replace")
        code = stored_tags_code(topic, properties, store_timestamp_ms, DEFAULT_DELAY_LEVELS_MS)
        entry = ENTRY.pack(physical_offset, size, code)
        if not self._is_deleted(topic, physical_offset):
            self._expect((topic, queue_id), queue_offset, entry)
        if _MULTI_DISPATCH in properties:
            for other, offset in _other_queues(queue_id, properties):
                self._expect(other, offset, entry)

    @property
    def is_full(self) -> bool:
        """Whether it is time to compare()."""
        return self._gathered >= _MOST_GATHERED

    def _expect(self, key: QueueKey, offset: int, entry: bytes) -> None:
        expected = self._expected.get(key)
        if expected is None:
            expected = self._expected[key] = _Expected()
        expected.add(offset, entry)
        self._gathered += ENTRY_SIZE

    def compare(self) -> Iterator[Finding]:
        """Compare what was gathered."""
        for key, expected in self._expected.items():
            for start, entries in expected.take():
                queue = self._queues.get(key)
                found = read_entries(queue, start, start + len(entries) // ENTRY_SIZE) if queue else b""
                if found != entries:
                    yield from self._differences(key, start, bytes(entries), found)
        self._gathered = 0

    def _differences(self, key: QueueKey, start: int, entries: bytes, found: bytes) -> Iterator[Finding]:
        pairs = zip(_unpack(entries), _unpack(found.ljust(len(entries), b"\0")), strict=True)
        for offset, (expected, entry) in enumerate(pairs, start):
            if not entry.is_written and expected.physical_offset >= self._visible_end:
                self.unconfirmed += 1
            elif not entry.is_written:
                self._note_missing(key, offset)
            elif entry != expected and not self._is_allowed(key, entry, expected):
                yield self._wrong(
                    self._queues[key],
                    offset,
                    f"entry {offset} says {_told(entry)}, the log says {_told(expected)}",
                )

    def _note_missing(self, key: QueueKey, offset: int) -> None:
        if self.missing and self.missing[-1][0] == key and self.missing[-1][1].stop == offset:
            self.missing[-1] = (key, range(self.missing[-1][1].start, offset + 1))
        else:
            self.missing.append((key, range(offset, offset + 1)))

    def _is_allowed(self, key: QueueKey, entry: ConsumeQueueEntry, expected: ConsumeQueueEntry) -> bool:
        """Tell whether an entry is right although its tags code is not the one that we would write."""
        if entry[:2] != expected[:2]:
            return False
        if key[0] == SCHEDULE_TOPIC:  # levels may have other durations there, whole seconds in any case
            self.has_other_delays = (entry.tags_code - expected.tags_code) % 1000 == 0
            return self.has_other_delays
        return self._has_extensions and entry.tags_code < _LOWEST_CODE

    def finish(self, log_start: int, log_end: int, damage: list[range]) -> Iterator[Finding]:
        """Look at the entries that no record stands behind; to be called when the log was read."""
        yield from self.compare()
        for key, queue in self._queues.items():
            covered = self._expected[key].covered if key in self._expected else []
            end = queue.find_end()
            for offsets in _gaps(queue.segments.start // ENTRY_SIZE, end, covered):
                yield from self._without_record(queue, offsets, log_start, log_end, damage)
            yield from self._behind(queue, end)

    def _without_record(
        self, queue: ConsumeQueue, offsets: range, log_start: int, log_end: int, damage: list[range]
    ) -> Iterator[Finding]:
        has_begun = False
        for offset, entry in _entries(queue, offsets):
            if not entry.is_message and not has_begun:
                continue  # fills the space before the first message
            has_begun = True
            if entry.is_message and entry.physical_offset < log_start:
                continue  # expired with its record
            if any(entry.physical_offset in where for where in damage):
                continue  # its record was named
            yield self._alone(queue, offset, entry, log_end)

    def _alone(self, queue: ConsumeQueue, offset: int, entry: ConsumeQueueEntry, log_end: int) -> Finding:
        """Say what is wrong with an entry that the log does not ask for: the entry, or the record that it names."""
        finding = self._wrong(queue, offset, f"entry {offset} says {_told(entry)}, where no record of it is")
        if entry.is_message and entry.physical_offset >= log_end:
            return finding.as_note(": the next start removes it")
        record = LogWalk(self._log, entry.physical_offset).check_here() if entry.is_message else None
        if record is None or record[1] != entry.size:
            return finding
        if (record[6], record[2], record[3]) == (queue.topic_name, queue.queue_id, offset):
            return finding.as_note(" that says of itself to be queued")
        return finding if self._is_in_place(record) else self._contradicted(queue, offset, record)

    def _is_in_place(self, record: WalkedRecord) -> bool:
        """Tell whether a record is where it says."""
        queue = self._queues.get((self._names[record[6]], record[2])) if record[6] in self._names else None
        return queue is not None and queue.entry(record[3]).physical_offset == record[0]

    def _contradicted(self, queue: ConsumeQueue, offset: int, record: WalkedRecord) -> Finding:
        physical_offset, size, queue_id, queue_offset, *_, topic, _ = record
        self.contradicted.append(range(physical_offset, physical_offset + size))
        start = self._log.file_start(physical_offset)
        return Finding(
            kind="record",
            file=relative(self._log.path(start), self._root),
            offset=physical_offset - start,
            text=f"the record at physical offset {physical_offset} says {topic.decode('utf-8', 'replace')} {queue_id}"
            f" {queue_offset} (topic, queue, offset), but is in the place of {queue.topic} {queue.queue_id} {offset}",
        )

    def _behind(self, queue: ConsumeQueue, end: int) -> Iterator[Finding]:
        """Look for what stands behind a queue's end: a start would take it for entries, or never see it."""
        segments = queue.segments
        assert isinstance(segments, SegmentView)
        for position, data in segments.written_from(end * ENTRY_SIZE):
            zeros = len(data) - len(data.lstrip(b"\0"))
            if zeros < len(data):
                offset = (position + zeros) // ENTRY_SIZE
                yield self._wrong(queue, offset, f"something stands behind the queue's end, which is {end}")
                return

    def _wrong(self, queue: ConsumeQueue, offset: int, text: str) -> Finding:
        file, position = place(queue, offset, self._root)
        return Finding(kind="entry", file=file, offset=position, text=text)


def place(queue: ConsumeQueue, offset: int, root: str) -> tuple[str, int]:
    """Return the file that holds an entry, and where in it the entry begins."""
    position = offset * ENTRY_SIZE
    start = queue.segments.file_start(position)
    return relative(queue.segments.path(start), root), position - start


def read_entries(queue: ConsumeQueue, start: int, stop: int) -> bytes:
    """Return the entries of a range as far as files hold them."""
    pieces = []
    position, end = start * ENTRY_SIZE, stop * ENTRY_SIZE
    while position < end:
        piece = queue.segments.pread(position, end - position)
        if not piece:
            break
        pieces.append(piece)
        position += len(piece)
    return b"".join(pieces)


def _entries(queue: ConsumeQueue, offsets: range) -> Iterator[tuple[int, ConsumeQueueEntry]]:
    for start in offsets[::_ENTRIES_A_READ]:
        data = read_entries(queue, start, min(start + _ENTRIES_A_READ, offsets.stop))
        yield from enumerate(_unpack(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]), start)


def _unpack(data: bytes) -> Iterable[ConsumeQueueEntry]:
    return map(ConsumeQueueEntry._make, ENTRY.iter_unpack(data))


def _told(entry: ConsumeQueueEntry) -> str:
    return f"physical offset {entry.physical_offset}, size {entry.size}, tags code {entry.tags_code}"


def _gaps(start: int, stop: int, covered: list[range]) -> Iterator[range]:
    """Give the parts of a range that none of some others cover."""
    for offsets in sorted(covered, key=lambda one: one.start):
        if offsets.start > start:
            yield range(start, min(offsets.start, stop))
        start = max(start, offsets.stop)
    if start < stop:
        yield range(start, stop)


def _other_queues(queue_id: int, properties: bytes) -> Iterator[tuple[QueueKey, int]]:
    """Give the queues that a record was dispatched to besides its own (light message queues), and its offsets there."""
    names = (find_property(properties, INNER_MULTI_DISPATCH) or "").split(",")
    offsets = (find_property(properties, INNER_MULTI_QUEUE_OFFSET) or "").split(",")
    for name, offset in zip(names, offsets, strict=False):
        if offset.isdecimal():
            yield (name, 0 if name.startswith(LMQ_PREFIX) else queue_id), int(offset)
