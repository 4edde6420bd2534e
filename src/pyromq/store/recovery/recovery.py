"""After a restart: where the log ends, what in it is damaged, and queues and index that agree with it.

    forget deleted      queues of topics that were deleted, and whose directories have come back
    find lost queues    which queues had more entries than are there
    find durable end    what is bad before it is damage, what is bad behind it is a tail
    find start          before it everything is known to be flushed and dispatched
    find visible end    what lies behind it waits for its confirmation, where only confirmed messages are shown
    walk                check every record from there; fence damage, end at the tail
    end the log         keep what stands behind the end in quarantine, then cut it off
    settle queues       let each end where the log says

Our own position says all that exactly. Where it does not count, another broker has written here, and its checkpoint and
queues take the position's place, by RocketMQ's rules.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from time import perf_counter
from typing import Final, NamedTuple

from pyromq.protocol.messages.record import read_head
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from pyromq.store.flush import LogEnd
from pyromq.store.index.message_index import MessageIndex
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.read.log_walk import LogWalk, WalkedRecord
from pyromq.store.read.record_match import named_record
from pyromq.store.recovery.log_replay import Replay
from pyromq.store.recovery.quarantine import Quarantine
from pyromq.store.recovery.queue_recovery import QueueRecovery
from pyromq.store.retention.deletions import Deletions
from pyromq.store.small_files.checkpoint import Checkpoint, Position
from pyromq.store.small_files.fences import Fences
from pyromq.store.small_files.queue_ends import EndsByTopic
from pyromq.store.write.visibility import EVERYTHING

logger = logging.getLogger(__name__)

_SECTOR: Final = 512


class LastStop(NamedTuple):
    """What the directory says about how the store was left."""

    clean: bool
    checkpoint: Checkpoint
    position: Position | None
    queue_ends: EndsByTopic
    confirmed_end: int | None = None
    """Up to where messages were visible; None if all of them are."""


class StoreParts(NamedTuple):
    """What recovery works on."""

    log: CommitLog
    queues: ConsumeQueues
    message_index: MessageIndex
    deletions: Deletions
    fences: Fences
    quarantine: Quarantine


class Recovered(NamedTuple):
    """What recovery found."""

    start: int
    end: LogEnd
    visible: LogEnd
    """Up to where queues and index hold the log."""
    topics: dict[str, int]
    """Topics met in the log after the checkpoint, each with the number of queues it needs at least."""


class Recovery:
    """Brings a loaded store into the state in which it takes messages."""

    def __init__(self, parts: StoreParts, stop: LastStop, delay_levels_ms: tuple[int, ...]) -> None:
        self._parts = parts
        self._log, self._queues, self._index, self._deletions, self._fences, _ = parts
        self._segments = self._log.segments
        self._stop = stop
        self._delay_levels_ms = delay_levels_ms
        self._queue_passes = QueueRecovery(self._log, self._queues, self._deletions, stop.position, stop.queue_ends)
        self._durable_end = self._start = self._end = self._last_timestamp_ms = 0
        self._visible_end = EVERYTHING

    def run(self) -> Recovered:
        """Make all passes; raises StoreError or OSError if one cannot be made."""
        began = perf_counter()
        self._queue_passes.forget_deleted()
        self._queue_passes.find_lost()
        self._find_durable_end()
        self._find_start()
        self._find_visible_end()
        replay = self._walk()
        cut = end_log(self._parts, self._end, visible_end=self._visible_end, sync_from=self._start)
        self._queue_passes.settle(replay, self._start)
        logger.info(
            "recovered the store seconds=%.3f clean=%s from=%d end=%d records=%d cut=%d fenced=%d rebuilt queues=%d",
            *(perf_counter() - began, self._stop.clean, self._start, self._log.end),
            *(replay.records, cut, len(self._fences), len(self._queue_passes.lost)),
        )
        return self._recovered(replay)

    def _recovered(self, replay: Replay) -> Recovered:
        position, checkpoint = self._stop.position, self._stop.checkpoint
        if position is not None:
            topics = replay.topics_since(position.dispatched, -1)
        else:
            topics = replay.topics_since(0, checkpoint.trusted_timestamp_ms)
        end = visible = LogEnd(self._log.end, self._last_timestamp_ms or checkpoint.log_timestamp_ms)
        if self._visible_end < self._log.end:
            visible = LogEnd(self._visible_end, replay.last_timestamp_ms or checkpoint.queues_timestamp_ms)
        return Recovered(self._start, end, visible, topics)

    # --- tail or damage

    def _find_durable_end(self) -> None:
        position, checkpoint = self._stop.position, self._stop.checkpoint
        if position is not None:
            self._durable_end = position.flushed
            self._replace_lost_files()
        elif checkpoint.log_timestamp_ms > 0:
            self._durable_end = find_durable_end(self._log, self._queues, checkpoint.log_timestamp_ms)

    def _replace_lost_files(self) -> None:
        """Put empty files where the log's last ones are gone: that range is damage, and must not be written again."""
        while self._segments.start < self._segments.stop < self._durable_end:
            logger.error("a file of the log is missing file=%s", self._segments.path(self._segments.stop))
            self._segments.add(0)

    # --- where to begin

    def _find_start(self) -> None:
        self._start = self._log.start if self._queue_passes.lost else self._trusted_start()
        if self._index.start is not None:
            self._start = max(min(self._start, self._index.start), self._log.start)

    def _trusted_start(self) -> int:
        position, starts = self._stop.position, self._segments.starts()
        if position is not None and self._log.start <= position.dispatched <= self._segments.stop:
            return position.dispatched
        if not any(queue.segments.stop > queue.segments.start for queue in self._queues):
            return self._log.start  # no queue is left: all are made anew
        if self._stop.clean:
            return starts[-3:][0] if starts else self._log.start
        return next((start for start in reversed(starts) if self._is_trusted(start)), self._log.start)

    def _is_trusted(self, file_start: int) -> bool:
        first = LogWalk(self._segments, file_start).check_here()
        return first is not None and 0 < first[5] <= self._stop.checkpoint.trusted_timestamp_ms

    def _find_visible_end(self) -> None:
        """Find up to where messages were visible: as was noted, or as the queues say, which are never behind that."""
        position, confirmed_end = self._stop.position, self._stop.confirmed_end
        if position is not None and confirmed_end is not None:
            noted = max(confirmed_end, position.dispatched)
            self._visible_end = max(noted, self._queue_passes.furthest_end(noted))

    # --- the log

    def _walk(self) -> Replay:
        replay = Replay(
            *(self._queues, self._index, self._deletions, self._fences, self._delay_levels_ms),
            is_whole=self._start <= self._log.start,
        )
        walk = LogWalk(self._segments, self._start)
        self._walk_flushed_part(walk, replay)
        self._walk_tail(walk, replay)
        for start, end in replay.rejected:
            self._fence(start, end)
        replay.write()
        self._end = walk.position
        return replay

    def _walk_flushed_part(self, walk: LogWalk, replay: Replay) -> None:
        """Walk up to the durable end, around damage."""
        while self._segments.start <= walk.position < min(self._durable_end, self._segments.stop):
            for record in walk.records(self._durable_end):
                self._meet(record, replay)
            if walk.position < self._durable_end:
                damaged = walk.position
                walk.find_next(self._durable_end)
                self._fence(damaged, walk.position)

    def _walk_tail(self, walk: LogWalk, replay: Replay) -> None:
        """Walk on to the first record that is none: half-written, never written, or older than the last flushed one.

        Queues may be behind the log, so the last flushed one that they name may be older than the checkpoint says.
        """
        flushed_ms = min(self._stop.checkpoint.log_timestamp_ms, self._last_timestamp_ms)
        oldest_ms = 0 if self._stop.position is not None else flushed_ms
        while True:
            for record in walk.records(self._segments.stop):
                if record[5] < oldest_ms or is_torn(record, self._segments.file_start(record[0])):
                    walk.position = record[0]
                    return
                self._meet(record, replay)
            end_of_fence = self._fences.end_at(walk.position)
            if end_of_fence is None or end_of_fence > self._segments.stop:
                return
            walk.position = end_of_fence

    def _meet(self, record: WalkedRecord, replay: Replay) -> None:
        self._last_timestamp_ms = record[5]
        if record[0] < self._visible_end:
            replay.add(record)

    def _fence(self, start: int, end: int) -> None:
        self._fences.add(start, end, self._segments.path(self._segments.file_start(start)))


def is_torn(record: WalkedRecord, file_start: int) -> bool:
    """Return True if sectors are missing behind the body of a record that was never flushed.

    The checksum is that of the body. A power cut can leave out what stands in the next sector: topic or properties,
    which are text, then read as zeros from there on.
    """
    physical_offset, size, _, _, _, _, topic, properties = record
    end = physical_offset + size - file_start
    start = end - len(properties)
    sectors = range(start + -start % _SECTOR, end, _SECTOR)
    return b"\0" in topic or any(not properties[at - start : at - start + _SECTOR].strip(b"\0") for at in sectors)


def end_log(parts: StoreParts, end: int, *, visible_end: int, sync_from: int, is_in_use: bool = False) -> int:
    """Let log and index end here, and keep in quarantine what the log has behind; return how many bytes.

    The index holds the log only as far as messages are visible. What was cut off is gone for good: nothing stale is
    ever read again. `is_in_use` if the store is open, so that somebody may have mapped its files. Raises OSError.
    """
    log, _, index, deletions, fences, quarantine = parts
    fences.stay_within(end)
    fences.save()
    deletions.stay_within(end)
    deletions.save()
    cut = quarantine.keep(log.segments, end)
    if cut:
        logger.warning("cut off the log's tail, which is in quarantine now end=%d bytes=%d", end, cut)
    log.close()  # with its maps: they must not be read while a file is short
    log.segments.cut(end, is_in_use=is_in_use)
    log.segments.sync(min(sync_from, end))
    log.settle(end)
    index.settle(min(end, visible_end))
    return cut


def find_durable_end(log: CommitLog, queues: ConsumeQueues, flushed_timestamp_ms: int) -> int:
    """Return the end of the furthest record that a queue names and that was stored by then; 0 if there is none."""
    return max((_end_in(log, queue, flushed_timestamp_ms) for queue in queues), default=0)


def _end_in(log: CommitLog, queue: ConsumeQueue, timestamp_ms: int) -> int:
    def is_later(offset: int) -> bool:
        entry = queue.entry(offset)
        if entry.is_written and entry.physical_offset < log.start:
            return False  # expired, or a filler
        record = named_record(log, queue, offset, entry)
        return record is None or read_head(record).store_timestamp_ms > timestamp_ms

    first, end = queue.segments.start // ENTRY_SIZE, queue.find_end()
    if end > first and is_later(end - 1):
        end = first + bisect_left(range(first, end), True, key=is_later)
    if end == first:
        return 0
    entry = queue.entry(end - 1)
    return entry.physical_offset + entry.size if entry.is_message else 0
