"""The parts of a profile that Spark counts, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyromq.pipelines.report_survey import Survey
from pyromq.pipelines.report_traces import Traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEPS_OF_AN_OCTAVE = 8
"""How fine sizes are counted: from one step to the next they grow by 9 %."""
MOST_NAMES = 12
"""Keys and tags that are listed for each topic."""

_WIDTHS_MS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000]
_WIDTHS_MS += [
    1000 * seconds for seconds in (1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000)
]
_MOST_STEPS = 120
_PERCENTILES = [0.5, 0.9, 0.99, 0.999]


class Frames(NamedTuple):
    """A profile: small frames, each of figures by topic, made of two that are kept while it is taken."""

    survey: Survey
    messages: DataFrame
    """One row for each message."""
    key_counts: DataFrame
    """One row for each key in each queue."""
    topics: DataFrame
    rates: DataFrame
    latency_over_time: DataFrame
    sizes: DataFrame
    latencies: DataFrame
    tags: DataFrame
    keys: DataFrame
    key_totals: DataFrame
    hottest: DataFrame
    failures: DataFrame | None
    traces: Traces | None


def order_key() -> Column:
    """Return what a message is ordered by, else its first key."""
    from pyspark.sql import functions as f

    sharding_key = f.regexp_extract("properties", "(?:^|\x02)__SHARDINGKEY\x01([^\x02]*)", 1)
    return f.coalesce(f.nullif(sharding_key, f.lit("")), f.try_element_at("keys", f.lit(1)))


def body_size() -> Column:
    """Return the length of a body as it is stored: what the record has besides is known."""
    from pyspark.sql import functions as f

    addresses = f.expr("12 * bit_count(sys_flag & 48)")  # those of IPv6 are 12 bytes longer
    return f.col("store_size") - 91 - addresses - f.octet_length("topic") - f.octet_length("properties")


def step_width(messages: DataFrame) -> DataFrame:
    """Return, as a frame of one row, how long a step of the charts over time is: a round number of milliseconds."""
    from pyspark.sql import functions as f

    widths = f.array(*[f.lit(width).cast("bigint") for width in _WIDTHS_MS])
    span = messages.agg(((f.max("at_ms") - f.min("at_ms")) / _MOST_STEPS).alias("least"))
    fitting = f.filter(widths, lambda width: width >= f.col("least"))
    return span.select(f.coalesce(f.try_element_at(fitting, f.lit(1)), f.lit(_WIDTHS_MS[-1])).alias("width_ms"))


def topic_figures(messages: DataFrame) -> DataFrame:
    """Return the figures of each topic as a whole."""
    from pyspark.sql import functions as f

    return messages.groupBy("topic").agg(
        f.count("*").alias("messages"),
        f.sum("stored").alias("stored"),
        f.sum("size").alias("bodies"),
        f.min("at_ms").alias("first_ms"),
        f.max("at_ms").alias("last_ms"),
        f.max("size").alias("largest"),
        f.max("latency_ms").alias("slowest_ms"),
        f.count_if(f.col("latency_ms") < 0).alias("early"),
        f.approx_count_distinct("tag").alias("tags"),
        f.percentile_approx("size", _PERCENTILES, 1000).alias("sizes"),
        f.percentile_approx("latency_ms", _PERCENTILES, 1000).alias("latencies_ms"),
    )


def counted_by(messages: DataFrame, value: Column, steps_of_an_octave: int) -> DataFrame:
    """Return how many messages have which value, and what they weigh, on a scale that doubles with each octave."""
    from pyspark.sql import functions as f

    step = f.when(value >= 1, f.floor(f.log2(value) * steps_of_an_octave)).otherwise(-1).alias("step")
    return messages.groupBy("topic", step).agg(f.count("*").alias("messages"), f.sum("stored").alias("stored"))


def most_frequent(counts: DataFrame) -> DataFrame:
    """Return of each topic what has the most messages."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rank = f.row_number().over(Window.partitionBy("topic").orderBy(f.desc("messages")))
    return counts.withColumn("rank", rank).where(f.col("rank") <= MOST_NAMES)
