"""TableFeed: a master's tables for its slaves. A slave asks again and again, each time for what changed since.

A request is held until a topic, a group, a filter or a queue lock changes, at most half a second for committed offsets
and the progress of delay levels. The marks in the next request say what the slave has taken over, so a change can wait
for the slaves that are there (table_followers.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pyromq.broker.parts import Parts
from pyromq.broker.tables.queue_locks import LockKey
from pyromq.clock import wait_for
from pyromq.protocol.bodies.clients import ConsumerFilterData
from pyromq.protocol.bodies.replication import ChangedTables, DelayLevels, QueueLock, TableMarks, encode_tables
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.replication import TableChangesRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.store.message_store import MessageStore

_ROWS_AT_ONCE: Final = 2_000
_OFFSETS_PERIOD: Final = 0.5
_LONGEST_MS: Final = 10_000


class _Keys(Struct):
    """Rows to send, by table."""

    topics: list[str]
    groups: list[str]
    offsets: list[str]
    resets: list[str]
    filters: list[tuple[str, str]]
    locks: list[LockKey]

    def piece(self, number: int) -> _Keys:
        start, stop = number * _ROWS_AT_ONCE, (number + 1) * _ROWS_AT_ONCE
        return _Keys(
            self.topics[start:stop],
            self.groups[start:stop],
            self.offsets[start:stop],
            self.resets[start:stop],
            self.filters[start:stop],
            self.locks[start:stop],
        )

    @property
    def longest(self) -> int:
        offsets = max(len(self.offsets), len(self.resets))
        return max(len(self.topics), len(self.groups), offsets, len(self.filters), len(self.locks))


class TableFeed:
    """Answers slaves."""

    def __init__(self, parts: Parts, store: MessageStore) -> None:
        self._parts = parts
        self._store = store
        self._followers = parts.followers
        self._session = secrets.token_hex(8)

    async def changes(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return what changed since the marks in the request, once something has."""
        header = request.header(TableChangesRequestHeader)
        known = TableMarks(header.topics, header.groups, header.offsets, header.filters, header.locks, header.delays)
        if header.session != self._session or not self._knows_since(known):
            return response(request, body=encode_tables(self._piece(header)))
        self._followers.note(header.broker_id, known, connection)
        await self._wait(known, min(header.suspend_ms, _LONGEST_MS) / 1000)
        return response(request, body=encode_tables(self._since(known)))

    async def _wait(self, known: TableMarks, seconds: float) -> None:
        clock, followers = self._parts.clock, self._followers
        deadline = clock.monotonic() + seconds
        while followers.marks == known and not followers.is_closed and (left := deadline - clock.monotonic()) > 0:
            followers.woken.clear()
            try:
                await wait_for(clock, followers.woken.wait(), min(_OFFSETS_PERIOD, left))
            except TimeoutError:
                continue

    # --- rows

    def _knows_since(self, known: TableMarks) -> bool:
        """Return False if too much has changed since: then the slave takes all rows."""
        parts = self._parts
        return (
            parts.topics.changed_keys.knows_since(known.topics)
            and parts.groups.changed_keys.knows_since(known.groups)
            and parts.offsets.changed_keys.knows_since(known.offsets)
            and parts.tables.filters.changed_keys.knows_since(known.filters)
            and parts.tables.locks.changed_keys.knows_since(known.locks)
        )

    def _since(self, known: TableMarks) -> ChangedTables:
        parts = self._parts
        offsets = parts.offsets.changed_keys.since(known.offsets)
        keys = _Keys(
            parts.topics.changed_keys.since(known.topics),
            parts.groups.changed_keys.since(known.groups),
            offsets,
            offsets,
            parts.tables.filters.changed_keys.since(known.filters),
            parts.tables.locks.changed_keys.since(known.locks),
        )
        return self._tables(
            keys,
            self._deleted(keys.topics),
            has_delays=known.delays != parts.tables.delays.mark,
        )

    def _deleted(self, topics: list[str]) -> dict[str, int]:
        """Return which of these topics were deleted, also those that came back since, and where the log ended then."""
        found = {name: self._store.cleaner.deleted_at(name) for name in topics}
        return {name: end for name, end in found.items() if end or name not in self._parts.topics.by_name}

    def _piece(self, header: TableChangesRequestHeader) -> ChangedTables:
        parts = self._parts
        all_keys = _Keys(
            list(parts.topics.by_name),
            list(parts.groups.by_name),
            parts.offsets.keys,
            parts.offsets.resets.keys,
            parts.tables.filters.keys,
            parts.tables.locks.keys,
        )
        is_first = header.piece == 0
        return self._tables(
            all_keys.piece(header.piece),
            self._store.cleaner.deletions if is_first else {},
            has_delays=is_first,
            is_whole=True,
            has_more=all_keys.longest > (header.piece + 1) * _ROWS_AT_ONCE,
        )

    def _tables(
        self,
        keys: _Keys,
        topics_removed: dict[str, int],
        *,
        has_delays: bool,
        is_whole: bool = False,
        has_more: bool = False,
    ) -> ChangedTables:
        parts = self._parts
        offsets = parts.offsets.rows(keys.offsets)
        filters = self._filters(keys.filters)
        delays = parts.tables.delays.saved
        return ChangedTables(
            session=self._session,
            marks=self._followers.marks,
            is_whole=is_whole,
            has_more=has_more,
            topics={name: topic.config for name in keys.topics if (topic := parts.topics.get(name)) is not None},
            topics_removed=topics_removed,
            topics_version=parts.topics.version,
            groups={name: parts.groups.by_name[name] for name in keys.groups if name in parts.groups.by_name},
            groups_removed=[name for name in keys.groups if name not in parts.groups.by_name],
            groups_version=parts.groups.version,
            offsets=offsets,
            offsets_removed=[key for key in keys.offsets if key not in offsets],
            offset_resets=parts.offsets.resets.of_all(keys.resets),
            filters=list(filters.values()),
            filters_removed=[key for key in keys.filters if key not in filters],
            locks=[QueueLock(group, *queue, parts.tables.locks.owner((group, queue))) for group, queue in keys.locks],
            delays=DelayLevels(delays.offsets, delays.log_offset) if has_delays else None,
            log_start=self._store.min_physical_offset,
            log_end=self._store.max_physical_offset,
        )

    def _filters(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], ConsumerFilterData]:
        filters = self._parts.tables.filters
        return {key: found for key in keys if (found := filters.stored(*key)) is not None}
