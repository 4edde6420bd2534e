from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import StoreError
from pyromq.store.message_store import MessageStore
from pyromq.store.write.quick_flush import FIRST_PAUSE, LONGEST_PAUSE, MOST_BYTES, QuickFlush
from tests.store.helpers import FakeTime, FaultyFiles, bodies, message, small_config
from tests.store.test_flush import Gate, Loop

LIMIT = 0.0003
FLUSHES = 40


def noted(times: list[float], quick: QuickFlush | None = None, now: float = 0.0) -> QuickFlush:
    """Return what has seen flushes that took so long."""
    quick = quick or QuickFlush(LIMIT)
    for took in times:
        quick.note(took, now)
    return quick


def is_tried(times: list[float]) -> bool:
    """Return True if the loop flushes at some time."""
    quick = QuickFlush(LIMIT)
    return any(noted([took], quick).in_loop for took in times)


# --- where flushes happen


def test_the_loop_flushes_when_flushes_of_the_thread_are_quick_and_not_before_there_were_some() -> None:
    assert not noted([LIMIT / 3] * 5).in_loop
    assert noted([LIMIT / 3] * FLUSHES).in_loop


def test_a_thread_that_waits_for_the_interpreter_too_may_take_longer_than_the_loop() -> None:
    assert is_tried([1.8 * LIMIT] * FLUSHES)
    assert not is_tried([2.3 * LIMIT] * 1000)


def test_odd_flushes_of_the_thread_say_nothing_about_the_disk() -> None:
    assert is_tried([LIMIT / 3, LIMIT / 3, LIMIT / 3, 0.1] * FLUSHES)


def test_a_slow_disk_is_left_to_the_thread() -> None:
    assert not is_tried([0.004] * 1000)


def test_one_flush_that_is_much_too_slow_ends_it_at_once() -> None:
    quick = noted([LIMIT / 3] * FLUSHES)
    assert not noted([0.02], quick).in_loop


def test_a_disk_that_becomes_slower_little_by_little_ends_it_too() -> None:
    quick = noted([LIMIT / 3] * FLUSHES)
    assert noted([1.4 * LIMIT] * 1000, quick).in_loop
    assert not noted([2 * LIMIT] * FLUSHES, quick).in_loop


def test_after_a_slow_flush_the_loop_waits_and_twice_as_long_each_time() -> None:
    quick, now = noted([LIMIT / 3] * FLUSHES), 0.0
    pauses = []
    for _ in range(9):
        noted([0.02], quick, now)
        pause = FIRST_PAUSE
        while (
            noted([LIMIT / 3] * FLUSHES, quick, now + pause - 0.01).in_loop
            or not noted([LIMIT / 3], quick, now + pause).in_loop
        ):
            pause *= 2
        pauses.append(pause)
        now += pause
    assert pauses == [min(FIRST_PAUSE * 2**count, LONGEST_PAUSE) for count in range(9)]


def test_after_a_long_quick_time_the_pause_is_short_again() -> None:
    quick = noted([LIMIT / 3] * FLUSHES)
    noted([0.02], quick, 0.0)
    noted([LIMIT / 3] * FLUSHES, quick, FIRST_PAUSE)
    late = 1_000 * LONGEST_PAUSE
    noted([0.02], quick, late)
    assert not noted([LIMIT / 3] * FLUSHES, quick, late + FIRST_PAUSE - 0.01).in_loop
    assert noted([LIMIT / 3] * FLUSHES, quick, late + FIRST_PAUSE).in_loop


def test_without_a_limit_the_loop_never_flushes() -> None:
    assert not noted([0.0] * 1000, QuickFlush(0)).in_loop


# --- the store


def opened(root: Path, files: FaultyFiles, loop: Loop, **changes: Any) -> MessageStore:
    """Return an open store under SYNC_FLUSH on a disk that counts as quick, unless changed."""
    settings = {"commit_log_file_size": 4 * MOST_BYTES, "quick_flush_us": 1_000_000} | changes
    config = small_config(root, flush_disk_type="SYNC_FLUSH", max_message_size=2 * MOST_BYTES, **settings)
    store = MessageStore(config, FakeTime(), files, call_threadsafe=loop.call_threadsafe)
    store.open()
    for _ in range(FLUSHES):
        put(store)
        loop.run_until(lambda: store.durable_offset == store.max_physical_offset)
    return store


def put(store: MessageStore, body: bytes = b"hello") -> int:
    """Store one message; return where it ends."""
    store.put(message(body=body))
    store.commit()
    return store.max_physical_offset


def test_on_a_quick_disk_a_message_is_durable_and_seen_when_commit_returns(tmp_path: Path) -> None:
    threads: list[str] = []

    class Noting(FaultyFiles):
        def fdatasync(self, descriptor: int) -> None:
            threads.append(threading.current_thread().name)
            super().fdatasync(descriptor)

    store = opened(tmp_path, Noting(), Loop())
    durable: list[int] = []
    store.on_durable = durable.append
    threads.clear()
    store.put(message(body=b"last"))
    acknowledged: list[tuple[int, int]] = []
    store.commit(lambda: acknowledged.append((store.flushed_offset, store.max_offset("orders", 0))))
    end = store.max_physical_offset
    assert (store.flushed_offset, store.durable_offset, durable) == (end, end, [end])
    assert acknowledged == [(end, FLUSHES)]  # when it was on disk, and not seen yet
    assert bodies(store)[-1] == b"last"
    assert threads == [threading.current_thread().name]
    store.close()


def test_a_flush_that_fails_in_the_loop_is_raised_by_the_commit_and_never_tried_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    store = opened(tmp_path, files, Loop())
    failures: list[StoreError] = []
    durable: list[int] = []
    store.on_failure, store.on_durable = failures.append, durable.append
    files.fail = lambda name, _: errno.EIO if name == "fdatasync" else None
    store.put(message(body=b"lost"))
    with pytest.raises(StoreError, match="flush"):
        store.commit(lambda: durable.append(0))
    assert (len(failures), durable, store.writable) == (1, [], False)
    assert store.max_offset("orders", 0) == FLUSHES
    flushes = files.calls["fdatasync"]
    store.close()
    assert files.calls["fdatasync"] == flushes
    assert (tmp_path / "abort").exists()


@pytest.mark.parametrize("changes", [{}, {"quick_flush_us": 0}])
def test_what_is_much_or_not_quick_is_left_to_the_thread(tmp_path: Path, changes: dict[str, int]) -> None:
    loop, files = Loop(), Gate()
    files.passes.release(10_000)
    store = opened(tmp_path, files, loop, **changes)
    while files.passes.acquire(blocking=False):
        pass
    end = put(store, b"x" * (MOST_BYTES if not changes else 10))
    assert store.flushed_offset < end
    files.passes.release(10_000)
    loop.run_until(lambda: store.durable_offset == end)
    store.close()


def test_a_group_that_rolls_a_file_is_left_to_the_thread_which_flushes_both(tmp_path: Path) -> None:
    loop, files = Loop(), Gate()
    files.passes.release(10_000)
    store = opened(tmp_path, files, loop, commit_log_file_size=MOST_BYTES // 4)
    while files.passes.acquire(blocking=False) or files.entered.acquire(blocking=False):
        pass
    for _ in range(2):
        store.put(message(body=b"x" * (MOST_BYTES // 6)))
    store.commit()
    end = store.max_physical_offset
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    assert store.flushed_offset < end
    files.passes.release()
    assert files.entered.acquire(timeout=30)
    assert files.entered.acquire(timeout=30)  # one flush does not do
    assert store.durable_offset < end
    files.passes.release(10_000)
    loop.run_until(lambda: store.durable_offset == end)
    store.close()


def test_while_the_thread_flushes_the_loop_does_not_wait_for_it(tmp_path: Path) -> None:
    loop, files = Loop(), Gate()
    files.passes.release(10_000)
    store = opened(tmp_path, files, loop)
    while files.passes.acquire(blocking=False) or files.entered.acquire(blocking=False):
        pass
    put(store, b"x" * MOST_BYTES)
    assert files.entered.acquire(timeout=30)  # the thread is at it
    end = put(store, b"little")
    assert store.flushed_offset < end
    files.passes.release(10_000)
    loop.run_until(lambda: store.durable_offset == end)
    assert bodies(store)[-1] == b"little"
    store.close()
