from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, StoreError
from pyromq.store.files import OsFiles
from pyromq.store.segments import DescriptorPool, DirtyFiles, SegmentedFile
from tests.store.helpers import FaultyFiles

SIZE = 100


def segments(directory: Path, files: OsFiles | None = None) -> SegmentedFile:
    files = files or OsFiles()
    return SegmentedFile(str(directory), SIZE, files, DescriptorPool(files, 4), DirtyFiles())


def with_files(directory: Path, *starts: int, length: int = SIZE) -> SegmentedFile:
    directory.mkdir(exist_ok=True)
    for start in starts:
        (directory / f"{start:020d}").write_bytes(bytes(length))
    return segments(directory)


def test_names_are_the_position_of_the_first_byte_in_twenty_digits(tmp_path: Path) -> None:
    run = segments(tmp_path / "log")
    run.add(SIZE)
    run.add(SIZE)
    assert sorted(os.listdir(tmp_path / "log")) == ["00000000000000000000", "00000000000000000100"]
    assert [path.stat().st_size for path in (tmp_path / "log").iterdir()] == [SIZE, SIZE]
    assert (run.start, run.stop) == (0, 200)


def test_bytes_are_written_across_files_and_read_within_one(tmp_path: Path) -> None:
    run = segments(tmp_path / "log")
    for _ in range(3):
        run.add(SIZE)
    run.pwrite(90, bytes(range(120)))
    assert run.pread(90, 120) == bytes(range(10))
    assert run.pread(100, 120) == bytes(range(10, 110))
    assert run.pread(300, 1) == b""


def test_an_existing_directory_is_found_again(tmp_path: Path) -> None:
    run = with_files(tmp_path / "log", 200, 300)
    run.load()
    assert (run.start, run.stop) == (200, 400)
    assert list(run.starts()) == [200, 300]


def test_a_directory_that_is_missing_holds_nothing(tmp_path: Path) -> None:
    run = segments(tmp_path / "log")
    run.load()
    assert (run.start, run.stop) == (0, 0)


@pytest.mark.parametrize("name", ["readme", "0", "00000000000000000150", ".hidden", "0000000000000000010x"])
def test_what_does_not_belong_there_is_named(tmp_path: Path, name: str) -> None:
    run = with_files(tmp_path / "log", 0)
    (tmp_path / "log" / name).touch()
    with pytest.raises(StoreError, match=name):
        run.load()


def test_a_file_that_is_missing_in_the_middle_is_named(tmp_path: Path) -> None:
    run = with_files(tmp_path / "log", 0, 200)
    with pytest.raises(StoreError, match="00000000000000000100"):
        run.load()


def test_a_last_file_that_a_crash_left_short_gets_its_length(tmp_path: Path) -> None:
    with_files(tmp_path / "log", 0)
    run = with_files(tmp_path / "log", 100, length=0)
    run.load()
    assert (tmp_path / "log" / f"{100:020d}").stat().st_size == SIZE


@pytest.mark.parametrize("length", [0, 99, 101])
def test_another_file_of_a_wrong_length_is_refused(tmp_path: Path, length: int) -> None:
    with_files(tmp_path / "log", 100)
    run = with_files(tmp_path / "log", 0, length=length)
    with pytest.raises(StoreError, match=f"{length} bytes"):
        run.load()


@pytest.mark.parametrize("call", ["open", "ftruncate", "fallocate"])
def test_a_file_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, call: str) -> None:
    files = FaultyFiles(lambda name, _: errno.ENOSPC if name == call else None)
    run = segments(tmp_path / "log", files)
    with pytest.raises(DiskFull):
        run.add(SIZE)
    assert list((tmp_path / "log").iterdir()) == []
    assert (run.start, run.stop) == (0, 0)
    files.fail = lambda *_: None
    run.add(SIZE)
    assert (run.start, run.stop) == (0, SIZE)


def test_a_cut_removes_later_files_and_clears_the_rest_of_its_own(tmp_path: Path) -> None:
    run = segments(tmp_path / "log")
    for _ in range(3):
        run.add(SIZE)
    run.pwrite(0, b"x" * 300)
    run.cut(130)
    assert (run.start, run.stop) == (0, 200)
    assert run.pread(100, SIZE) == b"x" * 30 + bytes(70)
    assert sorted(os.listdir(tmp_path / "log")) == [f"{0:020d}", f"{100:020d}"]


def test_a_cut_at_the_border_of_two_files_removes_the_later_one(tmp_path: Path) -> None:
    run = segments(tmp_path / "log")
    run.add(SIZE)
    run.add(SIZE)
    run.cut(SIZE)
    assert (run.start, run.stop) == (0, SIZE)


def test_a_cut_with_nothing_behind_leaves_the_file_untouched(tmp_path: Path) -> None:
    files = FaultyFiles()
    run = segments(tmp_path / "log", files)
    run.add(SIZE)
    path = Path(run.path(0))
    run.pwrite(0, b"x" * 30)
    before = path.stat().st_mtime_ns, files.calls["ftruncate"]
    run.cut(30)
    assert (path.stat().st_mtime_ns, files.calls["ftruncate"]) == before


def test_the_pool_keeps_few_files_open_and_closes_the_one_unused_for_longest(tmp_path: Path) -> None:
    files = FaultyFiles()
    pool = DescriptorPool(files, 2)
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).touch()
    first = pool.get(paths[0])
    pool.get(paths[1])
    assert pool.get(paths[0]) == first
    pool.get(paths[2])
    assert len(pool) == 2
    assert pool.get(paths[0]) == first
    assert files.calls["open"] == 3
    pool.close()
    assert len(pool) == 0


def test_more_files_than_the_pool_holds_used_in_turn_are_mostly_open(tmp_path: Path) -> None:
    files = FaultyFiles()
    pool = DescriptorPool(files, 90)
    paths = [str(tmp_path / f"{number}") for number in range(100)]
    for path in paths:
        Path(path).touch()
    for _ in range(11):
        for path in paths:
            pool.get(path)
    assert len(pool) == 90
    assert files.calls["open"] - len(paths) < 10 * 20  # of ten turns; all 1,000 if the oldest always went
    pool.close()


def test_the_pool_follows_when_other_files_are_used(tmp_path: Path) -> None:
    files = FaultyFiles()
    pool = DescriptorPool(files, 10)
    paths = [str(tmp_path / f"{number}") for number in range(20)]
    for path in paths:
        Path(path).touch()
    for path in paths[:10]:
        pool.get(path)
    for _ in range(400):
        for path in paths[10:]:
            pool.get(path)
    assert set(pool._open) == set(paths[10:])
    pool.close()


def test_changed_files_are_taken_once() -> None:
    dirty = DirtyFiles()
    dirty.add("a")
    dirty.add("b")
    dirty.add_directories("d")
    dirty.discard("b")
    assert dirty.take() == ({"a"}, {"d"})
    assert dirty.take() == (set(), set())


def test_a_pool_that_shrinks_closes_what_was_unused_for_longest(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abcd"]
    for path in paths:
        Path(path).touch()
    pool = DescriptorPool(OsFiles(), 4)
    for path in (*paths, paths[0]):
        pool.get(path)
    pool.resize(2)
    assert list(pool._open) == [paths[3], paths[0]]
    pool.resize(3)
    pool.get(paths[1])
    assert len(pool) == 3
    pool.close()


def test_a_pool_gives_up_files_when_the_process_is_out_of_descriptors(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "abcde"]
    for path in paths:
        Path(path).touch()
    files = FaultyFiles(lambda name, number: errno.EMFILE if (name, number) in (("open", 5), ("open", 8)) else None)
    pool = DescriptorPool(files, 100)
    for path in paths:
        pool.get(path)
    assert list(pool._open) == paths[2:]
    pool.close()
    pool.get(paths[0])
    pool.close()
    with pytest.raises(OSError, match="Too many open files"):  # it has none to give up
        pool.get(paths[0])
