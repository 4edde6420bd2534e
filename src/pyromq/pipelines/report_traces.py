"""Message traces as frames: how long sends took, listeners took, and the way from one to the other.

A trace message holds records that end with U+0002; their fields are parted by U+0001, and the first one is the kind:

    Pub        kind, time, region, group, topic, message id, tags, keys, broker, body length, cost ms, …
    SubBefore  kind, time, region, group, request id, message id, retry times, keys
    SubAfter   kind, request id, message id, cost ms, success, keys, code, time, group
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PERCENTILES = [0.5, 0.9, 0.99]


class Traces(NamedTuple):
    """What the traces tell."""

    sends: DataFrame
    """By topic: how many, how long."""
    ways: DataFrame
    """By topic and group: from the send to the listener, messages at their first try."""
    calls: DataFrame
    """By group: listeners' calls, how long, how many failed."""


def traces_of(messages: DataFrame) -> Traces:
    """Return the figures in the bodies of trace messages."""
    from pyspark.sql import functions as f

    records = messages.select(f.explode(f.split(f.col("body").cast("string"), "\x02")).alias("record"))
    records = records.select(f.split("record", "\x01").alias("field"))
    sent = records.where("field[0] = 'Pub'").select(
        _field(4).alias("topic"),
        _field(5).alias("message_id"),
        _number(1).alias("sent_ms"),
        _number(10).alias("cost_ms"),
    )
    taken = records.where("field[0] = 'SubBefore' and field[6] = '0'").select(
        _field(3).alias("group"), _field(5).alias("message_id"), _number(1).alias("taken_ms")
    )
    called = records.where("field[0] = 'SubAfter'").select(
        f.coalesce(_field(8), f.lit("")).alias("group"),
        _number(3).alias("cost_ms"),
        (_field(4) == "true").alias("is_good"),
    )
    first = taken.groupBy("group", "message_id").agg(f.min("taken_ms").alias("taken_ms"))
    ways = sent.join(first, "message_id").withColumn("way_ms", f.col("taken_ms") - f.col("sent_ms"))
    return Traces(
        sends=_figures(sent, "cost_ms", "topic"),
        ways=_figures(ways, "way_ms", "topic", "group"),
        calls=_figures(called, "cost_ms", "group", failed=f.count_if(~f.col("is_good"))),
    )


def _figures(frame: DataFrame, value: str, *by: str, **more: Column) -> DataFrame:
    from pyspark.sql import functions as f

    extra = [column.alias(name) for name, column in more.items()]
    percentiles = f.percentile_approx(value, _PERCENTILES, 1000).alias("percentiles_ms")
    return frame.groupBy(*by).agg(f.count("*").alias("messages"), percentiles, f.max(value).alias("slowest_ms"), *extra)


def _field(index: int) -> Column:
    """Return a field, null where a record is too short or says so."""
    from pyspark.sql import functions as f

    return f.nullif(f.get("field", f.lit(index)), f.lit("null"))


def _number(index: int) -> Column:
    return _field(index).try_cast("bigint")
