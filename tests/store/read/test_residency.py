from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.store.files import OsFiles
from pyromq.store.read.residency import BELIEVED, CHUNK_BITS, READS_BEFORE, Residency
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile

CHUNK = 1 << CHUNK_BITS


class Memory(OsFiles):
    """Says what a test wants of what is in memory, and counts how often it is asked."""

    def __init__(self) -> None:
        self.has_all = True
        self.asked: list[tuple[int, int]] = []

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        self.asked.append((position, length))
        return self.has_all


class Rig:
    def __init__(self, directory: Path) -> None:
        self.files = Memory()
        self.segments = SegmentedFile(
            str(directory), 2 * CHUNK, self.files, DescriptorPool(self.files, 4), DirtyFiles()
        )
        self.segments.add(0)
        self.segments.add(0)
        self.now = 100.0
        self.taken: int | None = 7
        self.looks = 0
        self.residency = Residency(self.segments, self._pages_taken, lambda: self.now)
        self.residency.settle(4 * CHUNK)

    def _pages_taken(self) -> int | None:
        self.looks += 1
        return self.taken

    def covers(self, *runs: tuple[int, int]) -> bool:
        return self.residency.covers(runs)

    def known(self, start: int, stop: int, log_end: int = 200 * CHUNK) -> tuple[int, int]:
        return self.residency.known(start, stop, log_end)

    def read_often(self, *runs: tuple[int, int]) -> None:
        for _ in range(READS_BEFORE):
            self.covers(*runs)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_the_system_is_asked_about_a_chunk_that_is_read_often(rig: Rig) -> None:
    for _ in range(READS_BEFORE - 1):
        assert not rig.covers((10, 20))
    assert rig.files.asked == []
    assert rig.covers((10, 20))
    assert rig.covers((CHUNK - 1, CHUNK))
    assert rig.files.asked == [(0, CHUNK)]
    assert not rig.covers((CHUNK, CHUNK + 1)), "of the next chunk nothing is known"


def test_what_the_system_said_is_believed_for_a_moment(rig: Rig) -> None:
    rig.read_often((10, 20))
    rig.now += BELIEVED
    assert rig.covers((10, 20))
    rig.now += 0.1
    rig.files.has_all = False
    assert not rig.covers((10, 20))
    rig.read_often((10, 20))
    assert not rig.covers((10, 20))
    assert len(rig.files.asked) == 2


def test_a_no_is_believed_as_long_as_a_yes(rig: Rig) -> None:
    rig.files.has_all = False
    rig.read_often((10, 20))
    rig.read_often((10, 20))
    assert len(rig.files.asked) == 1
    rig.now += BELIEVED + 0.1
    rig.files.has_all = True
    rig.read_often((10, 20))
    assert rig.covers((10, 20))


def test_an_answer_of_many_records_is_asked_about_at_once(rig: Rig) -> None:
    assert rig.covers(*[(position, position + 10) for position in range(0, 10 * READS_BEFORE, 10)])
    assert rig.files.asked == [(0, CHUNK)]


def test_a_stretch_around_known_bytes_is_known(rig: Rig) -> None:
    assert rig.known(10, 20) == (0, 0)
    rig.read_often((10, 20))
    assert rig.known(10, 20) == (0, CHUNK)
    assert rig.known(CHUNK - 10, CHUNK + 10) == (0, 0)
    rig.read_often((CHUNK, CHUNK + 10))
    assert rig.known(CHUNK - 10, CHUNK + 10) == (0, 2 * CHUNK)


def test_what_was_written_is_known_without_a_question(rig: Rig) -> None:
    start, end = 4 * CHUNK, 100 * CHUNK
    looks = rig.looks
    for _ in range(1000):
        assert rig.known(start, start + 10, log_end=end) == (start, end)
    assert (rig.looks - looks, rig.files.asked) == (1, []), "one look a second"
    assert rig.known(start - 10, start, log_end=end) == (0, 0), "written by another process"


def test_nothing_is_known_of_what_was_written_before_pages_were_taken(rig: Rig) -> None:
    start, end = 4 * CHUNK, 100 * CHUNK
    assert rig.known(start, start + 10, log_end=end) == (start, end)
    rig.taken = 8
    rig.now += BELIEVED + 0.1
    assert rig.known(start, start + 10, log_end=end) == (0, 0)
    assert rig.known(end, end + 10, log_end=2 * end) == (end, 2 * end), "what was written since"


def test_a_system_that_does_not_count_is_asked(rig: Rig) -> None:
    rig.taken = None
    rig.residency.settle(4 * CHUNK)
    assert rig.known(4 * CHUNK, 4 * CHUNK + 10) == (0, 0)


def test_all_runs_have_to_be_in_memory(rig: Rig) -> None:
    rig.read_often((10, 20))
    assert rig.covers((10, 20), (30, 40))
    assert not rig.covers((10, 20), (3 * CHUNK, 3 * CHUNK + 1))
    assert not rig.covers((CHUNK - 10, CHUNK + 10)), "one run in two chunks"


def test_runs_that_lie_far_apart_are_never_worth_the_question(rig: Rig) -> None:
    for position in range(0, 4 * CHUNK, CHUNK):
        rig.covers((position, position + 1))
    assert rig.files.asked == []


def test_a_chunk_outside_the_files_is_not_in_memory(rig: Rig) -> None:
    rig.read_often((9 * CHUNK, 9 * CHUNK + 1))
    assert not rig.covers((9 * CHUNK, 9 * CHUNK + 1))
    assert rig.files.asked == []


def test_linux_tells_what_it_has_in_memory(tmp_path: Path) -> None:
    files = OsFiles()
    descriptor = files.open(str(tmp_path / "file"), create=True)
    files.pwrite(descriptor, bytes(100_000), 0)
    assert files.is_cached(descriptor, 100_000, 0)
    files.ftruncate(descriptor, 10 * CHUNK)
    if os.uname().sysname == "Linux":
        assert not files.is_cached(descriptor, CHUNK, 8 * CHUNK), "a hole that nobody has read"
    files.close(descriptor)
    assert not files.is_cached(descriptor, 4096, 0)


def test_linux_counts_the_pages_that_it_takes_back() -> None:
    taken = OsFiles().pages_taken()
    assert taken is None or taken >= 0
    if os.uname().sysname == "Linux":
        assert taken is not None
