"""What groups could not consume: messages that came again, and those that were given up, with the causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

FAILURE_COLUMNS = "topic,properties,reconsume_times"

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def failures_of(messages: DataFrame) -> DataFrame:
    """Count the messages of retry and dead-letter topics by group, topic and cause.

    Causes that differ in numbers only are one: ids of orders are not what failed.
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
