"""Pulls one range of a queue, retrying for a bounded time while its broker fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.errors import BrokerError, CorruptRecord, PyroMQError
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.headers.pull import MAX_PULL_BYTES
from pyromq.protocol.tag_filter import SQL92, TAG
from pyromq.spark.offsets import QueueSlice, queue_name
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, Pull
from pyromq.spark.read.plan.positions import report_cut, report_lost, report_unreadable

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_PATIENCE_AT_THE_END = 5.0
"""Seconds to wait for a queue that ends too early: a slave or a restarted broker may still be catching up."""


_SLAVE_ID = 1


def first_broker(options: ReadOptions) -> int:
    """Return which broker of a group to ask first; if it is missing, another one is asked."""
    return _SLAVE_ID if options.read_from == "slave" else MASTER_ID


class Puller:
    """The answers to the pulls of one range, in order."""

    def __init__(self, brokers: BrokerQueues, part: QueueSlice, options: ReadOptions) -> None:
        self._brokers = brokers
        self._queue, self._position, self._stop = part
        self._options = options
        self._broker_id = first_broker(options)

    def bodies(self) -> Iterator[bytes]:
        """Yield stored records; if the broker filters, the last ones may lie beyond the range.

        Raises OffsetOutOfRange if the queue ends before the range or is gone, unless the options allow it.
        """
        while self._position < self._stop:
            answer = self._answer()
            if answer is None:
                report_unreadable(self._options, {self._queue: self._stop - self._position})
                return
            if answer.max_offset <= self._position:
                report_cut(self._options, self._queue, self._position, answer.max_offset)
                return
            self._move(answer)
            if answer.body:
                yield answer.body

    def _move(self, answer: PullAnswer) -> None:
        if answer.status is PullStatus.OFFSET_MOVED:
            report_lost(self._options, self._queue, self._position, answer.next_offset)
        if answer.next_offset <= self._position:
            raise CorruptRecord(f"a pull at offset {self._position} leads back to {answer.next_offset}")
        self._position = answer.next_offset
        if self._options.read_from == "suggested":
            self._broker_id = answer.suggested_broker_id

    def _answer(self) -> PullAnswer | None:
        """Pull until an answer makes progress; return the last one when the time is up, None if the queue is gone."""
        started, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            waited = time.monotonic() - started
            try:
                answer = self._brokers.pull(self._next_pull())
            except PyroMQError as error:
                if not error.retriable or waited >= self._options.retry_timeout:
                    if isinstance(error, BrokerError) and self._brokers.is_gone(self._queue):
                        return None  # the broker is there and refuses: the queue left its topic, or the topic is gone
                    raise
                trouble = str(error)
            else:
                patience = min(_PATIENCE_AT_THE_END, self._options.retry_timeout)
                if answer.max_offset > self._position or waited >= patience:
                    return answer
                trouble = f"it ends at {answer.max_offset}"
            logger.warning("queue %s, offset %d, retrying: %s", queue_name(self._queue), self._position, trouble)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._look_for_brokers()

    def _next_pull(self) -> Pull:
        return Pull(
            self._queue,
            self._position,
            broker_id=self._broker_id,
            group=self._options.group,
            expression=self._options.tags if self._options.sql is None else self._options.sql,
            expression_type=TAG if self._options.sql is None else SQL92,
            max_count=min(self._options.pull_batch_size, self._stop - self._position),
            max_bytes=min(self._options.batch_bytes, MAX_PULL_BYTES),
            timeout=self._options.pull_timeout,
        )

    def _look_for_brokers(self) -> None:
        """Look up the brokers again: one may have moved, or only a slave may be left."""
        self._broker_id = first_broker(self._options)
        try:
            self._brokers.refresh(self._queue.topic)
        except PyroMQError as error:
            logger.debug("no news of topic %s: %s", self._queue.topic, error)
