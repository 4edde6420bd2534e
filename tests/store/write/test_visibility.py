"""A store that shows only confirmed messages, against a plain list of what was stored."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.errors import StoreError
from pyromq.store.check.repair import Repair
from pyromq.store.check.verify import StoreCheck
from pyromq.store.dispatch import is_queued
from pyromq.store.message_store import Arrival, MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.small_files.confirmed_end import CONFIRMED_NAME
from pyromq.store.write.visibility import EVERYTHING
from tests.store.helpers import (
    FakeTime,
    FaultyFiles,
    QuickFiles,
    bodies,
    left_by_a_kill,
    message,
    small_config,
    small_store,
)
from tests.store.recovery.copies import Sent, content, copied_log, fill, sent_messages
from tests.store.recovery.test_log_cut import problems
from tests.store.recovery.test_raw_log import ORDERS, directory


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


def test_what_waits_for_its_confirmation_waits_after_a_restart_too(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        ends = put_all(store, b"a", b"b", b"c")
        store.confirm(ends[1])
    assert problems(tmp_path) == []
    assert seen_in_files(tmp_path) == [b"a", b"b"]
    with confirming_store(tmp_path) as store:
        assert (store.confirm_offset, store.durable_offset, bodies(store)) == (ends[1], ends[2], [b"a", b"b"])
        assert (store.next_offset("orders", 0), store.found_topics) == (3, {"orders": 1})
        store.confirm(put_all(store, b"d")[0])
        assert bodies(store) == seen_in_files(tmp_path) == [b"a", b"b", b"c", b"d"]


def test_what_was_seen_is_seen_after_a_kill_although_no_checkpoint_says_so(tmp_path: Path) -> None:
    store = confirming_store(tmp_path / "first")
    store.open()
    ends = put_all(store, b"a", b"b", b"c")
    store.confirm(ends[1])
    with confirming_store(left_by_a_kill(store, tmp_path / "killed")) as store:
        assert (store.confirm_offset, bodies(store)) == (ends[1], [b"a", b"b"])
        store.confirm(ends[2])
        assert bodies(store) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("damage", [bytes, lambda data: b""])
def test_a_damaged_note_of_what_is_confirmed_shows_nothing_more(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    with confirming_store(tmp_path) as store:
        store.confirm(put_all(store, b"a", b"b")[0])
    path = tmp_path / CONFIRMED_NAME
    path.write_bytes(damage(path.read_bytes()[:-3]))
    with confirming_store(tmp_path) as store:
        assert bodies(store) == [b"a"]


def test_all_that_an_ordinary_store_has_counts_as_confirmed(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        put_all(store, b"a", b"b")
    with confirming_store(tmp_path) as store:
        assert bodies(store) == [b"a", b"b"]
        put_all(store, b"c")
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"a", b"b", b"c"]
        assert not (tmp_path / CONFIRMED_NAME).exists()
    assert problems(tmp_path) == []
    with confirming_store(tmp_path) as store:
        assert bodies(store) == [b"a", b"b", b"c"]


def test_after_a_clean_stop_no_file_of_a_queue_is_empty(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        put_all(store, b"a")
        assert list((tmp_path / "consumequeue").rglob("0*0"))
    assert not [path for path in (tmp_path / "consumequeue").rglob("*") if path.is_file()]
    assert [str(one) for one in StoreCheck(tmp_path).run() if "confirmed" in str(one)] == [
        "note: .: 1 messages at the log's end are not confirmed, and not visible"
    ]


def test_a_repair_shows_nothing_that_is_not_confirmed(tmp_path: Path) -> None:
    with confirming_store(tmp_path) as store:
        ends = put_all(store, b"a", b"b", b"c")
        store.confirm(ends[1])
    entry = next((tmp_path / "consumequeue").rglob("0*0"))
    entry.write_bytes(bytes(20) + entry.read_bytes()[20:])
    check = StoreCheck(tmp_path)
    findings = list(check.run())
    repair = Repair(check, findings, small_config(tmp_path), FakeTime())
    assert repair.steps
    repair.run()
    assert problems(tmp_path) == []
    assert seen_in_files(tmp_path) == [b"a", b"b"]
    with confirming_store(tmp_path) as store:
        assert bodies(store) == [b"a", b"b"]
        store.confirm(EVERYTHING)
        assert bodies(store) == [b"a", b"b", b"c"]


def test_a_topic_that_is_made_again_waits_as_others_do(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, confirming_store(tmp_path / "copy") as copy:
        put_all(source, b"a", b"b")
        source.cleaner.delete_topic("orders")
        deleted_at = source.max_physical_offset
        ends = put_all(source, b"c", b"d", b"e")
        raw = copied_log(source)
        for start in range(0, len(raw), 100):  # before the slave hears of the deletion
            copy.append_raw(start, raw[start : start + 100])
        assert (bodies(copy), copy.next_offset("orders", 0)) == ([], 3)
        copy.confirm(ends[0])
        assert (bodies(copy), copy.next_offset("orders", 0)) == ([b"c"], 3)
        copy.cleaner.delete_topic_before("orders", deleted_at)
        assert (bodies(copy), copy.next_offset("orders", 0)) == ([b"c"], 3)
        copy.confirm(ends[2])
        assert bodies(copy) == bodies(source) == [b"c", b"d", b"e"]
        with StoreReader(tmp_path / "copy") as reader:
            assert bodies(reader) == [b"c", b"d", b"e"]


def test_a_cut_of_a_copy_keeps_what_waits_of_a_topic_that_was_made_again(tmp_path: Path) -> None:
    with small_store(tmp_path / "source") as source, confirming_store(tmp_path / "copy") as copy:
        put_all(source, b"a", b"b")
        source.cleaner.delete_topic("orders")
        ends = put_all(source, b"c", b"d", b"e")
        raw = copied_log(source)
        copy.append_raw(0, raw)
        copy.cut(ends[1])
        assert (bodies(copy), copy.next_offset("orders", 0)) == ([], 2)
        copy.append_raw(ends[1], raw[ends[1] :])
        copy.confirm(EVERYTHING)
        assert bodies(copy) == [b"c", b"d", b"e"]


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "rename", "sync_directory", "unlink"])
def test_a_cut_that_fails_anywhere_shows_nothing_that_is_not_confirmed(tmp_path: Path, call: str) -> None:
    number, has_failed = 0, True
    while has_failed:
        number += 1
        root, files = tmp_path / str(number), FaultyFiles(flushes=False)
        store = MessageStore(small_config(root, shows_confirmed_only=True), FakeTime(), files)
        store.open()
        ends = fill(store, ORDERS[:12])
        store.confirm(ends[3])
        files.calls.clear()
        files.fail = lambda name, count, limit=number: errno.EIO if name == call and count == limit else None  # type: ignore[misc]
        has_failed = False
        try:
            store.cut(ends[8])
        except StoreError:
            has_failed = True
        files.fail = lambda name, count: None
        store.close()
        with confirming_store(root) as store:
            assert store.confirm_offset == ends[3]
            store.cut(ends[8])
            store.confirm(EVERYTHING)
            assert sum(store.max_offset("orders", queue_id) for queue_id in range(3)) == 9
        assert problems(root) == []


def test_keys_that_became_visible_after_a_restart_are_found_after_a_kill(tmp_path: Path) -> None:
    with confirming_store(tmp_path / "first") as store:
        fill(store, [("orders", 0, 10, "key1", 0)])
    store.open()
    store.confirm(EVERYTHING)
    with confirming_store(left_by_a_kill(store, tmp_path / "killed")) as store:
        assert store.find("orders", "key1", 9) == [0]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(sent_messages, st.data())
def test_a_copy_shows_what_its_source_shows(sent: list[Sent], data: st.DataObject) -> None:
    """A slave that gets the log in pieces of any size, is cut, and starts again, shows what is confirmed of it."""
    with directory() as root, small_store(root / "source") as source:
        ends = [0, *fill(source, sent)]
        raw, copy = copied_log(source), confirming_store(root / "copy")
        queued = [end for end, one in zip(ends[1:], sent, strict=True) if is_queued(one[4])]
        copy.open()
        visible = 0
        for _ in range(data.draw(st.integers(1, 12))):
            match data.draw(st.sampled_from(["append", "confirm", "cut", "close", "kill"])):
                case "append":
                    start = copy.received_offset
                    copy.append_raw(start, raw[start : start + data.draw(st.integers(1, 2_000))])
                case "confirm":
                    confirmed = min(data.draw(st.sampled_from(ends)), copy.max_physical_offset)
                    copy.confirm(confirmed)
                    visible = max(visible, confirmed)
                case "cut":
                    kept = [end for end in ends if end <= copy.max_physical_offset]
                    copy.cut(data.draw(st.sampled_from(kept)))
                    visible = min(visible, copy.max_physical_offset)
                case "close":
                    copy.close()
                    assert problems(root / "copy") == []
                    copy = confirming_store(root / "copy")
                    copy.open()
                case "kill":
                    left_by_a_kill(copy, root / "killed")
                    shutil.rmtree(root / "copy")
                    (root / "killed").rename(root / "copy")
                    copy = confirming_store(root / "copy")
                    copy.open()
            seen = sum(copy.max_offset(topic, queue) for topic in copy.topics for queue in copy.queue_ids(topic))
            assert seen == sum(end <= visible for end in queued)
        copy.append_raw(copy.received_offset, raw[copy.received_offset :])
        copy.confirm(EVERYTHING)
        assert content(copy) == content(source)
        copy.close()
