"""`verify`: every record, queue entry, index entry, table and file name of a store, checked without changing anything.

A format checks only part of itself: a record's body has a checksum and its place is in it, but its flag or its sender's
address could change unseen. What two files both say is compared, so topic, queue, offset, tags and keys are safe too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from pyromq.store.check.file_check import FileCheck
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.check.index_check import IndexCheck, keys_of_record
from pyromq.store.check.log_check import KnownEnd, LogCheck, TolerantSegments
from pyromq.store.check.queue_check import QueueCheck, QueueKey, place
from pyromq.store.check.table_check import CONFIG_NAME, SmallFileCheck, TableCheck
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.files import OsFiles, ReadOnlyFiles
from pyromq.store.index.index_file import Geometry
from pyromq.store.index.key_hash import StoredKeys
from pyromq.store.read.file_view import LOG_NAME, SegmentView, find_queues, find_root
from pyromq.store.read.log_walk import LogWalk
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.recovery.formats import check_formats
from pyromq.store.retention.deletions import Deletions
from pyromq.store.segments import DescriptorPool
from pyromq.store.small_files.checkpoint import CheckpointFiles
from pyromq.store.small_files.confirmed_end import ConfirmedEnd
from pyromq.store.small_files.fences import Fences
from pyromq.store.small_files.lock import is_held
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import TOPICS
from pyromq.store.write.visibility import EVERYTHING

_MAX_OPEN_FILES: Final = 256


class StoreCheck:
    """One pass over a directory; what run() has met is in the attributes when it is done."""

    def __init__(
        self,
        directory: str | Path,
        *,
        commit_log: Sequence[str | Path] = (),
        files: OsFiles | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Look for the store, here or in `store/`; raises StoreError if there is none."""
        self._files = files or ReadOnlyFiles()
        self.root = find_root(str(directory), self._files)
        check_formats(Path(self.root), self._files)
        self.log_directories = [str(path) for path in commit_log] or [f"{self.root}/{LOG_NAME}"]
        self.is_live = is_held(Path(self.root), self._files)
        self.is_clean = not self._files.exists(f"{self.root}/{ABORT_NAME}")
        self._on_progress = on_progress
        self._pool = DescriptorPool(self._files, _MAX_OPEN_FILES)
        self.log_start = self.log_end = 0
        self.last_timestamp_ms = 0
        self.records = 0
        self.bytes_read = 0
        self.damage: list[range] = []
        self.contradicted: list[range] = []
        """Records that say they belong elsewhere than a queue has them."""
        self.has_other_delays = False
        """Whether delayed messages wait for other times than they would by default."""
        self.has_index = False
        self.index_geometry: Geometry | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nobody is at work here and the last one finished."""
        return self.is_clean and not self.is_live

    def run(self) -> Iterator[Finding]:
        """Give all that is found, as it is found."""
        with closing(self._pool):
            if self.is_live:
                yield self._note("a broker has this directory open: what it writes meanwhile is not judged")
            elif not self.is_clean:
                yield self._note("the last broker did not stop cleanly: the next start mends what it left half done")
            state = {"is_live": self.is_live, "is_clean": self.is_clean}
            yield from FileCheck(self.root, self.log_directories, self._files, **state).run()
            yield from self._messages()
            yield from TableCheck(self.root, self._files).run()

    def _messages(self) -> Iterator[Finding]:
        segments = TolerantSegments(self.log_directories, self._files, self._pool)
        queues = self._queues()
        deletions = Deletions(Path(self.root), self._files)
        deletions.load()
        fences = Fences(Path(self.root), self._files)
        fences.load(segments.start)
        log = LogCheck(
            segments, self.root, self._known_end(segments, queues), fences.ranges(), self._progress(segments)
        )
        queue_check = QueueCheck(
            queues,
            segments,
            self.root,
            has_extensions=self._files.exists(f"{self.root}/consumequeue_ext"),
            is_deleted=deletions.covers,
            visible_end=self._visible_end(),
        )
        index = IndexCheck(
            self.root, self._files, segments.start, log.damage, lambda offset: _keys_at(segments, offset)
        )
        for found in log.run():
            if isinstance(found, Finding):
                yield found
                continue
            queue_check.add(found)
            index.add(found)
            for check in (queue_check, index):
                if check.is_full:
                    yield from check.compare()
        self.log_start, self.log_end, self.records, self.damage = segments.start, log.end, log.records, log.damage
        self.last_timestamp_ms = log.last_timestamp_ms
        self.bytes_read = log.end - segments.start
        yield from segments.findings(self.root)
        yield from queue_check.finish(segments.start, log.end, log.damage)
        yield from self._missing(queue_check, queues)
        if queue_check.unconfirmed:
            yield self._note(f"{queue_check.unconfirmed} messages at the log's end are not confirmed, and not visible")
        self.contradicted = queue_check.contradicted
        self.has_other_delays = queue_check.has_other_delays
        self.has_index, self.index_geometry = index.has_files, index.geometry
        yield from index.finish(is_settled=self.is_settled)
        # If the last record is damaged, nobody knows how late the log ends.
        is_last_sound = not log.damage or log.damage[-1].stop < log.end
        small = SmallFileCheck(self.root, self._files)
        yield from small.run(log.end, log.last_timestamp_ms if is_last_sound else 0, is_settled=self.is_settled)

    def _queues(self) -> dict[QueueKey, ConsumeQueue]:
        return {
            (topic, queue_id): ConsumeQueue(topic, queue_id, SegmentView([directory], self._files, self._pool))
            for topic, queue_id, directory in find_queues(self.root, self._files)
        }

    def _known_end(self, segments: SegmentView, queues: dict[QueueKey, ConsumeQueue]) -> KnownEnd:
        """Find out how far the log goes for certain: by our own position, and by what the queues name last."""
        position = CheckpointFiles(Path(self.root), self._files).read()[1]
        end = position.flushed if position else segments.start
        named: dict[int, int] = {}
        for queue in queues.values():
            entry = queue.entry(queue.find_end() - 1)
            if entry.is_message and entry.physical_offset >= segments.start:
                named[entry.physical_offset] = entry.size
                record = LogWalk(segments, entry.physical_offset).check_here()
                if record is not None and record[1:3] == (entry.size, queue.queue_id):
                    end = max(end, entry.physical_offset + entry.size)
        return KnownEnd(min(end, segments.stop), named if self.is_settled else {})

    def _visible_end(self) -> int:
        confirmed_end = ConfirmedEnd(Path(self.root), self._files).read()
        position = CheckpointFiles(Path(self.root), self._files).read()[1]
        return EVERYTHING if confirmed_end is None or position is None else max(confirmed_end, position.dispatched)

    def _progress(self, segments: SegmentView) -> Callable[[int], None]:
        start, total = segments.start, segments.stop - segments.start
        return lambda position: self._on_progress(position - start, total)

    def _missing(self, check: QueueCheck, queues: dict[QueueKey, ConsumeQueue]) -> Iterator[Finding]:
        """Tell which records have no entry: that of an unknown topic was deleted, the last may come yet."""
        topics = self._topics()
        for (topic, queue_id), offsets in check.missing:
            queue = queues.get((topic, queue_id))
            file, position = (
                place(queue, offsets.start, self.root) if queue else (f"consumequeue/{topic}/{queue_id}", 0)
            )
            text = f"{len(offsets)} messages from offset {offsets.start} on have no entry"
            finding = Finding(kind="entry", file=file, offset=position, text=text)
            if queue is None and topic not in topics:
                yield finding.as_note(": the topic is unknown, and may have been deleted")
            elif not self.is_settled and (queue is None or offsets.stop > queue.find_end()):
                yield finding.as_note(" yet")
            else:
                yield finding

    def _topics(self) -> set[str]:
        table = read_table(Path(self.root) / CONFIG_NAME, TOPICS, self._files)
        return set(table.topic_config_table) if table else set()

    def _note(self, text: str) -> Finding:
        return Finding(severity=Severity.NOTE, kind="file", file=".", text=text)


def _keys_at(segments: SegmentView, offset: int) -> StoredKeys | None:
    record = LogWalk(segments, offset).check_here()
    return None if record is None else keys_of_record(record)
