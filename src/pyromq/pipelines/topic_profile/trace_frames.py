"""Message traces as frames: how long sends and listeners took, and the time between them.

A trace message holds records that end with U+0002; their fields are separated by U+0001, and the first is the kind:

    Pub        kind, time, region, group, topic, message id, tags, keys, broker, body length, cost ms, …
    SubBefore  kind, time, region, group, request id, message id, retry times, keys
    SubAfter   kind, request id, message id, cost ms, success, keys, code, time, group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PERCENTILES = [0.5, 0.9, 0.99]


def traces_of(messages: DataFrame) -> DataFrame:
    """Return the figures in the bodies of trace messages, by kind, topic and group.

    Kind `send` is how long sends took; `way` the time from the send to the listener at the first attempt; `call` how
    long listeners took, and how many of their calls failed.
    """
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
        _field(8).alias("group"), _number(3).alias("cost_ms"), (_field(4) != "true").alias("has_failed")
    )
    first = taken.groupBy("group", "message_id").agg(f.min("taken_ms").alias("taken_ms"))
    ways = sent.join(first, "message_id")
    none, no = f.lit(""), f.lit(False)
    times = _times("send", sent, "topic", none, "cost_ms", no)
    times = times.unionAll(_times("way", ways, "topic", "group", f.expr("taken_ms - sent_ms"), no))
    times = times.unionAll(_times("call", called, none, f.coalesce("group", none), "cost_ms", "has_failed"))
    return times.groupBy("kind", "topic", "group").agg(
        f.count("*").alias("messages"),
        f.percentile_approx("ms", _PERCENTILES, 1000).alias("percentiles_ms"),
        f.max("ms").alias("slowest_ms"),
        f.count_if("has_failed").alias("failed"),
    )


def _times(kind: str, frame: DataFrame, *columns: Column | str) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.select(f.lit(kind), *columns).toDF("kind", "topic", "group", "ms", "has_failed")


def _field(index: int) -> Column:
    """Return a field, null if the record is too short or the field is "null"."""
    from pyspark.sql import functions as f

    return f.nullif(f.get("field", f.lit(index)), f.lit("null"))


def _number(index: int) -> Column:
    return _field(index).try_cast("bigint")
