from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import StoreClosed
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.tag_filter import java_hash, tag_code
from pyromq.store.consume_queue import ENTRY, PRE_BLANK
from pyromq.store.message_store import GetStatus, MessageStore
from pyromq.store.read.queue_reader import matching_entries
from tests.store.helpers import FakeTime, message, queue_files, small_config, small_store

BIG: dict[str, Any] = {"commit_log_file_size": 1 << 22, "consume_queue_file_size": 20_000}


@contextmanager
def store_with(root: Path, count: int, body: bytes = b"hello", **changes: Any) -> Iterator[MessageStore]:
    with small_store(root, **(BIG | changes)) as store:
        for index in range(count):
            store.put(message(body=body, tag=f"tag{index % 10}"))
        store.commit()
        yield store


def test_an_unknown_queue_has_no_message(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        result = store.get("orders", 3, 7, 32)
        assert (result.status, result.next_offset, result.views) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, [])


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (5, GetStatus.OFFSET_OVERFLOW_ONE, 5),
        (6, GetStatus.OFFSET_OVERFLOW_BADLY, 5),
        (4, GetStatus.FOUND, 5),
    ],
)
def test_statuses_at_the_edges_of_a_queue(tmp_path: Path, offset: int, status: GetStatus, next_offset: int) -> None:
    with store_with(tmp_path, 5) as store:
        result = store.get("orders", 0, offset, 32)
        assert (result.status, result.next_offset) == (status, next_offset)
        assert (result.min_offset, result.max_offset) == (0, 5)


def test_messages_of_the_open_group_are_not_seen(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store:
        store.put(message())
        assert store.has_pending
        assert store.next_offset("orders", 0) == 2
        assert store.get("orders", 0, 1, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
        store.commit()
        assert not store.has_pending
        assert store.get("orders", 0, 1, 32).status is GetStatus.FOUND


@pytest.mark.parametrize(("asked", "got"), [(1, 1), (31, 31), (32, 32), (33, 32), (1000, 32), (0, 1), (-5, 1)])
def test_at_most_32_messages_are_read_and_at_least_one(tmp_path: Path, asked: int, got: int) -> None:
    with store_with(tmp_path, 100) as store:
        result = store.get("orders", 0, 10, asked)
        assert (result.count, result.next_offset) == (got, 10 + got)


def test_at_most_256_kib_are_read_unless_the_first_message_is_larger(tmp_path: Path) -> None:
    with store_with(tmp_path, 4, body=b"x" * 100_000) as store:
        result = store.get("orders", 0, 0, 32)
        assert (result.count, result.next_offset) == (2, 2)
        assert result.size == sum(map(len, result.views))
    with store_with(tmp_path / "other", 2, body=b"x" * 300_000) as store:
        assert store.get("orders", 0, 0, 32).count == 1


def test_what_is_far_back_is_read_in_smaller_portions_and_a_slave_suggested(tmp_path: Path) -> None:
    with store_with(tmp_path, 100, physical_memory=1000) as store:
        result = store.get("orders", 0, 10, 32)
        assert (result.count, result.next_offset, result.suggest_slave) == (8, 18, True)
        assert [found.queue_offset for found in decode_messages(b"".join(result.views))] == list(range(10, 18))
        assert not store.get("orders", 0, 99, 32).suggest_slave
    with store_with(tmp_path / "other", 4, body=b"x" * 40_000, physical_memory=1000) as store:
        assert store.get("orders", 0, 0, 32).count == 1


def test_limits_of_the_caller_replace_the_stock_ones(tmp_path: Path) -> None:
    with store_with(tmp_path, 200, physical_memory=1000) as store:
        assert store.get("orders", 0, 0, 150, max_bytes=1 << 20).count == 150
        result = store.get("orders", 0, 0, 150, max_bytes=1000)
        assert 0 < result.size <= 1000
        assert store.get("orders", 0, 0, 150, max_bytes=1).count == 1


def test_neighbouring_records_become_one_view(tmp_path: Path) -> None:
    with small_store(tmp_path, **BIG) as store:
        for queue_id in (0, 0, 0, 1, 0):
            store.put(message(queue_id=queue_id))
        store.commit()
        assert [len(view) // 102 for view in store.get("orders", 0, 0, 32).views] == [3, 1]


def test_a_read_ends_with_the_file_of_its_queue(tmp_path: Path) -> None:
    with small_store(tmp_path, commit_log_file_size=1 << 20) as store:
        for _ in range(15):
            store.put(message())
        store.commit()
        assert store.get("orders", 0, 4, 32).next_offset == 10
        assert store.get("orders", 0, 10, 32).next_offset == 15


def test_only_messages_of_the_tags_asked_for_are_read(tmp_path: Path) -> None:
    with store_with(tmp_path, 1000) as store:
        result = store.get("orders", 0, 0, 32, codes=frozenset({tag_code("tag3"), tag_code("tag7")}))
        found = decode_messages(b"".join(result.views))
        assert result.count == len(found) == 32
        assert {one.tags for one in found} == {"tag3", "tag7"}
        assert result.next_offset == found[-1].queue_offset + 1


def test_a_filter_that_matches_nothing_moves_on_by_800_entries(tmp_path: Path) -> None:
    with store_with(tmp_path, 1000) as store:
        result = store.get("orders", 0, 0, 32, codes=frozenset({1}))
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)
        result = store.get("orders", 0, 800, 32, codes=frozenset({1}))
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 1000)


@given(
    tags=st.lists(st.sampled_from(["a", "b", "polygenelubricants", "订单", ""]), max_size=100),
    wanted=st.sets(st.sampled_from(["a", "polygenelubricants", "订单", *"cdefghijkl"])),
    address_at=st.integers(0, 200),
)
def test_scanning_by_columns_finds_what_a_plain_loop_finds(tags: list[str], wanted: set[str], address_at: int) -> None:
    codes = frozenset(map(tag_code, wanted))
    entries = [(index * 100, 100, tag_code(tag)) for index, tag in enumerate(tags)]
    if address_at < len(entries):
        entries[address_at] = (address_at * 100, 100, 20 - 2**63)  # the address of an extension unit: passes always
    data = b"".join(ENTRY.pack(*one) for one in entries)
    expected = [
        (index, (offset, size))
        for index, (offset, size, code) in enumerate(entries)
        if code in codes or code < -(2**31)
    ]
    assert list(matching_entries(data, codes)) == expected
    assert list(matching_entries(data, None)) == [(index, (index * 100, 100)) for index in range(len(tags))]


def test_the_low_half_of_a_tags_code_decides(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message(tag="polygenelubricants"))
        store.commit()
        assert java_hash("polygenelubricants") == -(2**31)
        assert store.get("orders", 0, 0, 32, codes=frozenset({-(2**31)})).count == 1


def test_the_message_nearest_to_a_time_is_found(tmp_path: Path) -> None:
    times = [0]
    with MessageStore(small_config(tmp_path), lambda: times[-1]) as store:
        for time in (100, 200, 200, 300, 400):
            times.append(time)
            store.put(message())
        store.commit()
        expected = {
            0: 0,
            100: 0,
            149: 0,
            150: 0,
            151: 1,
            200: 1,
            249: 2,
            251: 3,
            300: 3,
            350: 3,
            351: 4,
            400: 4,
            999: 4,
        }
        assert {time: store.offset_at("orders", 0, time) for time in expected} == expected
        assert store.offset_at("orders", 7, 200) == 0
        assert store.earliest_time("orders", 0) == 100
        assert store.earliest_time("orders", 7) == -1


def test_times_of_files_are_not_looked_at_in_a_search_by_time(tmp_path: Path) -> None:
    times = [0]
    with MessageStore(small_config(tmp_path), lambda: times[-1]) as store:
        for number in range(35):  # ten to a file of the queue
            times.append(number * 100)
            store.put(message())
        store.commit()
        for path in queue_files(tmp_path):
            os.utime(path, (0, 0))
        assert [store.offset_at("orders", 0, number * 100) for number in range(35)] == list(range(35))


def test_a_read_of_records_that_are_gone_says_so_and_moves_on(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for index in range(8):
            store.put(message(body=bytes([65 + index]) * 1500))
        store.commit()
        store._log.segments.start += 2 * 4096  # as retention will do
        removed = store.get("orders", 0, 0, 2)
        assert (removed.status, removed.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 2)
        partly = store.get("orders", 0, 2, 32)
        assert (partly.status, partly.count, partly.next_offset) == (GetStatus.FOUND, 4, 8)


@pytest.mark.parametrize("entry", [bytes(20), PRE_BLANK, ENTRY.pack(1 << 40, 100, 0), ENTRY.pack(0, -5, 0)])
def test_an_entry_that_names_no_record_is_skipped(tmp_path: Path, entry: bytes) -> None:
    with store_with(tmp_path, 5) as store:
        with queue_files(tmp_path)[0].open("r+b") as file:
            file.seek(40)
            file.write(entry)
        result = store.get("orders", 0, 0, 32)
        assert [found.queue_offset for found in decode_messages(b"".join(result.views))] == [0, 1, 3, 4]
        assert (result.count, result.next_offset) == (4, 5)
        assert store.get("orders", 0, 2, 1).status is GetStatus.MESSAGE_WAS_REMOVING


def test_a_closed_store_is_not_read(tmp_path: Path) -> None:
    store = MessageStore(small_config(tmp_path), FakeTime())
    with store:
        store.put(message())
    for call in (
        lambda: store.get("orders", 0, 0, 1),
        lambda: store.read(0),
        lambda: store.offset_at("orders", 0, 0),
        lambda: store.put(message()),
    ):
        with pytest.raises(StoreClosed):
            call()
