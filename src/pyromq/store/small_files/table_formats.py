"""The large tables in `config`: how each is read and printed, and how a record of its journal changes it.

They can have 100,000 rows. Printing takes long then, so it is done in a thread and in short pieces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode,
)
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.unreadable import UNREADABLE
from pyromq.store.small_files.table_journal import JournalRecord, unmarked

T = TypeVar("T")
R = TypeVar("R")

_BARE_KEY: Final = re.compile(rb"([{,]\s*)([0-9]+):")
_ROWS_AT_ONCE: Final = 50  # about half a millisecond


class TableFormat(Generic[T, R]):
    """One kind of table: T is the whole, R a row."""

    def __init__(
        self,
        name: str,
        rows_name: str,
        kind: type[T],
        row: type[R],
        rows: Callable[[T], dict[str, R]],
        apply: Callable[[T, JournalRecord[R]], None],
    ) -> None:
        self.name = name
        """The name of its file."""
        self.rows = rows
        """Returns the rows of a table."""
        self.apply = apply
        """Changes a table as a record of its journal says."""
        self._rows_name = rows_name.encode()
        self._kind = kind
        self._records: msgspec.json.Decoder[JournalRecord[R]] = msgspec.json.Decoder(JournalRecord[row])  # type: ignore[valid-type]

    def decode(self, text: bytes) -> T:
        """Read a table, with or without its mark, of any size; raise ProtocolError or ValueError."""
        text, _ = unmarked(text)
        try:  # seven times as fast for the numbers as keys that Java writes and JSON does not allow
            return msgspec.json.decode(_BARE_KEY.sub(rb'\1"\2":', text), type=self._kind)
        except UNREADABLE:
            return decode(self._kind, text, trusted=True)

    def decode_record(self, text: bytes) -> JournalRecord[R]:
        """Read a record of the journal; raise ValueError."""
        try:
            return self._records.decode(text)
        except RecursionError as error:
            raise ValueError("a record is nested too deeply") from error

    def print_table(self, table: T) -> bytes:
        """Return the text of a table that nobody changes meanwhile."""
        return self.print(self.rows(table).items(), getattr(table, "data_version", None))

    def print(self, rows: Iterable[tuple[str, R]], version: DataVersion | None = None) -> bytes:
        """Return the text of a table as RocketMQ writes it. Other threads have their turn all the while."""
        return b"".join(self._pieces(rows, version))

    def _pieces(self, rows: Iterable[tuple[str, R]], version: DataVersion | None) -> Iterator[bytes]:
        yield b"{\n\t"
        if version is not None:
            yield b'"dataVersion":' + _indented(dumps_pretty(version)) + b",\n\t"
        yield b'"%s":{' % self._rows_name
        left = iter(rows)
        comma = end = b""
        while some := dict(islice(left, _ROWS_AT_ONCE)):
            yield comma + _indented(dumps_pretty(some).removeprefix(b"{").removesuffix(b"\n}"))
            comma, end = b",", b"\n\t"
            os.sched_yield()  # the loop's thread may wait for the interpreter
        yield end + b"}\n}"


def _indented(text: bytes) -> bytes:
    return text.replace(b"\n", b"\n\t")


def _change_topics(table: TopicConfigSerializeWrapper, record: JournalRecord[TopicConfig]) -> None:
    _replace_rows(table.topic_config_table, record)
    table.data_version = record.version or table.data_version


def _change_groups(table: SubscriptionGroupWrapper, record: JournalRecord[SubscriptionGroupConfig]) -> None:
    _replace_rows(table.subscription_group_table, record)
    table.data_version = record.version or table.data_version


def _replace_rows(rows: dict[str, R], record: JournalRecord[R]) -> None:
    for name in record.removed:
        rows.pop(name, None)
    rows.update(record.rows)


def _change_offsets(table: ConsumerOffsetSerializeWrapper, record: JournalRecord[dict[int, int]]) -> None:
    """Change the queues that a record names; others of the same topic and group keep their offset."""
    for key in record.removed:
        table.offset_table.pop(key, None)
    for key, offsets in record.rows.items():
        table.offset_table.setdefault(key, {}).update(offsets)


TOPICS: Final = TableFormat(
    "topics.json",
    "topicConfigTable",
    TopicConfigSerializeWrapper,
    TopicConfig,
    lambda table: table.topic_config_table,
    _change_topics,
)
GROUPS: Final = TableFormat(
    "subscriptionGroup.json",
    "subscriptionGroupTable",
    SubscriptionGroupWrapper,
    SubscriptionGroupConfig,
    lambda table: table.subscription_group_table,
    _change_groups,
)
OFFSETS: Final = TableFormat(
    "consumerOffset.json",
    "offsetTable",
    ConsumerOffsetSerializeWrapper,
    dict[int, int],
    lambda table: table.offset_table,
    _change_offsets,
)
TABLE_FORMATS: Final[tuple[TableFormat[Any, Any], ...]] = (TOPICS, GROUPS, OFFSETS)
