"""Archives topics as Parquet files, by topic and day, each message exactly once: history past a broker's retention.

    pyromq pipeline run archive --topics orders,%DLQ%billing --to /data/archive

A stream with a checkpoint: every run continues where the last one ended, even if that one was killed. The files of a
batch count once Spark has listed them in `_spark_metadata`. Read the archive with Spark, or read only the listed files,
and every message is there once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.pipelines.common.checkpoints import check_same_stream, last_offsets
from pyromq.pipelines.common.shared_files import check_shared
from pyromq.pipelines.common.source_options import (
    KEPT_COLUMNS,
    are_times,
    at_least,
    look_at_source,
    origin,
    start,
    subscription,
)
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.common.watching import start_and_watch
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.spark.options.store_options import STORE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DAY_MS = 86_400_000


class Options(Struct, frozen=True, kw_only=True):
    """Which topics to archive, and where."""

    to: str
    """Directory (or URI) of the archive."""
    topics: str = ""
    """Topics, separated by commas; a group's dead letters are in %DLQ%group."""
    pattern: str = ""
    """Instead of topics: a regular expression for whole topic names; start it with % to match dead letters."""
    namesrv: str = ""
    """Name servers, host:port;host:port."""
    store: str = ""
    """Read the files of this store directory instead of pulling from brokers."""
    broker_name: str = ""
    """The broker that wrote the store; with it, a later run can continue through the broker."""
    start: str = "earliest"
    """Where the first run starts: earliest, latest, committed, a time (2026-01-31T08:00:00Z), or offsets as JSON."""
    group: str = ""
    """A consumer group whose offsets at the brokers show the archive's progress."""
    checkpoint: str = ""
    """Directory of the checkpoint; by default _checkpoint in the archive."""
    batch: int = 500_000
    """The most messages in one batch."""
    follow: bool = False
    """Keep running instead of ending when everything has been archived."""
    every: str = "60 seconds"
    """With --follow, how long to collect messages for one batch; short times give many small files."""
    fail_on_data_loss: bool = True
    """Stop if retention has deleted messages before they were archived, or log a warning and continue."""

    @property
    def progress(self) -> str:
        """The checkpoint's directory."""
        return self.checkpoint or f"{self.to.rstrip('/')}/_checkpoint"


def check(options: Options) -> None:
    """Raise ConfigError for invalid options; the command calls this before it starts Spark."""
    if not options.to:
        raise ConfigError("--to is missing: the archive needs a directory")
    origin(options.namesrv, options.store, options.broker_name)
    subscription(options.topics, options.pattern)
    start(options.start)
    at_least(1, batch=options.batch)
    are_times(every=options.every)


def look(options: Options, place: SparkPlace) -> None:
    """Raise PyroMQError, before Spark starts, if a topic is missing."""
    look_at_source(place, options.namesrv, options.topics, options.pattern, options.store, options.broker_name)


def build(spark: SparkSession, options: Options) -> DataFrame:
    """Return the topics as a stream with all columns of a message and the day it was stored (UTC)."""
    messages = (
        spark.readStream.format("pyromq")
        .options(**origin(options.namesrv, options.store, options.broker_name))
        .options(**subscription(options.topics, options.pattern))
        .options(**start(options.start))
        .options(**({"group": options.group} if options.group else {}))
        .option("columns", ",".join(KEPT_COLUMNS))
        .option("maxOffsetsPerTrigger", str(options.batch))
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )
    return messages.withColumn("day", day_of("store_timestamp"))


def day_of(time: str) -> Column:
    """Return the UTC day of a timestamp column, whatever the session's time zone is."""
    from pyspark.sql.functions import date_from_unix_date, expr

    return date_from_unix_date(expr(f"cast(floor(unix_millis({time}) / {_DAY_MS}) as int)"))


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Archive everything there is, or follow; return when done, or after the current batch when stopped."""
    check(options)
    messages = build(spark, options)
    broker = (options.broker_name or STORE) if options.store else None
    begun = last_offsets(spark, options.progress)
    where = "--checkpoint" if options.checkpoint else "--to"
    check_same_stream(begun, options.progress, options.topics, options.pattern, broker, where)
    check_shared(spark, options.to)
    writer = (
        messages.writeStream.format("parquet")
        .partitionBy("topic", "day")
        .option("path", options.to)
        .option("compression", "zstd")
        .option("checkpointLocation", options.progress)
    )
    follow = writer.trigger(processingTime=options.every) if options.follow else writer.trigger(availableNow=True)
    watched, stopped = start_and_watch(follow.start, progress, "archiving")
    remarks = [f"The archive is {options.to}, by topic and day. Another run with the same options continues from here."]
    if options.pattern and not watched.reached:
        remarks.insert(0, f"No topic matches {options.pattern} yet.")
    if stopped:
        remarks.insert(0, f"Stopped after a batch; {_left(watched.left)}.")
    return Outcome(read=watched.rows, written=watched.rows, remarks=remarks)


def _left(count: int | None) -> str:
    if not count:
        return "the rest is not archived yet" if count is None else "nothing was left"
    return f"{count:,} messages are not archived yet"
