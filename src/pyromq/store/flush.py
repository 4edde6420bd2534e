"""When written bytes count as durable: one thread flushes for all.

The log is flushed at every interval, whatever little was written, and at once when a commit waits for it (SYNC_FLUSH):
one fdatasync then covers all groups that wait. Consume queues can be rebuilt from the log, so they are flushed less
often, before the checkpoint moves on. A flush that fails is never repeated: the kernel has marked the pages clean, and
a second call would succeed with the data gone. It stops the store.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from pyromq.store.checkpoint import Checkpoint, CheckpointFiles, Position
from pyromq.store.commit_log import LogFile, Written
from pyromq.store.files import OsFiles, is_no_space
from pyromq.store.segments import DirtyFiles

logger = logging.getLogger(__name__)

_MANY_FILES: Final = 32


class _Mark(NamedTuple):
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
        *,
        now_ms: Callable[[], int],
        interval_ms: int,
        checkpoint_interval_ms: int,
        on_flushed: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        self._files = files
        self._checkpoints = checkpoints
        self._log_directories = log_directories
        self._queue_files = queue_files
        self._interval = interval_ms / 1000
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._now_ms = now_ms
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self.flushed_offset = 0
        self.failure: OSError | None = None
        self._guard = threading.Lock()  # for the next four, shared by writer and thread
        self._log_files: set[LogFile] = set()
        self._left_files: list[LogFile] = []
        self._written = _Mark(0, 0)
        self._dispatched = _Mark(0, 0)
        self._flushing = threading.Lock()
        self._flushed_timestamp_ms = self._index_timestamp_ms = 0
        self._position: Position | None = None
        self._work = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    # --- told by the writer

    def begin(self, end: int, timestamp_ms: int, checkpoint: Checkpoint, position: Position | None) -> None:
        """Begin where recovery ended: all of the log is flushed, and queues hold all of it."""
        self.flushed_offset = end
        self._written = self._dispatched = _Mark(end, timestamp_ms)
        self._flushed_timestamp_ms = timestamp_ms
        self._index_timestamp_ms = checkpoint.index_timestamp_ms
        self._position = position

    def wrote(self, written: Written, end: int, timestamp_ms: int) -> None:
        """Note that the log was written up to `end`."""
        with self._guard:
            self._log_files.update(written.files)
            self._left_files += written.left
            self._written = _Mark(end, timestamp_ms)

    def dispatched(self, end: int, timestamp_ms: int) -> None:
        """Note that consume queues were written for the log up to `end`."""
        with self._guard:
            self._dispatched = _Mark(end, timestamp_ms)

    # --- flushing

    def flush(self) -> None:
        """Make all of the log that was written durable; raises OSError, once and for all, if that fails."""
        with self._flushing:  # whoever comes second finds its bytes flushed, not merely taken by the first
            if self.failure is not None:
                raise self.failure
            try:
                self._flush()
            except OSError as error:
                self.failure = error
                raise

    def _flush(self) -> None:
        with self._guard:
            log_files, self._log_files = self._log_files, set()
            left_files, self._left_files = self._left_files, []
            written = self._written
        if not log_files:
            return
        try:
            for log_file in log_files:
                self._files.fdatasync(log_file.descriptor)
            for directory in self._log_directories.take()[1]:
                self._files.sync_directory(directory)
        finally:
            self._close_files(left_files)
        self._flushed_timestamp_ms = written.timestamp_ms
        self.flushed_offset = written.end
        self._on_flushed(written.end)

    def _close_files(self, log_files: list[LogFile]) -> None:
        for log_file in log_files:
            self._files.close(log_file.descriptor)

    def checkpoint(self) -> None:
        """Flush the log and the consume queues, then say so in the checkpoint."""
        with self._guard:
            dispatched = self._dispatched
        changed, directories = self._queue_files.take()
        self.flush()
        self._sync_queues(changed, directories)
        position = Position(self.flushed_offset, dispatched.end)
        if position != self._position:
            self._write_checkpoint(dispatched, position)

    def _sync_queues(self, changed: set[str], directories: set[str]) -> None:
        if len(changed) + len(directories) > _MANY_FILES:
            # Each fdatasync waits for the disk, even for a clean file: a thousand queues would take seconds.
            self._files.sync_file_system(os.path.dirname(next(iter(changed or directories))))
            return
        for path in changed:
            self._sync_file(path)
            self._flush_if_awaited()
        for directory in directories:
            self._files.sync_directory(directory)
            self._flush_if_awaited()

    def _flush_if_awaited(self) -> None:
        if self._work.is_set():
            self._work.clear()
            self.flush()

    def _sync_file(self, path: str) -> None:
        # Opened here and not taken from the pool, whose descriptors the writer may close at any moment.
        try:
            descriptor = self._files.open(path)
        except FileNotFoundError:
            return  # removed since
        try:
            self._files.fdatasync(descriptor)
        finally:
            self._files.close(descriptor)

    def _write_checkpoint(self, dispatched: _Mark, position: Position) -> None:
        times = Checkpoint(self._flushed_timestamp_ms, dispatched.timestamp_ms, self._index_timestamp_ms)
        try:
            self._checkpoints.write(times, position)
        except OSError as error:
            if not is_no_space(error):
                raise
            logger.warning("no space for a new checkpoint, the old one stays: %s", error)
        else:
            self._position = position

    # --- the thread

    def start(self) -> None:
        """Flush in a thread from now on."""
        self._thread = threading.Thread(target=self._run, name="pyromq-flush", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Flush the log at once."""
        self._work.set()

    def _run(self) -> None:
        last_checkpoint_ms = self._now_ms()
        try:
            while not self._stopping and self.failure is None:
                self._work.wait(self._interval)
                self._work.clear()
                self.flush()
                now_ms = self._now_ms()
                if not 0 <= now_ms - last_checkpoint_ms < self._checkpoint_interval_ms:  # a clock may step back
                    self.checkpoint()
                    last_checkpoint_ms = now_ms
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
        """End the thread."""
        self._stopping = True
        self.wake()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Close files that were never flushed, after a failure."""
        self._close_files(self._left_files)
        self._left_files = []
