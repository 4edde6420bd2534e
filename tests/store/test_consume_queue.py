from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, StoreError
from pyromq.protocol.messages.record import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, PRE_BLANK, ConsumeQueue
from pyromq.store.files import OsFiles
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.segments import DescriptorPool, DirtyFiles
from tests.store.helpers import (
    QUEUE_FILE_SIZE,
    FaultyFiles,
    FullDisk,
    QuickFiles,
    bodies,
    message,
    open_files,
    queue_files,
    read_queue,
    small_store,
)

PER_FILE = QUEUE_FILE_SIZE // ENTRY_SIZE


@pytest.fixture
def queues(tmp_path: Path) -> ConsumeQueues:
    files = OsFiles()
    return ConsumeQueues(tmp_path, QUEUE_FILE_SIZE, files, DescriptorPool(files, 8), DirtyFiles())


def entry(number: int) -> bytes:
    return ENTRY.pack(1000 + number * 100, 100, number)


def filled(queues: ConsumeQueues, count: int) -> ConsumeQueue:
    queue = queues.get("orders", 0)
    for number in range(count):
        queue.make_room(1)
        queue.append([entry(number)])
        queue.next_offset += 1
    return queue


def test_the_filler_is_the_one_rocketmq_writes() -> None:
    assert bytes.fromhex("00000000000000007fffffff0000000000000000") == PRE_BLANK


def test_entries_run_over_files_of_full_length(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for _ in range(PER_FILE * 2 + 1):
            store.put(message())
            store.commit()
        assert [path.name for path in queue_files(tmp_path)] == [f"{start:020d}" for start in (0, 200, 400)]
        assert {path.stat().st_size for path in queue_files(tmp_path)} == {QUEUE_FILE_SIZE}
        assert [found.queue_offset for found in read_queue(store)] == list(range(PER_FILE * 2 + 1))


def test_no_file_is_made_before_its_first_entry(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        assert store.max_offset("orders", 0) == 0
        assert store.get("orders", 0, 0, 1).count == 0
        assert not (tmp_path / "consumequeue").exists()
        for _ in range(PER_FILE):
            store.put(message())
        store.commit()
        assert len(queue_files(tmp_path)) == 1


def test_a_quiet_queue_takes_a_page_of_disk(tmp_path: Path) -> None:
    with small_store(tmp_path, consume_queue_file_size=6_000_000) as store:
        store.put(message())
        store.commit()
        assert os.stat(queue_files(tmp_path)[0]).st_blocks * 512 <= 8192


def test_a_message_whose_entry_has_no_space_is_refused(tmp_path: Path) -> None:
    files = FullDisk()
    with small_store(tmp_path, files, commit_log_file_size=1 << 20, consume_queue_file_size=20_000) as store:
        store.put(message())
        files.full = True
        for _ in range(4096 // ENTRY_SIZE - 1):
            store.put(message())
        with pytest.raises(DiskFull):
            store.put(message())
        assert store.next_offset("orders", 0) == 4096 // ENTRY_SIZE
        store.commit()
        files.full = False
        assert store.put(message()).queue_offset == 4096 // ENTRY_SIZE


@pytest.mark.parametrize("kind", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_prepared_and_rolled_back_records_are_in_the_log_but_in_no_queue(tmp_path: Path, kind: int) -> None:
    with small_store(tmp_path) as store:
        store.put(message(body=b"visible"))
        hidden = message(body=b"hidden")
        hidden.sys_flag = kind
        place = store.put(hidden)
        store.commit()
        assert place.queue_offset == 0
        assert store.read(place.physical_offset) is not None
        assert bodies(store) == [b"visible"]
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"visible"]


def test_a_committed_transaction_is_in_its_queue(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        committed = message()
        committed.sys_flag = TRANSACTION_COMMIT
        store.put(committed)
        store.commit()
        assert bodies(store) == [b"hello"]


@pytest.mark.parametrize("count", [0, 1, PER_FILE - 1, PER_FILE, PER_FILE + 1, PER_FILE * 3])
def test_the_end_of_a_queue_is_found_again(queues: ConsumeQueues, count: int) -> None:
    assert filled(queues, count).find_end() == count


def test_the_end_is_found_in_spite_of_an_empty_file_behind_it(queues: ConsumeQueues) -> None:
    queue = filled(queues, PER_FILE - 2)
    queue.segments.add(0)
    queue.segments.add(0)
    assert queue.find_end() == PER_FILE - 2
    queue.cut(PER_FILE - 2)
    assert queue.segments.stop == QUEUE_FILE_SIZE


@pytest.mark.parametrize("expired", range(25))
def test_the_first_offset_is_that_of_the_first_record_left_in_the_log(queues: ConsumeQueues, expired: int) -> None:
    queue = filled(queues, 24)
    queue.find_start(1000 + expired * 100)
    assert queue.min_offset == min(expired, 24)


@pytest.mark.parametrize("holes", [(0,), (2,), (0, 1, 2), (1, 3), (3,), (2, 3, 4), (4, 5)], ids=str)
@pytest.mark.parametrize("expired", [3, 4, 5])
def test_a_hole_between_expired_entries_has_expired_too(
    queues: ConsumeQueues, holes: tuple[int, ...], expired: int
) -> None:
    queue = filled(queues, 6)
    for hole in holes:
        queue.segments.pwrite(hole * ENTRY_SIZE, bytes(ENTRY_SIZE))
    queue.find_start(1000 + expired * 100)
    whole = [number for number in range(expired) if number not in holes]
    assert queue.min_offset == (whole[-1] + 1 if whole else 0), "a hole before a message that is left may have been one"


def test_filler_in_front_is_no_message(queues: ConsumeQueues) -> None:
    queue = queues.get("orders", 0)
    queue.restore(23, entry(23) + entry(24))
    queue.settle(queue.find_end())
    queue.find_start(0)
    assert queue.segments.start == QUEUE_FILE_SIZE * 2
    assert (queue.min_offset, queue.max_offset) == (23, 25)
    assert queue.segments.pread(400, 60) == PRE_BLANK * 3


@pytest.mark.parametrize("first", [0, 5, 10, 23])
def test_restored_entries_that_are_there_are_not_written(tmp_path: Path, first: int) -> None:
    files = FaultyFiles(flushes=False)
    queue = filled(ConsumeQueues(tmp_path, QUEUE_FILE_SIZE, files, DescriptorPool(files, 8), DirtyFiles()), 24)
    files.calls.clear()
    queue.restore(first, b"".join(map(entry, range(first, 24))))
    assert files.calls["pwrite"] == 0
    queue.restore(first, b"".join(map(entry, range(first, 25))))
    assert (files.calls["pwrite"] > 0, queue.find_end()) == (True, 25)


def test_restored_entries_replace_others(queues: ConsumeQueues) -> None:
    queue = filled(queues, 24)
    queue.restore(9, entry(77) + entry(78))
    assert (queue.entry(9).tags_code, queue.entry(10).tags_code, queue.entry(11).tags_code) == (77, 78, 11)


def test_a_queue_that_begins_again_below_its_files_replaces_them(queues: ConsumeQueues) -> None:
    queue = queues.get("orders", 0)
    queue.restore(23, entry(23))
    queue.restore(0, entry(0))
    assert (queue.segments.start, queue.find_end()) == (0, 1)


@pytest.mark.parametrize("topic", ["", "..", "a/b", "/etc", "a\0b", "x" * 128, "ä", "a.b"])
def test_a_name_that_is_no_topic_becomes_no_path(queues: ConsumeQueues, tmp_path: Path, topic: str) -> None:
    with pytest.raises(StoreError):
        queues.get(topic, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("queue_id", [-1, 1 << 31])
def test_a_number_that_is_no_queue_id_is_refused(queues: ConsumeQueues, queue_id: int) -> None:
    with pytest.raises(StoreError, match=str(queue_id)):
        queues.get("orders", queue_id)


def test_a_link_that_leads_out_of_the_store_is_not_followed(queues: ConsumeQueues, tmp_path: Path) -> None:
    (tmp_path / "orders").symlink_to("/tmp")
    with pytest.raises(StoreError, match="out of the store"):
        queues.get("orders", 0)


def test_a_thousand_queues_keep_few_files_open(tmp_path: Path) -> None:
    with small_store(tmp_path, QuickFiles(), max_open_files=50, commit_log_file_size=1 << 20) as store:
        for queue_id in range(1000):
            store.put(message(queue_id=queue_id, body=b"%d" % queue_id))
        store.commit()
        assert all(bodies(store, queue_id=queue_id) == [b"%d" % queue_id] for queue_id in range(0, 1000, 7))
        assert open_files(tmp_path) < 50 + 10
    with small_store(tmp_path, max_open_files=50, commit_log_file_size=1 << 20) as store:
        assert store.queue_ids("orders") == list(range(1000))
        assert open_files(tmp_path) < 50 + 10
        assert all(store.max_offset("orders", queue_id) == 1 for queue_id in range(1000))
    assert open_files(tmp_path) == 0
