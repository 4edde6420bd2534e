"""The files of a store's directory: locked, loaded and recovered before anyone writes.

    root/lock  abort  checkpoint  pyromq.position  commitlog/…  consumequeue/<topic>/<queue id>/…  index/…

`abort` marks a store that is open, or was when its server died.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from pyromq.store.commit_log import CommitLog
from pyromq.store.config import StoreConfig
from pyromq.store.dispatch import WriteGroup
from pyromq.store.files import OsFiles, make_directories
from pyromq.store.flush import Flusher
from pyromq.store.index.index_directory import IndexDirectory
from pyromq.store.index.index_file import Geometry
from pyromq.store.index.index_recovery import LastIndexStop
from pyromq.store.index.message_index import MessageIndex
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.recovery.file_sizes import log_file_size, queue_file_size
from pyromq.store.recovery.formats import check_formats
from pyromq.store.recovery.log_healing import LogHealing
from pyromq.store.recovery.quarantine import Quarantine
from pyromq.store.recovery.recovery import LastStop, Recovered, Recovery, StoreParts
from pyromq.store.recovery.stored_records import unseen_groups
from pyromq.store.retention.cleaner import Cleaner
from pyromq.store.retention.deletions import Deletions
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile
from pyromq.store.small_files.checkpoint import CheckpointFiles
from pyromq.store.small_files.confirmed_end import ConfirmedEnd
from pyromq.store.small_files.fences import Fences
from pyromq.store.small_files.lock import DirectoryLock
from pyromq.store.small_files.queue_ends import QueueEnds
from pyromq.store.write.appender import Appender
from pyromq.store.write.no_space import NoSpace
from pyromq.store.write.quick_flush import QuickFlush
from pyromq.store.write.visibility import Visibility

ABORT_NAME: Final = "abort"


class StoreDirectory:
    """Log, consume queues, index and what is known of their last stop; opened once."""

    def __init__(self, config: StoreConfig, files: OsFiles, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._files = files
        self._root = str(config.root.absolute())
        self._abort = str(config.root / ABORT_NAME)
        self.pool = DescriptorPool(files, config.max_open_files)
        self.dirty_log = DirtyFiles()
        self.dirty_queues = DirtyFiles()
        self.checkpoints = CheckpointFiles(config.root, files)
        self.deletions = Deletions(config.root, files)
        self.fences = Fences(config.root, files)
        self.queue_ends = QueueEnds(config.root, files)
        self.confirmed_end = ConfirmedEnd(config.root, files)
        self._quarantine = Quarantine(config.root, files)
        log_directory = str(config.commit_log_path.absolute())
        segments = SegmentedFile(log_directory, config.commit_log_file_size, files, self.pool, self.dirty_log)
        self.log = CommitLog(
            segments,
            files,
            reserve_step=config.reserve_step,
            max_maps=config.max_mapped_files,
            mapped_tail=config.mapped_tail,
            prepared_bytes=config.prepared_bytes if config.waits_for_flush else 0,
        )
        queue_directory = config.root / "consumequeue"
        self.queues = ConsumeQueues(queue_directory, config.queue_file_size, files, self.pool, self.dirty_queues)
        geometry = Geometry(config.max_hash_slots, config.max_index_entries)
        self.index = MessageIndex(IndexDirectory(config.root, geometry, files), now_ms, enabled=config.message_index)
        self.no_space = NoSpace()
        self.parts = StoreParts(self.log, self.queues, self.index, self.deletions, self.fences, self._quarantine)
        self.healing = LogHealing(self.parts, files, config.delay_levels_ms)

    def open(self, stack: ExitStack) -> tuple[LastStop, Recovered]:
        """Lock, load and recover; what has to be closed goes on the stack.

        Raises StoreLocked, UnknownFormat, StoreError or OSError.
        """
        for directory in make_directories(self._files, self._root):
            self._files.sync_directory(directory)
        lock = DirectoryLock(self._config.root, self._files)
        lock.acquire()
        stack.callback(lock.release)
        stack.callback(self.pool.close)
        stack.callback(self.log.close)
        stack.callback(self.index.close)
        check_formats(self._config.root, self._files)
        self._take_over_file_sizes()
        self.deletions.load()
        clean = not self._files.exists(self._abort)
        stop = LastStop(clean, *self.checkpoints.read(), self.queue_ends.read(), self._confirmed())
        self._mark_open()
        self.log.segments.load(mend=True)
        self.queues.load()
        self.fences.load(self.log.start)
        index_timestamp_ms = stop.checkpoint.index_timestamp_ms
        self.index.load(
            LastIndexStop(stop.clean, stop.position is not None, index_timestamp_ms, self.log.segments.start)
        )
        return stop, Recovery(self.parts, stop, self._config.delay_levels_ms).run()

    def appender(self, now_ms: Callable[[], int]) -> Appender:
        """Return what gives messages their place in these files."""
        return Appender(
            self.log,
            self.queues,
            self.index,
            now_ms,
            max_message_size=self._config.max_message_size,
            delay_levels_ms=self._config.delay_levels_ms,
            no_space=self.no_space,
        )

    def unseen_by(self, appender: Appender) -> Callable[[int], list[WriteGroup]]:
        """Return what finds the groups of the log, from a place on, that are in no queue yet."""

        def find(start: int) -> list[WriteGroup]:
            self.end_queues()
            return unseen_groups(self.parts, appender, self._config.delay_levels_ms, start)

        return find

    def end_queues(self) -> None:
        """Remove the room that queues have for messages that are not visible: other brokers take it for entries."""
        for queue in self.queues:
            if queue.next_offset > queue.max_offset:
                queue.cut(queue.max_offset)

    def flusher(self, on_flushed: Callable[[int], None], on_failed: Callable[[OSError], None]) -> Flusher:
        """Return what flushes these files; it calls back in its own threads."""
        return Flusher(
            self._files,
            self.checkpoints,
            self.dirty_log,
            self.dirty_queues,
            self.index,
            self.queues,
            self.queue_ends,
            self.confirmed_end if self._config.shows_confirmed_only else None,
            queue_directory=self.queues.root,
            interval_ms=self._config.flush_interval_ms,
            checkpoint_interval_ms=self._config.checkpoint_interval_ms,
            on_flushed=on_flushed,
            on_failed=on_failed,
            quick=QuickFlush(self._config.quick_flush_us / 1e6),
        )

    def cleaner(self, now_ms: Callable[[], int], visibility: Visibility, durable_end: Callable[[], int]) -> Cleaner:
        """Return what removes files of these that have expired."""
        return Cleaner(
            self._config,
            self.log,
            self.queues,
            self.deletions,
            self._files,
            visibility,
            now_ms=now_ms,
            durable_end=durable_end,
            expire_index=self.index.expire,
            no_space=self.no_space,
        )

    def _confirmed(self) -> int | None:
        if self._config.shows_confirmed_only:
            return self.confirmed_end.read()
        self.confirmed_end.forget()  # before anything of what waits is shown
        return None

    def _take_over_file_sizes(self) -> None:
        log, queues = self.log.segments, self.queues
        log.file_size = log_file_size(self._files, log.directory, log.file_size)
        queues.file_size = queue_file_size(self._files, str(self._config.root / "consumequeue"), queues.file_size)

    def _mark_open(self) -> None:
        # Before recovery changes a file: if that is interrupted, the next start has to look again.
        self._files.close(self._files.open(self._abort, create=True))
        self._files.sync_directory(self._root)

    def mark_clean(self) -> None:
        """Say that everything is flushed and dispatched."""
        self._files.unlink(self._abort)
        self._files.sync_directory(self._root)
