from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.store.files import OsFiles
from pyromq.store.read.disk.residency import BELIEVED, BETWEEN_SAMPLES, CHUNK_BITS, QUESTIONS, READS_BEFORE, Residency
from pyromq.store.segments import DescriptorPool, DirtyFiles, FileRange, SegmentedFile

CHUNK = 1 << CHUNK_BITS


class Memory(OsFiles):
    """Says what a test wants of what is in memory, and notes what it is asked: a position in a file, and a length."""

    def __init__(self) -> None:
        self.has_all = True
        self.lacks: set[int] = set()
        self.asked: list[tuple[int, int]] = []
        self.starts: dict[int, int] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        self.starts[descriptor] = int(Path(path).name)
        return descriptor

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        self.asked.append((position, length))
        return self.has_all and (self.starts[descriptor] + position) >> CHUNK_BITS not in self.lacks


class Rig:
    def __init__(self, directory: Path, file_size: int = 2 * CHUNK, files: int = 2) -> None:
        self.files = Memory()
        self.pool = DescriptorPool(self.files, 4)
        self.segments = SegmentedFile(str(directory), file_size, self.files, self.pool, DirtyFiles())
        for _ in range(files):
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
        return self.residency.covers(runs, 200 * CHUNK)

    def known(self, start: int, stop: int, log_end: int = 200 * CHUNK, tail: int = 1 << 62) -> tuple[int, int]:
        return self.residency.known(start, stop, min(tail, log_end), log_end)

    def take_pages(self, log_end: int) -> None:
        """Let the system take pages back, of a log that ends here; and somebody notice."""
        self.taken = (self.taken or 0) + 1
        self.now += BELIEVED + 0.1
        self.known(log_end, log_end, log_end=log_end)

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
    rig.now += BELIEVED / 2
    assert rig.covers((10, 20))
    rig.now += BELIEVED / 2
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


def test_the_system_is_asked_again_when_something_was_fetched(rig: Rig) -> None:
    rig.files.has_all = False
    rig.read_often((10, 20))
    rig.files.has_all = True
    assert not rig.covers((10, 20))
    rig.pool.fetched = [FileRange("file", 0, 1)]
    rig.read_often((10, 20))
    rig.pool.fetched = ()
    assert rig.covers((10, 20))


def test_what_is_being_read_ahead_is_asked_about_until_it_is_there(rig: Rig) -> None:
    reached: list[tuple[str, int]] = []

    def is_coming(path: str, position: int) -> bool:
        reached.append((path[-20:], position))
        return True

    rig.pool.reached = is_coming
    rig.files.has_all = False
    rig.read_often((3 * CHUNK, 3 * CHUNK + 10))
    assert reached == [(f"{2 * CHUNK:020d}", CHUNK)]
    rig.files.has_all = True
    rig.read_often((3 * CHUNK, 3 * CHUNK + 10))
    assert rig.covers((3 * CHUNK, 3 * CHUNK + 10))


def test_a_stretch_around_known_bytes_is_known(rig: Rig) -> None:
    assert rig.known(10, 20) == (0, 0)
    rig.read_often((10, 20))
    assert rig.known(10, 20) == (0, CHUNK)
    assert rig.known(CHUNK - 10, CHUNK + 10) == (0, 0)
    rig.read_often((CHUNK, CHUNK + 10))
    assert rig.known(CHUNK - 10, CHUNK + 10) == (0, 2 * CHUNK)


def test_what_was_written_is_known_with_next_to_no_questions(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    start, end = 4 * CHUNK, 100 * CHUNK
    looks = rig.looks
    for _ in range(1000):
        assert rig.known(start, start + 10, log_end=end) == (start, end)
        assert rig.known(start + CHUNK, start + CHUNK + 10, log_end=end) == (start, end)
    assert (rig.looks - looks, rig.files.asked) == (1, [(start, CHUNK)]), "one look a second, one sample"
    assert rig.known(start - 10, start, log_end=end) == (0, 0), "written by another process"


def test_a_file_that_somebody_had_dropped_from_memory_is_not_believed_to_be_there(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    start, end = 4 * CHUNK, 100 * CHUNK
    assert rig.known(start, start + 10, log_end=end) == (start, end)
    rig.files.lacks = set(range(4, 90))  # and no page is counted
    assert rig.known(start + CHUNK, start + CHUNK + 10, log_end=end) == (start, end), "believed for a moment"
    rig.now += BETWEEN_SAMPLES
    assert rig.known(start + CHUNK, start + CHUNK + 10, log_end=end) == (0, 0)
    assert rig.known(start + 9 * CHUNK, start + 9 * CHUNK + 10, log_end=end) == (0, 0), "nor is any other"
    assert rig.known(95 * CHUNK, 95 * CHUNK + 10, log_end=end) == (95 * CHUNK, 96 * CHUNK), "what is there is used"
    assert rig.known(end, end + 10, log_end=end + CHUNK) == (end, end + CHUNK), "what is written since is believed"


def test_the_rest_of_a_chunk_that_was_there_before_is_no_sample(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    rig.residency.settle(4 * CHUNK + 10)
    rig.files.lacks = {4}
    assert rig.known(4 * CHUNK + 10, 4 * CHUNK + 20, log_end=9 * CHUNK) == (4 * CHUNK + 10, 9 * CHUNK)
    assert rig.files.asked == [], "its beginning was written by another process"


def test_after_pages_were_taken_the_system_is_asked_about_what_was_written_before(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    start, end = 4 * CHUNK, 100 * CHUNK
    assert rig.known(start, start + 10, log_end=end) == (start, end)
    rig.take_pages(end)
    assert rig.known(end, end + 10, log_end=2 * end) == (end, 2 * end), "what was written since"
    rig.files.asked.clear()
    assert rig.known(start, start + 10, log_end=2 * end) == (start, start + CHUNK)
    assert rig.known(start, start + 10, log_end=2 * end) == (start, start + CHUNK)
    assert rig.files.asked == [(start, CHUNK)], "once, at the first read"
    assert rig.known(start - 10, start, log_end=2 * end) == (0, 0), "written by another process"


def test_neighbours_in_memory_are_one_stretch_whoever_asked(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    end = 10 * CHUNK + 700
    rig.take_pages(end)
    for chunk in (4, 6, 8, 5, 7):
        rig.known(chunk * CHUNK, chunk * CHUNK + 10, log_end=end)
    assert rig.known(6 * CHUNK, 6 * CHUNK + 10, log_end=end) == (4 * CHUNK, 9 * CHUNK)
    assert rig.known(8 * CHUNK, end, log_end=end) == (4 * CHUNK, end), "up to what needs no question"
    assert rig.known(end, end + 10, log_end=end + 10) == (4 * CHUNK, end + 10)
    assert rig.files.asked[-1] == (10 * CHUNK, 700), "space that is only reserved is not in memory"
    assert len(rig.files.asked) == 7


def test_a_stretch_ends_where_memory_does(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    end = 20 * CHUNK
    rig.take_pages(end)
    rig.files.lacks = {9}
    assert rig.known(7 * CHUNK, 12 * CHUNK, log_end=end) == (0, 0)
    assert rig.known(10 * CHUNK, 12 * CHUNK, log_end=end) == (10 * CHUNK, 12 * CHUNK)
    assert rig.known(7 * CHUNK, 9 * CHUNK, log_end=end) == (7 * CHUNK, 9 * CHUNK)
    asked = len(rig.files.asked)
    assert rig.known(9 * CHUNK, 9 * CHUNK + 1, log_end=end) == (0, 0)
    assert len(rig.files.asked) == asked, "a no is believed too"


def test_the_tail_is_in_memory_whatever_was_taken(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    end = 20 * CHUNK
    rig.take_pages(end)
    rig.files.lacks = {18, 19}
    assert rig.known(17 * CHUNK, end, log_end=end) == (0, 0)
    assert rig.known(17 * CHUNK, end, log_end=end, tail=18 * CHUNK) == (17 * CHUNK, end)


def test_the_system_is_asked_so_many_times_a_second(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=8 * QUESTIONS * CHUNK)
    end = 4 * QUESTIONS * CHUNK
    rig.take_pages(end)
    for _ in range(2 * QUESTIONS):
        assert rig.known(4 * CHUNK, end, log_end=end) == (0, 0)
    assert len(rig.files.asked) == QUESTIONS
    assert rig.known(4 * CHUNK, 5 * CHUNK, log_end=end) == (4 * CHUNK, (4 + QUESTIONS) * CHUNK)
    rig.now += BELIEVED + 0.1
    assert rig.known(4 * CHUNK, 5 * CHUNK, log_end=end) == (4 * CHUNK, 5 * CHUNK)


def test_one_read_asks_about_some_chunks_and_the_next_goes_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=1024 * CHUNK)
    end = 200 * CHUNK
    rig.take_pages(end)
    stretches = [rig.known(4 * CHUNK, 150 * CHUNK, log_end=end) for _ in range(4)]
    assert stretches == [(0, 0), (0, 0), (4 * CHUNK, 150 * CHUNK), (4 * CHUNK, 150 * CHUNK)]
    assert len(rig.files.asked) == 146


def test_a_chunk_of_small_files_is_asked_about_file_by_file(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=CHUNK // 4, files=40)
    rig.take_pages(8 * CHUNK)
    assert rig.known(5 * CHUNK, 5 * CHUNK + 10, log_end=8 * CHUNK) == (5 * CHUNK, 6 * CHUNK)
    assert rig.files.asked == [(0, CHUNK // 4)] * 4


def test_a_system_that_does_not_count_is_asked(tmp_path: Path) -> None:
    rig = Rig(tmp_path, file_size=128 * CHUNK)
    rig.taken = None
    rig.residency.settle(4 * CHUNK)
    rig.files.has_all = False
    assert rig.known(4 * CHUNK, 4 * CHUNK + 10) == (0, 0)
    assert rig.files.asked == [(4 * CHUNK, CHUNK)]


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
