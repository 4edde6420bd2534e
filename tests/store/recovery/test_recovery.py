from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from pyromq.protocol.messages.record import Record, blank_record, encode_record
from pyromq.store.consume_queue import ENTRY, PRE_BLANK
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.checkpoint import POSITION_NAME, Checkpoint, CheckpointFiles, Position
from tests.store.helpers import (
    HOST,
    LOG_FILE_SIZE,
    FakeTime,
    QuickFiles,
    bodies,
    left_by_a_kill,
    log_files,
    message,
    queue_files,
    read_queue,
    small_config,
    small_store,
)


def fill(store: MessageStore, count: int, size: int = 700) -> list[bytes]:
    """Store messages in groups of three, all in one queue."""
    expected = [bytes([65 + index % 26]) * size for index in range(count)]
    for index, body in enumerate(expected):
        store.put(message(body=body))
        if index % 3 == 2:
            store.commit()
    store.commit()
    return expected


def killed_store(tmp_path: Path, count: int = 20) -> tuple[Path, list[bytes]]:
    store = small_store(tmp_path / "first", QuickFiles())
    store.open()
    expected = fill(store, count)
    return left_by_a_kill(store, tmp_path / "killed"), expected


def without_position(root: Path) -> None:
    (root / POSITION_NAME).unlink(missing_ok=True)


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def test_everything_committed_before_a_kill_is_there_and_what_was_not_is_gone(tmp_path: Path) -> None:
    store = small_store(tmp_path / "first")
    store.open()
    expected = fill(store, 20)
    place = store.put(message(body=b"not written"))
    root = left_by_a_kill(store, tmp_path / "killed")
    with small_store(root) as store:
        assert bodies(store) == expected
        again = store.put(message(body=b"written now"))
        assert (again.queue_offset, again.physical_offset) == (place.queue_offset, place.physical_offset)
        store.commit()
        assert bodies(store) == [*expected, b"written now"]


def test_a_directory_whose_log_is_gone_opens_as_an_empty_store(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message())
    shutil.rmtree(tmp_path / "commitlog")
    with small_store(tmp_path) as store:
        assert store.min_physical_offset == store.max_physical_offset == 0
        assert bodies(store) == []


@pytest.mark.parametrize("cut", range(0, 798, 19))
def test_a_half_written_record_is_dropped_and_its_place_is_written_again(tmp_path: Path, cut: int) -> None:
    store = small_store(tmp_path / "first", QuickFiles())
    store.open()
    expected = fill(store, 7)
    last = store.put(message(body=b"last" * 175))
    store.commit()
    root = left_by_a_kill(store, tmp_path / "killed")
    file = log_files(root)[last.physical_offset // LOG_FILE_SIZE]
    overwrite(file, last.physical_offset % LOG_FILE_SIZE + cut, bytes(last.size - cut))
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == expected
        assert store.put(message(body=b"other")).physical_offset == last.physical_offset
        store.commit()
        assert bodies(store) == [*expected, b"other"]
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == [*expected, b"other"]


def test_what_stands_behind_the_end_never_comes_back(tmp_path: Path) -> None:
    root, expected = killed_store(tmp_path, 20)
    broken = 18
    record_size = 700 + 97
    per_file = LOG_FILE_SIZE // record_size
    file = log_files(root)[broken // per_file]
    overwrite(file, (broken % per_file) * record_size + 200, b"!")
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == expected[:broken]
        store.put(message(body=b"N" * 700))  # as long as the broken one: what follows it lines up again
        store.commit()
        killed_again = left_by_a_kill(store, tmp_path / "again")
    without_position(killed_again)
    with small_store(killed_again, QuickFiles()) as store:
        assert bodies(store) == [*expected[:broken], b"N" * 700]


def test_damage_before_the_flushed_end_is_fenced_and_nothing_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_store(tmp_path) as store:
        expected = fill(store, 20)
    (tmp_path / "abort").touch()
    checkpoints = CheckpointFiles(tmp_path, OsFiles())
    times, position = checkpoints.read()
    assert position is not None
    checkpoints.write(times, Position(position.flushed, 0))  # the queues were flushed long ago
    file = log_files(tmp_path)[1]
    overwrite(file, 300, b"!")
    before = [path.read_bytes() for path in log_files(tmp_path)]
    for start in range(2):
        caplog.clear()
        with small_store(tmp_path) as store:
            assert [path.read_bytes() for path in log_files(tmp_path)] == before
            assert store.fences.ranges() == [(LOG_FILE_SIZE, LOG_FILE_SIZE + 797)]
            assert (f"fenced file={file} start={LOG_FILE_SIZE}" in caplog.text) == (start == 0)
            assert bodies(store) == [*expected[:5], *expected[6:]]
            assert bodies(store) == [*expected[:5], *expected[6:]]
            assert store.fences.skipped == 1
            assert caplog.text.count("left out a damaged message topic=orders queue=0 offset=5") == 1
    with small_store(tmp_path) as store:
        store.put(message(body=b"goes on"))
        store.commit()
        assert bodies(store) == [*expected[:5], *expected[6:], b"goes on"]
    assert not (tmp_path / "quarantine").exists()


@pytest.mark.parametrize("lost", ["one entry", "one file", "all files", "everything but the log"])
def test_queues_are_made_anew_from_the_log(tmp_path: Path, lost: str) -> None:
    root, expected = killed_store(tmp_path, 35)
    without_position(root)
    if lost == "one entry":
        overwrite(queue_files(root)[-1], 0, bytes(200))
    elif lost == "one file":
        queue_files(root)[-1].unlink()
    else:
        shutil.rmtree(root / "consumequeue")
    if lost == "everything but the log":
        for path in (root / "lock", root / "abort"):
            path.unlink()
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == expected
        assert [found.queue_offset for found in read_queue(store)] == list(range(35))


@pytest.mark.parametrize("lost", ["last entries", "last file", "directory"])
def test_a_queue_that_lost_something_after_a_clean_stop_is_made_anew(
    tmp_path: Path, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    with small_store(tmp_path) as store:
        expected = fill(store, 35)
        store.put(message("others", body=b"other"))
    if lost == "last entries":
        overwrite(queue_files(tmp_path)[-1], 0, bytes(200))
    elif lost == "last file":
        queue_files(tmp_path)[-1].unlink()
    else:
        shutil.rmtree(tmp_path / "consumequeue" / "orders")
    with small_store(tmp_path) as store:
        assert (bodies(store), bodies(store, "others")) == (expected, [b"other"])
    assert "a queue has lost entries and is made anew topic=orders queue=0" in caplog.text


def test_holes_that_a_power_cut_left_in_a_queue_are_filled(tmp_path: Path) -> None:
    root, expected = killed_store(tmp_path, 25)
    overwrite(queue_files(root)[0], 60, bytes(80))
    overwrite(queue_files(root)[1], 0, bytes(200))
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == expected


def test_entries_ahead_of_the_log_are_dropped(tmp_path: Path) -> None:
    root, expected = killed_store(tmp_path, 20)
    last = log_files(root)[-1]
    last.write_bytes(bytes(LOG_FILE_SIZE))  # unflushed when the power went
    kept = (len(log_files(root)) - 1) * (LOG_FILE_SIZE // 797)
    with small_store(root, QuickFiles()) as store:
        assert store.max_offset("orders", 0) == kept
        assert bodies(store) == expected[:kept]
        assert store.put(message()).queue_offset == kept
    assert any(queue_files(root)[-1].read_bytes())


def test_only_what_came_after_the_last_checkpoint_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_store(tmp_path / "first", QuickFiles()) as store:
        expected = fill(store, 20)
    store = small_store(tmp_path / "first", QuickFiles())
    store.open()
    store.put(message(body=b"late"))
    store.commit()
    root = left_by_a_kill(store, tmp_path / "killed")
    caplog.set_level(logging.INFO, "pyromq.store.recovery.recovery")
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == [*expected, b"late"]
    assert "records=1" in caplog.text


def test_after_a_crash_without_our_position_the_checkpoint_tells_where_to_begin(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, expected = killed_store(tmp_path, 40)  # five records a file, a millisecond apart
    first_times = FakeTime().now_ms
    trusted = first_times + 22  # inside the fifth file
    CheckpointFiles(root, OsFiles()).write(Checkpoint(trusted + 3000, trusted + 3500, 0), Position())
    without_position(root)
    caplog.set_level(logging.INFO, "pyromq.store.recovery.recovery")
    with small_store(root, QuickFiles(), message_index=False) as store:
        assert bodies(store) == expected
    assert f"from={4 * LOG_FILE_SIZE} " in caplog.text


def test_a_torn_roll_is_survived(tmp_path: Path) -> None:
    # The blank record is there, the first record of the next file is not; or not even that file has its length.
    for length in (0, 100, LOG_FILE_SIZE):
        root, expected = killed_store(tmp_path / str(length), 5)
        end = 5 * 797
        assert len(log_files(root)) == 1
        overwrite(log_files(root)[0], end, blank_record(LOG_FILE_SIZE - end))
        (root / "commitlog" / f"{LOG_FILE_SIZE:020d}").write_bytes(bytes(length))
        with small_store(root, QuickFiles()) as store:
            assert bodies(store) == expected
            assert store.put(message(body=b"next")).physical_offset == LOG_FILE_SIZE
            store.commit()
            assert bodies(store) == [*expected, b"next"]
        with small_store(root, QuickFiles()) as store:
            assert bodies(store) == [*expected, b"next"]


def test_a_topic_that_was_deleted_and_made_again_has_its_new_messages_only(tmp_path: Path) -> None:
    root, _ = killed_store(tmp_path, 15)
    end = 15 // 5 * LOG_FILE_SIZE
    record = encode_record(message(body=b"new life"), b"orders", 0, end, FakeTime().now_ms + 100)
    (root / "commitlog" / f"{end:020d}").write_bytes(record.ljust(LOG_FILE_SIZE, b"\0"))
    last = log_files(root)[-2]
    overwrite(last, 5 * 797, blank_record(LOG_FILE_SIZE - 5 * 797))
    shutil.rmtree(root / "consumequeue" / "orders")
    without_position(root)
    with small_store(root, QuickFiles()) as store:
        assert bodies(store) == [b"new life"]


class JavaStore:
    """A directory as RocketMQ's broker leaves it: written here byte by byte, not by our store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = b""
        self.entries: list[bytes] = []

    def add(self, body: bytes, properties: bytes = b"", queue_offset: int | None = None) -> None:
        offset = len(self.entries) if queue_offset is None else queue_offset
        record = Record(topic="orders", body=body, properties=properties, store_host=HOST)
        data = encode_record(record, b"orders", offset, len(self.log), 1_700_000_000_000 + offset)
        left = LOG_FILE_SIZE - len(self.log) % LOG_FILE_SIZE
        if len(data) + 8 > left:
            self.log += blank_record(left).ljust(left, b"\0")
            data = encode_record(record, b"orders", offset, len(self.log), 1_700_000_000_000 + offset)
        self.entries.append(ENTRY.pack(len(self.log), len(data), 0))
        self.log += data

    def write(self, *, behind: bytes = b"", queue_behind: bytes = b"", queue_start: int = 0) -> None:
        write_files(self.root / "commitlog", LOG_FILE_SIZE, 0, self.log + behind)
        data = b"".join(self.entries) + queue_behind
        write_files(self.root / "consumequeue" / "orders" / "0", 200, queue_start, data)


def write_files(directory: Path, size: int, start: int, data: bytes) -> None:
    directory.mkdir(parents=True)
    for position in range(0, len(data), size):
        (directory / f"{start + position:020d}").write_bytes(data[position : position + size].ljust(size, b"\0"))


@pytest.fixture
def java(tmp_path: Path) -> JavaStore:
    store = JavaStore(tmp_path)
    for index in range(23):
        store.add(bytes([65 + index]) * 600, properties=b"KEYS\x01k\x02")  # 4.9.0 ends properties with a separator
    return store


def expected_of(java: JavaStore) -> list[bytes]:
    return [bytes([65 + index]) * 600 for index in range(len(java.entries))]


@pytest.mark.parametrize("crashed", [False, True])
def test_a_store_of_a_java_broker_opens_and_goes_on(java: JavaStore, tmp_path: Path, crashed: bool) -> None:
    java.write()
    next_file = -(-len(java.log) // LOG_FILE_SIZE) * LOG_FILE_SIZE
    (tmp_path / "commitlog" / f"{next_file:020d}").write_bytes(bytes(LOG_FILE_SIZE))  # allocated ahead
    if crashed:
        (tmp_path / "abort").touch()
    with small_store(tmp_path) as store:
        assert bodies(store) == expected_of(java)
        place = store.put(message())
        assert (place.queue_offset, place.physical_offset) == (23, len(java.log))


def test_garbage_behind_the_end_of_a_java_log_is_not_read(java: JavaStore, tmp_path: Path) -> None:
    java.write(behind=b"\xff" * 300)
    with small_store(tmp_path) as store:
        assert bodies(store) == expected_of(java)
        store.put(message(body=b"more"))
        store.commit()
        assert bodies(store) == [*expected_of(java), b"more"]
    last = log_files(tmp_path)[-1].read_bytes()
    assert not any(last[(len(java.log) + 97 + 4) % LOG_FILE_SIZE :])


def test_a_record_from_another_place_behind_the_end_is_not_read(java: JavaStore, tmp_path: Path) -> None:
    size = ENTRY.unpack(java.entries[0])[1]
    java.write(behind=java.log[:size])
    with small_store(tmp_path) as store:
        assert bodies(store) == expected_of(java)


def test_an_empty_last_queue_file_is_removed_and_makes_no_messages(java: JavaStore, tmp_path: Path) -> None:
    java.write()
    (tmp_path / "consumequeue/orders/0" / f"{600:020d}").write_bytes(bytes(200))
    with small_store(tmp_path) as store:
        assert bodies(store) == expected_of(java)
    assert len(queue_files(tmp_path)) == 3


def test_queue_entries_that_outlived_a_cut_of_the_log_are_not_believed(java: JavaStore, tmp_path: Path) -> None:
    # Java cut its log, wrote on, and left old entries behind the end of the queue; one lies inside the log.
    java.write(queue_behind=ENTRY.pack(len(java.log) - 300, 200, 0) + ENTRY.pack(len(java.log) + 50, 200, 0))
    with small_store(tmp_path) as store:
        assert bodies(store) == expected_of(java)
        assert store.put(message()).queue_offset == 23
        store.commit()
        assert store.max_offset("orders", 0) == 24


@pytest.mark.parametrize("physical_offset", [300, 20 * LOG_FILE_SIZE])
def test_an_old_entry_of_a_queue_that_the_walk_does_not_meet_is_not_believed(
    tmp_path: Path, physical_offset: int
) -> None:
    with small_store(tmp_path, QuickFiles()) as store:
        for index in range(4):
            store.put(message(topic="quiet", body=b"%d" % index))
        fill(store, 40)
    without_position(tmp_path)
    overwrite(queue_files(tmp_path, "quiet")[0], 4 * 20, ENTRY.pack(physical_offset, 102, 0) * 2)
    with small_store(tmp_path, QuickFiles()) as store:
        assert bodies(store, "quiet") == [b"0", b"1", b"2", b"3"]
        assert store.put(message(topic="quiet")).queue_offset == 4


def test_an_entry_whose_record_a_power_cut_took_is_dropped(tmp_path: Path) -> None:
    store = small_store(tmp_path / "first", QuickFiles())
    store.open()
    fill(store, 3)
    place = store.put(message(topic="late"))
    store.commit()
    root = left_by_a_kill(store, tmp_path / "killed")
    overwrite(log_files(root)[0], place.physical_offset, bytes(place.size))
    CheckpointFiles(root, OsFiles()).write(
        Checkpoint(place.store_timestamp_ms, place.store_timestamp_ms, 0),
        Position(place.physical_offset, place.physical_offset),
    )
    with small_store(root, QuickFiles()) as store:
        assert store.max_offset("late", 0) == 0
        assert store.max_offset("orders", 0) == 3
        assert store.put(message(topic="late")).queue_offset == 0
        store.commit()
        assert bodies(store, "late") == [b"hello"]


def test_filler_in_front_of_a_java_queue_is_no_message(tmp_path: Path) -> None:
    java = JavaStore(tmp_path)
    for offset in range(13, 18):
        java.add(b"x" * 600, queue_offset=offset)
    java.entries = [PRE_BLANK] * 3 + java.entries
    java.write(queue_start=200)
    for _ in range(2):
        with small_store(tmp_path) as store:
            assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (13, 18)
            assert [found.queue_offset for found in read_queue(store)] == [13, 14, 15, 16, 17]


def test_a_log_copied_alone_gives_the_same_queue_offsets(tmp_path: Path) -> None:
    java = JavaStore(tmp_path)
    for offset in range(13, 18):
        java.add(b"x" * 600, queue_offset=offset)
    java.write()
    shutil.rmtree(tmp_path / "consumequeue")
    with small_store(tmp_path) as store:
        assert [found.queue_offset for found in read_queue(store)] == [13, 14, 15, 16, 17]
    assert queue_files(tmp_path)[0].read_bytes()[:60] == PRE_BLANK * 3


def test_a_clean_stop_reads_no_record_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_store(tmp_path) as store:
        fill(store, 20)
    caplog.set_level(logging.INFO, "pyromq.store.recovery.recovery")
    with MessageStore(small_config(tmp_path), FakeTime()):
        assert "records=0" in caplog.text
