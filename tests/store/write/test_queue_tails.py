from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import StoreClosed
from pyromq.store.consume_queue import ENTRY_SIZE
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.write import queue_tails
from pyromq.store.write.queue_tails import LIMIT, pause_after
from pyromq.testing import eventually
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


def holding(root: Path, files: OsFiles | None = None, **changes: Any) -> MessageStore:
    """Open a store that writes tails only when it is told to."""
    store = small_store(root, files, **changes)
    store.open()
    store.tails.limit = LIMIT
    return store


def send(store: MessageStore, *numbers: int, topic: str = "orders") -> list[bytes]:
    sent = [b"%d" % number for number in numbers]
    for body in sent:
        store.put(message(topic, body))
    store.commit()
    return sent


def in_files(root: Path, topic: str = "orders") -> int:
    with StoreReader(root) as reader:
        return reader.max_offset(topic, 0)


def position(root: Path) -> int:
    return int.from_bytes((root / "pyromq.position").read_bytes()[12:20], "big")


# --- what is seen


def test_messages_are_visible_at_once_and_in_the_files_when_tails_are_written(tmp_path: Path) -> None:
    store = holding(tmp_path)
    arrived: list[int] = []
    store.on_arrival = lambda arrivals: arrived.extend(one.queue_offset for one in arrivals)
    sent = send(store, *range(25))  # two files and a half
    assert arrived == list(range(25))
    assert (store.max_offset("orders", 0), in_files(tmp_path)) == (25, 0)
    assert bodies(store) == sent
    store.tails.write_all()
    assert in_files(tmp_path) == 25
    sent += send(store, *range(25, 32))
    assert in_files(tmp_path) == 25
    assert bodies(store) == sent
    assert store.get("orders", 0, 23, 5).next_offset == 28  # from a file and from memory
    store.close()
    assert in_files(tmp_path) == 32


def test_messages_in_tails_are_found_by_time_and_by_key(tmp_path: Path) -> None:
    store = holding(tmp_path)
    send(store, 1)
    store.tails.write_all()
    send(store, 2, 3)
    stored = [read.store_timestamp_ms for read in (store.get("orders", 0, 0, 9),) for read in _messages(read.views)]
    assert [store.offset_at("orders", 0, time) for time in stored] == [0, 1, 2]
    assert store.earliest_time("orders", 0) == stored[0]
    assert len(store.raw_entries("orders", 0, 0, 3)) == 3 * ENTRY_SIZE
    store.close()


def _messages(views: list[bytes | bytearray | memoryview]) -> list[Any]:
    from pyromq.protocol.messages.record import decode_messages

    return list(decode_messages(b"".join(views)))


def test_a_loop_writes_tails_within_a_second_and_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_tails, "_INTERVAL", 0.05)
    threads: set[str] = set()

    class Noting(QuickFiles):
        def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
            threads.add(threading.current_thread().name)
            return super().pwrite(descriptor, data, position)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        config = small_config(tmp_path)
        with MessageStore(config, FakeTime(), Noting(), call_threadsafe=loop.call_soon_threadsafe) as store:
            topics = [f"topic-{number}" for number in range(150)]  # more than one step writes
            for turn in (1, 2):
                threads.clear()
                for topic in topics:
                    store.put(message(topic))
                store.commit()
                assert in_files(tmp_path, topics[0]) == turn - 1
                await eventually(lambda turn=turn: all(in_files(tmp_path, topic) == turn for topic in topics[::149]))  # type: ignore[misc]
                await eventually(lambda: not store.tails.is_waiting)
                assert threads == {threading.current_thread().name}
            store.flusher.checkpoint()
            assert position(tmp_path) == store.max_physical_offset

    asyncio.run(run())


def test_with_too_much_in_memory_entries_are_written_at_once(tmp_path: Path) -> None:
    store = holding(tmp_path)
    store.tails.limit = 5 * ENTRY_SIZE
    send(store, *range(5))
    assert in_files(tmp_path) == 0
    send(store, 5)
    assert in_files(tmp_path) == 6
    store.tails.write_all()
    send(store, 6)
    assert in_files(tmp_path) == 6
    assert len(bodies(store)) == 7
    store.close()


def test_passes_that_take_long_come_less_often() -> None:
    assert [pause_after(seconds) for seconds in (0.0, 0.01, 0.1, 9.0)] == [0.8, 0.8, 2.0, 5.0]


# --- crashes


def test_a_kill_loses_no_entry_whatever_part_of_the_tails_was_written(tmp_path: Path) -> None:
    for written in range(4):
        store = holding(tmp_path / f"store-{written}")
        expected = {topic: send(store, 1, 2, topic=topic) for topic in ("a", "b", "c")}
        store.tails.write_all()
        store.flusher.checkpoint()
        for topic, sent in expected.items():
            sent += send(store, 3, 4, topic=topic)
        if written:
            store.tails.write_some(written)
        store.flusher.checkpoint()
        root = left_by_a_kill(store, tmp_path / f"killed-{written}")
        with small_store(root) as found:
            assert {topic: bodies(found, topic) for topic in expected} == expected


def test_the_checkpoint_says_only_what_is_in_the_files(tmp_path: Path) -> None:
    store = holding(tmp_path)
    send(store, 1, topic="a")
    first_end = store.max_physical_offset
    store.tails.write_all()
    store.flusher.checkpoint()
    assert position(tmp_path) == first_end
    send(store, 2, topic="a")
    send(store, 2, topic="b")
    store.tails.write_some(1)  # a pass begins
    pass_end = store.max_physical_offset
    send(store, 3, topic="a")
    store.flusher.checkpoint()
    assert position(tmp_path) == first_end
    store.tails.write_some(1)  # it ends
    store.flusher.checkpoint()
    assert position(tmp_path) == pass_end
    store.tails.write_all()
    store.flusher.checkpoint()
    assert position(tmp_path) == store.max_physical_offset
    store.close()


def test_a_message_that_joins_a_tail_of_the_pass_under_way_is_written_with_it(tmp_path: Path) -> None:
    store = holding(tmp_path)
    send(store, 1, topic="a")
    send(store, 1, topic="b")
    store.tails.write_some(1)
    send(store, 2, topic="b")
    store.tails.write_some(1)
    assert not store.tails.is_waiting
    assert in_files(tmp_path, "b") == 2
    store.flusher.checkpoint()
    assert position(tmp_path) == store.max_physical_offset
    store.close()


def test_what_is_flushed_is_kept_after_a_kill_although_queues_and_our_position_know_less(tmp_path: Path) -> None:
    store = holding(tmp_path / "live")
    sent = send(store, 1, 2)
    store.tails.write_all()
    sent += send(store, *range(3, 30))
    store.flusher.checkpoint()  # the log's time is that of the last message, the queues' that of the second
    root = left_by_a_kill(store, tmp_path / "killed")
    (root / "pyromq.position").unlink()
    with small_store(root) as found:
        assert bodies(found) == sent


# --- what else happens to queues


def test_a_topic_that_is_deleted_takes_its_tail_along(tmp_path: Path) -> None:
    store = holding(tmp_path)
    send(store, 1, 2)
    store.cleaner.delete_topic("orders")
    sent = send(store, 3)
    assert bodies(store) == sent
    store.tails.write_all()
    store.cleaner.save_deletions()
    store.close()
    with small_store(tmp_path) as found:
        assert bodies(found) == sent


def test_a_cut_ends_tails_too(tmp_path: Path) -> None:
    store = holding(tmp_path)
    sent = send(store, 1, 2, 3)
    end = store.max_physical_offset
    send(store, 4, 5)
    send(store, 6, topic="other")
    store.cut(end)
    assert bodies(store) == sent
    assert store.max_offset("other", 0) == 0
    sent += send(store, 7)
    assert bodies(store) == sent
    store.flusher.checkpoint()
    assert position(tmp_path) == end
    store.close()
    with small_store(tmp_path) as found:
        assert bodies(found) == sent


def test_queues_follow_a_log_that_begins_later_although_their_entries_were_in_memory(tmp_path: Path) -> None:
    store = holding(tmp_path, max_store_bytes=2 * 4096)
    for number in range(60):
        store.put(message(body=b"%d" % number + b"x" * 600))
    store.commit()
    store.flush()
    store.cleaner.run()
    while store.cleaner.go_on():
        pass
    left = bodies(store)
    assert 0 < len(left) < 20
    store.close()
    with small_store(tmp_path, max_store_bytes=2 * 4096) as found:
        assert bodies(found) == left


# --- failing


def test_a_tail_that_cannot_be_written_stops_the_store_and_loses_nothing(tmp_path: Path) -> None:
    files = FaultyFiles(flushes=False)
    calls: list[tuple[Any, ...]] = []
    config = small_config(tmp_path)
    store = MessageStore(config, FakeTime(), files, call_threadsafe=lambda *call: calls.append(call))
    failures: list[Exception] = []
    store.on_failure = failures.append
    store.open()
    sent = send(store, 1, 2, 3)
    files.fail = lambda name, number: errno.EIO if name == "pwrite" else None
    store.tails._begin_pass()
    assert len(failures) == 1
    with pytest.raises(StoreClosed):
        store.put(message())
    assert bodies(store) == sent
    files.fail = lambda name, number: None
    store.close()
    store.tails._go_on()  # as one that was scheduled before
    assert in_files(tmp_path) == 0
    with small_store(tmp_path) as found:
        assert bodies(found) == sent


def test_where_only_confirmed_messages_are_shown_their_entries_are_written_at_once(tmp_path: Path) -> None:
    config = small_config(tmp_path, shows_confirmed_only=True)
    with MessageStore(config, FakeTime(), QuickFiles(), call_threadsafe=lambda *call: None) as store:
        store.confirm(1 << 40)
        send(store, 1)
        assert in_files(tmp_path) == 1


def test_the_thread_ends_although_it_is_told_to_just_after_its_pause(tmp_path: Path) -> None:
    """It took the call to stop for work that it had seen, and a broker that stopped waited for it for ever."""
    tails = small_store(tmp_path).tails

    class ToldAfterThePause(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if self.is_set():
                return True
            self.set()
            tails._has_work.set()
            return False

    tails._call_threadsafe = lambda function: None
    tails._stopping = ToldAfterThePause()
    tails._has_work.set()
    tails._thread.start()
    tails._thread.join(10)
    assert not tails._thread.is_alive()
