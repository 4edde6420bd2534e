"""An open store that is cut: it is what it was before the records behind the cut were written."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.errors import OffsetOutOfRange, StoreClosed, StoreError
from pyromq.store.check.verify import StoreCheck
from pyromq.store.message_store import Arrival, MessageStore
from tests.store.helpers import (
    LOG_FILE_SIZE,
    FakeTime,
    FaultyFiles,
    QuickFiles,
    bodies,
    left_by_a_kill,
    log_files,
    message,
    small_config,
    small_store,
)
from tests.store.recovery.copies import Sent, content, copied_log, fill, sent_messages
from tests.store.recovery.test_raw_log import ORDERS, directory


def problems(root: Path) -> list[str]:
    """Return what a check of the directory finds wrong."""
    if not (root / "commitlog").exists():
        return []
    return [str(finding) for finding in StoreCheck(root).run() if str(finding).startswith("problem")]


def cut_at(root: Path, sent: list[Sent], kept: int, **changes: Any) -> MessageStore:
    """Open a store, fill it, and cut it behind the first few messages."""
    store = small_store(root, **changes)
    store.open()
    ends = [0, *fill(store, sent)]
    store.cut(ends[kept])
    return store


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, sent_messages, st.data())
def test_cut_and_written_again_is_as_never_written(sent: list[Sent], more: list[Sent], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(sent)))
    flush = data.draw(st.sampled_from(["ASYNC_FLUSH", "SYNC_FLUSH"]))
    with directory() as root:
        with small_store(root / "plain") as plain:
            fill(plain, sent[:kept])
        store = cut_at(root / "cut", sent, kept, flush_disk_type=flush)
        with small_store(root / "plain") as plain:
            assert content(store) == content(plain)
            assert store.confirm_offset == store.max_physical_offset
            assert kept == len(sent) or store.flushed_offset == store.max_physical_offset
        store.close()
        assert problems(root / "cut") == []
        with small_store(root / "plain") as plain, small_store(root / "cut") as store:
            assert content(store) == content(plain)
            plain._appender._now_ms = store._appender._now_ms = FakeTime(1_800_000_000_000)
            fill(plain, more, kept)
            store._appender._now_ms = FakeTime(1_800_000_000_000)
            fill(store, more, kept)
            assert content(store) == content(plain)
        assert problems(root / "cut") == []
        with small_store(root / "plain") as plain, small_store(root / "cut") as store:
            assert content(store) == content(plain)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, st.data())
def test_a_copy_that_was_cut_takes_the_bytes_again(sent: list[Sent], data: st.DataObject) -> None:
    with directory() as root:
        with small_store(root / "source") as source, small_store(root / "copy") as copy:
            ends = [0, *fill(source, sent)]
            raw = copied_log(source)
            copy.append_raw(0, raw)
            for _ in range(3):
                copy.cut(data.draw(st.sampled_from([end for end in ends if end <= copy.max_physical_offset])))
                stop = data.draw(st.integers(copy.max_physical_offset, len(raw)))
                copy.append_raw(copy.received_offset, raw[copy.received_offset : stop])
            copy.append_raw(copy.received_offset, raw[copy.received_offset :])
            assert content(copy) == content(source)
        with small_store(root / "source") as source, small_store(root / "copy") as copy:
            assert content(copy) == content(source)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, sent_messages, st.data())
def test_a_store_that_is_killed_after_a_cut_is_cut(sent: list[Sent], more: list[Sent], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(sent)))
    with directory() as root:
        store = cut_at(root / "cut", sent, kept)
        fill(store, more, kept)
        expected = content(store)
        with small_store(left_by_a_kill(store, root / "killed")) as store:
            found = content(store)
            assert (found["queues"], found["index"]) == (expected["queues"], expected["index"])


def test_what_was_cut_off_is_in_quarantine(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS)
        raw = copied_log(store)
        store.cut(ends[4])
        (kept,) = (tmp_path / "quarantine").iterdir()
        assert kept.name.startswith(f"{ends[4]:020d}.")
        assert kept.read_bytes() == raw[ends[4] :].rstrip(b"\0")
        assert len(log_files(tmp_path)) == 1


@pytest.mark.parametrize("inside", [1, -1, 50])
def test_a_cut_inside_a_record_is_refused_and_changes_nothing(tmp_path: Path, inside: int) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS)
        before = content(store)
        with pytest.raises(StoreError, match=rf"cannot cut the log at {ends[9] + inside}: no record ends there"):
            store.cut(ends[9] + inside)
        assert content(store) == before
        fill(store, ORDERS[:3], 40)
        assert store.next_offset("orders", 0) == before["queues"]["orders", 0][1] + 1  # type: ignore[index]


def test_a_cut_outside_the_log_is_refused(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        end = fill(store, ORDERS[:3])[-1]
        for place in (-1, end + 1):
            with pytest.raises(
                OffsetOutOfRange, match=f"cannot cut the log at {place}: it begins at 0 and ends at {end}"
            ):
                store.cut(place)
        store.cut(end)
        assert store.max_physical_offset == end
    with pytest.raises(StoreClosed):
        store.cut(end)


def test_a_record_inside_a_body_is_no_boundary(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        head = 88  # of a record before its body
        store.put(message())
        store.commit()
        start = store.max_physical_offset
        inner = bytearray(store.read(0) or b"")
        inner[28:36] = (start + head).to_bytes(8, "big")  # it says that it stands where it will stand
        store.put(message(body=bytes(inner)))
        store.commit()
        assert store.read(start + head) == bytes(inner)
        with pytest.raises(StoreError, match="no record ends there"):
            store.cut(start + head)


def test_a_log_can_be_cut_where_a_file_begins_and_before_the_blank_record_that_ends_it(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS)
        last = max(end for end in ends if end < LOG_FILE_SIZE)
        store.cut(2 * LOG_FILE_SIZE)
        assert store.max_physical_offset == 2 * LOG_FILE_SIZE
        assert len(log_files(tmp_path)) == 2
        fill(store, ORDERS[:1])
        store.cut(last)
        assert store.max_physical_offset == last
        assert len(log_files(tmp_path)) == 1
        with pytest.raises(StoreError, match="no record ends there"):
            store.cut(ends[0] - 20)
        fill(store, ORDERS[:5])
    with small_store(tmp_path) as store:
        assert store.next_offset("orders", 0) > 0
    assert problems(tmp_path) == []


def test_a_log_that_was_cut_to_nothing_may_begin_elsewhere(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        fill(source, ORDERS)
        raw = copied_log(source)
        copy.append_raw(0, raw[:5000])
        copy.cut(0)
        assert copy.topics == [] or all(copy.max_offset("orders", queue_id) == 0 for queue_id in range(3))
        start = 2 * LOG_FILE_SIZE
        copy.append_raw(start, raw[start:])
        assert copy.min_physical_offset == start
        assert bodies(copy) == bodies(source)[copy.min_offset("orders", 0) :]
        expected = content(copy)
    with small_store(tmp_path / "copy") as copy:
        assert content(copy) == expected


def test_a_store_whose_log_is_empty_opens_again(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        fill(store, ORDERS)
        store.cut(0)
    with small_store(tmp_path) as store:
        assert (store.max_physical_offset, store.max_offset("orders", 0)) == (0, 0)
        fill(store, ORDERS[:2])
        assert bodies(store) == [b"0-" + b"x" * 300]


def test_a_store_whose_log_began_later_and_is_empty_opens_again(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        fill(source, ORDERS)
        copy.append_raw(LOG_FILE_SIZE, copied_log(source)[LOG_FILE_SIZE:])
        copy.cut(LOG_FILE_SIZE)
    with small_store(tmp_path / "copy") as copy:
        assert copy.min_physical_offset == copy.max_physical_offset
        assert not copy.fences
        fill(copy, ORDERS[:1])
        assert len(bodies(copy)) == 1


def test_views_handed_out_before_can_still_be_read(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS[:9])
        views = store.get("orders", 0, 0, 32).views
        first = bytes(views[0])
        store.cut(ends[0])
        assert bytes(views[0]) == first
        assert all(not any(bytes(view)) for view in views[1:])
        fill(store, ORDERS[9:12])
        assert bodies(store) == [b"0-" + b"x" * 300, b"0-" + b"x" * 300]


def test_a_map_of_another_process_never_meets_a_short_file(tmp_path: Path) -> None:
    files = FaultyFiles(flushes=False)
    with small_store(tmp_path, files) as store:
        end = fill(store, ORDERS[:9])[3]
        path = log_files(tmp_path)[0]
        with path.open("rb") as held:
            store.cut(end)
            assert os.fstat(held.fileno()).st_size == LOG_FILE_SIZE
            assert path.stat().st_ino == os.fstat(held.fileno()).st_ino


def test_under_sync_flush_what_waits_is_told_only_if_it_stays(tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH")
    store = MessageStore(config, FakeTime(), QuickFiles(), call_threadsafe=lambda *call: calls.append(call))
    with store:
        arrivals: list[Arrival] = []
        durable: list[int] = []
        store.on_arrival, store.on_durable = arrivals.extend, durable.append
        places = [store.put(message(body=b"%d" % number)) for number in range(4)]
        store.commit()
        store.cut(places[2].physical_offset)
        for function, *arguments in calls:
            function(*arguments)
        assert [arrival.queue_offset for arrival in arrivals] == [0, 1]
        assert max(durable, default=0) <= places[2].physical_offset
        assert store.confirm_offset == store.max_physical_offset == places[2].physical_offset
        assert bodies(store) == [b"0", b"1"]


def test_a_deletion_and_a_fence_follow_the_cut(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS[:9])
        store.fences.add(ends[5], ends[6], "a file")
        store.cleaner.delete_topic("orders")
        fill(store, [("bills", 0, 10, "key1", 0)])
        store.cut(ends[2])
        assert store.fences.ranges() == []
        fill(store, ORDERS[:3])
    with small_store(tmp_path) as store:
        assert len(bodies(store)) == 1  # made after the deletion


def test_damage_that_stays_is_no_hindrance(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        ends = fill(store, ORDERS)
    with log_files(tmp_path)[0].open("r+b") as file:
        file.seek(ends[3] + 100)
        file.write(b"damaged")
    with small_store(tmp_path) as store:
        assert bodies(store, queue_id=1)
        while not store.fences:
            for queue_id in range(3):
                bodies(store, queue_id=queue_id)
        store.cut(ends[7])
        assert store.max_physical_offset == ends[7]
        assert len(store.fences) == 1
        store.cut(ends[3])
        assert len(store.fences) == 0


CALLS = ["pwrite", "ftruncate", "fdatasync", "rename", "sync_directory", "open", "unlink", "pread"]


@pytest.mark.parametrize("call", CALLS)
def test_a_cut_that_fails_anywhere_leaves_a_store_that_opens_uncut_or_cut(tmp_path: Path, call: str) -> None:
    number = 1
    while True:
        root = tmp_path / str(number)
        files = FaultyFiles(flushes=False)
        store = small_store(root, files)
        store.open()
        ends = fill(store, ORDERS)
        raw = copied_log(store)
        files.calls.clear()
        files.fail = lambda name, count, limit=number: errno.EIO if name == call and count == limit else None  # type: ignore[misc]
        has_failed = False
        try:
            store.cut(ends[9])
        except StoreError:
            has_failed = True
            assert not store.writable or copied_log(store) == raw
        files.fail = lambda name, count: None
        store.close()
        with small_store(root) as store:
            end = store.max_physical_offset
            assert ends[9] <= end <= len(raw)
            assert copied_log(store) == raw[:end]
            assert not store.fences
            queued = sum(store.max_offset("orders", queue_id) for queue_id in range(3))
            assert queued == sum(place <= end for place in ends)
            store.cut(ends[9])
            fill(store, ORDERS[10:], 10)
            assert [len(bodies(store, queue_id=queue_id)) for queue_id in range(3)] == [14, 13, 13]
        assert problems(root) == []
        shutil.rmtree(root)
        if not has_failed:
            assert number > 1 or call == "ftruncate"
            return
        number += 1
