from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.names import SCHEDULE_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.store.message_store import GetStatus, MessageStore
from pyromq.store.retention.deletions import DELETIONS_NAME, Deletions
from pyromq.store.segments import FileRange, NotInMemory
from tests.store.helpers import FakeTime, QuickFiles, bodies, left_by_a_kill, message, small_config
from tests.store.slow_disk import SlowDisk
from tests.store.test_flush import Loop

BODY = b"x" * 1800


def open_store(root: Path, files: QuickFiles | None = None, **changes: Any) -> MessageStore:
    store = MessageStore(small_config(root, message_index=False, **changes), FakeTime(), files or QuickFiles())
    store.open()
    return store


def send(store: MessageStore, topic: str, count: int = 3, queue_id: int = 0, body: bytes = b"hello") -> None:
    for _ in range(count):
        store.put(message(topic, body=body, queue_id=queue_id))
    store.commit()


def queue_directories(root: Path) -> list[str]:
    return sorted(str(path.parent.relative_to(root / "consumequeue")) for path in root.glob("consumequeue/*/*/*"))


def test_a_deleted_topic_loses_its_queues_and_begins_anew(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    send(store, "orders")
    send(store, "orders", queue_id=7)
    send(store, "others")
    store.cleaner.delete_topic("orders")
    assert store.topics == ["others"]
    assert store.get("orders", 0, 0, 32).status is GetStatus.NO_MESSAGE_IN_QUEUE
    store.cleaner._remover.wait()
    assert queue_directories(tmp_path) == ["others/0"]
    assert store.put(message("orders", body=b"anew")).queue_offset == 0
    store.commit()
    assert bodies(store, "orders") == [b"anew"]
    store.close()
    store = open_store(tmp_path)
    assert (bodies(store, "orders"), len(bodies(store, "others"))) == ([b"anew"], 3)
    store.close()


def test_a_queue_is_made_anew_while_the_old_files_are_still_being_removed(tmp_path: Path) -> None:
    class Slow(QuickFiles):
        def rmdir(self, path: str) -> None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    store = open_store(tmp_path, Slow())
    for round_number in range(3):
        send(store, "orders", round_number + 1)
        assert store.max_offset("orders", 0) == round_number + 1
        store.cleaner.delete_topic("orders")
    send(store, "orders", 1)
    store.close()
    assert len(list((tmp_path / "consumequeue" / "orders").iterdir())) == 4
    store = open_store(tmp_path)  # and the next start removes what was left over
    store.cleaner._remover.wait()
    assert [path.name for path in (tmp_path / "consumequeue" / "orders").iterdir()] == ["0"]
    assert store.max_offset("orders", 0) == 1
    store.close()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_messages_on_their_way_to_a_deleted_topic_stop_nothing(tmp_path: Path, flush: str) -> None:
    loop = Loop()
    config = small_config(tmp_path, flush_disk_type=flush, message_index=False)
    store = MessageStore(config, FakeTime(), QuickFiles(), call_threadsafe=loop.call_threadsafe)
    store.open()
    durable: list[int] = []
    store.on_durable = durable.append
    send(store, "orders", 1)
    store.put(message("orders"))
    store.put(message("others"))
    store.cleaner.delete_topic("orders")
    store.put(message("orders", body=b"anew"))
    store.commit()
    if flush == "SYNC_FLUSH":
        loop.run_until(lambda: bool(durable) and durable[-1] == store.max_physical_offset)
    assert store.writable
    assert (bodies(store, "orders"), bodies(store, "others")) == ([b"anew"], [b"hello"])
    store.close()


def test_a_deletion_is_kept_until_the_log_has_moved_past_it(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_store_bytes=4096)
    send(store, "orders", 2, body=BODY)
    end = store.max_physical_offset
    store.cleaner.delete_topic("orders")
    store.cleaner.save_deletions()
    store.cleaner._remover.wait()
    killed = left_by_a_kill(store, tmp_path / "killed")
    deletions = Deletions(killed, QuickFiles())
    deletions.load()
    assert deletions.covers("orders", end - 1)
    assert not deletions.covers("orders", end)
    assert not deletions.covers("others", 0)
    store = open_store(tmp_path, max_store_bytes=4096)
    send(store, "others", 8, body=BODY)
    store.flusher.flush()
    store.cleaner.run()
    assert not store._directory.deletions.covers("orders", 0)
    store.close()


def test_a_damaged_list_of_deletions_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for damage in (b"{", b'{"orders": "x"}', b"\xff\xfe"):
        (tmp_path / DELETIONS_NAME).write_bytes(damage)
        caplog.clear()
        deletions = Deletions(tmp_path, QuickFiles())
        deletions.load()
        assert not deletions.covers("orders", 0)
        assert len(caplog.records) == 1
        deletions.add("orders", 5)
        deletions.save()
        assert (tmp_path / DELETIONS_NAME).read_bytes().startswith(b'{"orders":5}\n')


def test_a_topic_whose_directory_cannot_be_moved_stays(tmp_path: Path) -> None:
    class Stubborn(QuickFiles):
        def rename(self, source: str, target: str) -> None:
            if target.endswith(".removed"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().rename(source, target)

    store = open_store(tmp_path, Stubborn())
    send(store, "orders")
    with pytest.raises(OSError, match="Input/output"):
        store.cleaner.delete_topic("orders")
    send(store, "orders")
    assert len(bodies(store, "orders")) == 6
    assert not store._directory.deletions.covers("orders", 0)  # or a crash would lose what it has
    store.close()


def test_queues_of_topics_that_nobody_knows_are_deleted(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [SCHEDULE_TOPIC, TRANSACTION_OP_TOPIC, "%LMQ%light", "known"]
    for topic in [*kept, "unknown", "%RETRY%gone"]:
        send(store, topic, 1)
    assert store.cleaner.delete_unused_topics(lambda topic: topic == "known") == ["unknown", "%RETRY%gone"]
    assert sorted(store.topics) == sorted(kept)
    store.close()


def test_expired_queues_are_deleted_if_they_are_out_of_use(tmp_path: Path) -> None:
    store = open_store(tmp_path, max_store_bytes=1)
    for queue_id in (0, 1):
        send(store, "orders", 1, queue_id)
    send(store, SCHEDULE_TOPIC, 1)
    in_use: Callable[[str, int], bool] = lambda topic, queue_id: queue_id == 0  # noqa: E731
    assert store.cleaner.delete_expired_queues(in_use) == []  # there is still something in them
    send(store, "others", 4, body=BODY)
    store.flusher.flush()
    store.cleaner.run()
    assert store.cleaner.delete_expired_queues(in_use) == [("orders", 1)]
    assert store.queue_ids("orders") == [0]
    assert store.put(message("orders")).queue_offset == 1  # consumers have committed offsets of it
    assert store.queue_ids(SCHEDULE_TOPIC) == [0]
    store.close()


def test_queues_whose_entries_are_on_disk_follow_the_log_without_waiting(tmp_path: Path) -> None:
    disk = SlowDisk()
    config = small_config(tmp_path, message_index=False, max_store_bytes=4096)
    with MessageStore(config, FakeTime(), disk) as store:
        for number in range(40):
            store.put(message(f"t{number % 3}", body=BODY))
        store.commit()
        store.flusher.flush()
        store.cleaner.run()
        while (start := store.min_physical_offset) == 0:
            store.cleaner.run()
        disk.forget("/consumequeue/")
        fetched: set[FileRange] = set()
        before = [store.min_offset(f"t{number}", 0) for number in range(3)]
        seen: list[list[int]] = []
        is_done = False
        while not is_done:
            seen.append([store.min_offset(f"t{number}", 0) for number in range(3)])
            try:
                with store.disk.memory_only(fetched):
                    is_done = not store.cleaner.go_on()
            except NotInMemory as error:
                fetched.update(error.missing)
                store.disk.fetch(error.missing)
        assert len(seen) > 3
        assert seen == sorted(seen), "no queue begins earlier for a moment"
        assert seen[0] == before
        assert all(store.get(f"t{number}", 0, seen[-1][number], 1).count for number in range(3))
        assert store.min_physical_offset == start
