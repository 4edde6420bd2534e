"""When written bytes count as durable: one thread flushes the log for all.

The log is flushed at every interval, whatever little was written, and at once when a commit waits for it (SYNC_FLUSH):
one fdatasync then covers all groups that wait. Consume queues can be rebuilt from the log, so they are flushed less
often, before the checkpoint moves on, by another thread: thousands of them take a while. On a quick disk the loop
flushes the little that a round has written itself (`write/quick_flush.py`). A flush that fails is never repeated: the
kernel has marked the pages clean, and a second call would succeed with the data gone. It stops the store.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, perf_counter_ns
from typing import Final, NamedTuple, TypeVar

from pyromq.store.commit_log import LogFile, WrittenFiles
from pyromq.store.files import OsFiles, is_no_space, is_out_of_descriptors
from pyromq.store.index.message_index import MessageIndex
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.segments import DirtyFiles
from pyromq.store.small_files.checkpoint import Checkpoint, CheckpointFiles, Position
from pyromq.store.small_files.confirmed_end import ConfirmedEnd
from pyromq.store.small_files.queue_ends import EndsByTopic, QueueEnds, ends_of
from pyromq.store.write.quick_flush import MOST_BYTES, QuickFlush

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MANY_FILES: Final = 32
_PATIENCE: Final = 60.0  # seconds
_PATIENT_INTERVAL: Final = 0.05
_POSITION_INTERVAL: Final = 0.8  # with the time it takes to write it, it is never older than a second


class LogEnd(NamedTuple):
    """An end of the log and when the last record before it was stored."""

    end: int
    timestamp_ms: int


class Flusher:
    """Keeps what is written and not yet flushed; `flushed_offset` is the durable end of the log."""

    def __init__(
        self,
        files: OsFiles,
        checkpoints: CheckpointFiles,
        log_directories: DirtyFiles,
        queue_files: DirtyFiles,
        index: MessageIndex,
        queues: ConsumeQueues,
        queue_ends: QueueEnds,
        confirmed_end: ConfirmedEnd | None,
        *,
        queue_directory: str,
        interval_ms: int,
        checkpoint_interval_ms: int,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
        quick: QuickFlush,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        """`quick` decides whether flush_if_quick() does anything; flushes are measured for it by `timer`."""
        self._files = files
        self._checkpoints = checkpoints
        self._log_directories = log_directories
        self._queue_files = queue_files
        self._index = index
        self._queues = queues
        self._queue_ends = queue_ends
        self._confirmed_end = confirmed_end  # if only confirmed messages are shown: up to where queues hold the log
        self._interval = interval_ms / 1000
        self._checkpoint_interval = checkpoint_interval_ms / 1000
        self._queue_directory = queue_directory
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._quick = quick
        self._timer = timer
        self.flushed_offset = 0
        self.failure: OSError | None = None
        self.max_unflushed_ms = 0.0
        """The longest that written bytes have waited for their flush so far."""
        self._unflushed_since_ns: int | None = None
        self._guard = threading.Lock()  # for the next five, shared by writer and threads
        self._log_files: set[LogFile] = set()
        self._left_files: list[LogFile] = []
        self._written = LogEnd(0, 0)
        self._dispatched = LogEnd(0, 0)
        self._queued = LogEnd(0, 0)
        self._flushing = threading.Lock()
        self._noting = threading.Lock()  # for the small files, each of which is replaced by one thread at a time
        self._flushed_timestamp_ms = 0
        self._position: Position | None = None
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    # --- told by the writer

    def begin(self, written: LogEnd, dispatched: LogEnd, position: Position | None) -> None:
        """Begin where recovery ended: all of the log is flushed, and queues hold it up to an end."""
        self.flushed_offset = written.end
        self._written, self._dispatched, self._queued = written, dispatched, dispatched
        self._flushed_timestamp_ms = written.timestamp_ms
        self._position = position

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no thread flush, or write a checkpoint, meanwhile."""
        with self._noting, self._flushing:
            yield

    def go_back(self, written: LogEnd, dispatched: LogEnd, queue_ends: EndsByTopic) -> None:
        """Say durably that the log and the queues end earlier, before they are cut; raises OSError.

        All that was written must be flushed, and the threads held().
        """
        position = Position(written.end, dispatched.end)
        self.begin(written, dispatched, position)
        self._queue_ends.write(queue_ends)
        self._note_confirmed(dispatched)
        index_ms = min(self._index.flushed_timestamp_ms, dispatched.timestamp_ms)
        self._checkpoints.write(Checkpoint(written.timestamp_ms, dispatched.timestamp_ms, index_ms), position)

    def wrote(self, written: WrittenFiles, end: int, timestamp_ms: int) -> None:
        """Note that the log was written up to `end`."""
        with self._guard:
            if self._unflushed_since_ns is None:
                self._unflushed_since_ns = perf_counter_ns()
            self._log_files.update(written.files)
            self._left_files += written.left
            self._written = LogEnd(end, timestamp_ms)

    def dispatched(self, end: LogEnd) -> None:
        """Note that messages are visible up to an end of the log: their entries are in queues, or in their tails."""
        with self._guard:
            self._dispatched = end

    @property
    def dispatched_end(self) -> LogEnd:
        """Up to where messages are visible."""
        return self._dispatched

    def queued(self, end: LogEnd) -> None:
        """Note that the files of queues were written for the log up to an end: the checkpoint may say so."""
        with self._guard:
            self._queued = end

    @property
    def unflushed_ms(self) -> float:
        """How long the oldest bytes that are not durable have waited; 0 if all are."""
        since_ns = self._unflushed_since_ns
        return 0.0 if since_ns is None else (perf_counter_ns() - since_ns) / 1e6

    @property
    def undispatched_bytes(self) -> int:
        """Bytes of the log whose messages are not in their queues yet."""
        return max(self._written.end - self._dispatched.end, 0)

    # --- flushing

    def flush(self) -> bool:
        """Make all of the log that was written durable, always; raises OSError, once and for all, if that fails."""
        with self._flushing:  # whoever comes second finds its bytes flushed, not merely taken by the first
            end = self._flush_once()
            if end is not None:
                self._on_flushed(end)
        return True

    def flush_if_quick(self) -> bool:
        """Flush in the writer's thread if that takes next to no time; return False if it is left to wake().

        Raises as flush() does. The caller knows what is durable now: nobody is told.
        """
        if not self._quick.in_loop or not self._flushing.acquire(blocking=False):
            return False
        try:
            if not self._is_little:
                return False
            self._flush_once()
        finally:
            self._flushing.release()
        return True

    @property
    def _is_little(self) -> bool:
        """Whether one short fdatasync would make all durable: of one file, whose name is durable already."""
        return (
            len(self._log_files) == 1
            and not self._left_files
            and not self._log_directories.has_directories
            and self._written.end - self.flushed_offset <= MOST_BYTES
        )

    def _flush_once(self) -> int | None:
        if self.failure is not None:
            raise self.failure
        try:
            return self._flush()
        except OSError as error:
            self.failure = error
            raise

    def _flush(self) -> int | None:
        """Return up to where the log has become durable; None if nothing was written."""
        with self._guard:
            is_little = self._is_little
            log_files, self._log_files = self._log_files, set()
            left_files, self._left_files = self._left_files, []
            written = self._written
            taken_ns = perf_counter_ns()
        if not log_files:
            return None
        began = self._timer()
        try:
            for log_file in log_files:
                self._files.fdatasync(log_file.descriptor)
            for directory in self._log_directories.take()[1]:
                self._patiently(self._files.sync_directory, directory)
        finally:
            self._close_files(left_files)
        if is_little:
            now = self._timer()
            self._quick.note(now - began, now)
        self._note_flushed(written, taken_ns)
        return written.end

    def _note_flushed(self, written: LogEnd, taken_ns: int) -> None:
        self.max_unflushed_ms = max(self.max_unflushed_ms, self.unflushed_ms)
        self._flushed_timestamp_ms = written.timestamp_ms
        self.flushed_offset = written.end
        with self._guard:
            self._unflushed_since_ns = taken_ns if self._log_files else None  # what came meanwhile is younger

    def _close_files(self, log_files: list[LogFile]) -> None:
        for log_file in log_files:
            self._files.close(log_file.descriptor)

    def checkpoint(self) -> None:
        """Flush the log and the consume queues, then say so in the checkpoint."""
        with self._noting:
            self._checkpoint()

    def _checkpoint(self) -> None:
        with self._guard:
            queued, dispatched = self._queued, self._dispatched
        ends = ends_of(self._queues)
        changed, directories = self._queue_files.take()
        self._index.write()
        self.flush()
        self._sync_queues(changed, directories)
        self._index.flush(everything=self._stopping.is_set())
        position = Position(self.flushed_offset, queued.end)
        times = self._times(queued.timestamp_ms)
        with self._unless_full():
            self._queue_ends.write(ends)
            self._note_confirmed(dispatched)
            if position != self._position:
                self._checkpoints.write(times, position)
                self._position = position

    def _times(self, queued_timestamp_ms: int) -> Checkpoint:
        """Return what the checkpoint says; our position, which is exact, is for us, this is for Apache's broker.

        That broker reads the log again from the time of queues on: far enough back for the keys that it loses. To us
        a smaller time costs nothing.
        """
        since_ms = self._index.unsealed_since_ms
        queues_ms = queued_timestamp_ms if since_ms is None else min(queued_timestamp_ms, since_ms)
        return Checkpoint(self._flushed_timestamp_ms, queues_ms, self._index.flushed_timestamp_ms)

    def note_position(self) -> None:
        """Say how much of the log is durable by now, between two checkpoints."""
        with self._noting, self._unless_full():
            self._note_confirmed(self._dispatched)
            if self._position is None or self._position.flushed == self.flushed_offset:
                return
            position = Position(self.flushed_offset, self._position.dispatched)
            self._checkpoints.write_position(position)
            self._position = position

    def _note_confirmed(self, dispatched: LogEnd) -> None:
        if self._confirmed_end is not None:
            self._confirmed_end.write(dispatched.end)

    @contextmanager
    def _unless_full(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not is_no_space(error):
                raise
            logger.warning("no space for a new checkpoint, the old one stays: %s", error)

    def _sync_queues(self, changed: set[str], directories: set[str]) -> None:
        if len(changed) + len(directories) > _MANY_FILES:
            # Each fdatasync waits for the disk, even for a clean file: a thousand queues would take seconds.
            self._patiently(self._files.sync_file_system, self._queue_directory)
            return
        for path in changed:
            self._sync_file(path)
        for directory in directories:
            with suppress(FileNotFoundError):  # removed since
                self._patiently(self._files.sync_directory, directory)

    def _patiently(self, call: Callable[[str], T], path: str) -> T:
        """Call something that opens a file; wait while the process is out of descriptors, which is no failed flush."""
        deadline = perf_counter() + _PATIENCE
        while True:
            try:
                return call(path)
            except OSError as error:
                if not is_out_of_descriptors(error) or perf_counter() > deadline:
                    raise
                logger.warning("out of descriptors, a flush waits for one: %s", path)
            self._stopping.wait(_PATIENT_INTERVAL)

    def _sync_file(self, path: str) -> None:
        # Opened here and not taken from the pool, whose descriptors the writer may close at any moment.
        try:
            descriptor = self._patiently(self._files.open, path)
        except FileNotFoundError:
            return  # removed since
        try:
            self._files.fdatasync(descriptor)
        finally:
            self._files.close(descriptor)

    # --- the threads

    def start(self) -> None:
        """Flush in threads from now on."""
        works = {"pyromq-flush": self._keep_flushing, "pyromq-checkpoint": self._keep_checkpoints}
        for name, work in works.items():
            thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def wake(self) -> None:
        """Flush the log at once."""
        self._work.set()

    def _keep_flushing(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            self._work.wait(self._interval)
            self._work.clear()
            self.flush()

    def _keep_checkpoints(self) -> None:
        next_checkpoint = perf_counter_ns() + self._checkpoint_interval * 1e9
        while not self._stopping.wait(min(_POSITION_INTERVAL, self._checkpoint_interval)) and self.failure is None:
            if perf_counter_ns() < next_checkpoint:
                self.note_position()
            else:
                self.checkpoint()
                next_checkpoint = perf_counter_ns() + self._checkpoint_interval * 1e9

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self.fail(error)
        except Exception as error:
            logger.exception("the flusher broke")
            self.fail(OSError(errno.EIO, f"{type(error).__name__} in the flusher"))

    def fail(self, error: OSError) -> None:
        """Stop for good: what is on disk is unknown."""
        self.failure = error
        self._on_failed(error)

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        self.wake()
        while self._threads:
            self._threads.pop().join()

    def close(self) -> None:
        """Close files that were never flushed, after a failure."""
        self._close_files(self._left_files)
        self._left_files = []
