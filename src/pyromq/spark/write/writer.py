"""Sinks: each task sends its rows and waits until all are acknowledged; the driver only counts.

Delivery is at least once: a failed task runs again from its first row, and what it had sent stays. Its messages have
the same ids then (see `sink_task`), so `dedupe` and consumers can drop the second copies.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyromq.client.portal import Portal
from pyromq.errors import InvalidMessage, LocalProtocolError, TaskRepeated
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import NO_SEND_TOPICS, RETRY_PREFIX, check_topic
from pyromq.spark.error_text import brief
from pyromq.spark.options.write_options import WriteOptions
from pyromq.spark.read.decode.columns import freeze
from pyromq.spark.write.batch_sender import BatchSender
from pyromq.spark.write.batches import MOST_ROWS, make_batches
from pyromq.spark.write.message_rows import MessageRows, split_batch
from pyromq.spark.write.sink_task import RowIds, SinkTask, current_task, new_job

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_BATCHES_A_SECOND = 10
_HANDED_OVER = 16  # batches at a time: waking the other thread takes longer than sending a message


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
    """What one task has sent, reported to the driver."""

    batch: str
    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Sends a bounded frame."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job = new_job()  # created once, on the driver: the same for all tasks and their retries

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(iterator, self._options, current_task(self._job))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _log_abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of each micro-batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return write_rows(iterator, self._options, current_task(None))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log_abort(messages)


def _log_commit(messages: Sequence[WriterCommitMessage | None]) -> None:
    written = [message for message in messages if isinstance(message, TaskCommit)]
    logger.info("sent messages=%d tasks=%d", sum(message.rows for message in written), len(written))


def _log_abort(messages: Sequence[WriterCommitMessage | None]) -> None:
    failed = sum(message is None for message in messages)
    logger.info(
        "failed tasks=%d of %d; what they sent stays, and is sent again with the same ids", failed, len(messages)
    )


def write_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, task: SinkTask) -> TaskCommit:
    """Send the rows of one task; return when all of them are acknowledged."""
    if task.attempt and not options.send_again:
        raise TaskRepeated(f"partition {task.partition} was started before and failed: see the log of its executor")
    freeze()
    portal = Portal.shared()
    sender = portal.call(BatchSender(options).__aenter__())
    try:
        writer = TaskWriter(portal, sender, options, task)
        for batch in batches:
            writer.send(batch)
        portal.call(sender.finish())
        return TaskCommit(task.batch, writer.rows)
    finally:
        portal.call(sender.__aexit__(None, None, None))


class TaskWriter:
    """Sends the rows of one partition."""

    def __init__(self, portal: Portal, sender: BatchSender, options: WriteOptions, task: SinkTask) -> None:
        self.rows = 0
        self._portal = portal
        self._sender = sender
        self._options = options
        self._task = task
        self._row_ids = RowIds(task)
        self._queues: dict[str, Sequence[MessageQueue]] = {}
        rate = options.rate_per_second
        self._most_rows = MOST_ROWS if rate is None else max(1, min(MOST_ROWS, rate // _BATCHES_A_SECOND))

    def send(self, batch: pa.RecordBatch) -> None:
        """Send an Arrow batch; returns when there is room for the next one."""
        for part in split_batch(batch, self._options):
            rows = MessageRows(part, self._options, self._task, self.rows, self._row_ids)
            batches = make_batches(rows, self._find_queues, self._most_rows)
            while some := list(islice(batches, _HANDED_OVER)):
                self._portal.call(self._sender.put(some))
            self.rows += len(rows)

    def _find_queues(self, topic: str) -> Sequence[MessageQueue]:
        # Looked up once per task: an additional queue halfway would split a key's messages.
        if topic not in self._queues:
            _check_topic(topic)
            self._queues[topic] = self._portal.call(self._sender.queues(topic))
        return self._queues[topic]


def _check_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except LocalProtocolError as error:
        raise InvalidMessage(str(error)) from None
    if topic in NO_SEND_TOPICS or topic.startswith(RETRY_PREFIX):
        raise InvalidMessage(f"topic {topic} is internal to the broker: choose another one with the option topic")
