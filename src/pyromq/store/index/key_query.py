"""Finding messages by key in index files: newest first, by RocketMQ's rules. Reads only, any thread may.

A hash stands for a key, so messages with another key of the same hash are found too: whoever asks compares keys.
Entries know seconds, so a message up to a second before the time asked for is found too: compare store times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pyromq.errors import QueryTooLong
from pyromq.protocol.messages.record import read_head
from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import Geometry, IndexFile, IndexHeader, read_slot, walk_chain
from pyromq.store.segments import FileRange, NotInMemory

MAX_TIME_MS: Final = (1 << 63) - 1
MAX_OFFSET: Final = (1 << 63) - 1

_SECOND_MS: Final = 999  # what an entry's time lacks at most
_MAX_ANSWER: Final = 8 << 20  # half of the largest frame
_SHORT_CHAIN: Final = 128
MOST_ENTRIES: Final = 4_000_000
"""Entries that one query may look at: a few tenths of a second."""


class KeyQuery(NamedTuple):
    """Which messages are asked for: their key's hash, their store time, which part of the log, how many."""

    key_hash: int
    max_count: int
    begin_ms: int = 0
    end_ms: int = MAX_TIME_MS
    min_offset: int = 0
    before: int = MAX_OFFSET
    """Only messages before this offset of the log: whoever asks for the next older ones names the oldest he has."""


class QueryBudget:
    """How many entries a search may look at, and whether somebody still waits for it; asked in the search's thread."""

    def __init__(self, entries: int = MOST_ENTRIES, is_given_up: Callable[[], bool] = lambda: False) -> None:
        self._left = entries
        self._is_given_up = is_given_up

    def spend(self, entries: int) -> None:
        """Look at some more entries; raise QueryTooLong if that is too many, or nobody waits any more."""
        self._left -= entries
        if self._left < 0:
            raise QueryTooLong("too many messages have this key: ask for a shorter time")
        if self._is_given_up():
            raise QueryTooLong("nobody waits for this any more")


def find_offsets(
    files: OsFiles,
    geometry: Geometry,
    index_files: Iterable[IndexFile],
    query: KeyQuery,
    newest_entry: Callable[[IndexFile], int | None] = lambda _: None,
    budget: QueryBudget | None = None,
) -> list[int]:
    """Return physical offsets from the newest to the oldest; index files come in that order too.

    `newest_entry` tells the newest entry of the key's slot where the file does not say so itself yet. Raises
    QueryTooLong if the budget is spent and nothing was found; what was found is returned otherwise.
    """
    found: dict[int, None] = {}  # a message may be there twice: after a crash, or with one key given twice
    search = _Search(files, geometry, query, budget or QueryBudget(), found)
    try:
        for file in index_files:
            if file.header.next_entry <= 1:
                continue
            if len(found) >= query.max_count or file.header.end_offset < query.min_offset:
                break
            if file.header.begin_offset < query.before and file.header.covers(
                query.begin_ms - _SECOND_MS, query.end_ms
            ):
                search.look_into(file, newest_entry(file))
            if file.header.begin_ms < query.begin_ms:
                break
    except QueryTooLong:
        if not found:
            raise
    return list(found)


class _Search(NamedTuple):
    """One query at work; `found` is what it has found so far."""

    files: OsFiles
    geometry: Geometry
    query: KeyQuery
    budget: QueryBudget
    found: dict[int, None]

    def look_into(self, file: IndexFile, newest: int | None) -> None:
        """Look for the key in one file."""
        try:
            descriptor = self.files.open(file.path)
        except FileNotFoundError:
            return  # expired since
        try:
            if newest is None:
                newest = read_slot(self.files, descriptor, self.geometry, self.query.key_hash)
            rest = self._walk(descriptor, file.header, newest)
            if rest:
                self._scan(descriptor, file.header, rest)
        finally:
            self.files.close(descriptor)

    def _walk(self, descriptor: int, header: IndexHeader, newest: int) -> int:
        """Look at the first entries of a chain; return the next one if it is a long chain, 0 if the search is over."""
        query, found = self.query, self.found
        self.budget.spend(1)
        chain = walk_chain(self.files, descriptor, self.geometry, newest, header.next_entry)
        for entry in islice(chain, _SHORT_CHAIN):
            time_ms = header.begin_ms + entry.seconds * 1000
            is_older = time_ms + _SECOND_MS < query.begin_ms or entry.physical_offset < query.min_offset
            if len(found) >= query.max_count or entry.seconds < 0 or is_older:
                return 0
            is_asked = time_ms <= query.end_ms and entry.physical_offset < query.before
            if entry.key_hash == query.key_hash and is_asked:
                found[entry.physical_offset] = None
        following = next(chain, None)
        return 0 if following is None else entry.previous

    def _scan(self, descriptor: int, header: IndexHeader, newest: int) -> None:
        """Look at the rest of a long chain."""
        from pyromq.store.index.chain_scan import scan_chain  # numpy: not before there are many keys

        query, found, slots = self.query, self.found, self.geometry.slots
        parts = scan_chain(self.files, descriptor, self.geometry, newest, header.next_entry, query.key_hash % slots)
        for hashes, offsets, seconds, cost in parts:
            self.budget.spend(cost)
            times_ms = header.begin_ms + seconds * 1000
            is_older = (times_ms + _SECOND_MS < query.begin_ms) | (offsets < query.min_offset) | (seconds < 0)
            is_last = bool(is_older.any())
            count = int(is_older.argmax()) if is_last else len(hashes)
            is_asked = (times_ms[:count] <= query.end_ms) & (offsets[:count] < query.before)
            is_wanted = (hashes[:count] == query.key_hash) & is_asked
            for offset in offsets[:count][is_wanted].tolist():
                if len(found) >= query.max_count:
                    return
                found[offset] = None
            if is_last or len(found) >= query.max_count:
                return


def read_offsets(
    read: Callable[[int], bytes | None], offsets: Sequence[int], begin_ms: int, end_ms: int
) -> list[bytes]:
    """Return the records of a time in the order of the log; the newest if they are too many bytes for one answer."""
    records: list[bytes] = []
    missing: list[FileRange] = []
    size = 0
    for offset in offsets:
        try:
            record = read(offset)
        except NotInMemory as error:
            missing += error.missing  # all of them, so that they are fetched together
            continue
        if record is None or not begin_ms <= read_head(record).store_timestamp_ms <= end_ms:
            continue
        size += len(record)
        if records and size > _MAX_ANSWER:
            break
        records.append(record)
    if missing:
        raise NotInMemory(missing)
    return records[::-1]
