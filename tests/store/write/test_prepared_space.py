"""Zeros ahead of the log's end, which make flushes cheaper under SYNC_FLUSH."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from tests.store.helpers import FakeTime, bodies, log_files, message, small_config

PREPARED = 64 * 1024
FILE_SIZE = 256 * 1024


class Writes(OsFiles):
    """The real calls but for flushes; notes what is written to the log, and may refuse zeros."""

    def __init__(self) -> None:
        self.zeros: list[tuple[int, int]] = []
        self.refuses = 0

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if len(data) > 4096 and not any(data):
            self.zeros.append((position, len(data)))
            if self.refuses:
                raise OSError(self.refuses, "refused")
        return super().pwrite(descriptor, data, position)

    def fdatasync(self, descriptor: int) -> None:
        pass


def synced_store(root: Path, files: OsFiles, **changes: Any) -> MessageStore:
    settings = {"flush_disk_type": "SYNC_FLUSH", "commit_log_file_size": FILE_SIZE, "prepared_bytes": PREPARED}
    return MessageStore(small_config(root, **(settings | changes)), FakeTime(), files)


def put(store: MessageStore, body: bytes = b"hello") -> None:
    store.put(message(body=body))
    store.commit()


def test_small_groups_find_their_space_written_already(tmp_path: Path) -> None:
    files = Writes()
    with synced_store(tmp_path, files) as store:
        put(store)
        first = store.max_physical_offset
        assert [start for start, _ in files.zeros] == [first]
        prepared = sum(files.zeros[0])
        assert prepared % 4096 == 0
        assert PREPARED - 4096 < prepared - first <= PREPARED
        while store.max_physical_offset <= prepared:
            assert len(files.zeros) == 1
            put(store, b"x" * 1000)
        assert len(files.zeros) == 2
        assert files.zeros[1][0] == store.max_physical_offset


@pytest.mark.parametrize("changes", [{"flush_disk_type": "ASYNC_FLUSH"}, {"prepared_bytes": 0}])
def test_where_no_group_waits_for_its_flush_nothing_is_prepared(tmp_path: Path, changes: dict[str, Any]) -> None:
    files = Writes()
    with synced_store(tmp_path, files, **changes) as store:
        put(store)
        assert files.zeros == []


def test_large_groups_are_written_once(tmp_path: Path) -> None:
    files = Writes()
    with synced_store(tmp_path, files) as store:
        put(store, b"x" * (PREPARED // 8))
        assert files.zeros == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_zeros_that_are_refused_end_it_and_lose_nothing(
    tmp_path: Path, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    files = Writes()
    files.refuses = error
    with synced_store(tmp_path, files) as store:
        put(store, b"first")
        put(store, b"second")
        store.flush()
        assert bodies(store) == [b"first", b"second"]
        assert len(files.zeros) == 1
        assert store.writable
    assert "flushes take longer" in caplog.text


@given(sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=60), prepared=st.integers(0, 3 * PREPARED))
def test_the_files_are_the_same_with_and_without(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], prepared: int
) -> None:
    found = []
    for space in (0, prepared):
        root = tmp_path_factory.mktemp("store")
        for half in (sizes[::2], sizes[1::2]):  # closed and opened in between
            with synced_store(root, Writes(), prepared_bytes=space) as store:
                for size in half:
                    put(store, bytes([size % 255 + 1]) * size)
        found.append([path.read_bytes() for path in log_files(root)])
    assert found[0] == found[1]
