from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, MessageTooLarge
from pyromq.protocol.messages.record import Record, blank_record, encode_host, encode_record
from pyromq.store.message_store import MessageStore
from tests.store.helpers import (
    HOST,
    LOG_FILE_SIZE,
    FaultyFiles,
    FullDisk,
    bodies,
    log_files,
    maps,
    message,
    small_config,
    small_store,
)

AROUND = 97  # bytes of a record around its body: IPv4 hosts, a topic of six letters, no properties


def test_the_stored_bytes_are_those_of_a_real_broker(tmp_path: Path) -> None:
    record = Record(
        topic="TopicA",
        body=b"hello",
        flag=7,
        properties=b"UNIQ_KEY\x01UK1\x02TAGS\x01TagA\x02KEYS\x01k1 k2",
        tags_code=2598919,
        born_timestamp_ms=1000,
        born_host=encode_host("127.0.0.1", 5678),
        store_host=HOST,
        reconsume_times=2,
    )
    with MessageStore(small_config(tmp_path), lambda: 1794765332769) as store:
        store.put(record)
        store.commit()
    expected = bytes.fromhex(
        "00000087daa320a73610a6860000000000000007000000000000000000000000000000000000000000000000000003e8"
        "7f0000010000162e000001a1e059a1217f00000100002a9f0000000200000000000000000000000568656c6c6f06546f70696341"
        "0021554e49515f4b455901554b3102544147530154616741024b455953016b31206b32"
    )
    assert log_files(tmp_path)[0].read_bytes()[:135] == expected
    entry = (tmp_path / "consumequeue/TopicA/0" / f"{0:020d}").read_bytes()[:20]
    assert entry == bytes.fromhex("000000000000000000000087000000000027a807")


def test_a_group_is_one_write_to_the_log_and_one_to_each_queue(tmp_path: Path) -> None:
    files = FaultyFiles()
    with small_store(tmp_path, files) as store:
        for queue_id in (0, 1, 0, 1, 0):
            store.put(message(queue_id=queue_id))
        files.calls.clear()
        store.commit()
        assert files.calls["pwrite"] == 3


def test_a_record_that_does_not_fit_goes_into_the_next_file_and_a_blank_one_closes_the_first(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        first = store.put(message(body=b"a" * 3000))
        second = store.put(message(body=b"b" * 3000))
        store.commit()
        assert (first.physical_offset, second.physical_offset) == (0, LOG_FILE_SIZE)
        assert bodies(store) == [b"a" * 3000, b"b" * 3000]
        left = LOG_FILE_SIZE - first.size
        assert log_files(tmp_path)[0].read_bytes()[first.size :] == blank_record(left) + bytes(left - 8)


@pytest.mark.parametrize(("spare", "same_file"), [(8, True), (7, False)])
def test_eight_bytes_always_stay_free_behind_a_record(tmp_path: Path, spare: int, same_file: bool) -> None:
    with small_store(tmp_path) as store:
        first = store.put(message(body=b"a" * 1000))
        second = store.put(message(body=b"b" * (LOG_FILE_SIZE - first.size - AROUND - spare)))
        third = store.put(message(body=b"c"))
        store.commit()
        assert (second.physical_offset == first.size) is same_file
        assert third.physical_offset == (LOG_FILE_SIZE if same_file else LOG_FILE_SIZE + second.size)
        if same_file:
            assert log_files(tmp_path)[0].read_bytes()[-8:] == blank_record(8)
    with small_store(tmp_path) as store:
        assert len(bodies(store)) == 3


def test_the_largest_record_fills_a_file_but_for_the_blank_one_and_no_larger_is_taken(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        largest = LOG_FILE_SIZE - AROUND - 8
        with pytest.raises(MessageTooLarge):
            store.put(message(body=b"x" * (largest + 1)))
        store.put(message(body=b"x" * largest))
        store.put(message(body=b"y" * largest))
        store.commit()
        assert [len(body) for body in bodies(store)] == [largest, largest]


def test_a_batch_stays_in_one_file(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message(body=b"x" * 2500))
        places = store.put_batch([message(body=b"y" * 800), message(body=b"z" * 800)])
        store.commit()
        assert [place.physical_offset for place in places] == [LOG_FILE_SIZE, LOG_FILE_SIZE + places[0].size]
        assert [place.queue_offset for place in places] == [1, 2]
        assert len({place.store_timestamp_ms for place in places}) == 1
        assert len(bodies(store)) == 3


def test_a_batch_larger_than_a_file_is_refused_whole(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        with pytest.raises(MessageTooLarge):
            store.put_batch([message(body=b"y" * 2000)] * 2)
        assert not store.has_pending
        assert store.next_offset("orders", 0) == 0


def test_a_full_disk_refuses_a_message_and_changes_nothing(tmp_path: Path) -> None:
    files = FullDisk()
    with small_store(tmp_path, files) as store:
        store.put(message(body=b"a" * 3000))
        files.full = True
        with pytest.raises(DiskFull):
            store.put(message(body=b"b" * 3000))  # needs a new file
        with pytest.raises(DiskFull):
            store.put(message(topic="others"))  # needs a new queue
        assert store.writable
        store.commit()
        assert bodies(store) == [b"a" * 3000]
        assert len(log_files(tmp_path)) == 1
        files.full = False
        store.put(message(body=b"c" * 3000))
        store.commit()
        assert bodies(store) == [b"a" * 3000, b"c" * 3000]
    assert not list((tmp_path / "consumequeue").glob("others/*/*"))


def test_space_is_reserved_ahead_in_steps(tmp_path: Path) -> None:
    files = FaultyFiles()
    config = small_config(
        tmp_path, commit_log_file_size=1 << 20, reserve_step=64 << 10, consume_queue_file_size=6_000_000
    )
    with MessageStore(config, lambda: 1, files) as store:
        store.put(message())
        assert 64 << 10 <= os.stat(log_files(tmp_path)[0]).st_blocks * 512 < 128 << 10
        files.calls.clear()
        for _ in range(60):
            store.put(message(body=b"x" * 1024))
        assert files.calls["fallocate"] == 1
        assert 128 << 10 <= os.stat(log_files(tmp_path)[0]).st_blocks * 512 < 192 << 10


def test_a_new_store_with_stock_file_sizes_takes_megabytes(tmp_path: Path) -> None:
    config = small_config(tmp_path, commit_log_file_size=1 << 30, consume_queue_file_size=6_000_000)
    with MessageStore(config, lambda: 1) as store:
        for queue_id in range(8):
            store.put(message(queue_id=queue_id, body=b"x" * 1024))
        store.commit()
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) > 1 << 30
        assert sum(path.stat().st_blocks * 512 for path in files) < 20 << 20


def test_only_a_whole_record_at_its_own_place_is_read_by_physical_offset(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        places = [store.put(message(body=bytes([65 + index]) * 50)) for index in range(3)]
        assert store.read(places[0].physical_offset) is None
        store.commit()
        record = store.read(places[1].physical_offset)
        assert record is not None
        assert b"B" * 50 in record
        assert len(record) == places[1].size
        for wrong in (-1, 1, places[2].physical_offset + places[2].size, 10**9):
            assert store.read(wrong) is None


def test_a_record_inside_a_body_is_no_record(tmp_path: Path) -> None:
    inner = encode_record(message(body=b"planted"), b"orders", 0, 0, 1)
    with small_store(tmp_path) as store:
        store.put(message(body=inner))
        store.commit()
        assert store.read(88) is None


def test_few_files_are_mapped_however_many_are_read(tmp_path: Path) -> None:
    with small_store(tmp_path, max_mapped_files=2) as store:
        for index in range(12):
            store.put(message(body=bytes([65 + index]) * 3000))
        store.commit()
        kept = store.get("orders", 0, 0, 1).views  # a view may outlive its map's place in the table
        assert [body[:1] for body in bodies(store)] == [bytes([65 + index]) for index in range(12)]
        assert bytes(kept[0]).endswith(b"A" * 3000 + b"\x06orders" + bytes(2))
        assert maps(tmp_path) <= 3
