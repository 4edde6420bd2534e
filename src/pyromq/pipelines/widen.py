"""A backlog to a topic with more queues, so that more consumers can work on it; each key's messages stay in order.

    pyromq pipeline run widen --topic orders --group billing --to orders-wide --queues 16 --checkpoint /data/widen

One queue of the old topic is read by one task, in its order, and a wide queue gets one batch after the other: a key
that was in one queue is in one queue again, in the same order. The group's offsets on the old topic follow what is
copied, batch by batch, so that at the end it has nothing left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.pipelines.checkpoints import check_same_stream, last_offsets
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.copies import COPY_OF, ONCE, Fence, marked, order_key, send_missing
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.pipelines.reading import KEPT_COLUMNS, at_least
from pyromq.pipelines.watching import Watched, start_and_watch
from pyromq.pipelines.widening import backlog, prepare, welcome
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import check_group, check_topic
from pyromq.spark.ship import carried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_MOST_ROUNDS = 5


SETTINGS = {"spark.task.maxFailures": "1"}
"""A task that fails is not run again by itself: what it has stored must be looked for first."""


class Options(Struct, frozen=True, kw_only=True):
    """What to widen, and for whom."""

    topic: str
    """The topic with the backlog."""
    group: str
    """The consumer group that is behind: copies begin at its committed offsets, which follow them."""
    to: str
    """The wide topic; it is made if it is not there."""
    checkpoint: str
    """Where the progress is kept: the same command with it goes on after a stop or a crash."""
    queues: int = 16
    """Queues of the wide topic, on all brokers of the old one together."""
    namesrv: str = ""
    """Name servers, host:port;host:port."""
    batch: int = 100_000
    """Messages of one batch at most."""
    follow: bool = False
    """Keep copying what writers still send to the old topic, until stopped."""
    fail_on_data_loss: bool = True
    """Stop where retention took messages before they were copied, or say so in the log and go on."""

    @property
    def job(self) -> str:
        """What the copies are marked with."""
        return f"widen-{self.to}"


def check(options: Options) -> None:
    """Raise ConfigError for options that cannot be meant; the command asks before it starts Spark."""
    if options.to == options.topic:
        raise ConfigError("--to is the topic itself: copies need a topic of their own")
    at_least(1, queues=options.queues, batch=options.batch)
    check_topic(options.topic)
    check_topic(options.to)
    check_group(options.group)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the group's backlog as a stream of copies: the same messages, with the key that chooses their queue."""
    messages = (
        spark.readStream.format("pyromq")
        .options(**cluster(options.namesrv))
        .option("subscribe", options.topic)
        .option("group", options.group)
        .option("startingOffsets", "committed")
        .option("columns", ",".join(KEPT_COLUMNS))
        .option("maxOffsetsPerTrigger", str(options.batch))
        .option("maxRecordsPerPartition", str(options.batch))  # one task for one queue: its order is kept
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )
    return marked(messages, options.job).withColumn("order_key", order_key())


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Copy the backlog and what comes meanwhile; returns when the group has nothing left in the old topic."""
    check(options)
    begun = last_offsets(spark, options.checkpoint)
    check_same_stream(begun, options.checkpoint, options.topic, "", None, "--checkpoint")
    wide = prepare(options.namesrv, options.topic, options.to, options.queues, options.group)
    _begin(fence_of(options), options, wide, new=not begun)
    rounds: list[Watched] = []
    stopped, left = False, 1
    while not stopped and left and len(rounds) < _MOST_ROUNDS:
        watched, stopped = start_and_watch(lambda: _start(spark, options), progress, "widening")
        rounds.append(watched)
        left = backlog(options.namesrv, options.topic, options.group)
    copied = sum(watched.rows for watched in rounds)
    return Outcome(read=copied, written=copied, remarks=_remarks(options, left, stopped))


def _begin(fence: Fence, options: Options, wide: Sequence[MessageQueue], *, new: bool) -> None:
    """Set the fence where copies will begin, or, if a broker has forgotten it, where they can have begun at most."""
    brokers = brokers_of(cluster(options.namesrv))
    if not fence.position():
        fence.put(brokers.max_offsets(wide) if new else brokers.min_offsets(wide))
    if new:
        welcome(options.namesrv, options.group, brokers.max_offsets(wide))


def fence_of(options: Options) -> Fence:
    """Return the fence of this job's copies."""
    return Fence(options.namesrv, [options.to], options.job, few=True)


def _start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Start the stream; also once more, when one has failed or more has come meanwhile."""
    sink = WideTopic(options, begun=bool(last_offsets(spark, options.checkpoint)))
    stream = build(spark, options).writeStream.option("checkpointLocation", options.checkpoint)
    writer = stream.foreachBatch(carried(spark, sink))
    return (writer if options.follow else writer.trigger(availableNow=True)).start()


class WideTopic:
    """Sends each batch once, also one that a crash has cut in the middle."""

    def __init__(self, options: Options, *, begun: bool) -> None:
        self._fence = fence_of(options)
        self._cluster = cluster(options.namesrv)
        self._topic = options.to
        self._unsure = begun  # whether the batch that comes may be one that was begun before

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Send a batch; Spark calls this for one after the other."""
        if not self._unsure:
            self._fence.move()
        send_missing(batch, self._fence, self._send, begun=self._unsure)
        self._unsure = False

    def _send(self, copies: DataFrame) -> None:
        (
            copies.drop(COPY_OF)
            .write.format("pyromq")
            .mode("append")
            .options(**self._cluster, topic=self._topic)
            .options(**ONCE)
            .save()
        )


def _remarks(options: Options, left: int, stopped: bool) -> list[str]:
    if stopped or left:
        return [f"{left:,} messages of {options.topic} are not copied yet: the same command goes on from here."]
    return [
        f"The group {options.group} has nothing left in {options.topic}: have its consumers subscribe to {options.to}.",
        f"Then stop the writers of {options.topic}, run this once more, and let them send to {options.to}:"
        " in this order every key stays in order.",
    ]
