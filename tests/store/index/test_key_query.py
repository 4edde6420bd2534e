"""Searches that are long, given up, or read from the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pyromq.errors import QueryTooLong
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.store.files import OsFiles
from pyromq.store.index import chain_scan, key_query
from pyromq.store.index.key_query import QueryBudget
from pyromq.store.message_store import MessageStore
from pyromq.store.segments import NotInMemory
from tests.store.helpers import HOST, QuickFiles, small_config
from tests.store.slow_disk import SlowDisk

KEYS: dict[str, Any] = {"max_hash_slots": 4, "max_index_entries": 3000}
COUNT = 1000
SECOND_MS = 1000


class StillTime:
    """Milliseconds that a test moves."""

    now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def open_store(root: Path, time: StillTime, files: OsFiles | None = None, **changes: Any) -> MessageStore:
    return MessageStore(small_config(root, **changes), time, files or QuickFiles())


def fill(store: MessageStore, time: StillTime, count: int = COUNT) -> None:
    for number in range(count):
        properties = encode_properties({"KEYS": "popular"}).encode()
        store.put(Record(topic="orders", body=b"%d" % number, properties=properties, store_host=HOST))
        time.now_ms += SECOND_MS
        if number % 100 == 99:
            store.commit()
    store.commit()


@pytest.fixture
def time() -> StillTime:
    return StillTime()


def test_old_messages_of_a_popular_key_are_found_behind_many_newer_ones(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, **KEYS) as store:
        start_ms = time.now_ms
        fill(store, time)
        for first in (0, 5, 500, 990):
            begin_ms, end_ms = start_ms + first * SECOND_MS, start_ms + (first + 4) * SECOND_MS
            with patch.object(key_query, "_SHORT_CHAIN", 10**9):
                expected = store.find("orders", "popular", 64, begin_ms, end_ms)
            assert store.find("orders", "popular", 64, begin_ms, end_ms) == expected
            records = store.read_found(expected, begin_ms, end_ms).records
            assert [int(found.body) for found in decode_messages(b"".join(records))] == list(range(first, first + 5))


@pytest.mark.parametrize("wanted", [1, 127, 128, 129, 600, 5000])
def test_no_more_are_found_than_were_asked_for(tmp_path: Path, time: StillTime, wanted: int) -> None:
    with open_store(tmp_path, time, max_query_count=10_000, **KEYS) as store:
        fill(store, time)
        assert len(store.find("orders", "popular", wanted)) == min(wanted, COUNT)


def test_a_search_that_looks_at_too_much_says_so(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, **KEYS) as store:
        start_ms = time.now_ms
        fill(store, time)
        with pytest.raises(QueryTooLong, match="ask for a shorter time"):
            store.find("orders", "popular", 64, 0, start_ms, QueryBudget(500))
        assert store.find("orders", "popular", 64, 0, start_ms, QueryBudget(5000))


def test_what_was_found_is_returned_although_the_budget_is_spent(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, max_query_count=10_000, **KEYS) as store:
        fill(store, time)
        with patch.object(chain_scan, "_LARGEST_BLOCK", 512):
            found = store.find("orders", "popular", 10_000, budget=QueryBudget(700))
        assert 128 <= len(found) < COUNT


def test_a_search_that_nobody_waits_for_ends(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, **KEYS) as store:
        fill(store, time)
        with pytest.raises(QueryTooLong, match="nobody waits"):
            store.find("orders", "popular", 64, budget=QueryBudget(is_given_up=lambda: True))


def test_records_that_are_only_on_disk_are_named_together(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, **KEYS) as store:
        fill(store, time, 30)
    disk = SlowDisk()
    with open_store(tmp_path, time, disk, **KEYS) as store:
        offsets = store.find("orders", "popular", 64)
        disk.forget()
        with pytest.raises(NotInMemory) as caught, store.disk.memory_only():
            store.read_found(offsets)
        assert len(caught.value.missing) == 30


def test_pages_of_a_popular_key_meet_without_a_gap(tmp_path: Path, time: StillTime) -> None:
    with open_store(tmp_path, time, **KEYS, max_query_count=COUNT) as store:
        fill(store, time)
        every = store.find("orders", "popular", COUNT)
        assert len(every) == COUNT
        found: list[int] = []
        while page := store.find("orders", "popular", 300, before=found[-1] if found else key_query.MAX_OFFSET):
            found += page
        assert found == every
