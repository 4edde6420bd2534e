"""`inspect`: what a store's directory holds, told in numbers, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pyromq.protocol.messages.record import read_head
from pyromq.protocol.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TOPIC_GROUP_SEPARATOR,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
)
from pyromq.store.check.table_check import CONFIG_NAME, delay_offsets
from pyromq.store.files import OsFiles, ReadOnlyFiles
from pyromq.store.index.pending_table import count_pending
from pyromq.store.read.reader import StoreReader
from pyromq.store.recovery.directory import ABORT_NAME
from pyromq.store.recovery.quarantine import QUARANTINE_NAME
from pyromq.store.small_files.checkpoint import Checkpoint, CheckpointFiles
from pyromq.store.small_files.fences import Fences
from pyromq.store.small_files.json_file import ReadOnlyFile
from pyromq.store.small_files.lock import is_held
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import GROUPS, OFFSETS, TOPICS


class QueueSummary(Struct, frozen=True, kw_only=True):
    """One queue: which offsets it has, and of which time."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int


class OffsetSummary(Struct, frozen=True, kw_only=True):
    """How far a group is in one queue."""

    group: str
    topic: str
    queue_id: int
    committed_offset: int
    lag: int


class StoreSummary(Struct, frozen=True, kw_only=True):
    """A directory as a whole."""

    root: str
    is_live: bool
    """Whether a broker has it open."""
    is_clean: bool
    """Whether the last broker stopped cleanly."""
    min_physical_offset: int
    max_physical_offset: int
    log_files: int
    log_file_size: int
    messages: int
    topics: int
    configured_topics: int
    groups: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    pending_delayed: dict[int, int]
    """Messages that wait for their time, by delay level."""
    pending_timed: int
    """Messages that wait for a time of their own; what was delivered in the last seconds may be among them."""
    pending_half_messages: int
    """Transactions whose outcome is not known yet; what was ended since the last look is among them."""
    checkpoint: Checkpoint
    fenced_bytes: int
    quarantined_files: int


class Inspection:
    """Looks at a directory; the summaries are made when they are asked for."""

    def __init__(self, reader: StoreReader, files: OsFiles | None = None) -> None:
        self._reader = reader
        self._files = files or ReadOnlyFiles()
        self._root = reader.root
        directory = self._root / CONFIG_NAME
        topics = read_table(directory, TOPICS, self._files)
        groups = read_table(directory, GROUPS, self._files)
        offsets = read_table(directory, OFFSETS, self._files)
        self._configured_topics = len(topics.topic_config_table) if topics else 0
        self._groups = len(groups.subscription_group_table) if groups else 0
        self._offsets = offsets.offset_table if offsets else {}
        self.queues = [self._queue(topic, queue_id) for topic in reader.topics for queue_id in reader.queue_ids(topic)]

    def _queue(self, topic: str, queue_id: int) -> QueueSummary:
        low, high = self._reader.min_offset(topic, queue_id), self._reader.max_offset(topic, queue_id)
        return QueueSummary(
            topic=topic,
            queue_id=queue_id,
            min_offset=low,
            max_offset=high,
            messages=high - low,
            first_store_timestamp_ms=self._reader.earliest_time(topic, queue_id) if high > low else -1,
            last_store_timestamp_ms=self._stored_at(topic, queue_id, high - 1) if high > low else -1,
        )

    def _stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        views = self._reader.get(topic, queue_id, offset, 1).views
        return read_head(bytes(views[0])).store_timestamp_ms if views else -1

    def offsets(self) -> Iterator[OffsetSummary]:
        """Give what every group has committed, and how far that is behind."""
        for key, committed in sorted(self._offsets.items()):
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            for queue_id, offset in sorted(committed.items()):
                lag = self._reader.max_offset(topic, queue_id) - offset
                yield OffsetSummary(group=group, topic=topic, queue_id=queue_id, committed_offset=offset, lag=lag)

    def summary(self) -> StoreSummary:
        """Return the directory as a whole."""
        reader = self._reader
        firsts = [queue.first_store_timestamp_ms for queue in self.queues if queue.messages]
        return StoreSummary(
            root=str(self._root),
            is_live=is_held(self._root, self._files),
            is_clean=not self._files.exists(str(self._root / ABORT_NAME)),
            min_physical_offset=reader.min_physical_offset,
            max_physical_offset=reader.max_physical_offset,
            log_files=len(reader.log_segments),
            log_file_size=max((segment.size for segment in reader.log_segments), default=0),
            messages=sum(queue.messages for queue in self.queues),
            topics=len(reader.topics),
            configured_topics=self._configured_topics,
            groups=self._groups,
            first_store_timestamp_ms=min(firsts, default=-1),
            last_store_timestamp_ms=max((queue.last_store_timestamp_ms for queue in self.queues), default=-1),
            pending_delayed=self._pending_delayed(),
            pending_timed=self._pending_timed(),
            pending_half_messages=self._pending(TRANSACTION_HALF_TOPIC, TRANSACTION_GROUP),
            checkpoint=CheckpointFiles(self._root, self._files).read()[0],
            fenced_bytes=self._fenced_bytes(),
            quarantined_files=len(self._quarantined()),
        )

    def _pending_delayed(self) -> dict[int, int]:
        done = ReadOnlyFile(self._root / CONFIG_NAME / "delayOffset.json").load(delay_offsets) or {}
        pending = {
            queue.queue_id + 1: queue.max_offset - max(queue.min_offset, done.get(queue.queue_id + 1, 0))
            for queue in self.queues
            if queue.topic == SCHEDULE_TOPIC
        }
        return {level: count for level, count in sorted(pending.items()) if count > 0}

    def _pending_timed(self) -> int:
        is_live = is_held(self._root, self._files)
        return sum(
            count_pending(self._root, queue.min_offset, queue.max_offset, is_live=is_live)
            for queue in self.queues
            if queue.topic == TIMER_TOPIC
        )

    def _pending(self, topic: str, group: str) -> int:
        committed = self._offsets.get(topic + TOPIC_GROUP_SEPARATOR + group, {})
        return sum(
            max(queue.max_offset - max(queue.min_offset, committed.get(queue.queue_id, 0)), 0)
            for queue in self.queues
            if queue.topic == topic
        )

    def _fenced_bytes(self) -> int:
        fences = Fences(self._root, self._files)
        fences.load(self._reader.min_physical_offset)
        return sum(fence.end - fence.start for fence in fences.ranges())

    def _quarantined(self) -> list[str]:
        path = str(self._root / QUARANTINE_NAME)
        return self._files.listdir(path) if self._files.exists(path) else []
