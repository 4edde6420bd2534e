"""A Parquet file of messages, with the names and types of the Spark columns; only this module needs pyarrow."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyromq.errors import NotSupported
from pyromq.protocol.messages.message import MessageExt

_ROWS_A_GROUP = 5000


class ParquetFile:
    """Writes rows as they come; the file is complete when it is closed. `more` names further text columns."""

    def __init__(self, path: Path, more: tuple[str, ...] = ()) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise NotSupported("Parquet needs pyarrow: pip install pyarrow, or export to a .jsonl file") from None
        text = pyarrow.string()
        moment = pyarrow.timestamp("ms", "UTC")
        self._schema = pyarrow.schema(
            {
                "topic": text,
                "broker_name": text,
                "queue_id": pyarrow.int32(),
                "queue_offset": pyarrow.int64(),
                "message_id": text,
                "keys": pyarrow.list_(text),
                "tags": text,
                "body": pyarrow.binary(),
                "properties": pyarrow.map_(text, text),
                "born_timestamp": moment,
                "store_timestamp": moment,
                "reconsume_times": pyarrow.int32(),
                **dict.fromkeys(more, text),
            }
        )
        self._table_of = pyarrow.Table.from_pylist
        self._writer = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def add(self, message: MessageExt, more: dict[str, str | None]) -> None:
        """Write one message."""
        self._rows.append(_row(message) | more)
        if len(self._rows) >= _ROWS_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._table_of(self._rows, schema=self._schema))
            self._rows.clear()


def _row(message: MessageExt) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "keys": list(message.keys),
        "tags": message.tags,
        "body": message.body,
        "properties": list(message.properties.items()),
        "born_timestamp": message.born_timestamp_ms,
        "store_timestamp": message.store_timestamp_ms,
        "reconsume_times": message.reconsume_times,
    }
