"""The table of messages that wait to be sent.

pyromq_outbox:  id, in the order of the inserts | message_id | topic | body | details: JSON of the rest | order_key
                tried: 1 if it may have been sent already | created_ms
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Session

from pyromq.protocol.messages.message import MAX_BODY_SIZE, Message

TABLE: Final = "pyromq_outbox"
_LARGEST: Final = 4 * MAX_BODY_SIZE  # MySQL chooses the type of the column by it


class _Details(msgspec.Struct, omit_defaults=True):
    """What a message has besides topic and body."""

    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    flag: int = 0
    wait: bool = True


class OutboxRow(msgspec.Struct):
    """A row of the table."""

    id: int
    message_id: str
    message: Message
    order_key: str | None
    is_tried: bool


class OutboxTable:
    """The rows of one table."""

    def __init__(self, metadata: MetaData, name: str = TABLE) -> None:
        self._table = Table(
            name,
            metadata,
            # SQLite counts by itself only in a column of this type.
            Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column("message_id", String(64), nullable=False),
            Column("topic", String(255), nullable=False),
            Column("body", LargeBinary(_LARGEST), nullable=False),
            Column("details", Text, nullable=False),
            Column("order_key", String(255)),
            Column("tried", SmallInteger, nullable=False, default=0),
            Column("created_ms", BigInteger, nullable=False),
            sqlite_autoincrement=True,  # otherwise the number of a deleted last row is given again
        )

    def add(
        self, connection: Connection | Session, message: Message, message_id: str, order_key: str | None, now_ms: int
    ) -> None:
        """Insert a message."""
        details = _Details(message.tags, tuple(message.keys), dict(message.properties), message.flag, message.wait)
        row = {
            "message_id": message_id,
            "topic": message.topic,
            "body": message.body,
            "details": msgspec.json.encode(details).decode(),
            "order_key": order_key,
            "created_ms": now_ms,
        }
        connection.execute(insert(self._table).values(row))

    def first(self, connection: Connection, count: int) -> list[OutboxRow]:
        """Return the oldest rows."""
        table = self._table
        columns = (table.c.id, table.c.message_id, table.c.topic, table.c.body, table.c.details, table.c.order_key)
        rows = connection.execute(select(*columns, table.c.tried).order_by(table.c.id).limit(count))
        return [
            OutboxRow(number, message_id, _message(topic, body, details), order_key, bool(tried))
            for number, message_id, topic, body, details, order_key, tried in rows
        ]

    def mark_tried(self, connection: Connection, ids: Sequence[int]) -> None:
        """Note that rows are being sent."""
        connection.execute(update(self._table).where(self._table.c.id.in_(ids)).values(tried=1))

    def remove(self, connection: Connection, ids: Sequence[int]) -> None:
        """Delete rows that are stored by a broker."""
        connection.execute(delete(self._table).where(self._table.c.id.in_(ids)))

    def count(self, connection: Connection) -> int:
        """Return how many rows wait."""
        return connection.execute(select(func.count()).select_from(self._table)).scalar_one()


def _message(topic: str, body: bytes, text: str) -> Message:
    details = msgspec.json.decode(text, type=_Details)
    return Message(
        topic=topic,
        body=bytes(body),
        tags=details.tags,
        keys=details.keys,
        properties=details.properties,
        flag=details.flag,
        wait=details.wait,
    )
