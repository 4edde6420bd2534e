"""Copies messages into other topics, each once: a repeated run sends only what is missing.

Every copy carries the property PYROMQ_COPY: `job:topic/broker/queue/offset` of its original. Before a job sends its
first message, and before each batch, it commits the ends of its target topics as offsets of its own consumer group: the
start of its copies. After a crash, everything that the job has stored since lies behind this start and names its
original. If a broker has forgotten the latest start and still has an older one, there is only more to read.
"""

from __future__ import annotations

import json
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
from pyromq.spark.offsets import Offsets, to_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

logger = logging.getLogger(__name__)

MARK = "PYROMQ_COPY"
COPY_OF = "copy_of"
"""The column with the value of PYROMQ_COPY until a copy is sent."""

_STILL = 3.0
"""Seconds without new messages after which a killed task counts as gone; Spark gives its worker 2 s."""
_LONGEST_WAIT = 15.0
_GLANCE = 0.25
_ATTEMPTS = 4
_FINAL = ("pyromq.errors.", "SPARK_JOB_CANCELLED")
"""Signs that the sink itself gave up, or of a requested stop; any other error means that a worker died."""
_REPEATED = f"pyromq.errors.{TaskRepeated.__name__}"
"""The sign that a worker died and Spark ran its task again, which `ONCE` makes fail."""
ONCE = {"sendAgain": "false"}
"""Tells a sink that the job itself checks what is stored. Needed because Spark does not count some deaths as failures
of a task, and a Connect server allows more than one failure."""


def marked(messages: DataFrame, job: str) -> DataFrame:
    """Return messages with the column `copy_of`, and with the same value in their property PYROMQ_COPY."""
    from pyspark.sql.functions import col, concat_ws, create_map, lit, map_concat, map_filter

    place = concat_ws("/", "topic", "broker_name", "queue_id", "queue_offset")
    own = map_filter("properties", lambda name, value: name != MARK)
    return messages.withColumn(COPY_OF, concat_ws(":", lit(job), place)).withColumn(
        "properties", map_concat(own, create_map(lit(MARK), col(COPY_OF)))
    )


def order_key() -> Column:
    """Return the key that chooses a message's queue and keeps its order: the sharding key, else the first key."""
    from pyspark.sql.functions import coalesce, col, expr, trim, when

    key = coalesce(col("properties")[SHARDING_KEY], expr("keys[0]"))
    return when(trim(key) != "", key)


class CopyTracker:
    """Tracks which copies of a job are stored, by remembering where they start in the target topics."""

    def __init__(self, namesrv: str, topics: Sequence[str], job: str, *, few: bool = False) -> None:
        """`few`: so few copies lie after the start that every task can hold them all, which keeps the order of rows."""
        self._few = few
        self._cluster = cluster(namesrv)
        self._topics = list(topics)
        self._job = job
        self.group = f"pyromq-{job}"
        check_group(self.group)

    def queues(self) -> list[MessageQueue]:
        """Return the queues of the target topics."""
        return brokers_of(self._cluster).queues(self._topics)

    def start(self) -> Offsets:
        """Return where the job's copies start; empty before the job has begun, or 0 for young queues."""
        return brokers_of(self._cluster).committed_offsets(self.queues(), self.group)

    def set_start(self, offsets: Offsets) -> None:
        """Set where the job's copies start; raises ClientError if a broker does not accept it."""
        if brokers_of(self._cluster).commit(offsets, self.group) != offsets:
            raise ClientError(f"the offsets of the group {self.group} could not be stored: is a broker down?")

    def advance_start(self) -> None:
        """Move the start to the ends of the queues, because all copies so far are stored."""
        brokers_of(self._cluster).commit(self.ends(), self.group)  # if a broker refuses, the old start will do

    def ends(self) -> Offsets:
        """Return the current ends of the queues."""
        return brokers_of(self._cluster).max_offsets(self.queues())

    def missing(self, copies: DataFrame) -> DataFrame:
        """Return the copies that are not stored yet.

        Waits first until the last messages of a killed task have arrived.
        """
        self._settle()
        return copies.join(self.stored(copies.sparkSession), COPY_OF, "left_anti")

    def stored(self, spark: SparkSession) -> DataFrame:
        """Return PYROMQ_COPY of all copies stored by the job since the start."""
        from pyspark.sql.functions import broadcast, col

        behind = (
            spark.read.format("pyromq")
            .options(**self._cluster)
            .option("subscribe", ",".join(self._topics))
            .option("startingOffsets", json.dumps(to_json(self._first_offsets())))
            .option("failOnDataLoss", "false")  # retention may delete more of them meanwhile
            .option("columns", "properties")
            .load()
        )
        marks = behind.select(col("properties")[MARK].alias(COPY_OF))
        own = marks.where(col(COPY_OF).startswith(f"{self._job}:"))
        return broadcast(own) if self._few else own

    def _first_offsets(self) -> Offsets:
        """Return the first offset that may hold a copy: the start, or later if retention has deleted messages there.

        A queue that ends before the start was recreated with its topic, and is read from its first message.
        """
        brokers, queues = brokers_of(self._cluster), self.queues()
        start, firsts = brokers.committed_offsets(queues, self.group), brokers.min_offsets(queues)
        ends = brokers.max_offsets(queues)
        return {
            queue: max(start[queue], first) if queue in start and start[queue] <= ends[queue] else first
            for queue, first in firsts.items()
        }

    def _settle(self) -> None:
        """Wait until no messages arrive any more, but not for ever: others may be writing too."""
        ends, since = self.ends(), time.monotonic()
        deadline = since + _LONGEST_WAIT
        while time.monotonic() < min(since + _STILL, deadline):
            time.sleep(_GLANCE)
            now = self.ends()
            if now != ends:
                ends, since = now, time.monotonic()


def send_missing(copies: DataFrame, tracker: CopyTracker, send: Callable[[DataFrame], None], *, begun: bool) -> None:
    """Send copies; if a worker dies, send those that are not stored yet.

    `begun` means that an earlier run may have sent some of them. If order matters, `send` must sort, because Spark does
    not keep an order through a join.
    """
    for attempt in range(_ATTEMPTS):
        missing = tracker.missing(copies) if begun or attempt else copies
        try:
            send(missing)
        except Stopped:
            raise
        except Exception as error:  # Spark's and Py4J's have no root in common
            if attempt == _ATTEMPTS - 1 or _is_final(str(error)):
                raise
            logger.warning("sending what is missing again: %s", one_line(error))
        else:
            return


def _is_final(text: str) -> bool:
    return _REPEATED not in text and any(sign in text for sign in _FINAL)
