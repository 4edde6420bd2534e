"""What readers ask of a store: a broker's own answers it, and so does a read-only view of somebody else's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyromq.store.config import StoreConfig
from pyromq.store.index.key_query import MAX_OFFSET, QueryBudget
from pyromq.store.read.disk.disk_access import DiskAccess
from pyromq.store.results import GetResult, QueryResult
from pyromq.store.segments import SegmentedFile


class ReadableLog(Protocol):
    """The bytes of a log, from `start` to `end`: a broker's own CommitLog, or a view of another's."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def file_size(self) -> int: ...

    @property
    def mapped_from(self) -> int: ...

    @property
    def segments(self) -> SegmentedFile: ...

    def pread(self, position: int, length: int) -> bytes: ...

    def view(self, position: int, length: int) -> bytes | memoryview: ...

    def views(self, runs: Sequence[Sequence[int]]) -> list[bytes | bytearray | memoryview]: ...

    def store_timestamp_ms(self, position: int) -> int | None: ...


class PropertyFilter(Protocol):
    """Picks messages by their properties; `scan_limit` is how many it may be asked about in one read."""

    @property
    def reads_bodies(self) -> bool:
        """Whether properties are not enough: accepts() then gets the whole record."""

    @property
    def scan_limit(self) -> int:
        """The most messages to look at: a filter may be slow, and the store reads on the caller's thread."""

    def accepts(self, properties: bytes, /) -> bool:
        """Tell whether a message with these properties, as they are stored, is wanted."""


class ReadableStore(Protocol):
    """Messages by queue offset, by time and by physical offset; MessageStore and StoreReader are such."""

    @property
    def topics(self) -> list[str]:
        """The topics that have, or had, messages."""

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends."""

    @property
    def flushed_offset(self) -> int:
        """Up to where the log is durable."""

    @property
    def confirm_offset(self) -> int:
        """Up to where messages are visible."""

    @property
    def writable(self) -> bool:
        """Whether messages are taken."""

    @property
    def disk(self) -> DiskAccess:
        """For readers who must not wait for the disk."""

    def queue_ids(self, topic: str) -> list[int]:
        """Return the ids of a topic's queues that have, or had, messages."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of a queue's first message."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset behind a queue's last visible message."""

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        codes: frozenset[int] | None = None,
        wants: PropertyFilter | None = None,
    ) -> GetResult:
        """Return messages from a queue offset on, of the given tag codes only, and only what the filter accepts."""

    def raw_entries(self, topic: str, queue_id: int, start: int, stop: int) -> bytes:
        """Return the queue entries of a range, 20 bytes each, as stored; raises OffsetOutOfRange if some are gone."""

    def read(self, physical_offset: int) -> bytes | None:
        """Return the record that begins at an offset of the log; None if none does."""

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of the message stored nearest to a time."""

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when a queue's first message was stored; -1 if it has none."""


class SearchableStore(ReadableStore, Protocol):
    """Messages by key too; MessageStore and StoreReader are such."""

    @property
    def config(self) -> StoreConfig:
        """The limits of queries, among others."""

    def find(
        self,
        topic: str,
        key: str,
        max_count: int,
        begin_ms: int,
        end_ms: int,
        budget: QueryBudget | None = None,
        before: int = MAX_OFFSET,
    ) -> list[int]:
        """Return where the newest messages with a key are, newest first. Any thread may call this: it can be slow.

        Raises QueryTooLong if the budget is spent before one is found.
        """

    def read_found(self, offsets: Sequence[int], begin_ms: int, end_ms: int) -> QueryResult:
        """Return the messages that find() found, the newest of them if they are too many bytes for one answer."""
