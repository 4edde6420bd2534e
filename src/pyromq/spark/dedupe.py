"""Drop messages that a sink or a producer sent twice: both copies have the same id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ID = ["topic", "message_id"]
_READ_AT = "pyromq_read_at"


def dedupe(messages: DataFrame, within: str = "1 hour") -> DataFrame:
    """Return messages, as read by format "pyromq", with each id once.

    In a stream, a second copy is dropped if it is read `within` that time after the first. Choose a time longer than a
    failed job stays down. Needs the columns topic and message_id.
    """
    for name in _ID:
        if name not in messages.columns:
            raise ConfigError(f"dedupe needs the column {name!r}: call it before selecting columns")
    if not messages.isStreaming:
        return messages.dropDuplicates(_ID)
    from pyspark.sql.functions import current_timestamp

    # Not the messages' own times: Spark drops rows behind the watermark, so a queue that is read later than others, for
    # example because its broker was down, would lose its messages. The time of a batch is never behind.
    timed = messages.withColumn(_READ_AT, current_timestamp()).withWatermark(_READ_AT, within)
    return timed.dropDuplicatesWithinWatermark(_ID).drop(_READ_AT)
