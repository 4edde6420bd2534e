"""What Spark counts for a profile: the frames of figures, names and failures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyromq.pipelines.topic_profile.survey import Survey
from pyromq.protocol.messages.compression import COMPRESSED_FLAG
from pyromq.protocol.messages.record import SMALLEST_RECORD, V6_FLAGS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


MOST_TOPICS = 8
"""The number of topics shown in detail: those with the most messages."""
MOST_NAMES = 12
"""The number of keys and tags listed for each topic."""
SIZE_DIGITS = 10
"""Significant binary digits of sizes: exact below 1 KiB, above to 0.2 %."""
LATENCY_DIGITS = 6
"""Significant binary digits of latencies, counted per time step: exact below 64 ms, above to 3 %."""

_WIDTHS_MS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000]
_WIDTHS_MS += [
    1000 * seconds for seconds in (1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000)
]
_MOST_STEPS = 120


class Frames(NamedTuple):
    """The frames of a profile: small ones with figures, computed from the persisted `messages`."""

    survey: Survey
    messages: DataFrame
    """One row for each message."""
    figures: DataFrame
    """Counts by queue and time step, by size, and by latency; columns that a row is not about are null."""
    names: DataFrame
    """Keys and tags of each topic, and the hottest key of each queue."""
    failures: DataFrame | None
    traces: DataFrame | None


def order_key() -> Column:
    """Return a message's sharding key, else its first key."""
    from pyspark.sql import functions as f

    sharding_key = f.regexp_extract("properties", "(?:^|\x02)__SHARDINGKEY\x01([^\x02]*)", 1)
    has_one = f.contains("properties", f.lit("__SHARDINGKEY\x01"))  # rare, and regular expressions are slow
    return f.coalesce(f.when(has_one, f.nullif(sharding_key, f.lit(""))), f.try_element_at("keys", f.lit(1)))


def is_compressed() -> Column:
    """Return whether a body is stored compressed."""
    from pyspark.sql import functions as f

    return f.expr(f"sys_flag & {COMPRESSED_FLAG} != 0")


def body_size() -> Column:
    """Return the stored length of a body: the record's size without its other parts."""
    from pyspark.sql import functions as f

    addresses = f.expr(f"12 * bit_count(sys_flag & {V6_FLAGS})")  # IPv6 addresses are 12 bytes longer
    return f.col("store_size") - SMALLEST_RECORD - addresses - f.octet_length("topic") - f.octet_length("properties")


def figures_of(messages: DataFrame, detailed: Sequence[str]) -> DataFrame:
    """Count in one pass by queue and time step, by size, and by latency (for detailed topics by time step too)."""
    from pyspark.sql import functions as f

    step = f.expr("at_ms div width_ms")
    in_steps = messages.crossJoin(f.broadcast(step_width(messages))).withColumns(
        {
            "step": step,
            "size_value": rounded("size", SIZE_DIGITS),
            "latency_step": f.when(f.col("topic").isin(*detailed), step),
            "latency_value": rounded("latency_ms", LATENCY_DIGITS),
        }
    )
    about = ["broker_name", "queue_id", "step"], ["size_value"], ["latency_step", "latency_value"]
    sets = [["topic", *columns] for columns in about]
    return in_steps.groupingSets(sets, "topic", *chain(*about)).agg(
        f.count("*").alias("messages"),
        f.sum("stored").alias("stored"),
        f.sum("size").alias("bodies"),
        f.max("size").alias("largest"),
        f.max("latency_ms").alias("slowest_ms"),
        f.count_if(f.col("latency_ms") < 0).alias("early"),
        f.count_if("is_compressed").alias("compressed"),
        f.min("at_ms").alias("first_ms"),
        f.max("at_ms").alias("last_ms"),
        f.max("width_ms").alias("width_ms"),
    )


def step_width(messages: DataFrame) -> DataFrame:
    """Return a frame of one row with the length of a chart's time step: a round number of milliseconds."""
    from pyspark.sql import functions as f

    widths = f.array(*[f.lit(width).cast("bigint") for width in _WIDTHS_MS])
    span = messages.agg(((f.max("at_ms") - f.min("at_ms")) / _MOST_STEPS).alias("least"))
    fitting = f.filter(widths, lambda width: width >= f.col("least"))
    return span.select(f.coalesce(f.try_element_at(fitting, f.lit(1)), f.lit(_WIDTHS_MS[-1])).alias("width_ms"))


def rounded(value: str, digits: int) -> Column:
    """Return a whole number rounded down to `digits` binary digits, so that there are few distinct values."""
    from pyspark.sql import functions as f

    rest = f"greatest(0, cast(floor(log2(abs({value}))) as int) - {digits - 1})"  # log2 of 0 is null
    return f.expr(f"shiftleft(shiftright({value}, {rest}), {rest})")


def names_of(messages: DataFrame) -> DataFrame:
    """Count keys and tags: how many a topic has, the most frequent ones, and the hottest key of each queue.

    Both results need counts by queue; as one frame they share the shuffle.
    """
    from pyspark.sql import functions as f

    by_name = _names(messages).groupBy("topic", "broker_name", "queue_id", "kind", "name")
    in_queues = by_name.agg(f.count("*").alias("messages"))
    in_topics = in_queues.groupBy("topic", "kind", "name").agg(
        f.sum("messages").alias("messages"), f.count("*").alias("queues"), f.min("queue_id").alias("queue_id")
    )
    totals = in_topics.groupBy("topic", "kind").agg(
        f.count("name").alias("names"),
        f.sum("messages").alias("messages"),
        f.count_if(f.col("queues") > 1).alias("scattered"),
        f.max_by(f.struct("name", "messages", "queues", "queue_id"), "messages", MOST_NAMES).alias("most"),
    )
    hottest = in_queues.groupBy("topic", "kind", "broker_name", "queue_id").agg(
        f.max_by(f.struct("name", "messages"), "messages").alias("hottest")
    )
    return totals.unionByName(hottest, allowMissingColumns=True)


def _names(messages: DataFrame) -> DataFrame:
    """Return rows with the key of each message that has one, and with the tag of each message, which may be null."""
    from pyspark.sql import functions as f

    place = "topic", "broker_name", "queue_id"
    keys = messages.where("key is not null").select(*place, f.lit("key").alias("kind"), f.col("key").alias("name"))
    return keys.unionAll(messages.select(*place, f.lit("tag"), "tag"))


FAILURE_COLUMNS = "topic,properties,reconsume_times"


def failures_of(messages: DataFrame) -> DataFrame:
    """Count the messages of retry and dead-letter topics by group, topic and cause.

    Causes that differ only in numbers count as one, since ids do not matter.
    """
    from pyspark.sql import functions as f

    cause = f.regexp_replace(_property("PYROMQ_CAUSE"), r"\d+", "#")
    return (
        messages.select(
            f.when(f.col("topic").startswith("%DLQ%"), "dead").otherwise("retry").alias("kind"),
            f.regexp_replace("topic", "^%(DLQ|RETRY)%", "").alias("group"),
            _property("RETRY_TOPIC").alias("topic"),
            cause.alias("cause"),
            "reconsume_times",
        )
        .groupBy("kind", "group", "topic", "cause")
        .agg(f.count("*").alias("messages"), f.max("reconsume_times").alias("most_tries"))
        .orderBy(f.desc("messages"))
        .limit(200)
    )


def _property(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.regexp_extract("properties", f"(?:^|\x02){name}\x01([^\x02]*)", 1)
