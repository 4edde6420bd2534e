"""What a read was asked for: the options of format "pyromq", checked whole before anything is connected.

Names are those of Spark's Kafka source where it has one. Spark hands keys over in lower case and values as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from pyromq.client.address import parse_addresses
from pyromq.errors import ConfigError, NotSupported, PyroMQError
from pyromq.protocol.filter import EVERYTHING, parse_tags
from pyromq.protocol.names import check_group, check_topic
from pyromq.spark.offsets import Offsets, from_json
from pyromq.spark.schema import DEFAULT_COLUMNS, check_columns

LARGEST_PULL_BYTES = 8 << 20
"""What a PyroMQ broker gives for one pull at most."""


class AtTime(NamedTuple):
    """The first message of each queue that was stored at or after this time."""

    timestamp_ms: int


Position = Literal["earliest", "latest", "committed"] | AtTime | Offsets
"""Where to begin or to end: by name, by time, or queue by queue."""


class ReadOptions(Struct, frozen=True, kw_only=True):
    """The options of one read, checked; plain values, since they travel to the executors."""

    namesrv: str
    """Addresses of name servers, `host:port;host:port`."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that whole topic names match, instead of topics."""
    start: Position
    end: Position = "latest"
    max_offsets_per_trigger: int | None = None
    """Offsets in one micro-batch at most, those of filtered messages included."""
    min_partitions: int | None = None
    max_records_per_partition: int = 1_000_000
    fail_on_data_loss: bool = True
    """Whether to stop where messages are gone that should have been read, or to warn and go on."""
    group: str | None = None
    """The consumer group whose offsets show this stream's progress; the source of `committed`."""
    tags: str = EVERYTHING
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    properties_as_text: bool = False
    decompress: bool = True
    read_from: Literal["master", "suggested"] = "suggested"
    """Whether to follow a broker that suggests reading from its slave."""
    pull_batch_size: int = 1_000
    """Messages asked for by one pull."""
    pull_timeout: float = 10.0
    retry_timeout: float = 60.0
    """How long a task tries again, when a broker is in trouble, before it fails."""
    batch_rows: int = 5_000
    """Rows of one Arrow batch: from 2,000 on its fixed cost is small, above 10,000 it leaves the processor's cache."""
    batch_bytes: int = LARGEST_PULL_BYTES


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a read; raise ConfigError or NotSupported, with one line that says what to do."""
    texts = _known(given)
    values = {field: _parse(name, texts[name]) for name, (field, _) in _PARSERS.items() if name in texts}
    values |= {"start": _position(texts, "starting", "latest" if streaming else "earliest")}
    if streaming and (name := next((name for name in _ENDINGS if name in texts), None)):
        raise ConfigError(f"option {name} is for batch reads; stop a stream with trigger(availableNow=True)")
    values |= {"end": _position(texts, "ending", "latest")}
    if "namesrv" not in values:
        raise ConfigError("option namesrv is missing: host:port of a name server, several separated by ';'")
    options = ReadOptions(**values)
    _check_together(options)
    return options


def schema_options(given: Mapping[str, str]) -> tuple[tuple[str, ...], bool]:
    """Return the columns that the options choose and whether properties are text; a schema needs no more."""
    texts = _known(given)
    values = {field: _parse(name, texts[name]) for name, (field, _) in _SCHEMA_PARSERS.items() if name in texts}
    return values.get("columns", DEFAULT_COLUMNS), values.get("properties_as_text", False)


def _check_together(options: ReadOptions) -> None:
    if bool(options.topics) == (options.pattern is not None):
        raise ConfigError("set one of the options subscribe (topics, separated by commas) and subscribePattern")
    if "committed" in (options.start, options.end) and options.group is None:
        raise ConfigError("offsets 'committed' are those of a consumer group: set the option group")


# --- names ------------------------------------------------------------------------------------------------------------


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their own names; raise for one that is unknown or whose part is not there yet."""
    texts: dict[str, str] = {}
    for key, text in given.items():
        name = _NAMES.get(key.lower())
        if name in _LATER:
            raise NotSupported(f"option {name}: {_LATER[name]}, not in this version")
        if name is None and key.lower() not in _IGNORED:
            raise ConfigError(f"unknown option {key!r}; {_nearest(key)}")
        if name in texts:
            raise ConfigError("options subscribe and topic mean the same: set one")
        if name:
            texts[name] = text.strip()
    return texts


def _nearest(key: str) -> str:
    near = get_close_matches(key.lower(), _NAMES, n=1)
    return f"did you mean {_NAMES[near[0]]!r}?" if near else f"known are {', '.join(sorted(set(_NAMES.values())))}"


# --- values: each function returns one, or raises ValueError or PyroMQError saying what was expected -----------------


def _parse(name: str, text: str) -> Any:
    try:
        return _PARSERS[name][1](text)
    except (ValueError, PyroMQError) as error:
        raise ConfigError(f"option {name}: {error}") from None


def _position(texts: Mapping[str, str], prefix: str, default: Position) -> Position:
    """Read startingOffsets or endingOffsets; a time wins over them."""
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
    if re.fullmatch(r"\d+", text):
        return AtTime(int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"expected milliseconds since 1970 or a time such as 2026-01-31T08:00:00Z, not {text!r}"
        ) from None
    # Where a job runs should not decide what it reads, so a time without a zone is not the local one.
    return AtTime(int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))


def _namesrv(text: str) -> str:
    return ";".join(parse_addresses(text))


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


def _group(text: str) -> str:
    check_group(text)
    return text


def _tags(text: str) -> str:
    return parse_tags(text).expression


def _columns(text: str) -> tuple[str, ...]:
    return check_columns(name for part in text.split(",") if (name := part.strip()))


def _count(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise ValueError(f"expected a number from 1, not {text!r}")
    return int(text)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, not {text!r}")
    return text.lower() == "true"


def _scaled(units: Mapping[str, float], example: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.lower())
        value = float(found[1]) * units.get(found[2], 0) if found else 0
        if not value:
            raise ValueError(f"expected a value such as {example}, not {text!r}")
        return value

    return parse


_seconds = _scaled({"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}, "500ms, 10s or 2m")
_size = _scaled({"": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}, "500k or 8m")


def _batch_bytes(text: str) -> int:
    size = int(_size(text))
    if size > 1 << 30:
        raise ValueError("an Arrow batch above 1 GB cannot be built")
    return size


def _properties_as_text(text: str) -> bool:
    if text not in ("map", "string"):
        raise ValueError(f"expected map or string, not {text!r}")
    return text == "string"


def _read_from(text: str) -> str:
    if text not in ("master", "suggested"):
        raise ValueError(f"expected master or suggested (slave is not in this version), not {text!r}")
    return text


# --- tables -----------------------------------------------------------------------------------------------------------

_SCHEMA_PARSERS: dict[str, tuple[str, Callable[[str], object]]] = {
    "columns": ("columns", _columns),
    "propertiesAs": ("properties_as_text", _properties_as_text),
}
_PARSERS: dict[str, tuple[str, Callable[[str], object]]] = _SCHEMA_PARSERS | {
    "namesrv": ("namesrv", _namesrv),
    "subscribe": ("topics", _topics),
    "subscribePattern": ("pattern", _pattern),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", _count),
    "minPartitions": ("min_partitions", _count),
    "maxRecordsPerPartition": ("max_records_per_partition", _count),
    "failOnDataLoss": ("fail_on_data_loss", _truth),
    "group": ("group", _group),
    "tags": ("tags", _tags),
    "decompress": ("decompress", _truth),
    "readFrom": ("read_from", _read_from),
    "pullBatchSize": ("pull_batch_size", _count),
    "pullTimeout": ("pull_timeout", _seconds),
    "retryTimeout": ("retry_timeout", _seconds),
    "batchRows": ("batch_rows", _count),
    "batchBytes": ("batch_bytes", _batch_bytes),
}
"""Option -> field and how to read it; starting and ending positions are read by two options each."""

_ENDINGS = ("endingOffsets", "endingTimestamp")
_LATER = {
    "store": "reading straight from store files",
    "brokerName": "it belongs to reading from store files",
    "sql": "SQL filters",
    "minOffsetsPerTrigger": "waiting for a number of messages",
    "maxTriggerDelay": "it belongs to minOffsetsPerTrigger",
    "accessKey": "signed requests",
    "secretKey": "signed requests",
}
_NAMES = {name.lower(): name for name in (*_PARSERS, *_LATER, *_ENDINGS, "startingOffsets", "startingTimestamp")} | {
    "topic": "subscribe"
}
_IGNORED = {"path"}  # load(path) and tables add it
