"""How much of a log was flushed, if our own position does not say it: by RocketMQ's checkpoint and queues.

The checkpoint holds a store time up to which the log was flushed, and the queues name the records. What merely looks
right behind them proves nothing: RocketMQ's brokers leave old records behind an end that they have cut.
"""

from __future__ import annotations

from bisect import bisect_left

from pyromq.protocol.messages.record import read_head
from pyromq.store.commit_log import CommitLog
from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.record_match import named_record


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
