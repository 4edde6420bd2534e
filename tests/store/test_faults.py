"""Every call that touches a file fails once, in every place: the error surfaces, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, StoreError
from pyromq.store.message_store import MessageStore
from tests.store.helpers import (
    FakeTime,
    FaultyFiles,
    FullDisk,
    QuickFiles,
    bodies,
    message,
    read_queue,
    small_config,
    small_store,
)

WRITING = ["pwrite", "ftruncate", "fallocate", "fdatasync", "rename", "sync_directory"]
OTHERS = ["open", "pread", "unlink", "makedirs"]
CASES = [(call, flush) for call in WRITING for flush in ("ASYNC_FLUSH", "SYNC_FLUSH")]
CASES += [(call, "ASYNC_FLUSH") for call in OTHERS]
BODY = b"x" * 600


class Life:
    """A store that is opened twice, filled, and closed; notes what was acknowledged and what was refused."""

    def __init__(self, root: Path, files: FaultyFiles, flush: str) -> None:
        self.config = small_config(root, flush_disk_type=flush)
        self.files = files
        self.acknowledged: list[tuple[int, bytes]] = []
        self.attempted: set[bytes] = set()
        self.errors: list[StoreError] = []
        self.stopped = False

    def live(self) -> None:
        for number in range(2):
            store = MessageStore(self.config, FakeTime(), self.files)
            try:
                store.open()
            except StoreError as error:
                self.errors.append(error)
                continue
            for group in range(3):
                self._send(store, b"%d-%d-" % (number, group))
            self._close(store)

    def _send(self, store: MessageStore, name: bytes) -> None:
        joined: list[tuple[int, bytes]] = []
        for index in range(3):
            body = name + b"%d" % index + BODY
            self.attempted.add(body)
            try:
                joined.append((store.put(message(body=body)).queue_offset, body))
            except StoreError as error:
                self.errors.append(error)
        try:
            store.commit()
        except StoreError as error:
            self.errors.append(error)
            assert not store.writable
        else:
            self.acknowledged += joined

    def _close(self, store: MessageStore) -> None:
        self.stopped = self.stopped or not store.writable
        try:
            store.close()
        except StoreError as error:
            self.errors.append(error)


def calls_of_a_whole_life(root: Path, flush: str) -> dict[str, int]:
    files = FaultyFiles(flushes=False)
    life = Life(root, files, flush)
    life.live()
    assert not life.errors
    assert len(life.acknowledged) == 18
    shutil.rmtree(root)
    return dict(files.calls)


def numbers_of(error: int, total: int) -> list[int]:
    """Return which calls fail with an error: each with one of the two, in an order that no group of calls has."""
    return [number for number in range(1, total + 1) if (number % 5 % 2 == 1) == (error == errno.EIO)]


def check_what_is_left(root: Path, life: Life) -> None:
    with small_store(root, QuickFiles()) as store:
        found = {one.queue_offset: one.body for one in read_queue(store)}
        assert found.items() >= dict(life.acknowledged).items()
        assert set(found.values()) <= life.attempted
        assert sorted(found) == list(range(len(found)))
        store.put(message(body=b"goes on"))
        store.commit()
        assert bodies(store)[-1] == b"goes on"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(("call", "flush"), CASES)
def test_a_call_that_fails_surfaces_and_loses_nothing_acknowledged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: str, error: int, flush: str
) -> None:
    total = calls_of_a_whole_life(tmp_path / "probe", flush)[call]
    for number in numbers_of(error, total):
        root = tmp_path / str(number)
        files = FaultyFiles(lambda *now, at=(call, number): error if now == at else None, flushes=False)
        life = Life(root, files, flush)
        caplog.clear()
        life.live()
        assert life.errors or "no space for a new checkpoint" in caplog.text
        check_what_is_left(root, life)
        shutil.rmtree(root)


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_disk_that_keeps_failing_stops_the_store_at_the_first_error(tmp_path: Path, call: str) -> None:
    files = FaultyFiles()
    store = small_store(tmp_path, files, flush_disk_type="SYNC_FLUSH")
    store.open()
    store.put(message(body=b"kept"))
    store.commit()
    files.fail = lambda name, _: errno.EIO if name == call else None
    store.put(message(body=b"lost"))
    with pytest.raises(StoreError):
        store.commit()
    failed = files.calls[call]
    for _ in range(3):
        with pytest.raises(StoreError, match="stopped writing"):
            store.put(message())
    store.commit()
    store.close()
    assert files.calls[call] == failed
    with small_store(tmp_path) as store:
        assert bodies(store)[0] == b"kept"


def test_a_write_that_only_half_arrives_is_not_seen_again(tmp_path: Path) -> None:
    class HalfWrites(FaultyFiles):
        broken = False

        def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
            if self.broken:
                super().pwrite(descriptor, data[: len(data) // 2], position)
                raise OSError(errno.EIO, "half")
            return super().pwrite(descriptor, data, position)

    files = HalfWrites()
    store = small_store(tmp_path, files)
    store.open()
    store.put(message(body=b"kept"))
    store.commit()
    store.put(message(body=b"torn" * 100))
    files.broken = True
    with pytest.raises(StoreError, match="half"):
        store.commit()
    assert bodies(store) == [b"kept"]
    store.close()
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"kept"]


def test_a_full_disk_is_one_error_for_each_message_and_service_resumes_by_itself(tmp_path: Path) -> None:
    files = FullDisk()
    with small_store(tmp_path, files) as store:
        expected = []
        for index in range(60):
            files.full = index // 7 % 2 == 1
            body = b"%d" % index + BODY
            try:
                store.put(message(body=body))
            except DiskFull:
                assert files.full
            else:
                expected.append(body)
            store.commit()
        assert bodies(store) == expected
        assert 28 < len(expected) < 60
    with small_store(tmp_path) as store:
        assert bodies(store) == expected
