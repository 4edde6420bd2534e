"""TableFeed: a master's tables for its slaves. A slave asks again and again, each time for what changed since.

A request is held until a topic or a group changes, at most half a second for committed offsets. The marks in the next
request say what the slave has taken over, so an administrator's change can wait for the slaves that are there.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.clock import wait_for
from pyromq.protocol.bodies.replication import ChangedTables, TableMarks, encode_tables
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.replication import TableChangesRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.store.message_store import MessageStore

_ROWS_AT_ONCE: Final = 2_000
_OFFSETS_PERIOD: Final = 0.5
_LONGEST_MS: Final = 10_000
_ABSENT_AFTER: Final = 15.0
"""A slave that has not asked for so long is not waited for."""


class TableFeed:
    """Answers slaves; `spread` waits until those that are there have all changes."""

    def __init__(self, parts: Parts, store: MessageStore) -> None:
        self._parts = parts
        self._store = store
        self._session = secrets.token_hex(8)
        self._changed = asyncio.Event()
        self._taken: dict[int, tuple[TableMarks, float]] = {}
        self._heard = asyncio.Event()
        for keys in (parts.topics.changed_keys, parts.groups.changed_keys):
            keys.changed.subscribe(self._changed.set)

    @property
    def _marks(self) -> TableMarks:
        parts = self._parts
        return TableMarks(
            parts.topics.changed_keys.mark, parts.groups.changed_keys.mark, parts.offsets.changed_keys.mark
        )

    async def changes(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return what changed since the marks in the request, once something has."""
        header = request.header(TableChangesRequestHeader)
        if header.session != self._session:
            return response(request, body=encode_tables(self._piece(header.piece)))
        known = TableMarks(header.topics, header.groups, header.offsets)
        self._taken[header.broker_id] = known, self._parts.clock.monotonic()
        self._heard.set()
        await self._wait(known, min(header.suspend_ms, _LONGEST_MS) / 1000)
        return response(request, body=encode_tables(self._since(known)))

    async def spread(self, seconds: float) -> None:
        """Wait until the slaves that are there have the topics and groups of now, or for some time."""
        wanted = self._marks
        deadline = self._parts.clock.monotonic() + seconds
        while self._lags(wanted) and (left := deadline - self._parts.clock.monotonic()) > 0:
            self._heard.clear()
            try:
                await wait_for(self._parts.clock, self._heard.wait(), left)
            except TimeoutError:
                return

    def _lags(self, wanted: TableMarks) -> bool:
        now = self._parts.clock.monotonic()
        there = [marks for marks, heard in self._taken.values() if now - heard < _ABSENT_AFTER]
        return any(marks.topics < wanted.topics or marks.groups < wanted.groups for marks in there)

    async def _wait(self, known: TableMarks, seconds: float) -> None:
        clock = self._parts.clock
        deadline = clock.monotonic() + seconds
        while self._marks == known and (left := deadline - clock.monotonic()) > 0:
            self._changed.clear()
            try:
                await wait_for(clock, self._changed.wait(), min(_OFFSETS_PERIOD, left))
            except TimeoutError:
                continue

    # --- rows

    def _since(self, known: TableMarks) -> ChangedTables:
        parts = self._parts
        topics = parts.topics.changed_keys.since(known.topics)
        groups = parts.groups.changed_keys.since(known.groups)
        offsets = parts.offsets.changed_keys.since(known.offsets)
        return self._tables(topics, groups, offsets, is_whole=False)

    def _piece(self, number: int) -> ChangedTables:
        parts = self._parts
        tables = list(parts.topics.by_name), list(parts.groups.by_name), parts.offsets.keys
        start, stop = number * _ROWS_AT_ONCE, (number + 1) * _ROWS_AT_ONCE
        topics, groups, offsets = (keys[start:stop] for keys in tables)
        has_more = any(len(keys) > stop for keys in tables)
        return self._tables(topics, groups, offsets, is_whole=True, has_more=has_more)

    def _tables(
        self, topics: Sequence[str], groups: Iterable[str], offsets: Iterable[str], **how: bool
    ) -> ChangedTables:
        parts, groups, offsets = self._parts, list(groups), list(offsets)
        rows = parts.offsets.rows(offsets)
        return ChangedTables(
            session=self._session,
            marks=self._marks,
            topics={name: topic.config for name in topics if (topic := parts.topics.get(name)) is not None},
            topics_removed={
                name: self._store.cleaner.deleted_at(name) for name in topics if name not in parts.topics.by_name
            },
            topics_version=parts.topics.version,
            groups={name: parts.groups.by_name[name] for name in groups if name in parts.groups.by_name},
            groups_removed=[name for name in groups if name not in parts.groups.by_name],
            groups_version=parts.groups.version,
            offsets=rows,
            offsets_removed=[key for key in offsets if key not in rows],
            is_whole=how.get("is_whole", False),
            has_more=how.get("has_more", False),
        )
