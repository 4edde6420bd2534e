"""The files of a store's directory: locked, loaded and recovered before anyone writes.

    root/lock  abort  checkpoint  pyromq.position  commitlog/…  consumequeue/<topic>/<queue id>/…

`abort` marks a store that is open, or was when its server died.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from pyromq.store.checkpoint import CheckpointFiles
from pyromq.store.commit_log import CommitLog
from pyromq.store.config import StoreConfig
from pyromq.store.files import OsFiles, make_directories
from pyromq.store.lock import DirectoryLock
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.recovery import LastStop, Recovered, recover
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile

ABORT_NAME: Final = "abort"


class StoreDirectory:
    """Log, consume queues and what is known of their last stop; opened once."""

    def __init__(self, config: StoreConfig, files: OsFiles) -> None:
        self._config = config
        self._files = files
        self._root = str(config.root.absolute())
        self._abort = str(config.root / ABORT_NAME)
        self._pool = DescriptorPool(files, config.max_open_files)
        self.dirty_log = DirtyFiles()
        self.dirty_queues = DirtyFiles()
        self.checkpoints = CheckpointFiles(config.root, files)
        log_directory = str(config.commit_log_path.absolute())
        segments = SegmentedFile(log_directory, config.commit_log_file_size, files, self._pool, self.dirty_log)
        self.log = CommitLog(segments, files, reserve_step=config.reserve_step, max_maps=config.max_mapped_files)
        queue_directory = config.root / "consumequeue"
        self.queues = ConsumeQueues(queue_directory, config.queue_file_size, files, self._pool, self.dirty_queues)

    def open(self, stack: ExitStack) -> tuple[LastStop, Recovered]:
        """Lock, load and recover; what has to be closed goes on the stack.

        Raises StoreLocked, StoreError or OSError.
        """
        for directory in make_directories(self._files, self._root):
            self._files.sync_directory(directory)
        lock = DirectoryLock(self._config.root, self._files)
        lock.acquire()
        stack.callback(lock.release)
        stack.callback(self._pool.close)
        stack.callback(self.log.close)
        stop = LastStop(not self._files.exists(self._abort), *self.checkpoints.read())
        self._mark_open()
        self.log.segments.load()
        self.queues.load()
        return stop, recover(self.log, self.queues, stop, self._config.delay_levels_ms)

    def _mark_open(self) -> None:
        # Before recovery changes a file: if that is interrupted, the next start has to look again.
        self._files.close(self._files.open(self._abort, create=True))
        self._files.sync_directory(self._root)

    def mark_clean(self) -> None:
        """Say that everything is flushed and dispatched."""
        self._files.unlink(self._abort)
        self._files.sync_directory(self._root)
