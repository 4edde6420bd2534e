from __future__ import annotations

import errno
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import StoreClosed, StoreError
from pyromq.store.message_store import Arrival, MessageStore
from pyromq.testing import wait_until
from tests.store.helpers import FakeTime, FaultyFiles, QuickFiles, bodies, message, small_config, small_store


class Loop:
    """What a loop does with call_soon_threadsafe: runs functions later, on the test's thread."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.Queue()

    def call_threadsafe(self, function: Callable[..., object], *args: Any) -> None:
        self._calls.put((function, args))

    def run_until(self, done: Callable[[], bool]) -> None:
        while not done():
            function, args = self._calls.get(timeout=30)
            function(*args)


class Gate(FaultyFiles):
    """Lets an fdatasync pass only when told so, and notes which files were flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.passes = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def fdatasync(self, descriptor: int) -> None:
        self.entered.release()
        assert self.passes.acquire(timeout=30)
        super().fdatasync(descriptor)


def position_of(root: Path) -> int:
    """Return up to where the flushed queues know the log; -1 before the first checkpoint."""
    path = root / "pyromq.position"
    return int.from_bytes(path.read_bytes()[12:20], "big") if path.exists() else -1


def test_everything_written_is_flushed_within_the_interval_however_little_it_is(tmp_path: Path) -> None:
    with small_store(tmp_path, flush_interval_ms=10) as store:
        store.put(message())
        store.commit()
        wait_until(lambda: store.flushed_offset == store.max_physical_offset)


def test_a_file_left_behind_by_a_roll_is_flushed_too(tmp_path: Path) -> None:
    flushed: list[int] = []

    class Noting(FaultyFiles):
        def fdatasync(self, descriptor: int) -> None:
            flushed.append(Path(f"/proc/self/fd/{descriptor}").stat().st_ino)
            super().fdatasync(descriptor)

    with small_store(tmp_path, Noting(), flush_disk_type="SYNC_FLUSH") as store:
        for _ in range(3):
            store.put(message(body=b"x" * 3000))
        flushed.clear()
        store.commit()
        assert {path.stat().st_ino for path in (tmp_path / "commitlog").iterdir()} <= set(flushed)


def test_the_names_of_new_files_are_durable_before_their_bytes_count(tmp_path: Path) -> None:
    synced: list[str] = []

    class Noting(FaultyFiles):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    root = tmp_path / "data" / "store"
    with small_store(root, Noting(), flush_disk_type="SYNC_FLUSH") as store:
        assert {str(tmp_path), str(tmp_path / "data")} <= set(synced)
        for _ in range(2):
            synced.clear()
            store.put(message(body=b"x" * 3000))
            store.commit()
            assert str(root / "commitlog") in synced


def test_a_file_that_the_log_leaves_during_its_flush_is_flushed_once_more(tmp_path: Path) -> None:
    files = Gate()
    files.passes.release(100)  # for opening
    with small_store(tmp_path, files, flush_interval_ms=5) as store:
        while files.passes.acquire(blocking=False) or files.entered.acquire(blocking=False):
            pass
        store.put(message(body=b"x" * 3000))
        store.commit()
        assert files.entered.acquire(timeout=30)  # the flusher is at it
        store.put(message(body=b"y" * 3000))
        store.commit()
        files.passes.release(100)
        wait_until(lambda: store.flushed_offset == store.max_physical_offset or not store.writable)
        assert store.writable


def test_queues_are_flushed_and_then_the_checkpoint_moves(tmp_path: Path) -> None:
    with small_store(tmp_path, flush_interval_ms=10, checkpoint_interval_ms=10) as store:
        place = store.put(message())
        store.commit()
        times = place.store_timestamp_ms.to_bytes(8, "big") * 2
        wait_until(lambda: (tmp_path / "checkpoint").read_bytes()[:16] == times)
        assert position_of(tmp_path) == place.size  # which is written before


def test_a_position_is_noted_after_a_checkpoint_that_is_being_written(tmp_path: Path) -> None:
    class Renaming(QuickFiles):
        meanwhile: Callable[[], None] | None = None
        noting: threading.Thread | None = None

        def rename(self, source: str, target: str) -> None:
            if self.meanwhile is not None:
                self.noting, self.meanwhile = threading.Thread(target=self.meanwhile), None
                self.noting.start()
                self.noting.join(0.1)
                assert self.noting.is_alive()
            super().rename(source, target)

    files = Renaming()
    with small_store(tmp_path, files) as store:
        store.put(message())
        store.commit()
        files.meanwhile = store.flusher.note_position
        store.flusher.checkpoint()
        assert files.noting is not None
        files.noting.join()


def test_a_quiet_store_writes_nothing(tmp_path: Path) -> None:
    files = FaultyFiles()
    with small_store(tmp_path, files, flush_interval_ms=1, checkpoint_interval_ms=1) as store:
        place = store.put(message())
        store.commit()
        times = place.store_timestamp_ms.to_bytes(8, "big") * 2
        wait_until(lambda: (tmp_path / "checkpoint").read_bytes()[:16] == times)
        before = files.calls["rename"], files.calls["fdatasync"]
        threading.Event().wait(0.1)
        assert (files.calls["rename"], files.calls["fdatasync"]) == before


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_message_is_confirmed_when_it_is_written_or_flushed_as_configured(tmp_path: Path, flush: str) -> None:
    loop, files = Loop(), Gate()
    files.passes.release(100)  # for opening
    config = small_config(tmp_path, flush_disk_type=flush)
    with MessageStore(config, FakeTime(), files, call_threadsafe=loop.call_threadsafe) as store:
        while files.passes.acquire(blocking=False) or files.entered.acquire(blocking=False):
            pass
        assert store.waits_for_flush is config.waits_for_flush is (flush == "SYNC_FLUSH")
        end = store.put(message()).size
        assert store.confirm_offset == 0
        store.commit()
        assert (store.confirm_offset, store.flushed_offset) == (0 if store.waits_for_flush else end, 0)
        files.passes.release(100)
        store.flush()
        assert store.flushed_offset == end
        if store.waits_for_flush:
            assert (store.confirm_offset, bodies(store)) == (0, [])  # until the loop makes it visible
            loop.run_until(lambda: store.confirm_offset > 0)
        assert store.confirm_offset == end
        assert bodies(store) == [b"hello"]


def test_without_a_loop_a_commit_under_sync_flush_is_durable_when_it_returns(tmp_path: Path) -> None:
    with small_store(tmp_path, flush_disk_type="SYNC_FLUSH") as store:
        durable: list[int] = []
        store.on_durable = durable.append
        place = store.put(message())
        store.commit()
        assert store.flushed_offset == place.size
        assert durable == [place.size]
        assert bodies(store) == [b"hello"]


def test_under_sync_flush_nothing_is_seen_before_it_is_flushed_and_one_flush_serves_all_that_wait(
    tmp_path: Path,
) -> None:
    loop, files = Loop(), Gate()
    files.passes.release(100)  # for opening
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    store = MessageStore(config, FakeTime(), files, call_threadsafe=loop.call_threadsafe)
    with store:
        while files.passes.acquire(blocking=False) or files.entered.acquire(blocking=False):
            pass
        durable: list[int] = []
        arrivals: list[Arrival] = []
        store.on_durable, store.on_arrival = durable.append, arrivals.extend
        store.put(message(body=b"0"))
        store.commit()
        assert files.entered.acquire(timeout=30)  # the flusher is at it
        for index in range(1, 10):
            store.put(message(body=b"%d" % index))
            store.commit()
        assert (store.max_offset("orders", 0), store.next_offset("orders", 0)) == (0, 10)
        assert (durable, arrivals) == ([], [])
        files.passes.release()
        loop.run_until(lambda: len(durable) == 1)
        assert store.max_offset("orders", 0) == 1
        assert files.entered.acquire(timeout=30)
        files.passes.release()
        loop.run_until(lambda: len(durable) == 2)
        assert durable[-1] == store.flushed_offset == store.max_physical_offset
        assert [arrival.queue_offset for arrival in arrivals] == list(range(10))
        assert bodies(store) == [b"%d" % index for index in range(10)]
        files.passes.release(100)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_flush_stops_the_store_and_is_never_tried_again(tmp_path: Path, error: int) -> None:
    loop, files = Loop(), FaultyFiles()
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    store = MessageStore(config, FakeTime(), files, call_threadsafe=loop.call_threadsafe)
    store.open()
    failures: list[StoreError] = []
    durable: list[int] = []
    store.on_failure, store.on_durable = failures.append, durable.append
    files.fail = lambda name, _: error if name == "fdatasync" else None
    store.put(message())
    store.commit()
    loop.run_until(lambda: bool(failures))
    assert (len(failures), durable, store.writable) == (1, [], False)
    assert store.max_offset("orders", 0) == 0
    with pytest.raises(StoreClosed, match="stopped writing"):
        store.put(message())
    flushes = files.calls["fdatasync"]
    store.close()
    assert files.calls["fdatasync"] == flushes
    assert (tmp_path / "abort").exists()


def test_a_flush_that_fails_in_the_background_stops_the_store(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = small_store(tmp_path, files, flush_interval_ms=5)
    store.open()
    files.fail = lambda name, _: errno.EIO if name == "fdatasync" else None
    store.put(message())
    store.commit()
    wait_until(lambda: not store.writable)
    assert bodies(store) == [b"hello"]  # reading goes on
    with pytest.raises(StoreClosed):
        store.put(message())
    store.close()
    assert (tmp_path / "abort").exists()


def test_a_flush_that_fails_inside_a_commit_is_raised_by_it(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = small_store(tmp_path, files, flush_disk_type="SYNC_FLUSH")
    store.open()
    store.put(message())
    files.fail = lambda name, _: errno.EIO if name == "fdatasync" else None
    with pytest.raises(StoreError, match="flush"):
        store.commit()
    assert not store.writable
    assert store.max_offset("orders", 0) == 0
    store.close()


def test_no_space_for_a_checkpoint_is_survived(tmp_path: Path) -> None:
    files = FaultyFiles()
    with small_store(tmp_path, files) as store:
        store.put(message())
        store.commit()
        files.fail = lambda name, _: errno.ENOSPC if name == "rename" else None
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"hello"]


def test_many_queues_are_flushed_by_one_call(tmp_path: Path) -> None:
    files = FaultyFiles()
    with small_store(tmp_path, files, commit_log_file_size=1 << 20) as store:
        for queue_id in range(100):
            store.put(message(queue_id=queue_id))
        store.commit()
        files.calls.clear()
    assert files.calls["sync_file_system"] == 1
    assert files.calls["fdatasync"] < 10
    with small_store(tmp_path, commit_log_file_size=1 << 20) as store:
        assert all(bodies(store, queue_id=queue_id) == [b"hello"] for queue_id in range(100))


def test_many_queues_that_cannot_be_flushed_stop_the_store(tmp_path: Path) -> None:
    files = FaultyFiles(lambda name, _: errno.EIO if name == "sync_file_system" else None)
    store = small_store(tmp_path, files, commit_log_file_size=1 << 20)
    store.open()
    for queue_id in range(100):
        store.put(message(queue_id=queue_id))
    with pytest.raises(StoreError):
        store.close()
    assert (tmp_path / "abort").exists()


def test_a_checkpoint_that_takes_long_holds_up_no_flush_of_the_log(tmp_path: Path) -> None:
    goes_on, entered = threading.Event(), threading.Event()

    class SlowQueues(FaultyFiles):
        def open(self, path: str, *, create: bool = False) -> int:
            if threading.current_thread().name == "pyromq-checkpoint" and "consumequeue" in path:
                entered.set()
                assert goes_on.wait(30)
            return super().open(path, create=create)

    with small_store(tmp_path, SlowQueues(), flush_interval_ms=5, checkpoint_interval_ms=5) as store:
        store.put(message())
        store.commit()
        assert entered.wait(30)
        for _ in range(3):
            store.put(message())
            store.commit()
            wait_until(lambda: store.flushed_offset == store.max_physical_offset)
        goes_on.set()


def test_how_long_messages_wait_for_their_flush_is_measured(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        assert (store.flusher.unflushed_ms, store.flusher.max_unflushed_ms) == (0, 0)
        store.put(message())
        store.commit()
        first = store.flusher.unflushed_ms
        wait_until(lambda: store.flusher.unflushed_ms > first)
        store.flusher.flush()
        assert store.flusher.unflushed_ms == 0
        assert store.flusher.max_unflushed_ms > first


def test_a_queue_that_is_removed_while_it_waits_for_its_flush_stops_nothing(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for number in range(50):
            store.put(message(f"t{number}"))
        store.commit()
        for number in range(0, 50, 2):
            store.cleaner.delete_topic(f"t{number}")
        store.cleaner._remover.wait()
        store.flusher.checkpoint()
        for number in range(1, 50, 2):
            store.cleaner.delete_topic(f"t{number}")
        store.flusher.checkpoint()
        assert store.writable


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_flush_waits_while_the_process_is_out_of_descriptors(tmp_path: Path, error: int) -> None:
    """Directories cannot be opened then; nothing is wrong with what was written."""
    failing = iter([error] * 5)
    files = FaultyFiles()
    with small_store(tmp_path, files, flush_disk_type="SYNC_FLUSH") as store:
        files.fail = lambda name, number: next(failing, None) if name == "sync_directory" else None
        store.put(message())
        store.commit()
        assert store.flushed_offset == store.max_physical_offset
        assert store.writable
        assert bodies(store) == [b"hello"]
    assert next(failing, None) is None
