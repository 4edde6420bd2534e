"""Options that pipelines pass to format "pyromq": which topics, from brokers or files, and from which position."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pyromq.errors import ConfigError
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.spark.read.files.store_queues import StoreQueues
from pyromq.spark.schema import COLUMN_TYPES, DEFAULT_COLUMNS

KEPT_COLUMNS = (*DEFAULT_COLUMNS, "flag", "born_host")
"""The columns of a message, without those of the place where it was stored."""
ARCHIVE_SCHEMA = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in KEPT_COLUMNS) + ", day date"
"""The columns of an archive; topic and day are its directories."""

_NAMED = ("earliest", "latest", "committed")
_UNITS = "microsecond|millisecond|second|minute|hour|day|week"
_LENGTH_OF_TIME = re.compile(rf"(?:interval\s+)?\d+\s+(?:{_UNITS})s?(?:\s+\d+\s+(?:{_UNITS})s?)*", re.IGNORECASE)


def at_least(least: int, **options: int) -> None:
    """Raise ConfigError, naming the option, for a number that is too small."""
    for name, number in options.items():
        if number < least:
            raise ConfigError(f"--{name} must be at least {least}, not {number}")


def are_times(**options: str) -> None:
    """Raise ConfigError, naming the option, for a text that is not a duration in Spark's form."""
    for name, text in options.items():
        if not _LENGTH_OF_TIME.fullmatch(text.strip()):
            raise ConfigError(f"--{name} must be a duration such as 30 seconds or 5 minutes, not {text!r}")


def origin(namesrv: str, store: str, broker_name: str = "") -> dict[str, str]:
    """Return the options for the source: brokers or files."""
    if store and namesrv:
        raise ConfigError("set --namesrv (read through brokers) or --store (read files), not both")
    if store:
        return {"store": store} | ({"brokerName": broker_name} if broker_name else {})
    if broker_name:
        raise ConfigError("--broker-name names the broker that wrote a store: it needs --store")
    return cluster(namesrv)


def look_at_source(
    place: SparkPlace, namesrv: str, topics: str, pattern: str = "", store: str = "", broker_name: str = ""
) -> None:
    """Raise PyroMQError if the topics to read are missing, as far as this machine can see that before Spark starts."""
    names = [name for part in topics.split(",") if (name := part.strip())]
    if store:
        if path := place.local_path(store):
            with StoreQueues(path, broker_name or None) as files:
                files.queues(files.topics(names, pattern or None))
    elif place.has_driver_here:
        brokers = brokers_of(cluster(namesrv))
        brokers.queues(brokers.topics(names, pattern or None))


def subscription(topics: str, pattern: str) -> dict[str, str]:
    """Return the option that selects topics."""
    if bool(topics) == bool(pattern):
        raise ConfigError("set --topics a,b (dead letters are %DLQ%group) or --pattern, a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--pattern {pattern!r} is not a regular expression: {error}") from None
    return {"subscribe": topics} if topics else {"subscribePattern": pattern}


def start(position: str) -> dict[str, str]:
    """Return the option for a start position: earliest, latest, committed, offsets as JSON, or a time."""
    if position in _NAMED or position.lstrip().startswith("{"):
        return {"startingOffsets": position}
    if not _is_time(position):
        words = f"{', '.join(_NAMED)}, a time such as 2026-01-31T08:00:00Z, or offsets as JSON"
        raise ConfigError(f"--start must be {words}, not {position!r}")
    return {"startingTimestamp": position}


def time_option(option: str, text: str) -> datetime | None:
    """Return the time in an option, None if it is empty; raise ConfigError if it is not a time."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option} must be a time such as 2026-01-31 or 2026-01-31T08:00:00Z, not {text!r}") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def _is_time(text: str) -> bool:
    try:
        return text.isdigit() or bool(datetime.fromisoformat(text))
    except ValueError:
        return False
