"""After a restart: where the log ends, and queues that agree with it. RocketMQ's rules, made exact where we can.

1. Begin where everything before is known to be flushed and dispatched: at our own position if it counts, else, as
   RocketMQ does, at the third last file after a clean stop and at the checkpoint's file after a crash.
2. Walk from there, checking every record, and give each its queue entry where that is missing or differs.
3. The first bad record ends the log; what stands behind it is removed, so that nothing stale is ever read again.
4. A queue ends behind its last record that was met, or at its last entry that names a record of the log.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from pyromq.errors import CorruptRecord
from pyromq.protocol.record import RecordHead, RecordStatus, read_tail
from pyromq.store.checkpoint import Checkpoint, Position
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue, ConsumeQueueEntry
from pyromq.store.dispatch import Replay
from pyromq.store.queue_table import ConsumeQueues

logger = logging.getLogger(__name__)


class LastStop(NamedTuple):
    """What the directory says about how the store was left."""

    clean: bool
    checkpoint: Checkpoint
    position: Position | None


class Recovered(NamedTuple):
    """What recovery found."""

    start: int
    end: int
    records: int
    last_timestamp_ms: int


def recover(log: CommitLog, queues: ConsumeQueues, stop: LastStop, delay_levels_ms: tuple[int, ...]) -> Recovered:
    """Bring a loaded store into the state in which it takes messages; raises StoreError or OSError if it cannot."""
    start = find_start(log, queues, stop)
    replay = Replay(queues, delay_levels_ms)
    found = walk(log, start, replay)
    replay.write()
    cut_log(log, found.end, stop.position)
    log.segments.sync(start)
    log.settle(found.end)
    for queue in queues:
        settle_queue(log, queue, replay.ends.get(queue), trusted=stop.position is not None)
        queue.find_start(log.start)
    logger.info(
        "recovered the store clean=%s from=%d end=%d records=%d", stop.clean, found.start, found.end, found.records
    )
    if found.last_timestamp_ms:
        return found
    return found._replace(last_timestamp_ms=stop.checkpoint.log_timestamp_ms)


def find_start(log: CommitLog, queues: ConsumeQueues, stop: LastStop) -> int:
    """Return a position at which a record begins and before which nothing needs a look."""
    if not any(queue.segments.stop > queue.segments.start for queue in queues):
        return log.start  # no queue is left: all are made anew
    if stop.position is not None and log.start <= stop.position.dispatched <= log.segments.stop:
        return stop.position.dispatched
    starts = log.segments.starts()
    if stop.clean:
        return starts[-3:][0] if starts else log.start
    trusted = stop.checkpoint.trusted_timestamp_ms
    return next((start for start in reversed(starts) if _is_trusted(log, start, trusted)), log.start)


def _is_trusted(log: CommitLog, start: int, trusted_timestamp_ms: int) -> bool:
    head = log.check(start, log.segments.stop).head
    return head is not None and 0 < head.store_timestamp_ms <= trusted_timestamp_ms


def walk(log: CommitLog, position: int, replay: Replay) -> Recovered:
    """Check record after record and hand each to the replay; stop at the first that is none."""
    start, records, last_timestamp_ms = position, 0, 0
    while log.start <= position < log.segments.stop:
        found = log.check(position, log.segments.stop)
        if found.head is not None:
            _replay_record(log, position, found.head, replay)
            position += found.size
            records += 1
            last_timestamp_ms = found.head.store_timestamp_ms
        elif found.status is RecordStatus.BLANK:
            position = log.segments.file_start(position) + log.file_size
        else:
            break
    return Recovered(start, position, records, last_timestamp_ms)


def _replay_record(log: CommitLog, position: int, head: RecordHead, replay: Replay) -> None:
    file = log.view(log.segments.file_start(position), log.file_size)
    topic, properties = read_tail(file, head)
    replay.add(head, topic.decode("utf-8", "replace"), properties)


def cut_log(log: CommitLog, end: int, position: Position | None) -> None:
    """Remove what stands behind the last good record: half-written, or left by a broker that does not clear it.

    Raises CorruptRecord, and removes nothing, if that would reach into what was flushed: that is damage and no tail.
    """
    if position is not None and end < position.flushed:
        path = log.segments.path(log.segments.file_start(end))
        raise CorruptRecord(f"{path} is damaged at offset {end}, before the flushed end {position.flushed} of the log")
    log.forget_maps()  # a map must not be read while its file is short
    log.segments.cut(end)


def settle_queue(log: CommitLog, queue: ConsumeQueue, replayed_end: int | None, *, trusted: bool) -> None:
    """Let a queue end where the log says; entries behind that, stale or ahead of the log, are removed.

    Behind what a broker without our position left, an entry may be stale and still lie inside the log: it is then
    compared with the record it names.
    """
    first = queue.segments.start // ENTRY_SIZE
    end = queue.find_end() if replayed_end is None else replayed_end
    while end > first and not _is_right(log, queue, end - 1, trusted):
        end -= 1
    queue.cut(end)


def _is_right(log: CommitLog, queue: ConsumeQueue, offset: int, trusted: bool) -> bool:
    entry = queue.entry(offset)
    if not entry.is_message or entry.physical_offset + entry.size > log.end:
        return False
    if trusted or entry.physical_offset < log.start:  # expired with its record, not wrong
        return True
    return _names_its_record(log, queue, offset, entry)


def _names_its_record(log: CommitLog, queue: ConsumeQueue, offset: int, entry: ConsumeQueueEntry) -> bool:
    found = log.check(entry.physical_offset, log.end, check_crc=False)
    head = found.head
    if head is None or (head.total_size, head.queue_id, head.queue_offset) != (entry.size, queue.queue_id, offset):
        return False
    file = log.view(log.segments.file_start(entry.physical_offset), log.file_size)
    return read_tail(file, head)[0] == queue.topic_name
