"""Copies of messages in other topics, each made once: a run that is repeated sends only what is missing.

Every copy carries the property PYROMQ_COPY, `job:topic/broker/queue/offset` of its original. Before a job sends its
first message, and then batch by batch, it leaves a fence: the ends of the topics that it writes to, as the offsets of a
consumer group of its own. After a crash, what the job has stored lies behind the fence and says what it is a copy of.
A fence that is older than it could be, because a broker forgot the latest, only makes for more to read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyromq.errors import ClientError, TaskRepeated
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.outcome import Stopped
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import SHARDING_KEY
from pyromq.protocol.names import check_group
from pyromq.spark.error_text import one_line
from pyromq.spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

logger = logging.getLogger(__name__)

MARK = "PYROMQ_COPY"
COPY_OF = "copy_of"
"""The column with a copy's mark, while it is on its way."""

_STILL = 3.0
"""Seconds without news after which a killed task is taken to be silent: Spark gives its worker 2 s."""
_LONGEST_WAIT = 15.0
_GLANCE = 0.25
_ATTEMPTS = 4
_FINAL = ("pyromq.errors.", "SPARK_JOB_CANCELLED")
"""Signs of what the sink itself has given up, and of a stop that was wanted; anything else is the death of a worker."""
_REPEATED = f"pyromq.errors.{TaskRepeated.__name__}"
"""The sign of a death after which Spark ran the task again, which `ONCE` has let fail."""
ONCE = {"sendAgain": "false"}
"""How a sink is told that the job looks itself what is stored: some deaths Spark does not count as failures of a task,
and a Connect server allows more of them than one."""


def marked(messages: DataFrame, job: str) -> DataFrame:
    """Return messages with the column `copy_of`, and in their properties the mark of a job's copies."""
    from pyspark.sql.functions import col, concat_ws, create_map, lit, map_concat, map_filter

    place = concat_ws("/", "topic", "broker_name", "queue_id", "queue_offset")
    own = map_filter("properties", lambda name, value: name != MARK)
    return messages.withColumn(COPY_OF, concat_ws(":", lit(job), place)).withColumn(
        "properties", map_concat(own, create_map(lit(MARK), col(COPY_OF)))
    )


def order_key() -> Column:
    """Return what decides on a message's queue and keeps its order: the sharding key, else the first of its keys."""
    from pyspark.sql.functions import coalesce, col, expr, trim, when

    key = coalesce(col("properties")[SHARDING_KEY], expr("keys[0]"))
    return when(trim(key) != "", key)


class CopyTracker:
    """Remembers where a job's copies begin in the topics that it writes to."""

    def __init__(self, namesrv: str, topics: Sequence[str], job: str, *, few: bool = False) -> None:
        """`few`: so few copies lie behind the fence that every task can know them; then tasks and their order stay."""
        self._few = few
        self._cluster = cluster(namesrv)
        self._topics = list(topics)
        self._job = job
        self.group = f"pyromq-{job}"
        check_group(self.group)

    def queues(self) -> list[MessageQueue]:
        """Return the queues that are written to."""
        return brokers_of(self._cluster).queues(self._topics)

    def position(self) -> Offsets:
        """Return where the fence is; nothing before the job has begun, though brokers say 0 for a young queue."""
        return brokers_of(self._cluster).committed_offsets(self.queues(), self.group)

    def put(self, offsets: Offsets) -> None:
        """Put the fence somewhere; raises ClientError if a broker does not take it."""
        if brokers_of(self._cluster).commit(offsets, self.group) != offsets:
            raise ClientError(f"the offsets of the group {self.group} could not be stored: is a broker down?")

    def move(self) -> None:
        """Put the fence at the ends of the queues: all that the job was to store so far is stored."""
        brokers_of(self._cluster).commit(self.ends(), self.group)  # where a broker does not take it, the old one does

    def ends(self) -> Offsets:
        """Return where the queues end now."""
        return brokers_of(self._cluster).max_offsets(self.queues())

    def missing(self, copies: DataFrame) -> DataFrame:
        """Return those of the job's copies that are not stored yet.

        Asked when the last messages of a task that was killed have arrived.
        """
        self._settle()
        return copies.join(self.stored(copies.sparkSession), COPY_OF, "left_anti")

    def stored(self, spark: SparkSession) -> DataFrame:
        """Return the marks of the job's copies behind the fence."""
        from pyspark.sql.functions import broadcast, col

        behind = (
            spark.read.format("pyromq")
            .options(**self._cluster)
            .option("subscribe", ",".join(self._topics))
            .option("group", self.group)
            .option("startingOffsets", "committed")
            .option("columns", "properties")
            .load()
        )
        marks = behind.select(col("properties")[MARK].alias(COPY_OF))
        own = marks.where(col(COPY_OF).startswith(f"{self._job}:"))
        return broadcast(own) if self._few else own

    def _settle(self) -> None:
        """Wait until nothing arrives any more, but not for ever: others may be writing too."""
        ends, since = self.ends(), time.monotonic()
        deadline = since + _LONGEST_WAIT
        while time.monotonic() < min(since + _STILL, deadline):
            time.sleep(_GLANCE)
            now = self.ends()
            if now != ends:
                ends, since = now, time.monotonic()


def send_missing(copies: DataFrame, fence: CopyTracker, send: Callable[[DataFrame], None], *, begun: bool) -> None:
    """Send copies; when a worker dies on the way, those that are not stored yet.

    `begun` says that an earlier run may have sent some of them. `send` sorts, if it has to: what was sorted before it
    was joined Spark does not keep so.
    """
    for attempt in range(_ATTEMPTS):
        missing = fence.missing(copies) if begun or attempt else copies
        try:
            send(missing)
        except Stopped:
            raise
        except Exception as error:  # Spark's and Py4J's have no root in common
            if attempt == _ATTEMPTS - 1 or _is_final(str(error)):
                raise
            logger.warning("sending again what is missing: %s", one_line(error))
        else:
            return


def _is_final(text: str) -> bool:
    return _REPEATED not in text and any(sign in text for sign in _FINAL)
