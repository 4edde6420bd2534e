"""Streaming reads in micro-batches: provides the offsets for Spark's checkpoint, from brokers or a store.

One instance lives beside the driver as long as its query and provides offsets. Spark pickles another one into the
tasks, which only read. The checkpoint is authoritative; the group's offsets at the brokers follow it, for people.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.error_text import brief, brief_rows
from pyromq.spark.offsets import (
    Offsets,
    QueueSlice,
    beginning_of,
    from_json,
    limited,
    slices,
    to_json,
    with_beginning,
)
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.plan.missing_queues import MissingQueues
from pyromq.spark.read.plan.partitions import Slices, plan
from pyromq.spark.read.plan.positions import report_cut, report_lost, resolve
from pyromq.spark.read.plan.queue_source import QueueSource

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_IDLE_WAIT = 0.5
"""Seconds that a poll waits for messages: long enough for an idle stream to cost little, short enough to stop."""
_SHORT_WAIT = 0.1
_ROUTE_AGE = 10.0
"""Seconds between searches for new topics, queues and brokers."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as an unbounded table."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._initial: Offsets | None = None
        self._batch_begun = False
        self._target: Offsets | None = None
        self._first: Offsets = {}
        self._latest: Offsets | None = None
        self._committed: Offsets = {}
        self._queues: list[MessageQueue] = []
        self._queues_found_at = float("-inf")
        self._without_news = False
        self._missing = MissingQueues(options)
        self._missing_checked_at = float("-inf")
        self._last_batch = float("-inf")

    @property
    def _source(self) -> QueueSource:
        from pyromq.spark.read.brokers.broker_queues import connect  # late: streams of files do not need it

        options = self._options
        return connect(options.namesrv, options.credentials, options.tls)  # not stored: this object is pickled

    def _plan(self, ranges: list[QueueSlice]) -> list[Slices]:
        return plan(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    # --- called by Spark, in this order ----------------------------------------------------------------------------

    @brief
    def prepareForTriggerAvailableNow(self) -> None:
        queues = self._find_queues()
        self._first = self._source.min_offsets(queues)
        self._target = self._latest = self._source.max_offsets(queues)

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @brief
    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:  # Spark asks twice and uses the second answer
            self._initial = self._find_start()
        return to_json(self._initial)

    @brief
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = from_json(start)
        is_first, self._batch_begun = not self._batch_begun, True
        is_new = is_first and begin == self._initial
        if is_new and self._target is None:
            # Spark records only the end of a batch, so a crash in batch 0 would forget its start. An empty batch 0
            # records it. A bounded run does without: there the end of batch 0 has its start in it.
            return start
        self._show_progress(begin)
        self._check_missing(begin)
        end = self._next_end(begin)
        first = self._first_offsets(begin, end)
        # Queues whose first offset is unknown now wait for the next batch.
        end = {queue: offset for queue, offset in end.items() if queue in first or offset == begin.get(queue)}
        # A queue is new: like batch 0, its first batch is empty and records where it begins.
        end |= {queue: first[queue] for queue in end if queue not in begin}
        if not self._is_worth_a_batch(begin | first, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limited(begin | first, end, limit.max_rows)
        reached = begin | end
        if reached == begin:
            return start  # as it is: Spark compares the text
        return with_beginning(reached, begin) if is_new else to_json(reached)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else to_json(self._latest)

    @brief
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        is_first, self._batch_begun = not self._batch_begun, True
        beginning = beginning_of(end) if end != start else None
        if is_first and self._initial is not None and beginning is None:
            # Batch 0 again, after a crash in it. It was empty (see latestOffset); the current `start` is a new one.
            return []
        begin, finish = beginning or from_json(start), from_json(end)
        # A queue that ends before it begins was recreated with its topic, and is read from its first message. It gets
        # here only with failOnDataLoss=false. A queue without a beginning is in checkpoints of older versions.
        restarted = [queue for queue, offset in finish.items() if queue not in begin or offset < begin[queue]]
        begin |= self._source.min_offsets(restarted)
        ranges = slices(begin, finish)
        return list(self._plan(ranges if self._options.fail_on_data_loss else self._without_lost(ranges)))

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyromq.spark.read.brokers.slice_reader import read_slices

        return read_slices(partition.slices if isinstance(partition, Slices) else (), self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls this a batch late and not after the last one; latestOffset commits progress."""

    # --- how the answers are computed ------------------------------------------------------------------------------

    def _find_start(self) -> Offsets:
        if self._target is not None and self._options.start == "latest":
            return self._target  # just looked up; newer messages are not for this run
        return resolve(self._source, self._options.start, self._find_queues(), self._options.group)

    def _find_queues(self) -> list[MessageQueue]:
        """Return the queues to read; once some are known, a failing name server does not stop the stream."""
        if time.monotonic() - self._queues_found_at > _ROUTE_AGE:
            try:
                topics = self._source.topics(self._options.topics, self._options.pattern)
                self._queues = self._source.queues(topics)
            except PyroMQError as error:
                if not (self._queues and error.retriable):
                    raise
                logger.log(logging.DEBUG if self._without_news else logging.WARNING, "cannot look up topics: %s", error)
                self._without_news = True
            else:
                self._without_news = False
            self._queues_found_at = time.monotonic()
        return self._queues

    def _check_missing(self, begin: Offsets) -> None:
        """Report queues that have left their topics, each time after topics were looked up."""
        queues = self._find_queues()
        if self._missing_checked_at == self._queues_found_at:
            return
        try:
            self._missing.check(self._source, begin, queues, bounded=self._target is not None)
        except PyroMQError as error:
            if self._target is not None or not error.retriable:
                raise
            logger.debug("missing queues will be checked later: %s", error)
        self._missing_checked_at = self._queues_found_at

    def _next_end(self, begin: Offsets) -> Offsets:
        """Return where the queues end now; if there is nothing new since `begin`, wait a moment for messages.

        A broker that does not answer does not stop the stream: its queues are left out and keep their offsets.
        """
        if self._target is not None:
            return self._target
        queues = self._find_queues()
        end = self._source.reachable_max_offsets(queues)
        if all(begin.get(queue) == offset for queue, offset in end.items()):
            self._source.wait_for_message(end, self._options.group, _IDLE_WAIT)
            end = self._source.reachable_max_offsets(queues)
        self._latest = begin | end
        return end

    def _is_worth_a_batch(self, first: Offsets, end: Offsets) -> bool:
        """Return True if enough messages wait, or have waited long enough; a bounded run never waits."""
        waiting = sum(offset - first.get(queue, offset) for queue, offset in end.items())
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None or not waiting:
            return True
        now = time.monotonic()
        if waiting < least and now - self._last_batch < self._options.max_trigger_delay:
            time.sleep(_SHORT_WAIT)  # messages are there, so nothing else slows down this poll
            return False
        self._last_batch = now
        return True

    def _first_offsets(self, begin: Offsets, end: Offsets) -> Offsets:
        """Return where reading begins in queues with new messages, after checking that nothing is lost."""
        news = [queue for queue, offset in end.items() if offset != begin.get(queue)]
        # A bounded run must reach its end: if a broker does not answer now, the tasks wait for it.
        known = {queue: self._first[queue] for queue in news if queue in self._first}
        first = known | self._source.reachable_min_offsets(news)
        for queue in first.keys() & begin.keys():
            if end[queue] < begin[queue]:
                report_cut(self._options, queue, begin[queue], end[queue])
            elif begin[queue] < first[queue]:
                report_lost(self._options, queue, begin[queue], first[queue])
            first[queue] = max(first[queue], begin[queue])
        return first

    def _without_lost(self, ranges: list[QueueSlice]) -> list[QueueSlice]:
        """Return ranges without messages that are gone: they would make a range look large, and split its queue."""
        first = self._source.reachable_min_offsets(part.queue for part in ranges)
        left = [part._replace(start=max(part.start, first.get(part.queue, part.start))) for part in ranges]
        return [part for part in left if part.start < part.stop]

    def _show_progress(self, processed: Offsets) -> None:
        """Commit new progress for the group; offsets that a broker does not accept are sent again at the next poll."""
        if self._options.group is not None:
            offsets = {queue: processed[queue] for queue in self._find_queues() if queue in processed}
            news = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
            if news:
                self._committed |= self._source.commit(news, self._options.group)
