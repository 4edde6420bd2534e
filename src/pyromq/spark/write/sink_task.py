"""The identity of a sink's task, and message ids made from it.

A task that Spark runs again sends the same messages under the same ids, so that readers can drop the second copies.

    PYROMQ_BATCH  the writer: the query (or a random id for one batch write), the micro-batch and the partition
    PYROMQ_ROW    the row's number in that partition
    UNIQ_KEY      hash (10) | time (4), always 0 | hash (2)

The hash is made of PYROMQ_BATCH, of the message, and of the number of equal messages before it. It is not made of the
row's number: a task that runs again may read its rows in another order, and an id that then meant another message would
make readers drop that one. Clients read an id's age from the time in the middle. With 0 they search from the beginning
of the month.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from pyromq.spark.arrow import Int64s, Octets, hex_text
from pyromq.spark.speculation import SETTING, refuse_speculation

_ID_LENGTH = 16
_TIME = slice(10, 14)
_HASHED = _ID_LENGTH - 4
Hashes = NDArray[np.uint64]


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


class RowIds:
    """Makes the ids of one task's rows, from the first row to the last."""

    def __init__(self, task: SinkTask) -> None:
        self._task = blake2b(task.batch.encode(), digest_size=_HASHED)
        self._seen = SeenHashes()

    def ids(self, contents: pa.Array) -> pa.Array:
        """Return the ids of rows with these contents: binary, no nulls."""
        digests = np.frombuffer(b"".join(self._digests(contents)), np.uint8).reshape(-1, _HASHED).copy()
        repeats = self._seen.add(np.ascontiguousarray(digests[:, :8]).view(np.uint64).ravel())
        for row in np.flatnonzero(repeats).tolist():
            digests[row] = np.frombuffer(_hash(digests[row].tobytes() + b"%d" % repeats[row]), np.uint8)
        return _as_ids(digests)

    def _digests(self, contents: pa.Array) -> Iterator[bytes]:
        begun = self._task
        for content in _slices(contents):
            found = begun.copy()
            found.update(content)
            yield found.digest()


class SeenHashes:
    """Counts equal hashes; keeps all of them in a few sorted arrays, 8 bytes for each."""

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def add(self, hashes: Hashes) -> Int64s:
        """Add hashes; return how many equal ones each had before it."""
        order = np.argsort(hashes, kind="stable")
        run = hashes[order]
        starts = np.flatnonzero(np.concatenate(([True], run[1:] != run[:-1]))) if len(run) else np.empty(0, np.int64)
        ranks = np.arange(len(run)) - np.repeat(starts, np.diff(np.append(starts, len(run))))
        for seen in self._runs:
            ranks += np.searchsorted(seen, run, "right") - np.searchsorted(seen, run, "left")
        counts = np.empty(len(run), np.int64)
        counts[order] = ranks
        self._keep(run)
        return counts

    def _keep(self, run: Hashes) -> None:
        """Keep a sorted array, merged with those that are not much larger, so that there are only a few."""
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate((self._runs.pop(), run)), kind="stable")
        self._runs.append(run)


def value_ids(values: pa.Array) -> pa.Array:
    """Return ids that depend only on the values (text or bytes), so equal values always have the same id."""
    digests = [_hash(value) for value in _slices(values.cast(pa.binary()))]
    return _as_ids(np.frombuffer(b"".join(digests), np.uint8).reshape(-1, _HASHED))


def _hash(data: bytes | memoryview) -> bytes:
    return blake2b(data, digest_size=_HASHED).digest()


def _slices(texts: pa.Array) -> Iterator[memoryview]:
    """Yield the bytes of each value, without copying them."""
    data = memoryview(texts.buffers()[2] or b"")
    edges = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1].tolist()
    return (data[start:end] for start, end in pairwise(edges))


def _as_ids(hashed: Octets) -> pa.Array:
    """Return hashes as ids: the time in the middle is 0."""
    octets = np.zeros((len(hashed), _ID_LENGTH), np.uint8)
    octets[:, : _TIME.start], octets[:, _TIME.stop :] = hashed[:, : _TIME.start], hashed[:, _TIME.start :]
    return hex_text(octets)
