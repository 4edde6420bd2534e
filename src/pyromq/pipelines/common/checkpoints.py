"""Finds out which stream a checkpoint belongs to; Spark reads it, so it may be on any file system."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError
from pyromq.spark.offsets import Offsets, from_json
from pyromq.spark.options.store_options import STORE
from pyromq.spark.read.plan.queue_source import is_for_patterns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_THERE = "PATH_NOT_FOUND"


def last_offsets(spark: SparkSession, checkpoint: str) -> Offsets:
    """Return the end offsets of the last batch that was started; empty if there is no checkpoint yet."""
    from pyspark.errors import AnalysisException

    try:
        text = _last_log(spark, f"{checkpoint}/offsets")
    except AnalysisException as error:  # over Connect it is raised when rows are fetched
        if error.getCondition() == _NOT_THERE:
            return {}
        raise
    return from_json(json.loads(text.splitlines()[-1])) if text else {}


def _last_log(spark: SparkSession, directory: str) -> str:
    from pyspark.sql.functions import col

    logs = spark.read.text(directory, wholetext=True)
    number = col("_metadata.file_name").cast("int")
    last = logs.select("value", number.alias("batch")).where("batch is not null").orderBy("batch", ascending=False)
    row = last.first()
    return row.value if row else ""


def check_same_stream(
    offsets: Offsets, checkpoint: str, topics: str, pattern: str, broker: str | None, where: str = "--to"
) -> None:
    """Raise ConfigError if a checkpoint's offsets are of topics or a broker that this run does not read.

    `broker` is the broker name of a store, None for reads through brokers; `where` is the option that sets the
    checkpoint's directory.
    """
    wanted = {name.strip() for name in topics.split(",")}
    for topic in sorted({queue.topic for queue in offsets}):
        if not (topic in wanted if topics else re.fullmatch(pattern, topic) and is_for_patterns(topic, pattern)):
            raise ConfigError(
                f"the checkpoint {checkpoint} belongs to a run that reads {topic!r}: choose another {where}, or read"
                " the same topics as before; topics may be added"
            )
    brokers = {queue.broker_name for queue in offsets}
    if brokers and (STORE in brokers if broker is None else broker not in brokers):
        raise ConfigError(
            f"the checkpoint {checkpoint} belongs to a run that reads from {', '.join(sorted(brokers))}, not from"
            f" {broker or 'brokers'}: everything would be read again; --broker-name names the broker that wrote a store"
        )
