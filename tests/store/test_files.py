from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, StoreError
from pyromq.store.files import OsFiles, make_directories, read_file, replace_file, store_error, write_all
from tests.store.helpers import FaultyFiles


class ThreeBytesAtATime(OsFiles):
    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        return super().pwrite(descriptor, data[:3], position)


def test_a_write_that_the_system_takes_in_pieces_is_written_whole(tmp_path: Path) -> None:
    files = ThreeBytesAtATime()
    descriptor = files.open(str(tmp_path / "file"), create=True)
    write_all(files, descriptor, b"0123456789", 2)
    files.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"\0\0" + b"0123456789"


def test_a_replaced_file_holds_the_new_bytes_only(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"something longer")
    replace_file(OsFiles(), str(path), b"new")
    assert path.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite", "fdatasync", "rename"])
def test_a_replacement_that_fails_leaves_the_old_file_whole(tmp_path: Path, call: str) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="space"):
        replace_file(FaultyFiles(lambda name, _: errno.ENOSPC if name == call else None), str(path), b"new")
    assert path.read_bytes() == b"old"


def test_a_replacement_is_flushed_before_it_takes_the_name_and_the_directory_after(tmp_path: Path) -> None:
    order: list[str] = []
    files = FaultyFiles(lambda name, _: order.append(name))
    replace_file(files, str(tmp_path / "table"), b"new")
    assert order[-3:] == ["fdatasync", "rename", "sync_directory"]


def test_a_file_that_is_not_there_reads_as_nothing(tmp_path: Path) -> None:
    assert read_file(OsFiles(), str(tmp_path / "missing"), 10) == b""


def test_making_directories_tells_where_names_were_added(tmp_path: Path) -> None:
    files, path = OsFiles(), str(tmp_path / "a" / "b")
    assert make_directories(files, path) == [str(tmp_path / "a"), str(tmp_path)]
    assert make_directories(files, path) == []


def test_no_space_is_told_apart_from_other_errors() -> None:
    assert isinstance(store_error("write", "file", OSError(errno.ENOSPC, "no space")), DiskFull)
    assert isinstance(store_error("write", "file", OSError(errno.EDQUOT, "quota")), DiskFull)
    other = store_error("write", "file", OSError(errno.EIO, "input/output error"))
    assert type(other) is StoreError
    assert str(other) == "cannot write file: input/output error"


def test_reserved_space_holds_no_data(tmp_path: Path) -> None:
    files = OsFiles()
    descriptor = files.open(str(tmp_path / "file"), create=True)
    files.ftruncate(descriptor, 1 << 20)
    files.fallocate(descriptor, 0, 1 << 20)
    write_all(files, descriptor, b"x", 8192)
    assert files.has_data(descriptor, 0)
    assert files.has_data(descriptor, 8192)
    assert not files.has_data(descriptor, 1 << 19)
    files.close(descriptor)


def test_the_store_goes_on_for_a_while_in_a_process_without_descriptors(tmp_path: Path) -> None:
    """Whoever took them all was not the store, and its flush must not fail for that."""
    code = """
import os, resource, sys
from pyromq.store.files import OsFiles
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
files = OsFiles()
files.close(files.open(sys.argv[1] + "/first", create=True))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for number in range(20):
    files.sync_directory(sys.argv[1])
    descriptor = files.open(sys.argv[1] + f"/{number}", create=True)
    files.fdatasync(descriptor)
    files.close(descriptor)
print("good", len(taken) > 20)
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["good", "True"], run.stderr
