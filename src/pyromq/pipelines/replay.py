"""Archived or dead-lettered messages back into a topic: some of them, at a set rate, each key's in order.

    pyromq pipeline run replay --archive /data/archive --topics orders --since 2026-01-30 --to orders-again
        --where "body.cents > 1000 and tags = 'paid'" --rate 500

A replayed message is a new one, with an id of its own; it keeps body, keys, tags, flag and the user's properties, and
says in PYROMQ_ORIGIN_… and PYROMQ_COPY where it comes from. What brokers wrote into the old one stays behind.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from pyromq.pipelines.common.copies import COPY_OF, CopyTracker, marked, order_key, send_missing
from pyromq.pipelines.common.message_selection import SelectionOptions, check_selection, choose, first_topic
from pyromq.pipelines.common.sending import Sending, tasks_for
from pyromq.pipelines.common.source_options import at_least
from pyromq.pipelines.outcome import Outcome, Progress, Stopped
from pyromq.protocol.messages import properties as names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SETTINGS = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1"}
"""What fails, with a worker or with an executor that others wanted rows from, is not run again by itself: what it has
stored must be looked for first."""


class Options(SelectionOptions, frozen=True, kw_only=True):
    """What to send again, where to, and how fast."""

    rate: int = 0
    """Messages a second at most; 0 for as fast as the brokers take them."""
    name: str = ""
    """Which replay this is: under another name all is sent again. By default made of what is chosen and --to."""

    @property
    def job(self) -> str:
        """What the messages are marked with: the same for the same command, however often it runs."""
        chosen = (self.archive, self.dead_letters, self.topics, self.to, self.where, self.since, self.until)
        return f"replay-{self.name or blake2b(msgspec.json.encode(chosen), digest_size=6).hexdigest()}"


def check(options: Options) -> None:
    """Raise ConfigError for options that cannot be meant; the command asks before it starts Spark."""
    check_selection(options)
    at_least(0, rate=options.rate)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the messages to send, marked, with where each comes from and goes to."""
    return copies_of(choose(spark, options).kept, options)


def copies_of(messages: DataFrame, options: Options) -> DataFrame:
    """Return chosen messages as they are sent."""
    from pyspark.sql.functions import lit

    to = lit(options.to) if options.to else first_topic()
    return with_history(marked(messages, options.job)).withColumn("order_key", order_key()).withColumn("topic", to)


def with_history(messages: DataFrame) -> DataFrame:
    """Return messages that say in their properties where they come from; what an earlier replay said stays."""
    from pyspark.sql.functions import coalesce, col, create_map, lit, map_concat, map_filter

    history = {
        names.ORIGIN_TOPIC: coalesce(col("properties")[names.ORIGIN_TOPIC], first_topic(), col("topic")),
        names.ORIGIN_ID: coalesce(col("properties")[names.ORIGIN_ID], col("message_id")),
    }
    own = map_filter("properties", lambda name, value: ~name.isin(*history))
    pairs = [part for name, value in history.items() for part in (lit(name), value)]
    return messages.withColumn("properties", map_concat(own, create_map(*pairs)))


def in_order(copies: DataFrame, tasks: int) -> DataFrame:
    """Return copies in so many parts: a key's messages in one of them, in the order in which they were stored."""
    from pyspark.sql.functions import coalesce, col

    return (
        copies.repartition(tasks, coalesce(col("order_key"), col(COPY_OF)))
        .sortWithinPartitions("store_timestamp", "broker_name", "queue_id", "queue_offset")
        .select("topic", "body", "keys", "tags", "properties", "flag", "order_key", COPY_OF)
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Send what was chosen and is not there yet; returns when all of it is acknowledged."""
    check(options)
    chosen = choose(spark, options)
    counts = chosen.counts()
    outcome = Outcome(read=counts.read, written=0, dropped=counts.dropped)
    if not counts.kept:
        outcome.remarks.append("No message was chosen.")
        return outcome
    copies = copies_of(chosen.kept, options)
    fence = CopyTracker(options.namesrv, counts.topics, options.job)
    position, ends = fence.position(), fence.ends()
    begun = bool(position) and position != ends
    already = counts.kept - fence.missing(copies).count() if begun else 0
    if not begun:
        fence.put(ends)
    outcome.dropped |= {"sent by an earlier run": already} if already else {}
    tasks = tasks_for(spark, options.rate)
    sending = Sending(options.namesrv, counts.topics, options.rate // tasks, progress, counts.kept - already)
    try:
        send_missing(copies, fence, lambda missing: sending.send(in_order(missing, tasks)), begun=begun)
    except Stopped:
        outcome.remarks.append("Stopped: the same command sends what is missing.")
    outcome.written = sending.sent
    outcome.remarks.append(f"The messages are marked {options.job}: the same command would not send them again.")
    return outcome
