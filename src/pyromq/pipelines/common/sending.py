"""Sends a frame, reports progress by watching the ends of the topics, and stops on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from pyromq.errors import PyroMQError
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.common.copies import COPY_OF, ONCE
from pyromq.pipelines.outcome import Progress, Stopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PERIOD = 0.5
_TASKS_OVER_CONNECT = 8


def tasks_for(spark: SparkSession, rate: int) -> int:
    """Return how many tasks send concurrently: they share the rate, so all must run at once."""
    from pyspark.errors import PySparkException

    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkException:  # not available over Connect
        cores = _TASKS_OVER_CONNECT
    return max(1, min(cores, rate) if rate else cores)


def _interrupt(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    try:
        spark.sparkContext.cancelAllJobs()
    except PySparkException:
        spark.interruptAll()


class Sending:
    """Writes to topics and counts what arrives; messages of other writers count too, up to `total`."""

    def __init__(self, namesrv: str, topics: Sequence[str], rate: int, progress: Progress, total: int) -> None:
        self._cluster = cluster(namesrv)
        self._topics = list(topics)
        self._rate = rate
        self._progress = progress
        self._total = total
        self._first = self._ends()
        self._is_done = False
        self._seen = 0

    @property
    def sent(self) -> int:
        """How many messages were sent: exact once all are, else an estimate."""
        return self._total if self._is_done else min(self._total, self._ends() - self._first)

    def send(self, copies: DataFrame) -> None:
        """Send all rows; return when they are acknowledged. Raises what ended the write, or Stopped."""
        writer = copies.write.format("pyromq").mode("append").options(**self._cluster)
        writer = writer.option("idColumn", COPY_OF).options(**ONCE)
        if self._rate:
            writer = writer.option("ratePerSecond", str(self._rate))
        with self._watched(copies.sparkSession):
            writer.save()
        self._is_done = True

    @contextmanager
    def _watched(self, spark: SparkSession) -> Iterator[None]:
        """Report progress from another thread; this one waits for Spark, which binds a session to its thread."""
        ended, stopped = Event(), Event()

        def watch() -> None:
            try:
                while not ended.wait(_PERIOD):
                    self._progress.reached(self._look(), self._total, "sending")
            except Stopped:
                stopped.set()
                _interrupt(spark)

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except Exception:
            if stopped.is_set():
                raise Stopped from None
            raise
        finally:
            ended.set()
            watcher.join()

    def _look(self) -> int:
        with suppress(PyroMQError):  # a broker that is down comes back, or the write fails
            self._seen = self.sent
        return self._seen

    def _ends(self) -> int:
        brokers = brokers_of(self._cluster)
        return sum(brokers.max_offsets(brokers.queues(self._topics)).values())
