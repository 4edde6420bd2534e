from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.errors import ConfigError, LocalProtocolError, MessageTooLarge, StoreError
from pyromq.protocol.messages.record import Record
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import Arrival, MessageStore, PutStatus
from tests.store.helpers import (
    HOST,
    FakeTime,
    FaultyFiles,
    bodies,
    log_files,
    message,
    queue_files,
    small_config,
    small_store,
)


def test_a_message_gets_its_place_at_once_and_is_readable_after_commit(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        first = store.put(message(body=b"first"))
        second = store.put(message(body=b"second"))
        assert first.status is PutStatus.PUT_OK
        assert (first.physical_offset, first.queue_offset) == (0, 0)
        assert (second.physical_offset, second.queue_offset) == (first.size, 1)
        assert bodies(store) == []
        store.commit()
        assert bodies(store) == [b"first", b"second"]
        assert store.max_physical_offset == first.size + second.size


def test_arrivals_are_told_once_they_can_be_read(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        told: list[Arrival] = []

        def arrived(arrivals: object) -> None:
            told.extend(arrivals)  # type: ignore[arg-type]
            assert store.max_offset("orders", 1) == 1

        store.on_arrival = arrived
        place = store.put(message(queue_id=1, tag="paid"))
        assert told == []
        store.commit()
        store.commit()
        assert told == [Arrival("orders", 1, place.queue_offset, 3433164)]


def test_a_group_may_be_acknowledged_when_it_is_written_and_before_it_is_seen(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        found: list[tuple[bool, int]] = []
        store.put(message(body=b"first"))

        def acknowledge() -> None:
            found.append((b"first" in log_files(tmp_path)[0].read_bytes(), store.max_offset("orders", 0)))

        store.commit(acknowledge)
        store.commit(acknowledge)
        assert found == [(True, 0)]
        assert bodies(store) == [b"first"]


@pytest.mark.parametrize("failing", [1, 2])
def test_what_was_acknowledged_is_found_after_a_restart_though_it_could_not_be_shown(
    tmp_path: Path, failing: int
) -> None:
    """The first write is that of the log, the second that of the queue."""
    acknowledged: list[bool] = []
    files = FaultyFiles()
    store = MessageStore(small_config(tmp_path), FakeTime(), files)
    store.open()
    store.put(message(body=b"first"))
    writes = files.calls["pwrite"]
    files.fail = lambda name, number: errno.EIO if name == "pwrite" and number == writes + failing else None
    with pytest.raises(StoreError, match="write to"):
        store.commit(lambda: acknowledged.append(True))
    assert len(acknowledged) == failing - 1
    store.close()
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"first"] * len(acknowledged)


def test_a_commit_of_nothing_does_nothing(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.commit()
        assert not (tmp_path / "commitlog").exists()


def test_messages_keep_their_order_in_each_queue(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for index in range(200):
            store.put(message(body=b"%d" % index, queue_id=index % 3))
            if index % 7 == 0:
                store.commit()
        store.commit()
        for queue_id in range(3):
            assert bodies(store, queue_id=queue_id) == [b"%d" % index for index in range(queue_id, 200, 3)]


def test_a_restart_goes_on_where_the_store_stopped(tmp_path: Path) -> None:
    for start in range(0, 100, 10):
        with small_store(tmp_path) as store:
            assert store.next_offset("orders", 0) == start
            for index in range(start, start + 10):
                assert store.put(message(body=b"%d" % index)).queue_offset == index
    with small_store(tmp_path) as store:
        assert bodies(store) == [b"%d" % index for index in range(100)]


def test_an_empty_store_opens_again_and_says_it_was_left_in_order(tmp_path: Path) -> None:
    for _ in range(3):
        with small_store(tmp_path / "deep" / "store") as store:
            assert (tmp_path / "deep" / "store" / "abort").read_bytes() == b""
            assert store.max_physical_offset == 0
        assert not (tmp_path / "deep" / "store" / "abort").exists()


def test_the_log_may_lie_elsewhere(tmp_path: Path) -> None:
    with small_store(tmp_path / "store", commit_log=tmp_path / "fast" / "log") as store:
        store.put(message())
    assert len(list((tmp_path / "fast" / "log").iterdir())) == 1
    with small_store(tmp_path / "store", commit_log=tmp_path / "fast" / "log") as store:
        assert bodies(store) == [b"hello"]


def test_a_closed_store_has_what_a_java_broker_checks(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for index in range(40):
            store.put(message(body=b"x" * (index * 20), queue_id=index % 2))
    assert {path.stat().st_size for path in log_files(tmp_path)} == {4096}
    for queue_id in range(2):
        files = queue_files(tmp_path, queue_id=queue_id)
        assert {path.stat().st_size for path in files} == {200}
        assert any(files[-1].read_bytes())
    assert (tmp_path / "checkpoint").stat().st_size == 4096
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint", "commitlog", "consumequeue", "lock", "pyromq.index", "pyromq.position", "pyromq.queues",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (message(body=b"x" * 2001), MessageTooLarge),
        (Record(topic="orders", body=b"", properties=b"x" * 32768, store_host=HOST), MessageTooLarge),
        (message(topic="../orders"), StoreError),
        (message(topic="x" * 128), StoreError),
        (message(queue_id=-1), StoreError),
        (Record(topic="orders", body=b"", born_host=b"short"), LocalProtocolError),
    ],
)
def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    tmp_path: Path, record: Record, error: type[Exception]
) -> None:
    with small_store(tmp_path, max_message_size=2000, commit_log_file_size=1 << 16) as store:
        with pytest.raises(error):
            store.put(record)
        with pytest.raises(error):
            store.put_batch([record])
        assert not store.has_pending
        store.put(message())
        store.commit()
        assert bodies(store) == [b"hello"]
    assert [path.name for path in (tmp_path / "consumequeue").rglob("*") if path.is_file()] == [f"{0:020d}"]


def test_a_batch_for_several_queues_is_refused(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        with pytest.raises(StoreError):
            store.put_batch([message(), message(queue_id=1)])
        assert not store.has_pending


def test_an_entry_of_the_schedule_topic_holds_the_delivery_time(tmp_path: Path) -> None:
    stored_at = 1794765332814
    record = Record(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, body=b"", properties=b"DELAY\x013\x02TAGS\x01TagA")
    told: list[Arrival] = []
    with MessageStore(small_config(tmp_path), lambda: stored_at) as store:
        store.on_arrival = told.extend
        store.put(record)
        store.commit()
    assert told[0].tags_code == 1794765342814
    entry = queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX", 2)[0].read_bytes()[:20]
    (tmp_path / "pyromq.position").unlink()
    queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX", 2)[0].unlink()
    with MessageStore(small_config(tmp_path), FakeTime()):
        assert queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX", 2)[0].read_bytes()[:20] == entry
        assert entry[12:] == (1794765342814).to_bytes(8, "big")


def test_a_file_that_is_none_of_ours_stops_the_start_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / "notes.txt").touch()
    store = small_store(tmp_path)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        store.open()
    (tmp_path / "commitlog" / "notes.txt").unlink()
    with small_store(tmp_path):  # the lock was given back
        pass


@pytest.mark.parametrize(
    ("key", "value"), [("flush_disk_type", "NEVER"), ("commit_log_file_size", 0), ("flush_interval_ms", -1)]
)
def test_a_setting_that_makes_no_sense_is_named(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=str(value)):
        StoreConfig(root=tmp_path, **{key: value})  # type: ignore[arg-type]
