"""Chains by columns give what the links give one by one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.store.files import OsFiles
from pyromq.store.index import chain_scan
from pyromq.store.index.chain_scan import scan_chain
from pyromq.store.index.index_file import ENTRY, Geometry, IndexEntry, walk_chain

SLOTS = 5
GEOMETRY = Geometry(SLOTS, 5000)


@contextmanager
def index_file(hashes: list[int], links: dict[int, int] | None = None) -> Iterator[tuple[int, dict[int, int]]]:
    """Write entries with these hashes, linked as they should be but for some; yield the descriptor and the slots."""
    newest: dict[int, int] = {}
    with tempfile.TemporaryFile() as file:
        for number, key_hash in enumerate(hashes, 1):
            previous = (links or {}).get(number, newest.get(key_hash % SLOTS, 0))
            entry = ENTRY.pack(key_hash, 1000 + number, number, previous)
            os.pwrite(file.fileno(), entry, GEOMETRY.entry_position(number))
            newest[key_hash % SLOTS] = number
        yield file.fileno(), newest


def scanned(descriptor: int, newest: int, count: int, slot: int) -> list[tuple[int, int, int]]:
    parts = scan_chain(OsFiles(), descriptor, GEOMETRY, newest, count, slot)
    return [row for part in parts for row in zip(*(column.tolist() for column in part[:3]), strict=True)]


def walked(descriptor: int, newest: int, count: int) -> list[tuple[int, int, int]]:
    chain: Iterator[IndexEntry] = walk_chain(OsFiles(), descriptor, GEOMETRY, newest, count)
    return [(entry.key_hash, entry.physical_offset, entry.seconds) for entry in chain]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=120),
    st.dictionaries(st.integers(1, 120), st.integers(-3, 130), max_size=3),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([1, 2, 7]),
)
def test_columns_and_links_give_the_same_whatever_the_file_holds(
    hashes: list[int], links: dict[int, int], block: int, most_links: int
) -> None:
    with (
        index_file(hashes, links) as (descriptor, newest),
        patch.object(chain_scan, "_SMALLEST_BLOCK", block),
        patch.object(chain_scan, "_LARGEST_BLOCK", 4 * block),
        patch.object(chain_scan, "_LINKS", most_links),
    ):
        for slot, number in newest.items():
            count = len(hashes) + 1
            assert scanned(descriptor, number, count, slot) == walked(descriptor, number, count)


def test_a_popular_key_takes_few_reads() -> None:
    class CountedReads(OsFiles):
        reads = 0

        def pread(self, descriptor: int, length: int, position: int) -> bytes:
            self.reads += 1
            return super().pread(descriptor, length, position)

    files = CountedReads()
    with index_file([7] * 4000) as (descriptor, newest):
        parts = list(scan_chain(files, descriptor, GEOMETRY, newest[2], 4001, 2))
    assert sum(len(part.hashes) for part in parts) == 4000
    assert files.reads <= 5


@pytest.mark.parametrize("newest", [-1, 0, 7, 2**31 - 1])
def test_a_slot_that_names_no_entry_has_no_chain(newest: int) -> None:
    with index_file([1, 2, 3]) as (descriptor, _):
        assert scanned(descriptor, newest, 4, 1) == []


def test_a_file_that_ends_early_ends_the_chain() -> None:
    with index_file([1] * 10) as (descriptor, _):
        os.ftruncate(descriptor, GEOMETRY.entry_position(9))
        assert scanned(descriptor, 10, 11, 1) == []


def test_a_key_among_many_others_is_followed_by_its_links_and_costs_what_that_takes() -> None:
    hashes = [7 if number % 40 == 0 else 5 * number for number in range(4000)]
    with index_file(hashes) as (descriptor, newest):
        parts = list(scan_chain(OsFiles(), descriptor, GEOMETRY, newest[2], 4001, 2))
        found = scanned(descriptor, newest[2], 4001, 2)
        assert found == walked(descriptor, newest[2], 4001)
    assert len(found) == 100
    assert len(parts) == 2  # a block, and the links from there on
    assert sum(part.cost for part in parts) > 4000  # dearer than to read all entries by the block
