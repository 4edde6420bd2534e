"""Sends archived messages or dead letters back into a topic: filtered, at a set rate, each key in order.

    pyromq pipeline run replay --archive /data/archive --topics orders --since 2026-01-30 --to orders-again
        --where "body.cents > 1000 and tags = 'paid'" --rate 500

A replayed message is a new message with a new id. It keeps body, keys, tags, flag and the user's properties, and names
its origin in PYROMQ_ORIGIN_… and PYROMQ_COPY. Properties that brokers added to the old message are dropped.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from pyromq.pipelines.common.copies import COPY_OF, CopyTracker, marked, order_key, send_missing
from pyromq.pipelines.common.message_selection import (
    SelectionOptions,
    check_selection,
    choose,
    first_topic,
    look_at_selection,
)
from pyromq.pipelines.common.sending import Sending, tasks_for
from pyromq.pipelines.common.source_options import at_least
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.common.targets import ensure_topic
from pyromq.pipelines.outcome import Outcome, Progress, Stopped
from pyromq.protocol.messages import properties as names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SETTINGS = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1"}
"""Spark must not repeat a task or stage that failed with a worker or executor: the job first looks for the messages
that it has stored."""


class Options(SelectionOptions, frozen=True, kw_only=True):
    """Which messages to send again, where to, and how fast."""

    rate: int = 0
    """The most messages per second; 0 means as fast as the brokers accept them."""
    name: str = ""
    """Name of this replay; another name sends everything again. By default derived from the selection and --to."""

    @property
    def job(self) -> str:
        """The name in PYROMQ_COPY: the same for the same command, however often it runs."""
        chosen = (self.archive, self.dead_letters, self.topics, self.to, self.where, self.since, self.until)
        return f"replay-{self.name or blake2b(msgspec.json.encode(chosen), digest_size=6).hexdigest()}"


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    check_selection(options)
    at_least(0, rate=options.rate)


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if there is no such archive or group; create the topic of --to."""
    look_at_selection(options, place)
    if options.to:
        ensure_topic(options.namesrv, options.to)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the messages to send, with their origin and target."""
    return copies_of(choose(spark, options).kept, options)


def copies_of(messages: DataFrame, options: Options) -> DataFrame:
    """Return selected messages as they will be sent."""
    from pyspark.sql.functions import lit

    to = lit(options.to) if options.to else first_topic()
    return with_history(marked(messages, options.job)).withColumn("order_key", order_key()).withColumn("topic", to)


def with_history(messages: DataFrame) -> DataFrame:
    """Return messages with their origin in properties; the origin of an earlier replay is kept."""
    from pyspark.sql.functions import coalesce, col, create_map, lit, map_concat, map_filter

    history = {
        names.ORIGIN_TOPIC: coalesce(col("properties")[names.ORIGIN_TOPIC], first_topic(), col("topic")),
        names.ORIGIN_ID: coalesce(col("properties")[names.ORIGIN_ID], col("message_id")),
    }
    own = map_filter("properties", lambda name, value: ~name.isin(*history))
    pairs = [part for name, value in history.items() for part in (lit(name), value)]
    return messages.withColumn("properties", map_concat(own, create_map(*pairs)))


def in_order(copies: DataFrame, tasks: int) -> DataFrame:
    """Return copies in `tasks` partitions: each key's messages in one of them, in the order they were stored."""
    from pyspark.sql.functions import coalesce, col

    return (
        copies.repartition(tasks, coalesce(col("order_key"), col(COPY_OF)))
        .sortWithinPartitions("store_timestamp", "broker_name", "queue_id", "queue_offset")
        .select("topic", "body", "keys", "tags", "properties", "flag", "order_key", COPY_OF)
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Send selected messages that are not stored yet; return when all of them are acknowledged."""
    check(options)
    chosen = choose(spark, options)
    counts = chosen.counts()
    outcome = Outcome(read=counts.read, written=0, dropped=counts.dropped)
    if not counts.kept:
        outcome.remarks.append("No message was selected.")
        return outcome
    for topic in counts.topics:
        ensure_topic(options.namesrv, topic)
    copies = copies_of(chosen.kept, options)
    tracker = CopyTracker(options.namesrv, counts.topics, options.job)
    start, ends = tracker.start(), tracker.ends()
    begun = bool(start) and start != ends
    already = counts.kept - tracker.missing(copies).count() if begun else 0
    if not begun:
        tracker.set_start(ends)
    outcome.dropped |= {"sent by an earlier run": already} if already else {}
    tasks = tasks_for(spark, options.rate)
    sending = Sending(options.namesrv, counts.topics, options.rate // tasks, progress, counts.kept - already)
    try:
        send_missing(copies, tracker, lambda missing: sending.send(in_order(missing, tasks)), begun=begun)
    except Stopped:
        outcome.remarks.append("Stopped: run the same command again to send the rest.")
    outcome.written = sending.sent
    outcome.remarks.append(f"The messages are marked {options.job}: the same command does not send them again.")
    return outcome
