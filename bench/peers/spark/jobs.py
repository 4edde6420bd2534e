"""The timed jobs: a batch, a stream of everything, the start of a stream; each reads a topic into the noop sink."""

from __future__ import annotations

import tempfile
import time
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .messages import Topic

_LOOK_EVERY = 0.01
_FIRST_ROWS_TIMEOUT = 60.0


class Source(NamedTuple):
    """A way to read topics."""

    name: str
    format: str
    options: dict[str, str]
    body: str = "body"

    def batch(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """Return a topic as a table."""
        return spark.read.format(self.format).options(**self.options, subscribe=topic.name).load()

    def stream(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """Return a topic as a stream from its beginning."""
        options = {**self.options, "subscribe": topic.name, "startingOffsets": "earliest"}
        return spark.readStream.format(self.format).options(**options).load()


def read_batch(frame: DataFrame) -> float:
    """Return how long a batch took."""
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def read_stream(frame: DataFrame, rows: int) -> float:
    """Return how long a stream took to read everything; raise if rows are missing."""
    with tempfile.TemporaryDirectory(prefix="pyromq-peers-") as checkpoint:
        began = time.perf_counter()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query_run = query.start()
        query_run.awaitTermination()
        took = time.perf_counter() - began
        read = sum(progress.numInputRows for progress in query_run.recentProgress)
    if read != rows:
        raise RuntimeError(f"the stream read {read:,} of {rows:,} rows")
    return took


def start_stream(frame: DataFrame) -> float:
    """Return the time from the start of a stream until its first rows were processed."""
    with tempfile.TemporaryDirectory(prefix="pyromq-peers-") as checkpoint:
        began = time.perf_counter()
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            _wait_for_rows(query)
            return time.perf_counter() - began
        finally:
            query.stop()


def _wait_for_rows(query: StreamingQuery) -> None:
    end = time.monotonic() + _FIRST_ROWS_TIMEOUT
    while (progress := query.lastProgress) is None or not progress.numInputRows:
        if not query.isActive or time.monotonic() > end:
            raise RuntimeError(f"the stream read nothing: {query.exception()}")
        time.sleep(_LOOK_EVERY)
