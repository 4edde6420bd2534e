"""Reads that do not wait for the disk, over a file layer that says what is in memory."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import StoreError
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.results import QueueRange
from pyromq.store.segments import FileRange, NotInMemory
from tests.store.helpers import message, small_store
from tests.store.slow_disk import SlowDisk

BIG: dict[str, Any] = {"commit_log_file_size": 1 << 20, "consume_queue_file_size": 20_000}


def fill(root: Path, count: int = 40, queues: int = 2) -> None:
    with small_store(root, **BIG) as store:
        for number in range(count):
            store.put(message(queue_id=number % queues, body=b"%d" % number))
        store.commit()


def bodies(store: MessageStore, **options: object) -> list[bytes]:
    result = store.get("orders", 0, 0, 32, **options)  # type: ignore[arg-type]
    return [found.body for found in decode_messages(b"".join(result.views))]


def patiently(store: MessageStore | StoreReader, read: Callable[[], object]) -> tuple[object, int]:
    """Read without waiting, with what is missing fetched in between; return what was read, and how often it was not."""
    fetched: set[FileRange] = set()
    for attempt in range(100):
        try:
            with store.disk.memory_only(fetched):
                return read(), attempt
        except NotInMemory as error:
            fetched.update(error.missing)
            thread = threading.Thread(target=store.disk.fetch, args=store.disk.plan(error.missing), name="fetch")
            thread.start()
            thread.join()
    raise AssertionError("it never ended")


def test_what_is_in_memory_is_read_at_once(tmp_path: Path) -> None:
    fill(tmp_path)
    with small_store(tmp_path, **BIG) as store, store.disk.memory_only():
        assert len(bodies(store)) == 20


def test_what_is_on_disk_is_named_and_not_waited_for(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = SlowDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        disk.forget()
        with pytest.raises(NotInMemory) as caught, store.disk.memory_only():
            bodies(store)
        (missing,) = caught.value.missing
        assert missing.path.endswith("/consumequeue/orders/0/00000000000000000000")
        assert not disk.waits
        assert len(bodies(store)) == 20, "whoever may wait reads as ever"
        assert disk.waits


def test_a_read_needs_few_attempts_however_many_records_it_finds_on_disk(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = SlowDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        disk.forget()
        found, attempts = patiently(store, lambda: bodies(store))
        assert found == [b"%d" % number for number in range(0, 40, 2)]
        assert attempts <= 3  # the entries, then all records at once


def test_records_of_this_life_are_read_through_the_map_and_no_disk_is_asked(tmp_path: Path) -> None:
    disk = SlowDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        for _ in range(3):
            store.put(message())
        store.commit()
        with store.disk.memory_only():
            bodies(store)
            disk.asked.clear()
            assert len(bodies(store)) == 3
        assert not [path for path in disk.asked if "commitlog" in path]


def test_older_records_of_this_life_are_not_read_through_the_map(tmp_path: Path) -> None:
    disk = SlowDisk()
    with small_store(tmp_path, disk, mapped_tail=500, **BIG) as store:
        for _ in range(30):
            store.put(message())
        store.commit()
        disk.forget()
        found, attempts = patiently(store, lambda: bodies(store))
        assert len(found) == 30  # type: ignore[arg-type]
        assert attempts >= 1


class CountingMemory(SlowDisk):
    """A system that counts the pages that it takes back, and has taken none."""

    taken = 0

    def pages_taken(self) -> int | None:
        return self.taken


def test_older_records_of_this_life_are_read_through_the_map_until_the_system_takes_pages(tmp_path: Path) -> None:
    disk = CountingMemory()
    with small_store(tmp_path, disk, mapped_tail=500, **BIG) as store:
        for _ in range(30):
            store.put(message())
        store.commit()
        with store.disk.memory_only():
            assert len(bodies(store)) == 30
        asked = sum(count for path, count in disk.asked.items() if "commitlog" in path)
        assert asked < 10, "now and then a sample, but not for each record"
        disk.asked.clear()
    disk.taken += 1
    with small_store(tmp_path, disk, mapped_tail=500, **BIG) as store, store.disk.memory_only():
        assert len(bodies(store)) == 30
        assert [path for path in disk.asked if "commitlog" in path], "another process wrote them"


class HesitantMemory(OsFiles):
    """A system that refuses to read without waiting, and says of a file that it has it in memory."""

    def __init__(self, in_memory: str) -> None:
        self.in_memory = in_memory
        self._paths: dict[int, str] = {}

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        self._paths[descriptor] = path
        return descriptor

    def pread_cached(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        return -1

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        assert position % PAGESIZE == 0
        return self.in_memory in self._paths[descriptor]


def test_bytes_in_memory_are_read_although_the_system_would_rather_read_ahead(tmp_path: Path) -> None:
    fill(tmp_path, count=10)
    with small_store(tmp_path, HesitantMemory("/"), **BIG) as store, store.disk.memory_only():
        assert len(bodies(store)) == 5
    with (
        small_store(tmp_path, HesitantMemory("no file"), **BIG) as store,
        store.disk.memory_only(),
        pytest.raises(NotInMemory),
    ):
        bodies(store)


@pytest.mark.parametrize("is_view", [False, True], ids=["own store", "somebody else's"])
def test_every_kind_of_read_can_be_made_without_waiting(tmp_path: Path, is_view: bool) -> None:
    fill(tmp_path, count=300)
    disk = SlowDisk()
    with StoreReader(tmp_path, files=disk) if is_view else small_store(tmp_path, disk, **BIG) as store:
        place = store.get("orders", 1, 7, 1)
        (record,) = decode_messages(b"".join(place.views))
        reads: list[Callable[[], object]] = [
            lambda: b"".join(store.get("orders", 1, 100, 32).views),
            lambda: store.raw_entries("orders", 0, 3, 90),
            lambda: store.read(record.physical_offset),
            lambda: store.offset_at("orders", 1, record.store_timestamp_ms),
            lambda: store.earliest_time("orders", 1),
        ]
        for read in reads:
            expected = read()
            disk.forget()
            disk.waits.clear()
            found, attempts = patiently(store, read)
            assert found == expected
            assert attempts >= 1
            assert set(disk.waits) == {"fetch"}


def test_several_queues_are_read_without_waiting(tmp_path: Path) -> None:
    fill(tmp_path, count=300)
    disk = SlowDisk()
    ranges = [QueueRange(0, 0, 150), QueueRange(1, 0, 150)]

    def read(store: MessageStore) -> bytes:
        result = store.get_merged("orders", ranges, 300, 1 << 20, None)
        assert result is not None
        return b"".join(result.views)

    with small_store(tmp_path, disk, **BIG) as store:
        expected = read(store)
        disk.forget()
        found, attempts = patiently(store, lambda: read(store))
        assert found == expected
        assert 1 <= attempts <= 4


def test_what_was_fetched_and_is_gone_again_is_waited_for(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = SlowDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        disk.forget()
        disk.remembers = False
        found, _ = patiently(store, lambda: bodies(store))
        assert len(found) == 20  # type: ignore[arg-type]


class CountingDisk(SlowDisk):
    """Counts the bytes of the log that it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_for = 0

    def will_need(self, descriptor: int, length: int, position: int) -> None:
        self.asked_for += length if "commitlog" in self._paths[descriptor] else 0
        self._remember(descriptor, length, position)  # a disk that is faster than the reader


def read_all(store: MessageStore, queue_id: int, batch: int = 32) -> int:
    """Read a queue to its end without waiting; return how often something was missing."""
    misses = 0
    for offset in range(0, store.max_offset("orders", queue_id), batch):
        found, attempts = patiently(store, lambda at=offset: store.get("orders", queue_id, at, batch))  # type: ignore[misc]
        assert found.count  # type: ignore[attr-defined]
        misses += attempts
    return misses


def test_who_catches_up_waits_for_the_disk_once_for_hundreds_of_records(tmp_path: Path) -> None:
    options = BIG | {"commit_log_file_size": 16 << 20}
    with small_store(tmp_path, **options) as store:
        for number in range(6000):
            store.put(message(queue_id=number % 4, body=bytes(1000)))
        store.commit()
    disk = CountingDisk()
    with small_store(tmp_path, disk, **options) as store:
        disk.forget()
        misses = read_all(store, 0)
        assert misses < 12, "1,500 records: the log has 7 chunks, and the queue is read ahead too"
        assert disk.asked_for >= store.max_physical_offset
        assert read_all(store, 1) <= 3, "only its entries are missing: the records came with those of the first"


def test_one_record_is_read_without_its_chunk(tmp_path: Path) -> None:
    with small_store(tmp_path, **BIG) as store:
        for _ in range(600):
            store.put(message(body=bytes(1000)))
        store.commit()
    disk = CountingDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        disk.forget()
        disk.asked_for = 0
        place = store.get("orders", 0, 300, 1)
        (record,) = decode_messages(b"".join(place.views))
        disk.forget()
        patiently(store, lambda: store.read(record.physical_offset))
        assert disk.asked_for <= 200 << 10


def test_an_error_of_the_disk_is_told_to_the_reader_not_to_the_fetcher(tmp_path: Path) -> None:
    fill(tmp_path)
    disk = SlowDisk()
    with small_store(tmp_path, disk, **BIG) as store:
        disk.forget()
        disk.broken = True
        with pytest.raises(StoreError):
            patiently(store, lambda: store.raw_entries("orders", 0, 0, 5))


def test_a_file_that_is_gone_is_nothing_to_fetch(tmp_path: Path) -> None:
    with small_store(tmp_path, **BIG) as store:
        store.disk.fetch([FileRange(str(tmp_path / "nowhere"), 0, 10)])


def test_the_system_says_what_it_has_in_memory(tmp_path: Path) -> None:
    files = OsFiles()
    descriptor = files.open(str(tmp_path / "file"), create=True)
    files.pwrite(descriptor, b"some bytes", 0)
    buffer = bytearray(4)
    assert files.pread_cached(descriptor, buffer, 5) == 4
    assert buffer == b"byte"
    assert files.pread_cached(descriptor, bytearray(9), 5) == 5, "the file ends"
    assert files.pread_cached(descriptor, bytearray(9), 50) == 0
    files.close(descriptor)


def test_a_file_system_that_cannot_tell_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OsFiles()
    descriptor = files.open(str(tmp_path / "file"), create=True)
    files.pwrite(descriptor, b"some bytes", 0)

    def cannot(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "preadv", cannot)
    buffer = bytearray(4)
    assert files.pread_cached(descriptor, buffer, 5) == 4
    assert buffer == b"byte"
    files.close(descriptor)
