"""A copy of a directory in use: no promise without its bytes, nothing half done under the final name."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.errors import StoreError
from pyromq.store.check.backup import BackupSize, StoreBackup
from pyromq.store.check.findings import Severity
from pyromq.store.check.verify import StoreCheck
from pyromq.store.files import OsFiles, ReadOnlyFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME, POSITION_NAME, CheckpointFiles
from tests.store.check.test_verify import fill
from tests.store.helpers import log_files, message, small_store


class BusyFiles(ReadOnlyFiles):
    """Files of a broker that does something each time one of them is opened."""

    def __init__(self, work: Callable[[str], None]) -> None:
        self._work = work

    def open(self, path: str, *, create: bool = False) -> int:
        self._work(path)
        return super().open(path, create=create)


def problems(root: Path) -> list[str]:
    return [str(finding) for finding in StoreCheck(root).run() if finding.severity is Severity.PROBLEM]


def put(store: MessageStore, count: int = 1) -> None:
    for number in range(count):
        store.put(message(topic=f"orders-{number % 3}", body=b"x" * 300))
    store.commit()


def test_a_copy_holds_what_was_there_and_what_comes_meanwhile_does_no_harm(tmp_path: Path) -> None:
    with small_store(tmp_path / "store", OsFiles()) as store:
        put(store, 30)
        before = {name: store.max_offset(name, 0) for name in ("orders-0", "orders-1", "orders-2")}

        def work(path: str) -> None:
            put(store, 2)
            if len(worked) % 7 == 0:
                store.flusher.checkpoint()
            worked.append(path)

        worked: list[str] = []
        done = StoreBackup(tmp_path / "store", tmp_path / "copy", files=BusyFiles(work)).run()
    assert len(worked) > 15
    assert done.files > 8
    assert problems(tmp_path / "copy") == []
    with small_store(tmp_path / "copy") as copy:
        assert all(copy.max_offset(name, 0) >= offset for name, offset in before.items())
        assert copy.get("orders-0", 0, 0, 32).views
    assert problems(tmp_path / "copy") == []


def test_the_position_counts_in_the_copy_even_if_a_checkpoint_is_written_in_between(tmp_path: Path) -> None:
    with small_store(tmp_path / "store", OsFiles()) as store:
        put(store, 9)
        store.flusher.checkpoint()

        def work(path: str) -> None:
            if path.endswith(CHECKPOINT_NAME) and not written:
                written.append(path)
                for _ in range(2):  # the position that was copied knows neither of them
                    put(store)
                    store.flusher.checkpoint()

        written: list[str] = []
        StoreBackup(tmp_path / "store", tmp_path / "copy", files=BusyFiles(work)).run()
    assert written
    assert CheckpointFiles(tmp_path / "copy", OsFiles()).read()[1] is not None


def test_files_that_expire_meanwhile_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    first = log_files(tmp_path / "store")[0]

    def work(path: str) -> None:
        first.unlink(missing_ok=True)

    StoreBackup(tmp_path / "store", tmp_path / "copy", files=BusyFiles(work)).run()
    assert [path.name for path in log_files(tmp_path / "copy")] == [path.name for path in log_files(tmp_path / "store")]


def test_a_copy_keeps_holes_and_times(tmp_path: Path) -> None:
    with small_store(tmp_path / "store", OsFiles(), commit_log_file_size=64 << 20) as store:
        put(store, 3)
    (source,), _ = log_files(tmp_path / "store"), StoreBackup(tmp_path / "store", tmp_path / "copy").run()
    (copy,) = log_files(tmp_path / "copy")
    assert copy.read_bytes() == source.read_bytes()
    assert copy.stat().st_mtime_ns == source.stat().st_mtime_ns
    assert copy.stat().st_blocks * 512 < 1 << 20


def test_a_failed_backup_leaves_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "store")

    def work(path: str) -> None:
        if path.endswith(log_files(tmp_path / "store")[-1].name):
            raise OSError(errno.EIO, "Input/output error", path)

    with pytest.raises(StoreError, match="cannot back up to"):
        StoreBackup(tmp_path / "store", tmp_path / "copy", files=BusyFiles(work)).run()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    StoreBackup(tmp_path / "store", tmp_path / "copy").run()
    with pytest.raises(StoreError, match=r"something in .*copy already"):
        StoreBackup(tmp_path / "store", tmp_path / "copy")
    with pytest.raises(StoreError, match="inside the store"):
        StoreBackup(tmp_path / "store", tmp_path / "store" / "copy")
    shutil.move(tmp_path / "copy", tmp_path / "other.part")
    with pytest.raises(StoreError, match="left from a backup that was not finished"):
        StoreBackup(tmp_path / "store", tmp_path / "other")


def test_it_says_how_much_it_is_before(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    seen: list[BackupSize] = []
    backup = StoreBackup(tmp_path / "store", tmp_path / "copy", on_progress=seen.append)
    expected = backup.measure()
    assert not (tmp_path / "copy").exists()
    assert backup.run().files == expected.files == len(seen)
    assert (tmp_path / "copy" / POSITION_NAME).exists()
