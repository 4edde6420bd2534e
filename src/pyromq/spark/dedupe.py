"""Drop what a sink or a producer sent twice: its second copy has the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ID = ["topic", "message_id"]


def dedupe(messages: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return messages, as format "pyromq" reads them, each of them once.

    In a stream a second copy is known by its id if it was stored `within` that time of the first one: longer than a
    job that failed stays away. Needs the columns topic and message_id, in a stream store_timestamp too.
    """
    for name in [*_ID, *(["store_timestamp"] if messages.isStreaming else [])]:
        if name not in messages.columns:
            raise ConfigError(f"dedupe needs the column {name!r}: call it before the columns are chosen")
    if not messages.isStreaming:
        return messages.dropDuplicates(_ID)
    return messages.withWatermark("store_timestamp", within).dropDuplicatesWithinWatermark(_ID)
