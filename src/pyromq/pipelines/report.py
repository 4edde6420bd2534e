"""`report`: a topic, several or a whole store, profiled into one HTML page.

Everything is counted by Spark; only figures come back, never messages. Bodies are not read: how long they are follows
from the size of the stored record.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipelines.outcome import Outcome, Progress
from pyromq.pipelines.reading import origin
from pyromq.pipelines.report_collect import collect
from pyromq.pipelines.report_failures import FAILURE_COLUMNS, failures_of
from pyromq.pipelines.report_frames import (
    STEPS_OF_AN_OCTAVE,
    Frames,
    body_size,
    counted_by,
    most_frequent,
    order_key,
    step_width,
    topic_figures,
)
from pyromq.pipelines.report_page import render
from pyromq.pipelines.report_profile import Profile
from pyromq.pipelines.report_survey import Survey, survey_cluster, survey_store
from pyromq.pipelines.report_traces import traces_of
from pyromq.protocol.names import TRACE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = "topic,broker_name,queue_id,keys,tags,properties,born_timestamp,store_timestamp,store_size,sys_flag"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to profile, and where the page goes."""

    namesrv: str = ""
    """Name servers of the cluster to profile, host:port;host:port."""
    store: str = ""
    """A store's directory, read instead of asking brokers."""
    topics: str = ""
    """Topics to profile, separated by commas; all of them if none is named."""
    since: str = ""
    """Only messages stored at or after this time, such as 2026-01-31T08:00:00Z."""
    until: str = ""
    """Only messages stored before this time."""
    sample: float = 1.0
    """Share of the messages that is counted; the page says so."""
    out: str = "pyromq-report.html"
    """The page."""
    title: str = ""
    """Its heading."""


def build(spark: SparkSession, options: Options) -> Frames:
    """Return the frames of a profile; brokers or files are asked at once what there is, messages are read later."""
    from pyspark.sql import functions as f

    survey = look(options)
    messages = messages_of(read(spark, options, [topic for topic in survey.topics if holds(survey, topic)]), options)
    by_time = messages.crossJoin(f.broadcast(step_width(messages))).withColumn("step", f.expr("at_ms div width_ms"))
    keyed = messages.where("key is not null").groupBy("topic", "broker_name", "queue_id", "key")
    key_counts = keyed.agg(f.count("*").alias("messages")).persist()
    by_key = key_counts.groupBy("topic", "key").agg(
        f.sum("messages").alias("messages"), f.count("*").alias("queues"), f.min("queue_id").alias("queue_id")
    )
    return Frames(
        survey=survey,
        messages=messages,
        key_counts=key_counts,
        topics=topic_figures(messages),
        rates=by_time.groupBy("topic", "broker_name", "queue_id", "step", "width_ms").agg(
            f.count("*").alias("messages")
        ),
        latency_over_time=by_time.groupBy("topic", "step").agg(
            f.percentile_approx("latency_ms", [0.5, 0.99], 1000).alias("latency_ms")
        ),
        sizes=counted_by(messages, f.col("size"), STEPS_OF_AN_OCTAVE),
        latencies=counted_by(messages, f.col("latency_ms"), 1),
        tags=most_frequent(messages.groupBy("topic", "tag").agg(f.count("*").alias("messages"))),
        keys=most_frequent(by_key),
        key_totals=by_key.groupBy("topic").agg(
            f.count("*").alias("keys"),
            f.sum("messages").alias("messages"),
            f.count_if(f.col("queues") > 1).alias("scattered"),
        ),
        hottest=key_counts.groupBy("topic", "broker_name", "queue_id").agg(
            f.max_by("key", "messages").alias("key"), f.max("messages").alias("messages")
        ),
        failures=failures_of(read(spark, options, failed, FAILURE_COLUMNS)) if (failed := survey.failures) else None,
        traces=traces_of(read(spark, options, [TRACE_TOPIC], "body")) if survey.has_traces else None,
    )


def run(spark: SparkSession, options: Options, progress: Progress) -> Outcome:
    """Profile, and write the page."""
    profile = take_profile(spark, options, progress)
    page = Path(options.out)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(profile, options.title, datetime.now(UTC)), encoding="utf-8")
    return Outcome(read=profile.messages, written=1, remarks=[f"The report is in {page.resolve()}"])


def take_profile(spark: SparkSession, options: Options, progress: Progress) -> Profile:
    """Return all figures; raise ConfigError if there is nothing to count."""
    if not 0 < options.sample <= 1:
        raise ConfigError(f"option sample: expected a share above 0 and up to 1, not {options.sample:g}")
    frames = build(spark, options)
    try:
        profile = collect(frames, options.sample, progress)
    finally:
        frames.messages.unpersist()
        frames.key_counts.unpersist()
    if not profile.messages:
        raise ConfigError("nothing to report: no message in that time, or in the sample")
    return profile


# --- what is read -----------------------------------------------------------------------------------------------------


def look(options: Options) -> Survey:
    """Ask what there is to be profiled; raise ConfigError if that is nothing."""
    wanted = [name for part in options.topics.split(",") if (name := part.strip())]
    if not options.store and not options.namesrv:
        raise ConfigError("say what to profile: a cluster, by its name server (--namesrv), or a directory (--store)")
    survey = survey_store(options.store, wanted) if options.store else survey_cluster(options.namesrv, wanted)
    if not any(survey.sizes.values()):
        names = ", ".join(wanted) or "any topic"
        raise ConfigError(f"nothing to report: no message of {names} in {survey.origin}")
    return survey


def holds(survey: Survey, topic: str) -> bool:
    """Tell whether a topic has any message."""
    return any(size for queue, size in survey.sizes.items() if queue.topic == topic)


def read(spark: SparkSession, options: Options, topics: list[str], columns: str = _COLUMNS) -> DataFrame:
    """Return the messages of topics, from brokers or from files."""
    where = origin(options.namesrv, options.store)
    reader = spark.read.format("pyromq").options(**where).option("subscribe", ",".join(topics))
    reader = reader.option("columns", columns).option("propertiesAs", "string").option("failOnDataLoss", "false")
    for name, time in (("startingTimestamp", options.since), ("endingTimestamp", options.until)):
        reader = reader.option(name, time) if time else reader
    return reader.load()


def messages_of(source: DataFrame, options: Options) -> DataFrame:
    """Return what counts of each message, kept in memory or on disk: every figure is made of it."""
    from pyspark.sql import functions as f

    source = source if options.sample == 1 else source.sample(fraction=options.sample, seed=1)
    return source.select(
        "topic",
        f.coalesce("broker_name", f.lit("store")).alias("broker_name"),
        "queue_id",
        order_key().alias("key"),
        f.col("tags").alias("tag"),
        f.col("store_size").alias("stored"),
        body_size().alias("size"),
        f.unix_millis("store_timestamp").alias("at_ms"),
        (f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp")).alias("latency_ms"),
    ).persist()
