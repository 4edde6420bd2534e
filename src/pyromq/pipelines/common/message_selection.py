"""Which messages of an archive or of a group's dead letters are sent again, and why others are not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.pipelines.cluster import cluster
from pyromq.pipelines.common.source_options import ARCHIVE_SCHEMA, KEPT_COLUMNS
from pyromq.protocol.messages import properties as names
from pyromq.protocol.names import DLQ_PREFIX
from pyromq.spark.error_text import one_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SAMPLE = 10_000
"""Messages whose bodies are looked at for their fields."""
_OF_BODY = re.compile(r"\bbody\s*\.", re.IGNORECASE)
_VERDICT = "verdict"


class SelectionOptions(Struct, frozen=True, kw_only=True):
    """The options that say which messages are meant, and where they go."""

    archive: str = ""
    """Directory (or URI) that the pipeline archive wrote."""
    dead_letters: str = ""
    """Instead of an archive: the group whose dead letters are sent again."""
    topics: str = ""
    """Which topics of the archive, separated by commas; all of them without it."""
    to: str = ""
    """Where to; by default the topic that each message was sent to first."""
    where: str = ""
    """Spark SQL over columns and, as body.name, fields of JSON bodies: "body.cents > 100 and tags = 'paid'"."""
    body_schema: str = ""
    """Fields of the bodies, "cents long, state string"; without it they are looked up in the first messages."""
    since: str = ""
    """Only what was stored at or after this time, 2026-01-31 or 2026-01-31T08:00:00Z (UTC unless it says otherwise)."""
    until: str = ""
    """Only what was stored before this time."""
    namesrv: str = ""
    """Name servers, host:port;host:port."""


class SelectionCounts(NamedTuple):
    """How many messages were looked at, and what became of them."""

    read: int
    kept: int
    dropped: dict[str, int]
    topics: list[str]
    """Those that the kept ones go to."""


class SelectedMessages(Struct, frozen=True):
    """Messages, and for each the reason why it is not sent, null if it is."""

    judged: DataFrame
    to: str

    @property
    def kept(self) -> DataFrame:
        """The messages that are sent."""
        return self.judged.where(f"{_VERDICT} is null").drop(_VERDICT)

    def counts(self) -> SelectionCounts:
        """Count all of them, by reason and by topic."""
        from pyspark.sql.functions import lit

        to = lit(self.to) if self.to else first_topic()
        rows = self.judged.groupBy(_VERDICT, to.alias("goes_to")).count().collect()
        dropped: dict[str, int] = {}
        for row in rows:
            if row[_VERDICT] is not None:
                dropped[row[_VERDICT]] = dropped.get(row[_VERDICT], 0) + row["count"]
        read = sum(row["count"] for row in rows)
        topics = sorted({row["goes_to"] for row in rows if row[_VERDICT] is None})
        return SelectionCounts(read, read - sum(dropped.values()), dropped, topics)


def check_selection(wish: SelectionOptions) -> None:
    """Raise ConfigError for options that cannot be meant."""
    if bool(wish.archive) == bool(wish.dead_letters):
        raise ConfigError("say from where: --archive DIR or --dead-letters GROUP")
    if wish.dead_letters and wish.topics:
        raise ConfigError("--topics chooses among those of an archive: leave it out with --dead-letters")
    time_option("--since", wish.since)
    time_option("--until", wish.until)


def choose(spark: SparkSession, wish: SelectionOptions) -> SelectedMessages:
    """Read what is in question and judge each message."""
    from pyspark.sql.functions import col, expr, lit, when

    check_selection(wish)
    messages = _in_time(_candidates(spark, wish), wish)
    is_empty = expr("body is null or length(body) = 0")
    reason = when(is_empty, "the body is empty, and brokers take no such message")
    if not wish.to:
        reason = reason.when(first_topic().isNull(), "nothing says which topic it was sent to: --to would")
    judged = messages.withColumn(_VERDICT, reason)
    if wish.where:
        fits = expr(f"coalesce(({wish.where}), false)")
        if _OF_BODY.search(wish.where):
            return SelectedMessages(_judge_by_fields(spark, judged, wish, fits), wish.to)
        _check_condition(judged, wish.where)
        judged = judged.withColumn(_VERDICT, when(~fits, lit("not what --where asks for")).otherwise(col(_VERDICT)))
    return SelectedMessages(judged, wish.to)


def first_topic() -> Column:
    """Return the topic that a message was sent to: that of a dead letter is among its properties."""
    from pyspark.sql.functions import coalesce, col, when

    sent_to = coalesce(col("properties")[names.RETRY_TOPIC], col("properties")[names.ORIGIN_TOPIC])
    return when(col("topic").startswith(DLQ_PREFIX), sent_to).otherwise(col("topic"))


def _candidates(spark: SparkSession, wish: SelectionOptions) -> DataFrame:
    if wish.dead_letters:
        return (
            spark.read.format("pyromq")
            .options(**cluster(wish.namesrv))
            .option("subscribe", f"{DLQ_PREFIX}{wish.dead_letters}")
            .option("columns", ",".join(KEPT_COLUMNS))
            .load()
        )
    messages = spark.read.schema(ARCHIVE_SCHEMA).parquet(wish.archive)
    topics = [name for part in wish.topics.split(",") if (name := part.strip())]
    return messages.where(messages.topic.isin(topics)) if topics else messages


def _in_time(messages: DataFrame, wish: SelectionOptions) -> DataFrame:
    from pyspark.sql.functions import col, lit

    since, until = time_option("--since", wish.since), time_option("--until", wish.until)
    has_days = "day" in messages.columns  # then only the directories of those days are opened
    if since:
        messages = messages.where(col("store_timestamp") >= lit(since))
        messages = messages.where(col("day") >= lit(since.date())) if has_days else messages
    if until:
        messages = messages.where(col("store_timestamp") < lit(until))
        messages = messages.where(col("day") <= lit(until.date())) if has_days else messages
    return messages.drop("day")


def time_option(option: str, text: str) -> datetime | None:
    """Return the time that an option names, None if it is empty; raise ConfigError if it is no time."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} is a time such as 2026-01-31 or 2026-01-31T08:00:00Z, not {text!r}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def _judge_by_fields(spark: SparkSession, judged: DataFrame, wish: SelectionOptions, fits: Column) -> DataFrame:
    """Judge by a condition in which `body` means the fields of a JSON body."""
    from pyspark.sql.functions import col, from_json, try_parse_json, when

    text = col("body").cast("string")
    schema = wish.body_schema or spark.read.json(judged.select(text.alias("value")).limit(_SAMPLE)).schema
    whole = judged.withColumn("is_json", try_parse_json(text).isNotNull()).withColumn("bytes", col("body"))
    with _blamed("--body-schema", wish.body_schema):
        decoded = whole.withColumn("body", from_json(text, schema))
    _check_condition(decoded, wish.where)
    verdict = (
        when(col(_VERDICT).isNotNull(), col(_VERDICT))
        .when(~col("is_json"), "the body is no JSON")
        .when(~fits, "not what --where asks for")
    )
    return decoded.withColumn(_VERDICT, verdict).drop("body", "is_json").withColumnRenamed("bytes", "body")


def _check_condition(messages: DataFrame, where: str) -> None:
    with _blamed("--where", where):
        _ = messages.where(where).schema  # asked for, or a Connect session would not look at it yet


@contextmanager
def _blamed(option: str, text: str) -> Iterator[None]:
    """Name the option whose text Spark does not understand."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise ConfigError(f"{option} {text!r}: {one_line(error)}") from error
