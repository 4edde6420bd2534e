"""MessageStore: the only door for whoever writes, and the usual one for whoever reads.

    put … put → commit → [flush →] queue entries → arrivals

put() gives a message its place and lets it join the open group; commit() writes the group. Under ASYNC_FLUSH its
messages are then visible and may be acknowledged. Under SYNC_FLUSH that waits for the flush, and `on_durable` says so.
Where only confirmed messages are shown, they are visible when confirm() has covered them too.

All calls come from one thread, the loop's. Only the flusher has another, and it reaches this one by `call_threadsafe`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Self

from pyromq.errors import StoreClosed, StoreError
from pyromq.protocol.messages.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.dispatch import WriteGroup
from pyromq.store.files import OsFiles, store_error
from pyromq.store.flush import LogEnd
from pyromq.store.index.key_query import MAX_OFFSET, MAX_TIME_MS, QueryBudget, read_offsets
from pyromq.store.read.copied_log import CopiedLog
from pyromq.store.read.disk.disk_access import DiskAccess
from pyromq.store.read.log_walk import WalkedRecord, walk_log
from pyromq.store.read.plain_reader import PlainReader
from pyromq.store.read.queue_reader import QueueReader, read_limits, stored_entries
from pyromq.store.read.read_guard import ReadGuard
from pyromq.store.read.readable import PropertyFilter
from pyromq.store.read.reading import Reading
from pyromq.store.recovery.directory import StoreDirectory
from pyromq.store.recovery.log_cut import LogCut
from pyromq.store.recovery.raw_log import RawLog
from pyromq.store.results import (
    Arrival,
    GetResult,
    GetStatus,
    MergedResult,
    PutResult,
    PutStatus,
    QueryResult,
    QueueRange,
)
from pyromq.store.write.new_queues import NewQueues
from pyromq.store.write.queue_tails import QueueTails
from pyromq.store.write.visibility import Visibility
from pyromq.store.write.write_times import WriteTimes

if TYPE_CHECKING:
    from pyromq.store.read.merged_reader import MergedReader

__all__ = ["Arrival", "GetResult", "GetStatus", "MessageStore", "PutResult", "PutStatus", "QueryResult"]

logger = logging.getLogger(__name__)


def _ignore(*_: object) -> None: ...


class MessageStore:
    """Messages in RocketMQ's files; open() first, or use it in a `with` statement."""

    def __init__(
        self,
        config: StoreConfig,
        now_ms: Callable[[], int],
        files: OsFiles | None = None,
        *,
        call_threadsafe: Callable[..., object] | None = None,
        on_arrival: Callable[[Iterable[Arrival]], None] = _ignore,
        on_durable: Callable[[int], None] = _ignore,
        on_failure: Callable[[StoreError], None] = _ignore,
    ) -> None:
        """Prepare to open a directory.

        `call_threadsafe` runs a function on the caller's thread, as a loop's call_soon_threadsafe does. Without it a
        commit under SYNC_FLUSH flushes before it returns.
        """
        self.config = config
        self.on_arrival = on_arrival  # called with the messages that have become visible
        self.on_durable = on_durable  # called under SYNC_FLUSH with the end of the log that is durable now
        self.on_failure = on_failure  # called once, when the store stops writing
        self._files = files or OsFiles()
        self._call_threadsafe = call_threadsafe
        self.waits_for_flush = config.waits_for_flush
        """Whether a message may be acknowledged only when it is flushed (SYNC_FLUSH)."""
        self._exit = ExitStack()
        self.is_open = False  # whether messages can be read
        self.found_topics: dict[str, int] = {}
        """Topics that recovery met behind the checkpoint, each with the number of queues it needs at least."""
        self.write_times = WriteTimes()
        self.failure: StoreError | None = None  # why it writes nothing until it is opened again
        directory = self._directory = StoreDirectory(config, self._files, now_ms)
        self._log, self._queues, self._index = directory.log, directory.queues, directory.index
        self.new_queues = NewQueues(self._queues)  # their files are made ahead of their first message
        self._appender = self._directory.appender(now_ms)
        self.lane_place = self._appender.lane_place  # for plain messages; the store must be open
        unseen = self._directory.unseen_by(self._appender)
        self._visibility = Visibility(self._show, unseen, confirmed_only=config.shows_confirmed_only)
        self.cleaner = self._directory.cleaner(now_ms, self._visibility, lambda: self.flusher.flushed_offset)
        """Removes what has expired or was deleted."""
        self._reading = Reading(self)
        self.copied_log = CopiedLog(self._log, self._queues, self._files, self._reading)  # for who copies it
        self.disk = DiskAccess(self._directory.pool, self._files)  # for readers who must not wait for it
        self.healing = self._directory.healing  # mends damage with the bytes of another copy
        self.fences = self._directory.fences
        """The damage in the log that is known, and what reads have left out because of it."""
        guard = ReadGuard(self._log, self.fences, config.delay_levels_ms)
        self._reader = QueueReader(self._log, self._queues, read_limits(config), guard)
        self.plain_reader = PlainReader(self, self._log, self._queues, guard)  # for most pulls
        self.flusher = self._directory.flusher(self._flushed, self._flush_failed)
        self.tails = QueueTails(self.flusher, call_threadsafe, self._fail, at_once=config.shows_confirmed_only)
        self._raw_log = RawLog(self._directory.parts, self._appender, config.delay_levels_ms, self.commit)

    # --- opening and closing

    def open(self) -> None:
        """Take the directory's lock, recover, and begin to flush; raises StoreLocked or StoreError if that fails."""
        with ExitStack() as stack:
            try:
                self._open(stack)
            except OSError as error:
                raise store_error("open the store in", str(self.config.root), error) from error
            self._exit = stack.pop_all()
        self.is_open = True

    def _open(self, stack: ExitStack) -> None:
        stop, found = self._directory.open(stack)
        self._appender.begin(found.visible.timestamp_ms)
        self.flusher.begin(found.end, found.visible, stop.position)
        self._visibility.begin(found.end.end, *found.visible)
        self.flusher.checkpoint()  # what recovery did is not to be done again
        self.found_topics = self._visibility.topics_and(found.topics)
        stack.callback(self.flusher.close)
        self.flusher.start()
        stack.callback(self.flusher.stop)
        stack.enter_context(self.tails)
        self.cleaner.open()
        stack.callback(self.cleaner.close)

    def close(self) -> None:
        """Write and flush everything, remove the mark of an unclean stop, and give the directory back."""
        if not self.is_open:
            return
        try:
            if self.failure is None:
                self.commit()
                self.flusher.stop()
                self._finish()
        finally:
            self.is_open = False
            self._exit.close()

    def _finish(self) -> None:
        try:
            self.flusher.flush()
            self._durable(self.flusher.flushed_offset)
            self._directory.end_queues()
            self.tails.write_all()
            self.flusher.checkpoint()
            self._directory.mark_clean()
        except OSError as error:
            raise self._fail("close", error) from error

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing

    @property
    def writable(self) -> bool:
        """Whether messages are taken: nothing has failed, and the disk has room."""
        return self._can_write and not self.cleaner.refuses_messages

    @property
    def _can_write(self) -> bool:
        return self.is_open and self.failure is None and self.flusher.failure is None

    @property
    def has_pending(self) -> bool:
        """Whether commit() has something to write."""
        return self._log.position != self._log.end

    def put(self, record: Record) -> PutResult:
        """Let a message join the open group; it is stored, and readable, after commit().

        Raises MessageTooLarge, DiskFull (nothing has changed, try again later), StoreClosed, or StoreError.
        """
        if not self.writable:
            raise self.refusal()
        return self._appender.put(record)

    def put_again(self, record: Record) -> PutResult:
        """Let a copy of a stored message, whose file shall go, join the open group, also on a disk that is full."""
        if not self._can_write:
            raise self.refusal()
        return self._appender.put(record)

    def put_batch(self, records: Sequence[Record]) -> list[PutResult]:
        """Let messages of one queue join the open group, all or none, side by side in one file."""
        if not self.writable:
            raise self.refusal()
        return self._appender.put_batch(records)

    def commit(self, acknowledge: Callable[[], None] = _ignore) -> None:
        """Write the open group, flush it under SYNC_FLUSH, call `acknowledge` if it is durable, and show it.

        Raises StoreError if that fails: the store then stops writing, and no more of the group may be acknowledged.
        """
        if not self.has_pending:
            return
        group = self._appender.take()
        if not self._can_write:
            self._log.drop_group()
            raise self.refusal()
        began = perf_counter()
        try:
            self.flusher.wrote(self._log.write(), group.end, group.last_timestamp_ms)
        except OSError as error:
            self._log.drop_group()
            raise self._fail("write to", error) from error
        self.write_times.note(began, perf_counter(), group.count)
        if not self.waits_for_flush:
            acknowledge()
            self._visibility.add_durable(group)
            return
        self._visibility.add(group)
        if self.flush(if_quick=self._call_threadsafe is not None):
            acknowledge()
            self._durable(self.flusher.flushed_offset)
        else:
            self.flusher.wake()

    def flush(self, *, if_quick: bool = False) -> bool:
        """Make durable what was committed; False if it must be quick and is not. Raises StoreError as commit() does."""
        try:
            return self.flusher.flush_if_quick() if if_quick else self.flusher.flush()
        except OSError as error:
            raise self._fail("flush", error) from error

    def _durable(self, end: int) -> None:
        self._visibility.durable(end)
        if self.waits_for_flush:
            self.on_durable(end)

    def _show(self, group: WriteGroup) -> None:
        try:
            self.tails.show(group)
            self._index.add(group.keys, group.end)
        except OSError as error:
            raise self._fail("write to", error) from error
        except StoreError as error:
            self._stop(error)
            raise
        self.tails.shown(LogEnd(group.end, group.last_timestamp_ms))
        self.on_arrival(group.arrivals)

    def confirm(self, end: int) -> None:
        """Let messages be seen up to an end of the log, where only confirmed ones are shown.

        The end may be ahead of the log: what is written up to there is visible once it is durable. The last word
        counts: a lower end holds back what comes, and what is visible stays so. Raises StoreError as commit() does.
        """
        if self._can_write:
            self._visibility.confirm(end)

    # --- following another log

    @property
    def received_offset(self) -> int:
        """Where append_raw() goes on: the end of the log and, behind it, of a record that is not whole yet."""
        return self._raw_log.offset

    def append_raw(self, physical_offset: int, data: bytes) -> None:
        """Append bytes of another store's log, in pieces of any size; this store becomes a copy of that one.

        A record is stored, as by put() and commit(), once it is whole. A log without files may begin at the start of
        any file. Raises OffsetOutOfRange for a gap or an overlap, CorruptRecord for bytes that are no records (nothing
        of this call is stored then), DiskFull (go on from `received_offset` later), StoreClosed, or StoreError.
        """
        if not self._can_write:
            raise self.refusal()
        if self.has_pending:
            raise StoreError("cannot append another store's log while messages wait for commit()")
        try:
            self._raw_log.append(physical_offset, data)
        finally:
            self.commit()
            self._raw_log.written()

    def cut(self, physical_offset: int) -> None:
        """Drop all records from an offset of the log on; durable on return. What is dropped goes to `quarantine/`.

        Views of it that were handed out show zeros then. A cut at the log's end only drops the first bytes of a record
        that append_raw() has not finished. Raises OffsetOutOfRange or StoreError if no record ends there, with nothing
        changed; else it fails as commit() does.
        """
        if not self._can_write:
            raise self.refusal()
        if self.has_pending:
            raise StoreError("cannot cut the log while messages wait for commit()")
        self._raw_log.forget()
        if physical_offset != self._log.end:
            self.flush()
            visible = LogEnd(self.confirm_offset, self._visibility.shown_timestamp_ms)
            with self._reading:
                cut = LogCut(self._directory.parts, physical_offset, visible)
            self._cut(cut)
        self._visibility.stay_within(physical_offset)

    def begin_anew(self) -> None:
        """Drop the whole log, all queues and the index: the next bytes of append_raw() may begin with any file.

        Only the log's last file goes to `quarantine/`. Raises as cut() does.
        """
        self.cleaner.drop_log_before(self._log.segments.file_start(self._log.end))
        self.cut(self._log.start)
        self.cleaner.delete_queues()

    def _cut(self, cut: LogCut) -> None:
        try:
            self.tails.write_all()
            cut.run(self.flusher, self._appender, self._visibility)
        except OSError as error:
            raise self._fail("cut", error) from error
        except StoreError as error:
            self._stop(error)
            raise

    # --- told by the flusher, in its thread

    def _flushed(self, end: int) -> None:
        if self.waits_for_flush and self._call_threadsafe is not None:
            self._call_threadsafe(self._flushed_for, end)

    def _flushed_for(self, end: int) -> None:
        with suppress(StoreError):  # on_failure has told it
            self._durable(min(end, self.flusher.flushed_offset))  # the log may have been cut since

    def _flush_failed(self, error: OSError) -> None:
        if self._call_threadsafe is not None:
            self._call_threadsafe(self._fail, "flush", error)
        else:
            self._fail("flush", error)

    # --- failing

    def _fail(self, action: str, error: OSError) -> StoreError:
        """Stop writing for good: what is on disk is unknown now."""
        failure = store_error(action, str(self.config.root), error)
        failure.__cause__ = error
        return self._stop(failure)

    def _stop(self, failure: StoreError) -> StoreError:
        if self.failure is None:
            self.failure = failure
            logger.error("the store takes no more messages: %s", failure)
            self.on_failure(failure)
        return failure

    def refusal(self) -> StoreError:
        """Say why no message is taken, while `writable` is false."""
        if self._can_write:
            return self.cleaner.refusal()
        failure = self.failure or self.flusher.failure
        return StoreClosed(f"the store stopped writing: {failure}" if failure else "the store is closed")

    # --- reading

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
        """Return messages from a queue offset on, of the given tag codes only, and only what the filter accepts.

        `max_bytes` and `max_count` replace the stock limits where `max_bytes` is given.
        """
        with self._reading:
            return self._reader.get(topic, queue_id, offset, max_count, max_bytes, codes, wants)

    def get_merged(
        self, topic: str, ranges: Sequence[QueueRange], max_count: int, max_bytes: int, codes: frozenset[int] | None
    ) -> MergedResult | None:
        """Return messages of several queues, in the order of the log; None where only `get` knows what to do."""
        with self._reading:
            return self._merged.get(topic, ranges, max_count, max_bytes, codes)

    @cached_property
    def _merged(self) -> MergedReader:
        from pyromq.store.read.merged_reader import MergedReader  # numpy: only where somebody reads so much

        return MergedReader(self._log, self._queues, read_limits(self.config), self.fences)

    def raw_entries(self, topic: str, queue_id: int, start: int, stop: int) -> bytes:
        """Return the queue entries of a range, 20 bytes each, as stored; raises OffsetOutOfRange if some are gone."""
        with self._reading:
            return stored_entries(self._queues.find(topic, queue_id), start, stop)

    def read(self, physical_offset: int) -> bytes | None:
        """Return the record that begins at an offset of the log; None if none does."""
        with self._reading:
            return self._log.read(physical_offset)

    def walk(self, start: int) -> Iterator[WalkedRecord]:
        """Yield the records from an offset of the log on, in its order; what is damaged is passed over."""
        with self._reading:
            yield from walk_log(self._log, start)

    def query(self, topic: str, key: str, max_count: int, begin_ms: int = 0, end_ms: int = MAX_TIME_MS) -> QueryResult:
        """Return the newest messages with a key, or unique key, stored within a time; see find() and read_found()."""
        return self.read_found(self.find(topic, key, max_count, begin_ms, end_ms), begin_ms, end_ms)

    def find(
        self, topic: str, key: str, max_count: int, begin_ms: int = 0, end_ms: int = MAX_TIME_MS,
        budget: QueryBudget | None = None, before: int = MAX_OFFSET,
    ) -> list[int]:  # fmt: skip
        """Return where the newest messages with a key are, newest first. Any thread may call this: it can be slow."""
        with self._reading:
            count = min(max_count, self.config.max_query_count)
            return self._index.find(topic, key, count, begin_ms, end_ms, self._log.start, budget, before)

    def read_found(self, offsets: Sequence[int], begin_ms: int = 0, end_ms: int = MAX_TIME_MS) -> QueryResult:
        """Return the messages that find() found, the newest of them if they are too many bytes for one answer."""
        with self._reading:
            return QueryResult(read_offsets(self._log.read, offsets, begin_ms, end_ms), *self._index.last_update)

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time; 0 for an empty queue."""
        with self._reading:
            return self._reader.offset_at(topic, queue_id, timestamp_ms)

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when a queue's first message was stored; -1 if it has none."""
        with self._reading:
            return self._reader.earliest_time(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of a queue's first message."""
        queue = self._queues.find(topic, queue_id)
        return queue.min_offset if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset behind a queue's last visible message."""
        queue = self._queues.find(topic, queue_id)
        return queue.max_offset if queue else 0

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that a queue's next message will get: the open group counts."""
        queue = self._queues.find(topic, queue_id)
        return queue.next_offset if queue else 0

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have, or had, messages."""
        return self._queues.ids(topic)

    @property
    def topics(self) -> list[str]:
        """The topics that have, or had, messages."""
        return self._queues.topics()

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        return self._log.start

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends."""
        return self._log.end

    @property
    def flushed_offset(self) -> int:
        """Up to where the log is durable."""
        return self.flusher.flushed_offset

    @property
    def durable_offset(self) -> int:
        """Up to where the log is as safe here as was promised, visible or not: written, or flushed under SYNC_FLUSH."""
        return self._visibility.durable_end

    @property
    def confirm_offset(self) -> int:
        """Up to where messages are visible (RocketMQ's confirm offset)."""
        return self._log.end if (hidden_from := self._visibility.hidden_from) is None else hidden_from
