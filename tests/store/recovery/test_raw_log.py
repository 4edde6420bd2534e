"""Bytes of one store's log appended to another: whatever the pieces, the copy is the same store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord, DiskFull, OffsetOutOfRange, StoreClosed, StoreError
from pyromq.lane.copies import ReadRun, read_run, run_reader
from pyromq.protocol.messages.record import read_head
from pyromq.store.check.verify import StoreCheck
from pyromq.store.message_store import Arrival, MessageStore
from pyromq.store.recovery import raw_log as raw_log_module
from tests.store.helpers import (
    LOG_FILE_SIZE,
    FakeTime,
    FullDisk,
    QuickFiles,
    bodies,
    left_by_a_kill,
    log_files,
    message,
    queue_files,
    small_config,
    small_store,
)
from tests.store.recovery.copies import Sent, chunks, content, copied_log, fill, raw_log, sent_messages

ORDERS: list[Sent] = [("orders", number % 3, 300, f"key{number % 6}", 0) for number in range(40)]


@contextmanager
def directory() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="pyromq-raw-"))
    try:
        yield root
    finally:
        shutil.rmtree(root)


def filled(root: Path, sent: list[Sent] | None = None) -> bytes:
    """Make a store; return the bytes of its log."""
    with small_store(root) as store:
        fill(store, ORDERS if sent is None else sent)
        return copied_log(store)


def feed(store: MessageStore, data: bytes, sizes: list[int]) -> None:
    """Append bytes in pieces, as they would be received."""
    start = store.received_offset
    for piece in chunks(data[start:], sizes):
        store.append_raw(start, piece)
        start += len(piece)
        assert store.received_offset == start


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, st.lists(st.integers(1, 5000), min_size=1, max_size=5), st.booleans())
def test_a_store_fed_with_the_bytes_of_another_is_the_same_store(
    sent: list[Sent], sizes: list[int], sync: bool
) -> None:
    with directory() as root:
        flush = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        data = filled(root / "source", sent)
        with small_store(root / "source") as source, small_store(root / "copy", flush_disk_type=flush) as copy:
            feed(copy, data, sizes)
            assert content(copy) == content(source)
        with small_store(root / "source") as source, small_store(root / "copy") as copy:
            assert content(copy) == content(source)
            fill(source, sent, len(sent))
            data = copied_log(source)
            feed(copy, data, sizes)
            assert content(copy) == content(source)
        assert raw_log(root / "copy") == raw_log(root / "source") if data else True
        for file in (root / "source" / "consumequeue").glob("*/*/*"):
            assert file.read_bytes() == (root / "copy" / file.relative_to(root / "source")).read_bytes()
        if data:
            assert [str(one) for one in StoreCheck(root / "copy").run()] == []


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, st.lists(st.integers(1, 5000), min_size=1, max_size=5), st.data())
def test_runs_change_nothing_but_the_time_it_takes(sent: list[Sent], sizes: list[int], data: st.DataObject) -> None:
    def fed(root: Path, log: bytes, lane: ReadRun) -> tuple[dict[str, object], int, list[str]]:
        with patch.object(raw_log_module, "run_reader", lambda: lane), small_store(root) as copy:
            problems = []
            for piece in chunks(log, sizes):
                try:
                    copy.append_raw(copy.received_offset, piece)
                except CorruptRecord as error:
                    problems.append(str(error))
            return content(copy), copy.received_offset, problems

    with directory() as root:
        log = bytearray(filled(root / "source", sent))
        for _ in range(data.draw(st.integers(0, 2)) if log else 0):
            log[data.draw(st.integers(0, len(log) - 1))] ^= data.draw(st.integers(1, 255))
        by_runs = fed(root / "runs", bytes(log), run_reader())
        assert fed(root / "plain", bytes(log), read_run) == by_runs
        assert fed(root / "one by one", bytes(log), lambda *_: None) == by_runs


@pytest.mark.parametrize("lane", [run_reader(), read_run, lambda *_: None])
def test_of_two_damaged_records_the_first_is_named(tmp_path: Path, lane: ReadRun) -> None:
    with small_store(tmp_path / "source") as source:
        ends = fill(source, ORDERS[:5])
        log = bytearray(copied_log(source))
    log[100] ^= 1  # in the body of the first
    log[ends[3] + 5] ^= 1  # in the magic number of the last
    patched = patch.object(raw_log_module, "run_reader", lambda: lane)
    named = pytest.raises(CorruptRecord, match="no sound record at 0 ")
    with patched, small_store(tmp_path / "copy") as copy, named:
        copy.append_raw(0, bytes(log))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, st.lists(st.integers(1, 3000), min_size=1, max_size=5), st.integers(0, 30))
def test_a_copy_that_is_killed_goes_on_from_its_last_whole_record(
    sent: list[Sent], sizes: list[int], count: int
) -> None:
    with directory() as root:
        data = filled(root / "source", sent)
        copy = small_store(root / "copy")
        copy.open()
        for piece in chunks(data, sizes)[:count]:
            copy.append_raw(copy.received_offset, piece)
        killed = left_by_a_kill(copy, root / "killed")
        with small_store(root / "source") as source, small_store(killed) as store:
            assert store.received_offset == store.max_physical_offset
            feed(store, data, sizes)
            assert content(store) == content(source)


def test_messages_can_be_put_into_a_copy(tmp_path: Path) -> None:
    data = filled(tmp_path / "source")
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        feed(copy, data[:-10], [1000])
        copy.cut(copy.max_physical_offset)  # the record that is not whole yet
        assert copy.received_offset == copy.max_physical_offset
        feed(copy, data, [1000])
        for store in (source, copy):
            store.put(message(body=b"more"))
            store.commit()
        assert bodies(copy) == bodies(source)
        assert copy.max_physical_offset == source.max_physical_offset


def test_a_put_replaces_a_record_that_never_became_whole(tmp_path: Path) -> None:
    data = filled(tmp_path / "source")
    with small_store(tmp_path / "copy") as copy:
        copy.append_raw(0, data[:600])
        whole = copy.max_physical_offset
        assert whole < copy.received_offset == 600
        place = copy.put(message(body=b"mine"))
        copy.commit()
        assert place.physical_offset == whole
        assert copy.received_offset == copy.max_physical_offset
        with pytest.raises(OffsetOutOfRange, match="a gap: bytes from 600 on, but the log ends at 529"):
            copy.append_raw(600, data[600:])


def test_arrivals_are_told_when_records_are_whole(tmp_path: Path) -> None:
    data = filled(tmp_path / "source", ORDERS[:2])
    first = read_head(data).total_size
    with small_store(tmp_path / "copy") as copy:
        arrivals: list[Arrival] = []
        copy.on_arrival = arrivals.extend
        copy.append_raw(0, data[: first - 1])
        assert arrivals == []
        copy.append_raw(first - 1, data[first - 1 : -1])
        assert [arrival[:3] for arrival in arrivals] == [("orders", 0, 0)]
        copy.append_raw(len(data) - 1, data[-1:])
        assert [arrival[:3] for arrival in arrivals] == [("orders", 0, 0), ("orders", 1, 0)]


@pytest.mark.parametrize(("offset", "what"), [(1, "a gap"), (-1, "an overlap"), (-300, "an overlap")])
@pytest.mark.parametrize("rest", [0, 50])
def test_a_gap_and_an_overlap_are_refused(tmp_path: Path, offset: int, what: str, rest: int) -> None:
    data = filled(tmp_path / "source", ORDERS[:3])
    end = 2 * read_head(data).total_size
    with small_store(tmp_path / "copy") as copy:
        copy.append_raw(0, data[: end + rest])
        before = content(copy)
        with pytest.raises(OffsetOutOfRange, match=rf"{what}: bytes from {end + rest + offset} on.*{end + rest}"):
            copy.append_raw(end + rest + offset, data[end:])
        assert content(copy) == before
        copy.append_raw(end + rest, data[end + rest :])
        assert copy.max_physical_offset == len(data)


@pytest.mark.parametrize("place", [0, 4, 8, 30, 95, 120, 400])
def test_bytes_that_are_no_record_are_refused_and_change_nothing(tmp_path: Path, place: int) -> None:
    data = filled(tmp_path / "source", ORDERS[:3])
    first = read_head(data).total_size
    damaged = bytearray(data)
    damaged[first + place if place < 400 else -1] ^= 0x55
    with small_store(tmp_path / "copy") as copy:
        copy.append_raw(0, data[:first])
        before = content(copy)
        if place == 400:  # no checksum covers properties, but their length does not fit any more
            damaged.pop()
            damaged += b"\0" * 2
        with pytest.raises(CorruptRecord, match=r"at \d+ in the bytes received"):
            copy.append_raw(first, bytes(damaged[first:]) + bytes(8))
        assert content(copy) == before
        assert copy.received_offset == first
        copy.append_raw(first, data[first:])
        assert copy.max_physical_offset == len(data)


def test_the_record_of_another_place_is_refused(tmp_path: Path) -> None:
    data = filled(tmp_path / "source", ORDERS[:3])
    with small_store(tmp_path / "copy") as copy, pytest.raises(CorruptRecord):
        copy.append_raw(0, data[read_head(data).total_size :])


def test_an_empty_store_may_begin_with_any_file(tmp_path: Path) -> None:
    data = filled(tmp_path / "source")
    start = 2 * LOG_FILE_SIZE
    with small_store(tmp_path / "copy") as copy:
        with pytest.raises(OffsetOutOfRange, match="a gap"):
            copy.append_raw(start + 1, data[start + 1 :])
        copy.append_raw(start, data[start : start + 40])
        assert (copy.min_physical_offset, copy.received_offset) == (0, start + 40)
        for piece in chunks(data[start + 40 :], [777]):
            copy.append_raw(copy.received_offset, piece)
    assert [file.name for file in log_files(tmp_path / "copy")] == [
        file.name for file in log_files(tmp_path / "source")[2:]
    ]
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        assert copy.min_physical_offset == start
        for queue_id in range(3):
            low, high = copy.min_offset("orders", queue_id), copy.max_offset("orders", queue_id)
            assert 0 < low < high == source.max_offset("orders", queue_id)
            assert copy.raw_entries("orders", queue_id, low, high) == source.raw_entries("orders", queue_id, low, high)
            assert bodies(copy, queue_id=queue_id) == bodies(source, queue_id=queue_id)[low:]


def test_a_queue_that_begins_again_begins_again_in_the_copy(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        fill(source, ORDERS[:9])
        feed(copy, copied_log(source), [500])
        source.cleaner.delete_topic("orders")
        source.cleaner.save_deletions()
        fill(source, ORDERS[9:15])
        arrivals: list[Arrival] = []
        copy.on_arrival = arrivals.extend
        feed(copy, copied_log(source), [500])
        assert len(arrivals) == 6
        for queue_id in range(3):
            assert bodies(copy, queue_id=queue_id) == bodies(source, queue_id=queue_id)
            assert copy.next_offset("orders", queue_id) == source.next_offset("orders", queue_id) == 2
        expected = content(copy)["queues"]
    with small_store(tmp_path / "copy") as copy:
        assert content(copy)["queues"] == expected


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_queue_that_jumps_ahead_does_so_in_the_copy(tmp_path: Path, flush: str) -> None:
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy", flush_disk_type=flush) as copy:
        fill(source, ORDERS[:6])
        queue = source._queues.get("orders", 0)
        queue.extend(7)  # what recovery does with a queue whose last records are lost
        fill(source, ORDERS[6:12])
        feed(copy, copied_log(source), [500])
        assert copy.next_offset("orders", 0) == source.next_offset("orders", 0) == 9
        assert bodies(copy) == bodies(source)
        expected = bodies(copy)
    with small_store(tmp_path / "copy") as copy:
        assert bodies(copy) == expected
        assert copy.next_offset("orders", 0) == 9


def test_a_record_whose_queue_offset_cannot_be_is_fenced(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, small_store(tmp_path / "copy") as copy:
        ends = fill(source, ORDERS[:9])
        data = bytearray(copied_log(source))
        data[ends[5] + 20 : ends[5] + 28] = (1_000_000).to_bytes(8, "big")  # no checksum covers it
        feed(copy, bytes(data), [500])
        assert copied_log(copy) == data
        assert copy.fences.ranges() == [(ends[5], ends[6])]
        assert copy.next_offset("orders", 0) == 2
        assert bodies(copy, queue_id=1) == bodies(source, queue_id=1)
    with small_store(tmp_path / "copy") as copy:
        assert copy.next_offset("orders", 0) == 2


def test_records_of_a_deleted_topic_stay_deleted(tmp_path: Path) -> None:
    data = filled(tmp_path / "source", [*ORDERS[:3], ("bills", 0, 10, "key1", 0)])
    with small_store(tmp_path / "copy") as copy:
        copy._directory.deletions.add("orders", len(data))
        copy.append_raw(0, data)
        assert copy.topics == ["bills"]
        assert copy.find("orders", "key1", 10) == []


def test_a_full_disk_keeps_what_found_room_and_service_resumes(tmp_path: Path) -> None:
    data = filled(tmp_path / "source")
    disk = FullDisk()
    with small_store(tmp_path / "copy", disk, reserve_step=600) as copy, small_store(tmp_path / "source") as source:
        copy.append_raw(0, data[:1000])
        disk.full = True
        with pytest.raises(DiskFull):
            copy.append_raw(1000, data[1000:])
        assert copy.received_offset == copy.max_physical_offset <= 1000 + LOG_FILE_SIZE
        disk.full = False
        copy.append_raw(copy.received_offset, data[copy.received_offset :])
        assert content(copy) == content(source)


def test_a_copy_waits_for_its_flush_if_that_is_configured(tmp_path: Path) -> None:
    data = filled(tmp_path / "source", ORDERS[:3])
    calls: list[tuple[object, ...]] = []
    config = small_config(tmp_path / "copy", flush_disk_type="SYNC_FLUSH")
    store = MessageStore(config, FakeTime(), QuickFiles(), call_threadsafe=lambda *call: calls.append(call))
    with store:
        store.append_raw(0, data)
        assert store.max_physical_offset == len(data)
        assert store.max_offset("orders", 0) == 0
        store.flush()
        while calls:
            function, *arguments = calls.pop(0)
            function(*arguments)  # type: ignore[operator]
        assert store.max_offset("orders", 0) == 1


def test_a_group_that_is_open_must_be_written_first(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message())
        with pytest.raises(StoreError, match="while messages wait for commit"):
            store.append_raw(0, b"")
        with pytest.raises(StoreError, match="while messages wait for commit"):
            store.cut(0)
    with pytest.raises(StoreClosed):
        store.append_raw(0, b"")


def test_an_empty_piece_only_tells_whether_the_place_is_right(tmp_path: Path) -> None:
    data = filled(tmp_path / "source", ORDERS[:3])
    with small_store(tmp_path / "copy") as copy:
        copy.append_raw(0, data)
        copy.append_raw(len(data), b"")
        with pytest.raises(OffsetOutOfRange):
            copy.append_raw(len(data) + 1, b"")
        assert queue_files(tmp_path / "copy")
