"""The options and columns of a write, all checked before anything is connected."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from msgspec import Struct
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.names import check_topic
from pyromq.remoting.tls.client_tls import Tls
from pyromq.spark.options import option_values
from pyromq.spark.options.option_values import ACCOUNT, TLS, Parsers, known, parse_all
from pyromq.spark.schema import COLUMN_TYPES

_TEXT = ("string",)
_WHOLE = ("int", "bigint", "smallint", "tinyint")
SINK_COLUMNS: dict[str, tuple[str, ...]] = {
    "body": ("binary", "string"),
    "topic": _TEXT,
    "tags": _TEXT,
    "keys": ("array<string>", "string"),
    "properties": ("map<string,string>",),
    "order_key": _TEXT,
    "broker_name": _TEXT,
    "queue_id": _WHOLE,
    "delay_ms": _WHOLE,
    "deliver_at": ("timestamp",),
    "delay_level": _WHOLE,
    "flag": _WHOLE,
    "message_id": _TEXT,
}
"""The columns of a sink, and the types that each accepts."""
DELAYS = ("delay_ms", "deliver_at", "delay_level")
_ID_TYPES = ("string", "binary", *_WHOLE)
_KAFKA_NAMES = {"value": "body"}


class WriteOptions(Struct, frozen=True, kw_only=True):
    """The checked options of one write; plain values, since they travel to the executors."""

    namesrv: str
    credentials: Credentials | None = None
    """The account that signs all requests."""
    tls: bool | Tls | None = None
    """How connections are encrypted; None: as the environment says, that of each process."""
    topic: str | None = None
    """The topic of all rows; without it, the column topic decides."""
    producer_group: str = "pyromq-spark"
    order_key: str = "order_key"
    """The column whose equal values go to the same queue, in row order."""
    id_column: str | None = None
    """The column that identifies a message, for frames whose row order may change when a task runs again."""
    send_timeout: float = 10.0
    retry_timeout: float = 60.0
    """How long a task retries when a broker fails, in seconds, before the task fails."""
    in_flight: int = 64
    """The most batches that a task has in flight."""
    rate_per_second: int | None = None
    """The most messages per second of each task."""
    send_again: bool = True
    """Whether a task that Spark runs again sends its rows again or fails, for jobs that check first what is stored."""
    columns: Mapping[str, str] = {}
    """The columns in use: purpose -> name in the frame."""


def write_options(given: Mapping[str, str], schema: StructType) -> WriteOptions:
    """Check the options and columns of a write; raise ConfigError or NotSupported with one line on what to do."""
    texts = dict(known(given, _NAMES))
    values = parse_all(texts, _PARSERS)
    values |= {"credentials": option_values.credentials(texts), "tls": option_values.tls(texts)}
    if "namesrv" not in values:
        raise ConfigError(option_values.without_name_server(texts))
    options = WriteOptions(**values)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    return WriteOptions(**values, columns=_columns(types, options))


def _columns(types: Mapping[str, str], options: WriteOptions) -> dict[str, str]:
    """Return the column for each purpose."""
    chosen = {name: name for name in types if name in SINK_COLUMNS}
    chosen |= {ours: kafka for kafka, ours in _KAFKA_NAMES.items() if kafka in types and ours not in types}
    chosen |= _named("orderKey", options.order_key, "order_key", types)
    chosen |= _named("idColumn", options.id_column, "id", types)
    for name, column in chosen.items():
        _check_type(name, column, types[column])
    for column in types:
        if column not in chosen.values() and column not in COLUMN_TYPES:
            raise ConfigError(f"a sink does not use the column {column!r}; {_hint(column)}")
    if "body" not in chosen:
        raise ConfigError("the column body is missing: it holds the bytes or the text of each message")
    if options.topic is None and "topic" not in chosen:
        raise ConfigError("no topic: set the option topic, or add a column topic")
    return chosen


def _named(option: str, column: str | None, name: str, types: Mapping[str, str]) -> dict[str, str]:
    """Return the column named by an option; the default name may be missing."""
    if column is None or (column == name and column not in types):
        return {}
    if column not in types:
        raise ConfigError(f"option {option}: there is no column {column!r}; there are {', '.join(types)}")
    return {name: column}


def _check_type(name: str, column: str, kind: str) -> None:
    allowed = _ID_TYPES if name == "id" else SINK_COLUMNS[name]
    if kind not in allowed:
        raise ConfigError(f"column {column!r} has type {kind}, a sink accepts {' or '.join(allowed)}: convert it first")


def _hint(column: str) -> str:
    near = get_close_matches(column, SINK_COLUMNS, n=1)
    return f"did you mean {near[0]!r}?" if near else f"select those of {', '.join(SINK_COLUMNS)}"


def _topic(text: str) -> str:
    check_topic(text)
    return text


_PARSERS: Parsers = {
    "namesrv": ("namesrv", option_values.name_servers),
    "topic": ("topic", _topic),
    "producerGroup": ("producer_group", option_values.group),
    "orderKey": ("order_key", str),
    "idColumn": ("id_column", str),
    "sendTimeout": ("send_timeout", option_values.seconds),
    "retryTimeout": ("retry_timeout", option_values.seconds),
    "inFlight": ("in_flight", option_values.count),
    "ratePerSecond": ("rate_per_second", option_values.count),
    "sendAgain": ("send_again", option_values.truth),
}
_NAMES = {name.lower(): name for name in (*_PARSERS, *ACCOUNT, *TLS)} | {
    "path": "",  # save(path) and tables add it
    "checkpointlocation": "",  # this and the next are for Spark, which passes on all options
    "queryname": "",
}
