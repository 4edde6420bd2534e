"""What pipelines ask format "pyromq" for: which topics, from brokers or from files, and from where on."""

from __future__ import annotations

from pyromq.errors import ConfigError
from pyromq.spark.schema import COLUMN_TYPES, DEFAULT_COLUMNS

KEPT_COLUMNS = (*DEFAULT_COLUMNS, "flag", "born_host")
"""All that belongs to a message, and not to the place where it was stored."""
ARCHIVE_SCHEMA = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in KEPT_COLUMNS) + ", day date"
"""An archive's columns; the directories say topic and day."""

_NAMED = ("earliest", "latest", "committed")


def origin(namesrv: str, store: str, broker_name: str = "") -> dict[str, str]:
    """Return the options that say where messages are read."""
    if store and namesrv:
        raise ConfigError("say from where: --namesrv (through brokers) or --store (from files), not both")
    if store:
        return {"store": store} | ({"brokerName": broker_name} if broker_name else {})
    if broker_name:
        raise ConfigError("--broker-name says whose store it is: it belongs to --store")
    return {"namesrv": namesrv}


def subscription(topics: str, pattern: str) -> dict[str, str]:
    """Return the option that says what is read."""
    if bool(topics) == bool(pattern):
        raise ConfigError("say which: --topics a,b (dead letters are %DLQ%group) or --pattern, a regular expression")
    return {"subscribe": topics} if topics else {"subscribePattern": pattern}


def start(position: str) -> dict[str, str]:
    """Return the option for a position: earliest, latest, committed, offsets as JSON, or a time."""
    if position in _NAMED or position.lstrip().startswith("{"):
        return {"startingOffsets": position}
    return {"startingTimestamp": position}
