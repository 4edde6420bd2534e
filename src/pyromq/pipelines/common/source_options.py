"""What pipelines ask format "pyromq" for: which topics, from brokers or from files, and from where on."""

from __future__ import annotations

import re
from datetime import datetime

from pyromq.errors import ConfigError
from pyromq.pipelines.cluster import cluster
from pyromq.spark.schema import COLUMN_TYPES, DEFAULT_COLUMNS

KEPT_COLUMNS = (*DEFAULT_COLUMNS, "flag", "born_host")
"""All that belongs to a message, and not to the place where it was stored."""
ARCHIVE_SCHEMA = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in KEPT_COLUMNS) + ", day date"
"""An archive's columns; the directories say topic and day."""

_NAMED = ("earliest", "latest", "committed")
_UNITS = "microsecond|millisecond|second|minute|hour|day|week"
_LENGTH_OF_TIME = re.compile(rf"(?:interval\s+)?\d+\s+(?:{_UNITS})s?(?:\s+\d+\s+(?:{_UNITS})s?)*", re.IGNORECASE)


def at_least(least: int, **options: int) -> None:
    """Raise ConfigError for a number that is too small, by the name of its option."""
    for name, number in options.items():
        if number < least:
            raise ConfigError(f"--{name} wants a number from {least}, not {number}")


def are_times(**options: str) -> None:
    """Raise ConfigError for a text that is no length of time as Spark knows them, by the name of its option."""
    for name, text in options.items():
        if not _LENGTH_OF_TIME.fullmatch(text.strip()):
            raise ConfigError(f"--{name} wants a length of time such as 30 seconds or 5 minutes, not {text!r}")


def origin(namesrv: str, store: str, broker_name: str = "") -> dict[str, str]:
    """Return the options that say where messages are read."""
    if store and namesrv:
        raise ConfigError("say from where: --namesrv (through brokers) or --store (from files), not both")
    if store:
        return {"store": store} | ({"brokerName": broker_name} if broker_name else {})
    if broker_name:
        raise ConfigError("--broker-name says whose store it is: it belongs to --store")
    return cluster(namesrv)


def subscription(topics: str, pattern: str) -> dict[str, str]:
    """Return the option that says what is read."""
    if bool(topics) == bool(pattern):
        raise ConfigError("say which: --topics a,b (dead letters are %DLQ%group) or --pattern, a regular expression")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--pattern {pattern!r} is not a regular expression: {error}") from None
    return {"subscribe": topics} if topics else {"subscribePattern": pattern}


def start(position: str) -> dict[str, str]:
    """Return the option for a position: earliest, latest, committed, offsets as JSON, or a time."""
    if position in _NAMED or position.lstrip().startswith("{"):
        return {"startingOffsets": position}
    if not _is_time(position):
        words = f"{', '.join(_NAMED)}, a time such as 2026-01-31T08:00:00Z, or offsets as JSON"
        raise ConfigError(f"--start is {words}, not {position!r}")
    return {"startingTimestamp": position}


def _is_time(text: str) -> bool:
    try:
        return text.isdigit() or bool(datetime.fromisoformat(text))
    except ValueError:
        return False
