"""Turns ranges of queues into Arrow batches, on an executor, and checks that no message is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pyromq.errors import CorruptRecord
from pyromq.protocol.headers.pull import MAX_PULL_QUEUES
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.tag_filter import parse_tags
from pyromq.spark.arrow import Int64s
from pyromq.spark.offsets import QueueSlice, queue_name
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, connect
from pyromq.spark.read.brokers.puller import Puller
from pyromq.spark.read.brokers.queues_reader import QueuesReader
from pyromq.spark.read.decode.columns import Columns, freeze, record_batches
from pyromq.spark.read.decode.records import Records, record_starts
from pyromq.spark.read.plan.positions import report_lost


def read_slices(slices: Sequence[QueueSlice], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read ranges one after another; raise OffsetOutOfRange if messages are gone, unless the options allow it."""
    freeze()
    brokers = connect(options.namesrv, options.credentials, options.tls)
    for parts in _of_one_broker(slices):
        together = QueuesReader(brokers, parts, options)
        for records in together.records():
            yield from record_batches(records, parts[0].queue.broker_name, options)
        for part in together.rest:
            yield from _read_one(brokers, part, options)


def _of_one_broker(slices: Sequence[QueueSlice]) -> list[list[QueueSlice]]:
    """Group the ranges by topic and broker: each queue once per list, and no more queues than one pull takes."""
    groups: dict[tuple[str, str, int, int], list[QueueSlice]] = {}
    seen: Counter[MessageQueue] = Counter()
    for number, part in enumerate(slices):
        queue = part.queue
        key = queue.topic, queue.broker_name, seen[queue], number // MAX_PULL_QUEUES
        groups.setdefault(key, []).append(part)
        seen[queue] += 1
    return list(groups.values())


def _read_one(brokers: BrokerQueues, part: QueueSlice, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    try:
        yield from SliceReader(brokers, part, options).batches()
    except CorruptRecord as error:
        raise CorruptRecord(f"queue {queue_name(part.queue)}: {error}") from error


class SliceReader:
    """Reads one range of one queue."""

    def __init__(self, brokers: BrokerQueues, part: QueueSlice, options: ReadOptions) -> None:
        self._puller = Puller(brokers, part, options)
        self._part = part
        self._options = options
        self._tags = parse_tags(options.tags).tags
        self._is_filtered = bool(self._tags) or options.sql is not None
        self._reached = part.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the range as Arrow batches of about the size set in the options."""
        bodies: list[bytes] = []
        starts: list[int] = []
        size = 0
        for body in self._puller.bodies():
            starts += [size + start for start in record_starts(body)]
            bodies.append(body)
            size += len(body)
            if len(starts) >= self._options.batch_rows or size >= self._options.batch_bytes:
                yield from self._decode(bodies, starts)
                bodies, starts, size = [], [], 0
        if bodies:
            yield from self._decode(bodies, starts)
        self._check_end()

    def _decode(self, bodies: list[bytes], starts: list[int]) -> Iterator[pa.RecordBatch]:
        records = Records(b"".join([*bodies, b"\x00"]), np.array(starts, np.int64))
        self._check_gaps(records.queue_offsets)
        if self._is_filtered:
            records = self._wanted(records)
        yield from record_batches(records, self._part.queue.broker_name, self._options)

    def _wanted(self, records: Records) -> Records:
        """Drop what the broker's filter lets through: messages past the end, and other tags with the same hash."""
        wanted = records.queue_offsets < self._part.stop
        if self._tags:  # also when SQL is set: a broker takes only one expression
            wanted &= Columns(records).tagged(self._tags)
        return records if wanted.all() else records.select(wanted)

    def _check_gaps(self, offsets: Int64s) -> None:
        """Check that offsets rise; without a filter they must be consecutive, so a gap is a missing message."""
        steps = np.diff(offsets, prepend=self._reached - 1)
        if (steps < 1).any():
            raise CorruptRecord(f"offset {offsets[int((steps < 1).argmax())]} came after a later offset")
        if not self._is_filtered and (steps > 1).any():
            row = int((steps > 1).argmax())
            report_lost(self._options, self._part.queue, int(offsets[row] - steps[row] + 1), int(offsets[row]))
        self._reached = int(offsets[-1]) + 1

    def _check_end(self) -> None:
        if not self._is_filtered and self._reached < self._part.stop:
            report_lost(self._options, self._part.queue, self._reached, self._part.stop)
