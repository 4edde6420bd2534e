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
        self.residency = Residency(self.segments, lambda: self.now)

    def covers(self, *runs: tuple[int, int]) -> bool:
        return self.residency.covers(runs)

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
