"""A store that shows only confirmed messages, against a plain list of what was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.store.message_store import Arrival, MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.write.visibility import EVERYTHING
from tests.store.helpers import FakeTime, QuickFiles, bodies, message, small_config
from tests.store.recovery.copies import copied_log, fill
from tests.store.recovery.test_raw_log import ORDERS


def confirming_store(root: Path, **changes: Any) -> MessageStore:
    """Return a store that shows only what is confirmed, to be opened."""
    return MessageStore(small_config(root, shows_confirmed_only=True, **changes), FakeTime(), QuickFiles())


def put_all(store: MessageStore, *texts: bytes) -> list[int]:
    """Store messages in one group; return where each of them ends in the log."""
    places = [store.put(message(body=text)) for text in texts]
    store.commit()
    return [place.physical_offset + place.size for place in places]


def seen_in_files(root: Path) -> list[bytes]:
    with StoreReader(root) as reader:
        return bodies(reader)


def test_what_is_written_is_durable_at_once_and_visible_when_it_is_confirmed(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        arrivals: list[Arrival] = []
        store.on_arrival = arrivals.extend
        first, second = put_all(store, b"a")[0], put_all(store, b"b")[0]
        assert (store.durable_offset, store.confirm_offset, store.max_physical_offset) == (second, 0, second)
        assert (store.max_offset("orders", 0), store.next_offset("orders", 0)) == (0, 2)
        assert (bodies(store), seen_in_files(tmp_path), arrivals) == ([], [], [])
        store.confirm(first)
        assert (store.confirm_offset, bodies(store), seen_in_files(tmp_path)) == (first, [b"a"], [b"a"])
        store.confirm(second)
        assert (store.confirm_offset, bodies(store), seen_in_files(tmp_path)) == (second, [b"a", b"b"], [b"a", b"b"])
        assert [arrival.queue_offset for arrival in arrivals] == [0, 1]


def test_an_end_inside_a_group_shows_what_lies_before_it(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        arrivals: list[Arrival] = []
        store.on_arrival = arrivals.extend
        ends = put_all(store, b"a", b"b", b"c")
        store.confirm(ends[1] - 1)
        assert (store.confirm_offset, bodies(store)) == (ends[0], [b"a"])
        store.confirm(ends[1])
        assert (store.confirm_offset, bodies(store)) == (ends[1], [b"a", b"b"])
        store.confirm(ends[2])
        assert (store.confirm_offset, bodies(store)) == (ends[2], [b"a", b"b", b"c"])
        assert [arrival.queue_offset for arrival in arrivals] == [0, 1, 2]


def test_keys_are_found_as_far_as_messages_are_seen(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        ends = fill(store, [("orders", 0, 10, "key1", 0)] * 3)
        assert store.find("orders", "key1", 9) == []
        store.confirm(ends[1])
        assert store.find("orders", "key1", 9) == [ends[0], 0]


def test_who_is_alone_confirms_everything_and_takes_that_back_when_another_joins(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        store.confirm(EVERYTHING)
        put_all(store, b"a")
        end = put_all(store, b"b")[0]
        assert (store.confirm_offset, bodies(store)) == (end, [b"a", b"b"])
        store.confirm(end - 5)  # as the one that joins has less
        assert bodies(store) == [b"a", b"b"]
        put_all(store, b"c")
        assert (store.confirm_offset, bodies(store)) == (end, [b"a", b"b"])


def test_under_sync_flush_a_message_is_seen_when_it_is_flushed_and_confirmed(tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = []
    config = small_config(tmp_path, flush_disk_type="SYNC_FLUSH", shows_confirmed_only=True)
    with MessageStore(config, FakeTime(), QuickFiles(), call_threadsafe=lambda *call: calls.append(call)) as store:
        durable: list[int] = []
        store.on_durable = durable.append

        def flush() -> None:
            store.flush()
            while calls:
                function, *arguments = calls.pop(0)
                function(*arguments)

        first = put_all(store, b"a")[0]
        store.confirm(first)
        assert (store.durable_offset, store.confirm_offset, durable) == (0, 0, [])
        flush()
        assert (store.durable_offset, store.confirm_offset, durable[-1]) == (first, first, first)
        second = put_all(store, b"b")[0]
        flush()
        assert (store.durable_offset, store.confirm_offset, durable[-1]) == (second, first, second)
        store.confirm(second)
        assert (store.confirm_offset, bodies(store)) == (second, [b"a", b"b"])


def test_a_copy_shows_what_is_confirmed(tmp_path: Path) -> None:
    with confirming_store(tmp_path / "source") as source, confirming_store(tmp_path / "copy") as copy:
        ends = fill(source, ORDERS)
        raw = copied_log(source)
        copy.append_raw(0, raw[: ends[9] + 30])
        assert (copy.confirm_offset, bodies(copy), copy.durable_offset) == (0, [], ends[9])
        copy.confirm(ends[4])
        assert copy.confirm_offset == ends[4]
        source.confirm(ends[4])
        assert bodies(copy) == bodies(source)
        copy.confirm(ends[20])
        copy.append_raw(copy.received_offset, raw[copy.received_offset :])
        source.confirm(ends[20])
        assert copy.confirm_offset == ends[20]
        assert bodies(copy) == bodies(source)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_cut_keeps_what_waits_before_it_and_drops_the_rest(tmp_path: Path, flush: str) -> None:
    with confirming_store(tmp_path, flush_disk_type=flush) as store:
        arrivals: list[Arrival] = []
        store.on_arrival = arrivals.extend
        ends = put_all(store, b"a", b"b", b"c", b"d")
        store.confirm(ends[0])
        store.cut(ends[2])
        assert (store.confirm_offset, store.durable_offset, store.max_physical_offset) == (ends[0], ends[2], ends[2])
        assert (bodies(store), store.next_offset("orders", 0)) == ([b"a"], 3)
        other = put_all(store, b"other")[0]
        assert bodies(store) == [b"a"]
        store.confirm(other)
        assert bodies(store) == seen_in_files(tmp_path) == [b"a", b"b", b"c", b"other"]
        assert [arrival.queue_offset for arrival in arrivals] == [0, 1, 2, 3]


def test_nothing_is_confirmed_behind_a_cut(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        ends = put_all(store, b"a", b"b")
        store.confirm(EVERYTHING)
        store.cut(ends[0])
        put_all(store, b"other")
        assert (store.confirm_offset, bodies(store)) == (ends[0], [b"a"])
        store.confirm(EVERYTHING)
        store.cut(store.max_physical_offset)
        put_all(store, b"more")
        assert bodies(store) == [b"a", b"other"]


def test_an_ordinary_store_needs_no_confirmation(tmp_path: Path) -> None:
    with MessageStore(small_config(tmp_path), FakeTime(), QuickFiles()) as store:
        store.confirm(0)
        end = put_all(store, b"a")[0]
        assert (store.confirm_offset, store.durable_offset, bodies(store)) == (end, end, [b"a"])
