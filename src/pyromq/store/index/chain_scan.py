"""Long chains of an index file by columns: a key that a million messages have is no Python step for each of them.

Each entry of a slot is linked to the one before it of the same slot. So in a block of the file the chain is simply
every entry of that slot, if the file is sound. Where a link says otherwise, the links are followed one by one. So they
are where a block holds next to none of the chain: a block takes twenty times as long as a link.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import ENTRY, Geometry, IndexEntry, walk_chain

_ENTRY: Final = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_SMALLEST_BLOCK: Final = 512
_LARGEST_BLOCK: Final = 1 << 16
_DENSE: Final = 8  # one entry of so many is of the chain: larger blocks pay then
_SPARSE: Final = 20  # entries of the chain in a block: with fewer, links pay
_LINKS: Final = 256  # that are followed before the next block
_LINK_COST: Final = 64


class ChainPart(NamedTuple):
    """Some entries of a chain as columns, from the newest to the oldest."""

    hashes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    seconds: NDArray[np.int64]
    cost: int
    """How many entries could have been read from a block in the time that it took."""


def scan_chain(
    files: OsFiles, descriptor: int, geometry: Geometry, newest: int, count: int, slot: int
) -> Iterator[ChainPart]:
    """Yield the entries of a slot from the newest on; whatever the file holds, this ends."""
    number, size = newest, _SMALLEST_BLOCK
    while 0 < number < count:
        first = max(1, number - size + 1)  # entry 0 is never used
        data = files.pread(descriptor, ENTRY.size * (number - first + 1), geometry.entry_position(first))
        if len(data) < ENTRY.size * (number - first + 1):
            return
        entries = np.frombuffer(data, _ENTRY)
        members = _members(entries, first, geometry.slots, slot)
        is_whole = members is not None
        if members is None:
            members = _follow(entries, first)
        chosen = entries[members[::-1]]
        hashes, offsets, seconds = (chosen[name].astype(np.int64) for name in ("hash", "offset", "seconds"))
        yield ChainPart(hashes, offsets, seconds, len(entries))
        oldest = first + int(members[0])
        number = int(chosen["previous"][-1])
        if number >= oldest:
            return  # a link that leads back
        if len(members) < min(_SPARSE, len(entries)):
            links = list(islice(walk_chain(files, descriptor, geometry, number, count), _LINKS))
            if links:
                hashes, offsets, seconds, _ = np.array(links, np.int64).T
                yield ChainPart(hashes, offsets, seconds, _LINK_COST * len(links))
            number = _after(links, number)
            continue
        is_dense = is_whole and len(members) * _DENSE > len(entries)
        size = min(2 * size, _LARGEST_BLOCK) if is_dense else max(size // 2, _SMALLEST_BLOCK)


def _after(links: list[IndexEntry], number: int) -> int:
    """Return the entry to which links lead that begin with one; 0 if the chain ends."""
    if len(links) < _LINKS:
        return 0
    last = links[-2].previous if len(links) > 1 else number
    return links[-1].previous if links[-1].previous < last else 0


def _members(entries: NDArray[np.void], first: int, slots: int, slot: int) -> NDArray[np.int64] | None:
    """Return which entries are of the slot, the last one being its newest here; None if their links say otherwise."""
    members = np.flatnonzero(entries["hash"].astype(np.int64) % slots == slot)
    if not len(members) or members[-1] != len(entries) - 1:
        return None
    previous = entries["previous"][members].astype(np.int64)
    return members if bool((previous[1:] == first + members[:-1]).all()) else None


def _follow(entries: NDArray[np.void], first: int) -> NDArray[np.int64]:
    """Return the entries that are linked to the last one, by their links."""
    members = [len(entries) - 1]
    while True:
        previous = int(entries["previous"][members[-1]]) - first
        if not 0 <= previous < members[-1]:
            return np.array(members[::-1])
        members.append(previous)
