"""The identity of a sink's task, and message ids made from it.

A task that Spark runs again sends the same messages under the same ids, so that readers can drop the second copies.

    PYROMQ_BATCH  the writer: the query (or a random id for one batch write), the micro-batch and the partition
    PYROMQ_ROW    the row's number in that partition
    UNIQ_KEY      hash of PYROMQ_BATCH (8) | row (2) | time (4), always 0 | row (2)

Clients read an id's age from the time in the middle. With 0 they search from the beginning of the month.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from pyromq.errors import InvalidMessage
from pyromq.spark.arrow import Int64s, Octets, hex_text
from pyromq.spark.speculation import SETTING, refuse_speculation

_ID_LENGTH = 16
_TIME = slice(10, 14)
_MOST_ROWS = 1 << 32


class SinkTask(NamedTuple):
    """One task of a sink: what its messages have in common."""

    batch: str
    partition: int
    attempt: int = 0
    """How many times Spark has started the task before."""


def new_job() -> str:
    """Return a new name for one batch write."""
    return uuid4().hex


def current_task(job: str | None) -> SinkTask:
    """Return the task this code runs in; without a job name it is a stream's, the same at every replay.

    Raises ConfigError if Spark runs tasks speculatively: both attempts of a task would send everything.
    """
    context = TaskContext.get()
    refuse_speculation(context.getLocalProperty(SETTING) if context else None)  # tasks have their session's settings
    partition, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    if job is None and query is not None and number is not None:
        return SinkTask(f"{query}-{number}-{partition}", partition, attempt)
    # Ids that do not repeat only leave duplicates in. Repeating ids for different rows would lose messages.
    return SinkTask(f"{job or new_job()}-0-{partition}", partition, attempt)


def row_ids(task: SinkTask, rows: Int64s) -> pa.Array:
    """Return the message id of each row of a task."""
    if len(rows) and rows[-1] >= _MOST_ROWS:
        raise InvalidMessage(f"a partition has more than {_MOST_ROWS} rows: repartition the frame")
    octets = np.zeros((len(rows), _ID_LENGTH), np.uint8)
    octets[:, :8] = _digest(task.batch.encode(), 8)
    numbers = rows.astype(">u4").view(np.uint8).reshape(-1, 4)
    octets[:, 8:10], octets[:, 14:16] = numbers[:, :2], numbers[:, 2:]
    return hex_text(octets)


def value_ids(values: pa.Array) -> pa.Array:
    """Return ids that depend only on the values (text or bytes), so the order of rows does not matter."""
    digests = [blake2b(value, digest_size=12).digest() for value in values.cast(pa.binary()).to_pylist()]
    hashed = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 12)
    octets = np.zeros((len(hashed), _ID_LENGTH), np.uint8)
    octets[:, : _TIME.start], octets[:, _TIME.stop :] = hashed[:, : _TIME.start], hashed[:, _TIME.start :]
    return hex_text(octets)


def _digest(data: bytes, size: int) -> Octets:
    return np.frombuffer(blake2b(data, digest_size=size).digest(), np.uint8)
