"""The demo's pipeline: orders decoded from their JSON bodies and summed up by state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, and from where."""

    namesrv: str
    topic: str = "orders"


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return a streaming frame of messages and cents by state."""
    from pyspark.sql.functions import col, count, from_json
    from pyspark.sql.functions import sum as total

    source = (
        spark.readStream.format("pyromq")
        .option("namesrv", options.namesrv)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("columns", "body")
        .load()
    )
    body = from_json(col("body").cast("string"), "order_id long, state string, cents long").alias("order")
    return (
        source.select(body)
        .groupBy("order.state")
        .agg(count("*").alias("messages"), total("order.cents").alias("cents"))
    )
