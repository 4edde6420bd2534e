"""The options of a read with format "pyromq", all checked before anything is connected.

Names are those of Spark's Kafka source where it has an equivalent. Spark passes keys in lower case and values as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from pyromq.errors import ConfigError, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.headers.pull import MAX_PULL_BYTES
from pyromq.protocol.names import check_topic
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import EVERYTHING, parse_tags
from pyromq.remoting.tls.client_tls import Tls
from pyromq.spark.offsets import Offsets, from_json
from pyromq.spark.options import option_values
from pyromq.spark.options.option_values import ACCOUNT, TLS, Parsers, known, parse_all
from pyromq.spark.options.store_options import STORE_PARSERS, check_way, in_store
from pyromq.spark.schema import DEFAULT_COLUMNS, check_columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AtTime(NamedTuple):
    """The first message of each queue stored at or after this time."""

    timestamp_ms: int


Position = Literal["earliest", "latest", "committed"] | AtTime | Offsets
"""Where to start or end: by name, by time, or queue by queue."""


class ReadOptions(Struct, frozen=True, kw_only=True):
    """The checked options of one read; plain values, since they travel to the executors."""

    namesrv: str = ""
    """Addresses of name servers, `host:port;host:port`; empty when files are read."""
    credentials: Credentials | None = None
    """The account that signs all requests."""
    tls: bool | Tls | None = None
    """How connections are encrypted; None: as the environment says, that of each process."""
    store: str = ""
    """A store's directory, read instead of pulling from brokers."""
    broker_name: str | None = None
    """The broker that wrote the store: the column broker_name, and the name in offsets."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that whole topic names must match, instead of topics."""
    start: Position
    end: Position = "latest"
    max_offsets_per_trigger: int | None = None
    """The most offsets in one micro-batch, including those of filtered messages."""
    min_offsets_per_trigger: int | None = None
    """The fewest offsets that start a micro-batch; fewer wait for more, up to `max_trigger_delay`."""
    max_trigger_delay: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int = 1_000_000
    fail_on_data_loss: bool = True
    """Whether to fail if messages to be read are gone, or to log a warning and continue."""
    fail_on_damage: bool = False
    """Whether to fail at damage in a store, or to skip it with a warning. Follows failOnDataLoss if that is set."""
    check_crc: bool = False
    """Whether to check the checksum of every body read from a store, at half the read's cost again."""
    group: str | None = None
    """The consumer group whose offsets show this stream's progress, and which `committed` refers to."""
    tags: str = EVERYTHING
    sql: str | None = None
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    properties_as_text: bool = False
    decompress: bool = True
    read_from: Literal["master", "slave", "suggested"] = "suggested"
    """Which broker of a group to read: the master, a slave if there is one, or the one that the broker suggests."""
    pull_batch_size: int = 1_000
    """The most messages of one pull."""
    pull_timeout: float = 10.0
    retry_timeout: float = 60.0
    """How long a task retries when a broker fails, in seconds, before the task fails."""
    batch_rows: int = 5_000
    """Rows of one Arrow batch. From 2,000 up its fixed cost is small; above 10,000 it leaves the processor's cache."""
    batch_bytes: int = MAX_PULL_BYTES


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read; raise ConfigError or NotSupported with one line that says what to do."""
    texts = _known(given)
    check_way(texts)
    values = parse_all(texts, _PARSERS)
    values |= {"credentials": option_values.credentials(texts), "tls": option_values.tls(texts)}
    values |= {"fail_on_damage": "failOnDataLoss" in texts and values["fail_on_data_loss"]}
    values |= {"start": _position(texts, "starting", "latest" if streaming else "earliest")}
    if not streaming and (name := next((name for name in _OF_STREAMS if name in texts), None)):
        raise ConfigError(f"option {name} is for streams; leave it out of a batch read")
    if streaming and (name := next((name for name in _ENDINGS if name in texts), None)):
        raise ConfigError(f"option {name} is for batch reads; stop a stream with trigger(availableNow=True)")
    values |= {"end": _position(texts, "ending", "latest")}
    if "store" in values:
        named = {name: values[name] for name in ("start", "end") if isinstance(values[name], dict)}
        values |= {name: in_store(offsets, values.get("broker_name")) for name, offsets in named.items()}
    options = ReadOptions(**values)
    _check_together(options)
    return options


def schema_options(given: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """Return the chosen columns and whether properties are text, which is all that a schema needs."""
    texts = _known(given)
    values = parse_all(texts, _SCHEMA_PARSERS)
    return values.get("columns", DEFAULT_COLUMNS), values.get("properties_as_text", False)


def _check_together(options: ReadOptions) -> None:
    if bool(options.topics) == (options.pattern is not None):
        raise ConfigError("set one of the options subscribe (topics, separated by commas) and subscribePattern")
    if "committed" in (options.start, options.end) and options.group is None:
        raise ConfigError("'committed' means the offsets of a consumer group: set the option group")
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}")


# --- names ------------------------------------------------------------------------------------------------------------


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their proper names; raise ConfigError for an unknown one."""
    texts: dict[str, str] = {}
    for name, text in known(given, _NAMES):
        if name in texts:
            raise ConfigError("options subscribe and topic mean the same: set one")
        texts[name] = text
    return texts


# --- values: each function returns one, or raises ValueError or PyroMQError with a hint -------------------------------


def _position(texts: Mapping[str, str], prefix: str, default: Position) -> Position:
    """Parse startingOffsets or endingOffsets; a timestamp option takes precedence."""
    for suffix, parse in (("Timestamp", _time), ("Offsets", _offsets)):
        name = prefix + suffix
        if name in texts:
            try:
                return parse(texts[name])
            except (ValueError, PyroMQError) as error:
                raise ConfigError(f"option {name}: {error}") from None
    return default


def _offsets(text: str) -> Position:
    if text.lower() in ("earliest", "latest", "committed"):
        return text.lower()  # type: ignore[return-value]  # mypy does not narrow by a tuple
    try:
        return from_json(json.loads(text))
    except json.JSONDecodeError:
        form = '{"topic": {"broker": {"0": 12, "1": -2}}}'
        raise ValueError(f"expected earliest, latest, committed or JSON such as {form}, not {text!r}") from None


def _time(text: str) -> AtTime:
    if re.fullmatch(r"[0-9]+", text) and int(text) <= option_values.MOST_OFFSETS:
        if len(text) == _DIGITS_OF_SECONDS:  # as milliseconds they would be of early 1970: everything would be read
            raise ValueError(f"{text} looks like seconds, expected milliseconds since 1970: {text}000")
        return AtTime(int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected milliseconds since 1970 or a time such as 2026-01-31T08:00:00Z, not {text!r}"
        ) from None
    # Where a job runs must not decide what it reads, so a time without a zone is UTC, not local time.
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    return AtTime(max(0, -(-since // timedelta(milliseconds=1))))  # rounded up: at or after that time


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not topics:
        raise ValueError("expected topics, separated by commas")
    for topic in topics:
        check_topic(topic)
    return topics


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


def _tags(text: str) -> str:
    return parse_tags(text).expression


def _sql(text: str) -> str:
    return compile_sql(text).expression


def _columns(text: str) -> tuple[str, ...]:
    return check_columns(name for part in text.split(",") if (name := part.strip()))


def _batch_bytes(text: str) -> int:
    size = int(option_values.size(text))
    if size > 1 << 30:
        raise ValueError("expected at most 1 GB, the largest Arrow batch that can be built")
    return size


def _properties_as_text(text: str) -> bool:
    if text not in ("map", "string"):
        raise ValueError(f"expected map or string, not {text!r}")
    return text == "string"


def _read_from(text: str) -> str:
    if text not in ("master", "slave", "suggested"):
        raise ValueError(f"expected master, slave or suggested, not {text!r}")
    return text


_DIGITS_OF_SECONDS: Final = 10  # from 2001 to 2286


# --- tables -----------------------------------------------------------------------------------------------------------

_SCHEMA_PARSERS: Parsers = {
    "columns": ("columns", _columns),
    "propertiesAs": ("properties_as_text", _properties_as_text),
}
_PARSERS: Parsers = {
    **_SCHEMA_PARSERS,
    **STORE_PARSERS,
    "namesrv": ("namesrv", option_values.name_servers),
    "subscribe": ("topics", _topics),
    "subscribePattern": ("pattern", _pattern),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", option_values.offset_count),
    "minOffsetsPerTrigger": ("min_offsets_per_trigger", option_values.offset_count),
    "maxTriggerDelay": ("max_trigger_delay", option_values.seconds),
    "minPartitions": ("min_partitions", option_values.count),
    "maxRecordsPerPartition": ("max_records_per_partition", option_values.count),
    "failOnDataLoss": ("fail_on_data_loss", option_values.truth),
    "group": ("group", option_values.group),
    "tags": ("tags", _tags),
    "sql": ("sql", _sql),
    "decompress": ("decompress", option_values.truth),
    "readFrom": ("read_from", _read_from),
    "pullBatchSize": ("pull_batch_size", option_values.count),
    "pullTimeout": ("pull_timeout", option_values.seconds),
    "retryTimeout": ("retry_timeout", option_values.seconds),
    "batchRows": ("batch_rows", option_values.count),
    "batchBytes": ("batch_bytes", _batch_bytes),
}
"""Starting and ending positions are not here: two options set each of them."""

_ENDINGS = ("endingOffsets", "endingTimestamp")
_OF_STREAMS = ("minOffsetsPerTrigger", "maxTriggerDelay")
_NAMES = {
    name.lower(): name for name in (*_PARSERS, *ACCOUNT, *TLS, *_ENDINGS, "startingOffsets", "startingTimestamp")
} | {
    "topic": "subscribe",
    "path": "",  # load(path) and tables add it
}
