"""The index of keys: collects what was stored, puts it into files in batches, and finds it again.

Keys wait in memory until there are enough of them for a fast batch, or a flush comes; a query puts them into the file
first, so a message is found as soon as it can be seen. A lock guards all of it: the flusher has its own thread, and a
query may have one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from pyromq.store.files import is_no_space, store_error
from pyromq.store.index.file_list import IndexFileList
from pyromq.store.index.index_checkpoint import IndexCheckpoint
from pyromq.store.index.index_directory import IndexDirectory
from pyromq.store.index.index_file import IndexFile
from pyromq.store.index.index_recovery import LastIndexStop, load_index
from pyromq.store.index.key_hash import COLUMNS, StoredKeys, key_hash
from pyromq.store.index.key_query import MAX_OFFSET, MAX_TIME_MS, KeyQuery, QueryBudget, find_offsets

if TYPE_CHECKING:
    from pyromq.store.index.index_writer import IndexWriter

logger = logging.getLogger(__name__)

_BATCH: Final = 1024 * COLUMNS
"""Messages put at a time: 1 µs each, where 64 at a time cost 3; the loop stands still for about a millisecond."""
_BATCH_BYTES: Final = 128 * 1024
"""Bytes of properties put at a time: a message may have 16,000 keys, and 128 KiB of those take 16 ms."""
_MOST_WAITING: Final = 16 * _BATCH
_MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
_TIME_ON_LOOP: Final = 0.005
"""Seconds after which the loop goes on with something else; the rest waits for the next call or the flusher."""
_MOST_STEPS: Final = 1_000
_PAGES_A_PASS: Final = 256
"""Pages of slots written at a time: hashes hit them at random, and all of them in every pass would be 20 MB."""


class MessageIndex:
    """All index files of a store; open once, by load()."""

    def __init__(self, directory: IndexDirectory, now_ms: Callable[[], int], *, enabled: bool) -> None:
        self.enabled = enabled
        """Whether new messages are indexed; those that were are found in any case."""
        self.start: int | None = None
        """Where recovery has to begin for the index to miss nothing, after load()."""
        self.is_stuck = False
        """Whether so many keys wait, for the disk is full, that no message may come before make_room()."""
        self.flushed_timestamp_ms = 0
        """Store time of the last key in a full file that was flushed: for the checkpoint."""
        self._directory = directory
        self._known_end = 0
        self._known_hashes: frozenset[int] = frozenset()
        self._guard = threading.Lock()  # for the next four
        self._files = IndexFileList(directory, now_ms)
        self._waiting: StoredKeys = []
        self._waiting_bytes = 0
        self._end = 0
        self._next_mark: IndexCheckpoint | None = None
        self._flushed_mark: IndexCheckpoint | None = None
        self._importing: threading.Thread | None = None
        self._is_ready = False

    # --- opening and closing

    def load(self, stop: LastIndexStop) -> None:
        """Find the files, and mend the last one if need be; raises OSError."""
        self.flushed_timestamp_ms = stop.index_timestamp_ms
        if not self.enabled:
            self._files.begin([file for file in self._directory.list() if self._directory.has_right_size(file)])
            return
        found = load_index(self._directory, stop)
        self._files.begin(found.files, found.writer)
        self.start, self._known_end, self._known_hashes = found.start, found.known_end, found.known_hashes

    def replay(self, topic: str, properties: bytes, physical_offset: int, store_timestamp_ms: int) -> None:
        """Meet one record of the log during recovery."""
        if physical_offset == self._known_end and self._known_hashes:
            self._complete([topic, properties, physical_offset, store_timestamp_ms])
        elif self.enabled and physical_offset >= self._known_end:
            self._waiting += (topic, properties, physical_offset, store_timestamp_ms)
            self._waiting_bytes += len(properties)
            if self._fills_batch:
                self._put_waiting()

    def _complete(self, message: StoredKeys) -> None:
        """Put the keys of a message of which some are known."""
        from pyromq.store.index.key_batch import hash_keys

        self._files.put(hash_keys(message).without(self._known_hashes))

    def settle(self, end: int) -> None:
        """Drop the keys of records that are gone: the log ends here now. Raises OSError."""
        if not self.enabled:
            return
        with self._guard:
            self._put_waiting()
            self._end = end
            self._files.cut(end)

    def close(self) -> None:
        """Close what is open; what was not flushed is left to recovery."""
        self._files.close()

    # --- told by the writer of the log

    def add(self, messages: StoredKeys, end: int) -> None:
        """Index messages that can be seen now, up to an end of the log; raises OSError, but not if the disk is full."""
        with self._guard:
            self._waiting += messages
            self._waiting_bytes += sum(map(len, cast(list[bytes], messages[1::COLUMNS])))
            self._end = end
            if self._fills_batch:
                self._put_soon()

    def _put_soon(self) -> None:
        if self._is_ready or self._too_many_wait:
            self._try_to_put(_TIME_ON_LOOP)
        elif self._importing is None:  # in another thread: a tenth of a second is too long for the loop
            self._importing = threading.Thread(target=self._import_numpy, name="pyromq-index", daemon=True)
            self._importing.start()

    def _import_numpy(self) -> None:
        import_module("pyromq.store.index.index_writer")
        self._files.fetch_last()
        self._is_ready = True

    def make_room(self) -> None:
        """Put some of what waits before more comes; raises DiskFull if there is no space for it."""
        with self._guard:
            try:
                self._put_waiting(_TIME_ON_LOOP)
            except OSError as error:
                raise store_error("write to", self._directory.path, error) from error

    # --- keys into files

    @property
    def _fills_batch(self) -> bool:
        return len(self._waiting) >= _BATCH or self._waiting_bytes >= _BATCH_BYTES

    @property
    def _too_many_wait(self) -> bool:
        return len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES

    def _try_to_put(self, seconds: float = inf) -> None:
        try:
            self._put_waiting(seconds)
        except OSError as error:
            if not is_no_space(error):
                raise
            if not self.is_stuck:
                logger.warning("no space for the index, keys wait in memory: %s", error)
            self.is_stuck = self._too_many_wait

    def _put_waiting(self, seconds: float = inf) -> None:
        """Put all that waits, or some of it if that takes longer."""
        if self._waiting:
            from pyromq.store.index.key_batch import hash_keys  # numpy: not before there are keys

            self._is_ready = True
            began = perf_counter()
            while self._waiting and perf_counter() - began < seconds:
                stop, size = self._next_batch()
                self._files.put(hash_keys(self._waiting[:stop]))
                del self._waiting[:stop]
                self._waiting_bytes -= size
        self.is_stuck = self._too_many_wait

    def _next_batch(self) -> tuple[int, int]:
        """Return where the next batch ends in what waits, and the bytes of its properties."""
        sizes = [len(text) for text in cast(list[bytes], self._waiting[1:_BATCH:COLUMNS])]
        count, total = len(sizes), sum(sizes)
        while count > 1 and total > _BATCH_BYTES:
            count -= 1
            total -= sizes[count]
        return count * COLUMNS, total

    def _put_in_steps(self) -> None:
        """Put all that waits, from another thread; the loop has its turn all the while."""
        for _ in range(_MOST_STEPS):
            with self._guard:
                before = len(self._waiting)
                self._try_to_put(_TIME_ON_LOOP)
                if not self._waiting or len(self._waiting) == before:
                    return

    # --- told by the flusher

    def write(self) -> None:
        """Put what waits, before the log is flushed: flush() then makes that much durable and nothing behind it."""
        if not self.enabled:
            return
        if self._waiting and not self._is_ready:
            self._import_numpy()  # with the guard free: the loop goes on meanwhile
        self._put_in_steps()
        with self._guard:
            if not self._waiting:
                number = self._files.last.number if self._files.last else 0
                self._next_mark = IndexCheckpoint(self._end, number, self._files.last_header.next_entry)

    def flush(self, *, everything: bool = False) -> None:
        """Make what write() put durable, and say so in the mark.

        `everything` writes all changed slots, for another broker to go on with. Raises OSError, but not if the disk is
        full: the mark then stays where it is.
        """
        if not self.enabled:
            return
        with self._guard:
            full, writer, mark = list(self._files.full), self._files.writer, self._next_mark
            pages = writer.take_pages(None if everything else _PAGES_A_PASS) if writer else []
        if mark == self._flushed_mark and not pages and not full:
            return
        with _unless_no_space() as outcome:
            if writer:
                writer.write_pages(pages)
            for one in full:
                one.write_pages(one.take_pages())
        if outcome.is_full:
            return
        self._sync(full, writer)  # of this no failure is survived: what is on disk is unknown then
        with _unless_no_space():
            if mark is not None:
                self._directory.mark.write(mark, self._directory.geometry)
                self._flushed_mark = mark

    def _sync(self, full: list[IndexWriter], writer: IndexWriter | None) -> None:
        for one in [*full, *([writer] if writer else [])]:
            self._directory.files.fdatasync(one.descriptor)
        for path in self._directory.changed.take()[1]:
            self._directory.files.sync_directory(path)
        with self._guard:
            for one in full:
                self._files.full.remove(one)
                one.close()
                self.flushed_timestamp_ms = one.header.end_ms

    # --- finding

    def find(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int = 0,
        end_ms: int = MAX_TIME_MS,
        min_offset: int = 0,
        budget: QueryBudget | None = None,
        before: int = MAX_OFFSET,
    ) -> list[int]:
        """Return where messages with a key are, newest first; those of another key with its hash are among them.

        Raises QueryTooLong if the budget is spent before one is found.
        """
        query = KeyQuery(key_hash(topic, key), max_count, begin_ms, end_ms, min_offset, before)
        if self._waiting and not self._is_ready:
            self._import_numpy()
        self._put_in_steps()
        with self._guard:
            files = self._files.newest_first()
            newest = {one.number: one.newest(query.key_hash) for one in self._files.unflushed}
        return find_offsets(
            self._directory.files,
            self._directory.geometry,
            files,
            query,
            lambda file: newest.get(file.number),
            budget,
        )

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and physical offset of the last message that is in the index; zeros if none is."""
        with self._guard:
            header = self._files.last_header
        return header.end_ms, header.end_offset

    @property
    def unsealed_since_ms(self) -> int | None:
        """Store time of the oldest key that is not in a full, flushed file; None if every key is.

        After a crash of ours Apache's broker deletes the files that hold such keys, for their slots may be older than
        their entries.
        """
        with self._guard:
            begins = [file.header.begin_ms for file in self._files.newest_first() if self._is_unsealed(file)]
        return min(begins, default=None)

    def _is_unsealed(self, file: IndexFile) -> bool:
        return file.header.next_entry > 1 and file.header.end_ms > self.flushed_timestamp_ms

    # --- retention

    def expire(self, log_start: int) -> None:
        """Remove the oldest files whose messages the log has lost; any one thread may call this. Raises OSError."""
        while (file := self._oldest_expired(log_start)) is not None:
            with suppress(FileNotFoundError):
                self._directory.remove(file)  # with the guard free: it takes a while, and sends go on meanwhile
            with self._guard:
                self._files.forget_oldest()
            logger.info("removed an expired index file name=%d", file.number)

    def _oldest_expired(self, log_start: int) -> IndexFile | None:
        with self._guard:
            return self._files.oldest_expired(log_start)


class _Outcome:
    is_full = False


@contextmanager
def _unless_no_space() -> Iterator[_Outcome]:
    outcome = _Outcome()
    try:
        yield outcome
    except OSError as error:
        if not is_no_space(error):
            raise
        outcome.is_full = True
        logger.warning("no space for a new checkpoint of the index, the old one stays: %s", error)
