"""Drop messages that a sink or a producer sent twice: both copies have the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ID = ["topic", "message_id"]


def dedupe(messages: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return messages, as read by format "pyromq", with each id once.

    In a stream, a second copy is dropped if it was stored `within` that time of the first. Choose a time longer than a
    failed job stays down. Needs the columns topic and message_id, and in a stream store_timestamp.
    """
    for name in [*_ID, *(["store_timestamp"] if messages.isStreaming else [])]:
        if name not in messages.columns:
            raise ConfigError(f"dedupe needs the column {name!r}: call it before selecting columns")
    if not messages.isStreaming:
        return messages.dropDuplicates(_ID)
    return messages.withWatermark("store_timestamp", within).dropDuplicatesWithinWatermark(_ID)
