"""StoreReader: a store's directory, live or not, read without its lock and without writing anything.

A message is visible once its queue entry is written, so a queue ends at its last entry that names its record: entries
that outlived the log's tail, zeros, and whatever stands behind the log's end are not seen. All numbers are those of the
last refresh(). Files may go meanwhile: what was in them then counts as removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pyromq.protocol.messages.properties import INNER_MULTI_DISPATCH, find_property
from pyromq.protocol.messages.record import RecordHead, read_tail
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.config import StoreConfig
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.dispatch import is_queued, stored_tags_code
from pyromq.store.files import OsFiles, ReadOnlyFiles, store_error
from pyromq.store.index.key_hash import key_hash
from pyromq.store.index.key_query import MAX_OFFSET, MAX_TIME_MS, KeyQuery, QueryBudget, read_offsets
from pyromq.store.read.disk.disk_access import DiskAccess
from pyromq.store.read.file_view import LOG_NAME, LogView, Segment, SegmentView, find_queues, find_root
from pyromq.store.read.index_view import IndexView
from pyromq.store.read.queue_reader import Place, Places, QueueReader, ReadLimits, read_limits, stored_entries
from pyromq.store.read.readable import PropertyFilter
from pyromq.store.read.record_match import named_record
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.results import GetResult, QueryResult
from pyromq.store.segments import DescriptorPool

if TYPE_CHECKING:
    import numpy

_MAX_OPEN_FILES: Final = 256


class StoreView:
    """What a directory held at one moment: its log, and its queues with their ends."""

    def __init__(self, root: str, log_directories: Sequence[str], files: OsFiles) -> None:
        self.pool = DescriptorPool(files, _MAX_OPEN_FILES)
        self.log = LogView(SegmentView(log_directories, files, self.pool))
        self.topics: dict[str, dict[int, ConsumeQueue]] = {}
        for topic, queue_id, directory in find_queues(root, files):
            queue = ConsumeQueue(topic, queue_id, SegmentView([directory], files, self.pool))
            self.topics.setdefault(topic, {})[queue_id] = queue
            self._settle(queue)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue that has, or had, messages."""
        return self.topics.get(topic, {}).get(queue_id)

    def close(self) -> None:
        """Close every file."""
        self.pool.close()

    def _settle(self, queue: ConsumeQueue) -> None:
        """Find where a queue begins and ends, and let the log reach as far as its last message does."""
        first = queue.segments.start // ENTRY_SIZE
        end = written = queue.find_end()
        while end > first:
            last = queue.entry(end - 1)
            if self._is_visible(queue, last, may_be_torn=end == written):
                self.log.end = max(self.log.end, last.physical_offset + last.size)
                break
            end -= 1
        queue.max_offset = queue.next_offset = end
        queue.find_start(self.log.start)

    def _is_visible(self, queue: ConsumeQueue, entry: ConsumeQueueEntry, *, may_be_torn: bool) -> bool:
        """Tell whether an entry names a record of its queue; an expired one is taken at its word."""
        if not entry.is_message:
            return False
        if entry.physical_offset < self.log.start:
            return True
        data, found = self.log.load(entry.physical_offset, check_crc=False)
        if found.head is None or found.size != entry.size:
            return False
        topic, properties = read_tail(data, found.head)
        if not names_queue(found.head, topic, properties, queue):
            return False
        return not (may_be_torn and _is_torn(entry, found.head, queue.topic, properties))


def _is_torn(entry: ConsumeQueueEntry, head: RecordHead, topic: str, properties: bytes) -> bool:
    """Tell whether only the first bytes of the last entry have arrived yet: its writer is at work."""
    code = stored_tags_code(topic, properties, head.store_timestamp_ms, ())
    seen, whole = ENTRY.pack(*entry), ENTRY.pack(head.physical_offset, head.total_size, code)
    if topic == SCHEDULE_TOPIC:  # a delivery time: whole seconds from any other that it could be
        return seen.endswith(b"\0") and (entry.tags_code - code) % 1000 != 0
    return seen != whole and whole.startswith(seen.rstrip(b"\0"))


def names_queue(head: RecordHead, topic: bytes, properties: bytes, queue: ConsumeQueue) -> bool:
    """Tell whether a record belongs to a queue: to its own, or to one it was dispatched to as well."""
    if topic == queue.topic_name and head.queue_id == queue.queue_id:
        return True
    others = find_property(properties, INNER_MULTI_DISPATCH)
    return others is not None and queue.topic in others.split(",")


class _StrictGuard:
    """Checks every record before it is handed out: nobody has recovered this directory for us."""

    def __init__(self, log: LogView) -> None:
        self._log = log

    def is_needed(self, queue: ConsumeQueue, offset: int) -> bool:
        return True

    def sound_ones(self, queue: ConsumeQueue, offset: int, entries: Places) -> Iterator[Place]:
        for index, (physical_offset, size) in entries:
            entry = ConsumeQueueEntry(physical_offset, size, 0)
            is_expired = entry.is_message and physical_offset < self._log.start  # the reader knows what to do
            if is_expired or named_record(self._log, queue, offset + index, entry) is not None:
                yield index, (physical_offset, size)


class StoreReader:
    """A read-only view of a store; a context manager. Not for several threads at once, but for scan()."""

    writable: Final = False

    def __init__(
        self, directory: str | Path, *, commit_log: Sequence[str | Path] = (), files: OsFiles | None = None
    ) -> None:
        """Look at a directory that holds `commitlog/`, or whose `store/` does; `commit_log` if the log is elsewhere.

        Raises StoreError if there is no store.
        """
        self._files = files or ReadOnlyFiles()
        self.root = Path(find_root(str(directory), self._files))
        self._log_directories = [str(path) for path in commit_log] or [str(self.root / LOG_NAME)]
        self.config = StoreConfig(root=self.root)
        """The limits of reads and queries, which are the usual ones."""
        self._limits: ReadLimits = read_limits(self.config)
        self._view = self.scan()
        self._reader = self._reader_of(self._view)
        self._disk = DiskAccess(self._view.pool, self._files)

    def scan(self) -> StoreView:
        """Look at the directory as it is now, for show(); may run in another thread."""
        try:
            return StoreView(str(self.root), self._log_directories, self._files)
        except OSError as error:
            raise store_error("read", str(self.root), error) from error

    def show(self, view: StoreView) -> None:
        """Answer from another view from now on."""
        self._view.close()
        self._view = view
        self._reader = self._reader_of(view)
        self._disk = DiskAccess(view.pool, self._files)

    def _reader_of(self, view: StoreView) -> QueueReader:
        return QueueReader(view.log, view, self._limits, _StrictGuard(view.log))

    def refresh(self) -> None:
        """See what has become visible, and what has gone, since the last time."""
        self.show(self.scan())

    def close(self) -> None:
        """Close every file."""
        self._view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def disk(self) -> DiskAccess:
        """For readers who must not wait for the disk."""
        return self._disk

    # --- what there is

    @property
    def topics(self) -> list[str]:
        """The topics that have, or had, messages."""
        return sorted(self._view.topics)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have, or had, messages."""
        return sorted(self._view.topics.get(topic, ()))

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of a queue's first message."""
        queue = self._view.find(topic, queue_id)
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset behind a queue's last visible message."""
        queue = self._view.find(topic, queue_id)
        return queue.max_offset if queue else 0

    def has_entry(self, topic: str, queue_id: int, offset: int) -> bool:
        """Tell whether an entry stands at an offset by now, visible or not: a cheap hint that refresh() may pay."""
        queue = self._view.find(topic, queue_id)
        return queue is not None and queue.entry(offset).is_written

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        return self._view.log.start

    @property
    def max_physical_offset(self) -> int:
        """Where the last visible record ends."""
        return self._view.log.end

    @property
    def flushed_offset(self) -> int:
        """The same: a reader cannot know what is durable."""
        return self._view.log.end

    @property
    def confirm_offset(self) -> int:
        """The same: what is not visible is not read."""
        return self._view.log.end

    @property
    def log_segments(self) -> list[Segment]:
        """The files of the log that hold visible records, for whoever maps them."""
        return [segment for segment in self._view.log.segments.segments if segment.base < self._view.log.end]

    # --- messages

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        codes: frozenset[int] | None = None,
        wants: PropertyFilter | None = None,
    ) -> GetResult:
        """Return messages from a queue offset on as MessageStore does; damaged ones are left out."""
        try:
            return self._reader.get(topic, queue_id, offset, max_count, max_bytes, codes, wants)
        except OSError as error:
            raise store_error("read", str(self.root), error) from error

    def read(self, physical_offset: int) -> bytes | None:
        """Return the record that begins at an offset of the log; None if no visible one does."""
        if not self.min_physical_offset <= physical_offset < self.max_physical_offset:
            return None
        data, found = self._view.log.load(physical_offset)
        if found.head is None:
            return None
        topic = read_tail(data, found.head)[0].decode("utf-8", "replace")
        return data if self._is_visible(found.head, topic) else None

    def _is_visible(self, head: RecordHead, topic: str) -> bool:
        if not is_queued(head.sys_flag):
            return head.physical_offset + head.total_size <= self.max_physical_offset
        queue = self._view.find(topic, head.queue_id)
        if queue is None or head.queue_offset >= queue.max_offset:
            return False
        return queue.entry(head.queue_offset).physical_offset == head.physical_offset

    def find(
        self, topic: str, key: str, max_count: int, begin_ms: int = 0, end_ms: int = MAX_TIME_MS,
        budget: QueryBudget | None = None, before: int = MAX_OFFSET,
    ) -> list[int]:  # fmt: skip
        """Return where the newest messages with a key are, newest first. Any thread may call this: it can be slow."""
        count = min(max_count, self.config.max_query_count)
        try:
            query = KeyQuery(key_hash(topic, key), count, begin_ms, end_ms, self.min_physical_offset, before)
            return self._index().find(query, budget)
        except OSError as error:
            raise store_error("read", str(self.root), error) from error

    def read_found(self, offsets: Sequence[int], begin_ms: int = 0, end_ms: int = MAX_TIME_MS) -> QueryResult:
        """Return the messages that find() found and that are visible, as MessageStore does."""
        header = self._index().last_header
        return QueryResult(read_offsets(self.read, offsets, begin_ms, end_ms), header.end_ms, header.end_offset)

    def _index(self) -> IndexView:
        is_clean = not self._files.exists(str(self.root / ABORT_NAME))
        return IndexView(self.root, self._files, is_clean=is_clean)

    def raw_entries(self, topic: str, queue_id: int, start: int, stop: int) -> bytes:
        """Return the queue entries of a range, 20 bytes each, as stored; raises OffsetOutOfRange if some are gone."""
        return stored_entries(self._view.find(topic, queue_id), start, stop)

    def entry_array(self, topic: str, queue_id: int, start: int, stop: int) -> numpy.ndarray[Any, Any]:
        """Return the queue entries of a range as columns: physical_offset, size, tags_code."""
        import numpy

        kind = numpy.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
        return numpy.frombuffer(self.raw_entries(topic, queue_id, start, stop), kind)

    # --- time

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time; 0 for an empty queue."""
        return self._reader.offset_at(topic, queue_id, timestamp_ms)

    def first_offset_since(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at or after a time; the queue's end if there is none."""
        return self._reader.first_offset_since(topic, queue_id, timestamp_ms)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when a queue's first message was stored; -1 if it has none."""
        return self._reader.earliest_time(topic, queue_id)
