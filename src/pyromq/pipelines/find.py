"""Finds messages in topics, however many there are, and writes them as JSON lines, the newest first.

    pyromq pipeline run find --topics orders --where "body.cents > 1000" --since 2026-01-30 --out found.jsonl

`pyromq message find` looks at messages one after the other and stops at its budget. This looks at all queues at once.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipelines.cluster import cluster
from pyromq.pipelines.common.message_selection import ConditionOptions, matching
from pyromq.pipelines.common.source_options import KEPT_COLUMNS, at_least, look_at_source, time_option
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.outcome import Outcome, Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Options(ConditionOptions, frozen=True, kw_only=True):
    """Which messages to find, and where to write them."""

    topics: str
    """Topics, separated by commas; a group's dead letters are in %DLQ%group."""
    most: int = 1000
    """The most messages to write, the newest ones."""
    out: str = "found.jsonl"
    """Path of the file."""


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    if not options.topics.strip():
        raise ConfigError("--topics is missing: name the topics to search")
    at_least(1, most=options.most)
    since, until = time_option("--since", options.since), time_option("--until", options.until)
    if since and until and since >= until:
        raise ConfigError(f"--since {options.since} is not before --until {options.until}")
    if not Path(options.out).resolve().parent.is_dir():
        raise ConfigError(f"--out {options.out}: there is no such directory")


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if a topic is missing."""
    look_at_source(place, options.namesrv, options.topics)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the messages that match."""
    return matching(spark, read(spark, options), options)


def read(spark: SparkSession, options: Options) -> DataFrame:
    """Return all messages of the topics."""
    reader = spark.read.format("pyromq").options(**cluster(options.namesrv)).option("subscribe", options.topics)
    reader = reader.option("columns", ",".join(KEPT_COLUMNS)).option("failOnDataLoss", "false")
    if since := time_option("--since", options.since):
        reader = reader.option("startingTimestamp", since.isoformat())
    return reader.load()


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Write the newest messages that match."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import col, count, lit

    check(options)
    progress.reached(0, None, "searching")
    seen = Observation("seen")
    messages = read(spark, options).observe(seen, count(lit(1)).alias("count"))
    newest = matching(spark, messages, options).orderBy(col("store_timestamp").desc()).limit(options.most + 1)
    rows = newest.collect()
    found = rows[: options.most]
    looked_at = int(seen.get["count"])
    progress.reached(looked_at, looked_at, "writing")
    path = Path(options.out)
    path.write_bytes(b"".join(msgspec.json.encode(fields(row.asDict())) + b"\n" for row in found))
    outcome = Outcome(read=looked_at, written=len(found), remarks=[f"The messages are in {path.resolve()}"])
    if len(rows) > len(found):
        outcome.remarks.append(f"There are more: these are the newest {options.most:,} (--most).")
    return outcome


def fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON has it: times in ISO 8601, a body that is no text in base64."""
    body: bytes = bytes(row.get("body") or b"")
    shown = {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
    try:
        return shown | {"body": body.decode()}
    except UnicodeDecodeError:
        return shown | {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}
