"""Copies a backlog to a topic with more queues, so that more consumers can work on it, keeping each key in order.

    pyromq pipeline run widen --topic orders --group billing --to orders-wide --queues 16 --checkpoint /data/widen

One task reads one queue of the old topic, in order, and a wide queue gets one batch after another. So a key that was
in one queue is again in one queue, in the same order. Batch by batch, the group's offsets on the old topic follow the
copies, so that at the end the group has nothing left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pyromq.blocking import Portal
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import read_queues
from pyromq.errors import ConfigError, NoRoute
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.common.checkpoints import check_same_stream, last_offsets
from pyromq.pipelines.common.copies import COPY_OF, ONCE, CopyTracker, marked, order_key, send_missing
from pyromq.pipelines.common.source_options import KEPT_COLUMNS, at_least
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.common.targets import create_topic, masters
from pyromq.pipelines.common.watching import QueryProgress, start_and_watch
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import check_group, check_topic
from pyromq.spark.launch.ship import function_with_package
from pyromq.spark.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_MOST_ROUNDS = 5


SETTINGS = {"spark.task.maxFailures": "1"}
"""Spark must not repeat a failed task: the job first looks for the messages that it has stored."""


class Options(Struct, frozen=True, kw_only=True):
    """Which topic to widen, for which group."""

    topic: str
    """The topic with the backlog."""
    group: str
    """The consumer group that is behind: copies start at its committed offsets, which then follow them."""
    to: str
    """The wide topic; created if it does not exist."""
    checkpoint: str
    """Directory of the checkpoint: after a stop or crash, the same command continues from it."""
    queues: int = 16
    """Total number of queues of the wide topic, over all brokers of the old one."""
    namesrv: str = ""
    """Name servers, host:port;host:port."""
    batch: int = 100_000
    """The most messages in one batch."""
    follow: bool = False
    """Keep copying what is still sent to the old topic, until stopped."""
    fail_on_data_loss: bool = True
    """Stop if retention has deleted messages before they were copied, or log a warning and continue."""

    @property
    def job(self) -> str:
        """The name in PYROMQ_COPY of the copies."""
        return f"widen-{self.to}"


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    if options.to == options.topic:
        raise ConfigError("--to is the topic itself: choose another one for the copies")
    at_least(1, queues=options.queues, batch=options.batch)
    check_topic(options.topic)
    check_topic(options.to)
    check_group(options.group)


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if the topic is missing or the group still reads it."""
    prepare(options.namesrv, options.topic, options.to, options.queues, options.group)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the group's backlog as a stream of copies: the messages, and the key that chooses their queue."""
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
    """Copy the backlog and what arrives meanwhile; return when the group has nothing left in the old topic."""
    check(options)
    begun = last_offsets(spark, options.checkpoint)
    check_same_stream(begun, options.checkpoint, options.topic, "", None, "--checkpoint")
    wide = prepare(options.namesrv, options.topic, options.to, options.queues, options.group)
    _begin(tracker_of(options), options, wide, new=not begun)
    rounds: list[QueryProgress] = []
    stopped, left = False, 1
    while not stopped and left and len(rounds) < _MOST_ROUNDS:
        watched, stopped = start_and_watch(lambda: _start(spark, options), progress, "widening")
        rounds.append(watched)
        left = backlog(options.namesrv, options.topic, options.group)
    copied = sum(watched.rows for watched in rounds)
    return Outcome(read=copied, written=copied, remarks=_remarks(options, left, stopped))


def _begin(tracker: CopyTracker, options: Options, wide: Sequence[MessageQueue], *, new: bool) -> None:
    """Set where copies start; if a broker has forgotten it, use the earliest possible start."""
    brokers = brokers_of(cluster(options.namesrv))
    if not tracker.start():
        tracker.set_start(brokers.max_offsets(wide) if new else brokers.min_offsets(wide))
    if new:
        set_group_start(options.namesrv, options.group, brokers.max_offsets(wide))


def tracker_of(options: Options) -> CopyTracker:
    """Return the tracker of this job's copies."""
    return CopyTracker(options.namesrv, [options.to], options.job, few=True)


def _start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Start the stream, possibly again after a failure or because more has arrived."""
    sink = WideTopic(options, begun=bool(last_offsets(spark, options.checkpoint)))
    stream = build(spark, options).writeStream.option("checkpointLocation", options.checkpoint)
    writer = stream.foreachBatch(function_with_package(spark, sink))
    return (writer if options.follow else writer.trigger(availableNow=True)).start()


class WideTopic:
    """Sends each batch once, even one that a crash interrupted."""

    def __init__(self, options: Options, *, begun: bool) -> None:
        self._tracker = tracker_of(options)
        self._cluster = cluster(options.namesrv)
        self._topic = options.to
        self._unsure = begun  # whether the next batch may have been started before

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Send a batch; Spark calls this for one batch after another."""
        if not self._unsure:
            self._tracker.advance_start()
        send_missing(batch, self._tracker, self._send, begun=self._unsure)
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
        return [f"{left:,} messages of {options.topic} are not copied yet: run the same command again to continue."]
    return [
        f"The group {options.group} has nothing left in {options.topic}: let its consumers subscribe to {options.to}.",
        f"Then stop the writers of {options.topic}, run this once more, and let them send to {options.to}:"
        " in this order every key stays in order.",
    ]


def prepare(namesrv: str, topic: str, to: str, queues: int, group: str) -> list[MessageQueue]:
    """Create the wide topic if needed, check that no one else consumes the old one, and return the wide queues."""
    brokers_of(cluster(namesrv)).queues([topic])  # raises with a hint if there is none
    return Portal.shared().call(_prepare(namesrv, topic, to, queues, group))


async def _prepare(namesrv: str, topic: str, to: str, queues: int, group: str) -> list[MessageQueue]:
    async with await BrokerApi.connect(namesrv, credentials=environment_credentials()) as api:
        addresses = await _masters(api, topic)
        await _check_members(api, addresses, topic, group)
        return await _find_or_make(api, addresses, to, queues)


async def _masters(api: BrokerApi, topic: str) -> dict[str, str]:
    route = await api.route(topic)
    found, names = masters(route), {data.broker_name for data in route.broker_datas}
    if len(found) < len(names):
        raise NoRoute(f"topic {topic!r} has queues on {', '.join(sorted(names - found.keys()))}, now down")
    return found


async def _check_members(api: BrokerApi, addresses: dict[str, str], topic: str, group: str) -> None:
    """Raise ConfigError if the group still reads the old topic: it would get messages twice and out of order."""
    for address in addresses.values():
        members = await AdminCalls(api.remoting).group_connections(address, group)
        if members is not None and topic in members.subscription_table:
            raise ConfigError(
                f"{len(members.connection_set)} members of {group!r} read {topic!r}: stop them, or have them subscribe"
                " to the wide topic instead; then run this again"
            )


async def _find_or_make(api: BrokerApi, addresses: dict[str, str], to: str, queues: int) -> list[MessageQueue]:
    try:
        found = read_queues(to, await api.route(to))
    except NoRoute:
        return await _make(api, addresses, to, queues)
    if len(found) != queues:
        raise ConfigError(f"topic {to!r} exists with {len(found)} queues, not {queues}: choose another --to")
    return sorted(found)


async def _make(api: BrokerApi, addresses: dict[str, str], to: str, queues: int) -> list[MessageQueue]:
    share, extra = divmod(queues, len(addresses))
    if extra:
        raise ConfigError(f"{queues} queues cannot be divided evenly among {len(addresses)} brokers: change --queues")
    return await create_topic(api, to, dict.fromkeys(addresses.values(), share))


def set_group_start(namesrv: str, group: str, begin: Offsets) -> None:
    """Make a group start at the first copy in each wide queue, unless it has started already."""
    brokers = brokers_of(cluster(namesrv))
    known = brokers.committed_offsets(begin, group)
    brokers.commit({queue: offset for queue, offset in begin.items() if queue not in known}, group)


def backlog(namesrv: str, topic: str, group: str) -> int:
    """Return how many messages of a topic a group has not consumed yet."""
    brokers = brokers_of(cluster(namesrv))
    queues = brokers.queues([topic])
    ends, begins = brokers.max_offsets(queues), brokers.min_offsets(queues)
    committed = brokers.committed_offsets(queues, group)
    return sum(max(0, ends[queue] - max(begins[queue], committed.get(queue, 0))) for queue in queues)
