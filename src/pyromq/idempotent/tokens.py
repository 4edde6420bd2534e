"""Tokens: how a message is known when it comes again, and the table that remembers those that took effect.

    pyromq_tokens:  token CHAR(64), the key | consumer_group, label: for people | created_ms, when it was inserted

The token is a SHA-256 in hexadecimal digits: databases differ in how they compare and cut longer texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from sqlalchemy import BigInteger, Column, Connection, Index, MetaData, String, Table, delete, insert
from sqlalchemy.exc import IntegrityError

from pyromq.client.listener.outcomes import DeadLetter
from pyromq.protocol.messages.message import MessageExt

TABLE: Final = "pyromq_tokens"
_LABEL_LENGTH: Final = 200

TokenFunction = Callable[[MessageExt], str]
"""Returns the text that a message is known by."""


def business_key(message: MessageExt) -> str:
    """Return topic, tag and first key of a message; raise DeadLetter if it has no key.

    The tag is part of it: an order that is created and then paid has one key and two messages.
    """
    if not message.keys:
        reason = "it has no key to be known by: send it with keys=, or choose Idempotent(..., token=function)"
        raise DeadLetter(f"message {message.message_id} cannot be handled once: {reason}")
    return f"{message.topic} {message.tags or ''} {message.keys[0]}"


def token_of(group: str, label: str) -> str:
    """Return the token of a message of a group: other groups handle the same message on their own."""
    return hashlib.sha256(f"{group}\0{label}".encode()).hexdigest()


class TokenTable:
    """The tokens of all groups that share a database."""

    def __init__(self, name: str = TABLE) -> None:
        self.metadata = MetaData()
        self._table = Table(
            name,
            self.metadata,
            Column("token", String(64), primary_key=True),
            Column("consumer_group", String(255), nullable=False),
            Column("label", String(_LABEL_LENGTH), nullable=False),
            Column("created_ms", BigInteger, nullable=False),
            Index(f"{name}_created", "created_ms"),
        )

    def insert(self, connection: Connection, token: str, group: str, label: str, now_ms: int) -> bool:
        """Insert a token; return False if it is there already. The transaction is then of no more use."""
        row = {"token": token, "consumer_group": group, "label": label[:_LABEL_LENGTH], "created_ms": now_ms}
        try:
            connection.execute(insert(self._table).values(row))
        except IntegrityError:
            return False
        return True

    def remove_before(self, connection: Connection, time_ms: int) -> int:
        """Forget the tokens that were inserted before a time; return how many."""
        return connection.execute(delete(self._table).where(self._table.c.created_ms < time_ms)).rowcount
