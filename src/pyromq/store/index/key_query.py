"""Finding messages by key in index files: newest first, by RocketMQ's rules. Reads only, any thread may.

A hash stands for a key, so messages with another key of the same hash are found too: whoever asks compares keys.
Entries know seconds, so a message up to a second before the time asked for is found too: compare store times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pyromq.protocol.messages.record import read_head
from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import Geometry, IndexFile, read_slot, walk_chain

MAX_TIME_MS: Final = (1 << 63) - 1

_SECOND_MS: Final = 999  # what an entry's time lacks at most
_MAX_ANSWER: Final = 8 << 20  # half of the largest frame


class KeyQuery(NamedTuple):
    """Which messages are asked for: their key's hash, their store time, from which offset of the log on, how many."""

    key_hash: int
    max_count: int
    begin_ms: int = 0
    end_ms: int = MAX_TIME_MS
    min_offset: int = 0


def find_offsets(
    files: OsFiles,
    geometry: Geometry,
    index_files: Iterable[IndexFile],
    query: KeyQuery,
    newest_entry: Callable[[IndexFile], int | None] = lambda _: None,
) -> list[int]:
    """Return physical offsets from the newest to the oldest; index files come in that order too.

    `newest_entry` tells the newest entry of the key's slot where the file does not say so itself yet.
    """
    found: dict[int, None] = {}  # a message may be there twice: after a crash, or with one key given twice
    for file in index_files:
        if file.header.next_entry <= 1:
            continue
        if len(found) >= query.max_count or file.header.end_offset < query.min_offset:
            break
        if file.header.covers(query.begin_ms - _SECOND_MS, query.end_ms):
            _find_in_file(files, geometry, file, query, newest_entry(file), found)
        if file.header.begin_ms < query.begin_ms:
            break
    return list(found)


def _find_in_file(
    files: OsFiles, geometry: Geometry, file: IndexFile, query: KeyQuery, newest: int | None, found: dict[int, None]
) -> None:
    try:
        descriptor = files.open(file.path)
    except FileNotFoundError:
        return  # expired since
    try:
        if newest is None:
            newest = read_slot(files, descriptor, geometry, query.key_hash)
        _walk(files, descriptor, geometry, file, query, newest, found)
    finally:
        files.close(descriptor)


def _walk(
    files: OsFiles,
    descriptor: int,
    geometry: Geometry,
    file: IndexFile,
    query: KeyQuery,
    newest: int,
    found: dict[int, None],
) -> None:
    for entry in walk_chain(files, descriptor, geometry, newest, file.header.next_entry):
        time_ms = file.header.begin_ms + entry.seconds * 1000
        is_older = time_ms + _SECOND_MS < query.begin_ms or entry.physical_offset < query.min_offset
        if len(found) >= query.max_count or entry.seconds < 0 or is_older:
            return
        if entry.key_hash == query.key_hash and time_ms <= query.end_ms:
            found[entry.physical_offset] = None


def read_offsets(
    read: Callable[[int], bytes | None], offsets: Sequence[int], begin_ms: int, end_ms: int
) -> list[bytes]:
    """Return the records of a time in the order of the log; the newest if they are too many bytes for one answer."""
    records: list[bytes] = []
    size = 0
    for offset in offsets:
        record = read(offset)
        if record is None or not begin_ms <= read_head(record).store_timestamp_ms <= end_ms:
            continue
        size += len(record)
        if records and size > _MAX_ANSWER:
            break
        records.append(record)
    return records[::-1]
