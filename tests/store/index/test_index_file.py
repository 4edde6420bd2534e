"""The index file in use against a plain one, byte for byte; and chains that damage has bent."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import ENTRY, HEADER, Geometry, IndexHeader, file_number, walk_chain
from pyromq.store.index.index_writer import IndexWriter
from pyromq.store.index.key_batch import KeyBatch
from pyromq.store.index.key_hash import key_hash
from tests.store.index.plain_index import PlainIndexFile

SMALL = Geometry(slots=8, entries=32)
NOW_MS = 1_794_765_332_769
Row = tuple[int, int, int]


def batch(rows: list[Row]) -> KeyBatch:
    hashes, offsets, times_ms = zip(*rows, strict=True)
    return KeyBatch(np.array(hashes, np.int32), np.array(offsets, np.int64), np.array(times_ms, np.int64))


@contextmanager
def new_writer(geometry: Geometry = SMALL) -> Iterator[IndexWriter]:
    with tempfile.TemporaryDirectory() as directory:
        writer = IndexWriter(f"{directory}/1", 1, geometry, OsFiles(), create=True)
        try:
            yield writer
        finally:
            writer.close()


def flushed_bytes(writer: IndexWriter) -> bytes:
    writer.write_pages(writer.take_pages())
    return Path(writer.path).read_bytes()


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    steps = draw(st.lists(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(0, 3000)), min_size=1)))
    offset, time_ms, found = 0, NOW_MS, []
    for step in steps:
        rows = []
        for key, more, later in step:
            offset, time_ms = offset + more * 91, time_ms + later
            rows.append((key, offset, time_ms))
        found.append(rows)
    return found


def fitting(found: list[list[Row]], room: int) -> Iterator[list[Row]]:
    for rows in found:
        if rows[:room]:
            yield rows[:room]
        room -= len(rows[:room])


def test_the_stock_layout_has_420_000_040_bytes() -> None:
    assert Geometry().file_size == 420_000_040
    assert Geometry(16, 4).slot_position(key_hash("TopicA", "UK1")) == 40 + 4 * 10


def test_a_new_file_is_sparse_and_has_its_full_length() -> None:
    with new_writer(Geometry()) as writer:
        assert os.stat(writer.path).st_size == 420_000_040
        writer.put(batch([(7, 0, NOW_MS)]))
        flushed_bytes_on_disk = os.stat(writer.path).st_blocks * 512
        assert flushed_bytes_on_disk < 1 << 20


def test_a_new_file_takes_no_memory_for_slots_that_nobody_has_used() -> None:
    tracemalloc.start()  # numpy tells it of what it takes from malloc
    try:
        with new_writer(Geometry()) as writer:
            held, _ = tracemalloc.get_traced_memory()
            assert writer.newest(5) == 0
    finally:
        tracemalloc.stop()
    assert held < 256 * 1024


def test_the_bytes_of_a_message_with_three_keys() -> None:
    hashes = [key_hash("TopicA", key) for key in ("UK1", "k1", "k2")]
    with new_writer(Geometry(16, 8)) as writer:
        writer.put(batch([(value, 135, NOW_MS) for value in hashes]))
        data = flushed_bytes(writer)
    assert data[:40] == HEADER.pack(NOW_MS, NOW_MS, 135, 135, 3, 4)
    assert data[40 + 4 * 10 : 44 + 4 * 10] == bytes.fromhex("00000001")
    entries = data[40 + 4 * 16 :]
    assert entries[:20] == bytes(20)
    assert entries[20:40] == bytes.fromhex("434c1d6a 0000000000000087 00000000 00000000")
    assert [ENTRY.unpack_from(entries, 20 * number)[0] for number in (1, 2, 3)] == hashes


@given(batches())
def test_a_file_has_the_bytes_that_one_key_at_a_time_gives(found: list[list[Row]]) -> None:
    plain = PlainIndexFile(SMALL)
    with new_writer() as writer:
        for rows in fitting(found, writer.room):
            writer.put(batch(rows))
            for row in rows:
                plain.put(*row)
        assert writer.room == 0 or not plain.is_full
        if plain.header[5] > 1:
            assert flushed_bytes(writer) == bytes(plain.data)
            assert writer.header == plain.header


@given(batches(), st.integers(0, 31), st.booleans())
def test_slots_are_rebuilt_from_entries_and_the_file_goes_on(
    found: list[list[Row]], kept: int, was_flushed: bool
) -> None:
    plain = PlainIndexFile(SMALL)
    with new_writer() as writer:
        written = [row for rows in fitting(found, writer.room) for row in rows]
        if not written:
            return
        writer.put(batch(written))
        header = writer.header
        if was_flushed:
            flushed_bytes(writer)
        kept = min(kept, len(written))
        again = IndexWriter(writer.path, 1, SMALL, OsFiles())
        again.rebuild(header._replace(next_entry=kept + 1))
        for row in written[:kept]:
            plain.put(*row)
        assert again.header.next_entry == kept + 1
        more = [(3, 10**6, NOW_MS + 10**7), (11, 10**6, NOW_MS + 10**7)][: again.room]
        if more:
            again.put(batch(more))
        for row in more:
            plain.put(*row) if kept else None
        if kept:
            assert flushed_bytes(again) == bytes(plain.data)
        again.close()


def test_entries_behind_a_hole_are_dropped() -> None:
    with new_writer() as writer:
        writer.put(batch([(number, 100 * number + 100, NOW_MS) for number in range(20)]))
        header = writer.header
        os.pwrite(writer.descriptor, bytes(40), SMALL.entry_position(8))
        again = IndexWriter(writer.path, 1, SMALL, OsFiles())
        again.rebuild(header)
        assert again.header.next_entry == 8
        assert again.header.end_offset == 700
        again.cut(300)
        assert again.header.next_entry == 3
        assert flushed_bytes(again)[SMALL.entry_position(3) :] == bytes(20 * 29)
        again.close()


def test_a_pass_writes_a_bounded_number_of_pages_and_all_get_their_turn() -> None:
    geometry = Geometry(slots=40_960, entries=5_000)
    with new_writer(geometry) as writer:
        writer.put(batch([(number * 1024, number, NOW_MS) for number in range(40)]))
        written: list[int] = []
        while taken := writer.take_pages(2):
            pages = [
                page for position, data in taken for page in range(position // 4096, (position + len(data)) // 4096)
            ]
            assert len(pages) <= 3  # the header's comes with every pass
            written += pages
            writer.write_pages(taken)
        assert set(written) == set(range(40))


@pytest.mark.parametrize("previous", [-1, 0, 5, 6, 31, 2**31 - 1])
def test_a_bent_chain_ends(previous: int) -> None:
    with new_writer() as writer:
        writer.put(batch([(8, 100 * number, NOW_MS) for number in range(5)]))
        os.pwrite(writer.descriptor, ENTRY.pack(8, 400, 0, previous), SMALL.entry_position(5))
        chain = list(walk_chain(OsFiles(), writer.descriptor, SMALL, 5, 6))
        assert [entry.physical_offset for entry in chain] == [400]


def test_an_unwritten_header_has_no_entries() -> None:
    assert IndexHeader.unpack(b"") == IndexHeader()
    assert not IndexHeader.unpack(bytes(40)).covers(0, 2**62)


def test_a_name_is_the_local_time_and_never_goes_back() -> None:
    number = file_number(NOW_MS, 0)
    assert len(str(number)) == 17
    assert number % 1000 == NOW_MS % 1000
    assert file_number(NOW_MS, number) == number + 1
    assert file_number(NOW_MS - 10**9, number) == number + 1
