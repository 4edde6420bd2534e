from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import DiskFull
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.store.files import DiskUsage
from pyromq.store.message_store import GetStatus, MessageStore
from pyromq.store.retention.retention import used_percent
from tests.store.helpers import HOST, QuickFiles, bodies, log_files, message, queue_files, small_config

HOUR_MS = 3_600_000
NOON_MS = int(datetime(2026, 3, 10, 12, 0).timestamp() * 1000)
FOUR_MS = int(datetime(2026, 3, 10, 4, 30).timestamp() * 1000)
BODY = b"x" * 1800  # two records fill a file of the log


class Disk(QuickFiles):
    """A disk as full as the test says, on which all files are as old as the test says."""

    def __init__(self) -> None:
        self.percent = 50
        self.modified_at_ms = NOON_MS - 73 * HOUR_MS
        self.exceptions: dict[int, int] = {}

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(self.percent, 100 - self.percent)

    def modified_ms(self, path: str) -> int:
        return self.exceptions.get(int(os.path.basename(path)) // 4096, self.modified_at_ms)


class Clock:
    """A time that stands still until it is set."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


class Kept:
    """A store with one message for each half of a file, and what the test turns: its disk and its time."""

    def __init__(self, root: Path, files: Disk | None = None, now_ms: int = NOON_MS, **changes: Any) -> None:
        self.root = root
        self.disk = files or Disk()
        self.clock = Clock(now_ms)
        settings = {"consume_queue_file_size": 60, "message_index": False} | changes
        self.store = MessageStore(small_config(root, **settings), self.clock, self.disk)

    def fill(self, log_file_count: int, topic: str = "orders") -> None:
        """Fill so many files of the log, and flush them."""
        for index in range(2 * log_file_count):
            self.store.put(message(topic, body=b"%d" % (index % 10) + BODY))
        self.store.commit()
        self.store.flusher.flush()

    def clean(self) -> None:
        """Make one pass, and wait until what it removes is gone."""
        self.store.cleaner.run()
        while self.store.cleaner.go_on():
            pass
        self.store.cleaner._remover.wait()

    @property
    def names(self) -> list[int]:
        """The numbers of the log's files that are left."""
        return [int(path.name) // 4096 for path in log_files(self.root)]


@contextmanager
def filled(root: Path, count: int = 5, **changes: Any) -> Iterator[Kept]:
    kept = Kept(root, **changes)
    with kept.store:
        kept.fill(count)
        yield kept


def test_expired_files_go_in_the_hour_of_delete_when_and_in_no_other(tmp_path: Path) -> None:
    with filled(tmp_path) as kept:
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]
        kept.clock.now_ms = FOUR_MS + 24 * HOUR_MS
        kept.store.cleaner.retention._steady._last_ms = kept.clock.now_ms  # time passed, it did not jump
        kept.clean()
        assert kept.names == [4]
        assert kept.store.min_physical_offset == 4 * 4096


def test_delete_when_may_name_several_hours(tmp_path: Path) -> None:
    with filled(tmp_path, delete_when=(4, 12)) as kept:
        kept.clean()
        assert kept.names == [4]


def test_a_file_is_kept_for_its_reserved_time(tmp_path: Path) -> None:
    with filled(tmp_path, delete_when=(12,), file_reserved_hours=74) as kept:
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]
        kept.disk.modified_at_ms = NOON_MS - 74 * HOUR_MS
        kept.clean()
        assert kept.names == [4]


def test_a_file_that_has_not_expired_keeps_those_behind_it(tmp_path: Path) -> None:
    with filled(tmp_path, delete_when=(12,)) as kept:
        kept.disk.exceptions[2] = NOON_MS
        kept.clean()
        assert kept.names == [2, 3, 4]


def test_at_most_ten_files_go_in_a_pass(tmp_path: Path) -> None:
    with filled(tmp_path, 14, delete_when=(12,)) as kept:
        kept.clean()
        assert kept.names == [10, 11, 12, 13]
        kept.clean()
        assert kept.names == [13]


@pytest.mark.parametrize(("percent", "left"), [(75, 5), (76, 1)])
def test_above_the_used_space_ratio_expired_files_go_at_any_hour(tmp_path: Path, percent: int, left: int) -> None:
    with filled(tmp_path) as kept:
        kept.disk.percent = percent
        kept.clean()
        assert len(kept.names) == left


@pytest.mark.parametrize(("percent", "forcibly", "left"), [(85, True, 5), (86, True, 1), (86, False, 5)])
def test_above_the_forcible_ratio_files_go_whatever_their_age(
    tmp_path: Path, percent: int, forcibly: bool, left: int
) -> None:
    with filled(tmp_path, clean_file_forcibly=forcibly) as kept:
        kept.disk.modified_at_ms = NOON_MS
        kept.disk.percent = percent
        kept.clean()
        assert len(kept.names) == left


def test_above_the_warning_level_nothing_is_taken_until_there_is_room_and_reading_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with filled(tmp_path, clean_file_forcibly=False) as kept:
        store = kept.store
        kept.disk.percent = 90
        kept.clean()
        assert store.writable
        store.put(message(body=b"on its way"))
        kept.disk.percent = 91
        kept.clean()
        store.commit()  # what was taken is stored
        assert not store.writable
        with pytest.raises(DiskFull, match="91% full, messages are taken up to 90%"):
            store.put(message())
        with pytest.raises(DiskFull):
            store.put_batch([message()])
        assert bodies(store)[-1] == b"on its way"
        kept.clean()
        kept.disk.percent = 90
        kept.clean()
        store.put(message(body=b"again"))
        store.commit()
        assert bodies(store)[-1] == b"again"
    warnings = [record for record in caplog.records if "no message is taken" in record.getMessage()]
    assert len(warnings) == 1


def test_a_store_that_opens_on_a_full_disk_takes_nothing_from_the_start(tmp_path: Path) -> None:
    disk = Disk()
    disk.percent = 95
    with Kept(tmp_path, disk).store as store, pytest.raises(DiskFull):
        store.put(message())


def test_a_log_above_its_limit_loses_its_oldest_files_whatever_their_age(tmp_path: Path) -> None:
    with filled(tmp_path, max_store_bytes=3 * 4096) as kept:
        kept.disk.modified_at_ms = NOON_MS
        kept.clean()
        assert kept.names == [2, 3, 4]
        kept.clean()
        assert kept.names == [2, 3, 4]


def test_the_last_file_never_goes(tmp_path: Path) -> None:
    with filled(tmp_path, 1, max_store_bytes=1) as kept:
        kept.disk.percent = 99
        kept.clean()
        assert kept.names == [0]


def test_what_is_not_flushed_yet_stays(tmp_path: Path) -> None:
    with filled(tmp_path, 2, max_store_bytes=1) as kept:
        for _ in range(6):
            kept.store.put(message(body=BODY))
        kept.store.commit()
        kept.clean()
        assert kept.names == [1, 2, 3, 4]


def test_an_administrator_has_expired_files_removed_at_any_hour_for_twenty_passes(tmp_path: Path) -> None:
    with filled(tmp_path) as kept:
        kept.disk.modified_at_ms = NOON_MS
        kept.store.cleaner.delete_soon()
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]  # not those that have not expired
        kept.disk.modified_at_ms = 0
        for _ in range(17):
            kept.store.cleaner.retention._is_time(NOON_MS)
        kept.clean()
        assert kept.names == [4]
        kept.fill(2)
        kept.clean()
        assert kept.names == [4, 5, 6]


def test_a_clock_that_jumps_ahead_expires_nothing_for_an_hour(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with filled(tmp_path, delete_when=tuple(range(24))) as kept:
        kept.disk.modified_at_ms = NOON_MS
        kept.clock.now_ms += 365 * 24 * HOUR_MS
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]
        assert "the clock jumped ahead" in caplog.text
        kept.clock.now_ms -= 365 * 24 * HOUR_MS  # set right again: no file is old
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]
        kept.disk.modified_at_ms = 0
        for _ in range(6):
            kept.clock.now_ms += 10 * 60_000
            kept.clean()
        assert kept.names == [4]


def test_queues_follow_the_log(tmp_path: Path) -> None:
    with filled(tmp_path, max_store_bytes=2 * 4096) as kept:
        store = kept.store
        kept.clean()
        assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (6, 10)
        assert [int(path.name) // 20 for path in queue_files(tmp_path)] == [6, 9]  # three entries a file
        moved = store.get("orders", 0, 3, 32)
        assert (moved.status, moved.next_offset, moved.min_offset) == (GetStatus.OFFSET_TOO_SMALL, 6, 6)
        assert store.get("orders", 0, 6, 32).status is GetStatus.FOUND
        assert store.offset_at("orders", 0, 0) == 6
        assert store.earliest_time("orders", 0) == NOON_MS
        assert store.read(0) is None
    with kept.store as store:
        assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (6, 10)


def test_the_index_follows_the_log(tmp_path: Path) -> None:
    kept = Kept(tmp_path, message_index=True, max_hash_slots=8, max_index_entries=4, max_store_bytes=4096)
    with kept.store as store:
        for number in range(12):
            properties = encode_properties({"KEYS": f"k{number}"}).encode()
            store.put(Record(topic="orders", body=BODY, properties=properties, store_host=HOST))
        store.commit()
        store.flusher.checkpoint()
        before = len(list((tmp_path / "index").iterdir()))
        kept.clean()
        assert before == 4  # of three keys each
        assert len(list((tmp_path / "index").iterdir())) == 1
        assert store.find("orders", "k0", 10) == []
        assert len(store.find("orders", "k11", 10)) == 1


def test_until_its_turn_comes_a_queue_says_that_messages_are_being_removed(tmp_path: Path) -> None:
    with filled(tmp_path, max_store_bytes=2 * 4096) as kept:
        kept.store.cleaner.run()
        removing = kept.store.get("orders", 0, 0, 32)
        assert (removing.status, removing.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 3)


def test_a_queue_whose_messages_are_all_gone_goes_on_with_its_offsets(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_store_bytes=4096)
    with kept.store as store:
        kept.fill(2, "quiet")
        kept.fill(3)
        kept.clean()
        for opened in range(2):
            assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (4, 4)
            assert store.get("quiet", 0, 2, 32).next_offset == 4
            assert store.get("quiet", 0, 4, 32).status is GetStatus.OFFSET_OVERFLOW_ONE
            assert store.earliest_time("quiet", 0) == -1
            assert store.offset_at("quiet", 0, NOON_MS) == 4
            assert [int(path.name) // 20 for path in queue_files(tmp_path, "quiet")] == [3]
            if not opened:
                store.close()
                store.open()
        assert store.put(message("quiet", body=b"new")).queue_offset == 4
        store.commit()
        assert bodies(store, "quiet") == [b"new"]


def test_many_queues_follow_a_few_at_a_time(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_store_bytes=4096)
    with kept.store as store:
        for number in range(120):
            store.put(message(f"t{number}", body=BODY))
        store.commit()
        store.flusher.flush()
        for _ in range(6):
            store.cleaner.run()
        steps = 0
        while store.cleaner.go_on():
            steps += 1
        assert steps == 3
        assert [store.min_offset(f"t{number}", 0) for number in (0, 60, 117)] == [1, 1, 1]


def test_what_was_read_stays_valid_while_its_file_goes(tmp_path: Path) -> None:
    with filled(tmp_path, max_store_bytes=4096) as kept:
        result = kept.store.get("orders", 0, 0, 2)
        kept.clean()
        assert kept.names == [4]
        assert [found.body[:1] for found in decode_messages(b"".join(result.views))] == [b"0", b"1"]


class StuckDisk(Disk):
    """A disk that takes its time to remove a file."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def unlink(self, path: str) -> None:
        if "commitlog" in path:
            assert self.goes_on.wait(30)
        super().unlink(path)


def test_removing_a_file_stops_neither_sends_nor_reads(tmp_path: Path) -> None:
    disk = StuckDisk()
    with filled(tmp_path, files=disk, max_store_bytes=4096) as kept:
        kept.store.cleaner.run()
        while kept.store.cleaner.go_on():
            pass
        kept.fill(1)
        assert len(bodies(kept.store)) == 4  # all but those of the files that go
        assert kept.names == [0, 1, 2, 3, 4, 5]
        disk.goes_on.set()
        kept.store.cleaner._remover.wait()
        assert kept.names == [4, 5]


class BrokenDisk(Disk):
    """A disk on which the first file cannot be removed for a while."""

    broken = True

    def unlink(self, path: str) -> None:
        if self.broken and path.endswith("commitlog/" + "0" * 20):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(path)


def test_a_file_that_cannot_be_removed_is_tried_again_and_never_leaves_a_hole(tmp_path: Path) -> None:
    disk = BrokenDisk()
    with filled(tmp_path, files=disk, max_store_bytes=4096) as kept:
        kept.clean()
        assert kept.names == [0, 1, 2, 3, 4]
        assert kept.store.min_physical_offset == 4 * 4096
        disk.broken = False
        kept.clean()
        assert kept.names == [4]


def test_ratios_are_counted_as_df_does() -> None:
    assert used_percent(DiskUsage(0, 100)) == 0
    assert used_percent(DiskUsage(1, 999)) == 1
    assert used_percent(DiskUsage(900, 100)) == 90
    assert used_percent(DiskUsage(901, 99)) == 91
    assert used_percent(DiskUsage(0, 0)) == 0


def test_the_disk_of_a_log_elsewhere_counts_too(tmp_path: Path) -> None:
    class TwoDisks(Disk):
        def disk_usage(self, path: str) -> DiskUsage:
            return DiskUsage(95, 5) if "fast" in path else DiskUsage(1, 99)

    (tmp_path / "fast").mkdir()
    kept = Kept(tmp_path / "store", TwoDisks(), commit_log=tmp_path / "fast" / "log")
    with kept.store as store:
        assert not store.writable


def test_an_unknown_usage_of_the_disk_refuses_nothing(tmp_path: Path) -> None:
    class NoUsage(Disk):
        def disk_usage(self, path: str) -> DiskUsage:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Kept(tmp_path, NoUsage()).store as store:
        assert store.writable


def test_real_files_are_judged_by_their_real_times(tmp_path: Path) -> None:
    config = small_config(tmp_path, message_index=False, delete_when=tuple(range(24)), max_mapped_files=1)
    clock = Clock(int(datetime.now().timestamp() * 1000))
    with MessageStore(config, clock, QuickFiles()) as store:
        for _ in range(6):
            store.put(message(body=BODY))
        store.commit()
        store.flusher.flush()
        store.cleaner.run()
        assert store.min_physical_offset == 0
        os.utime(log_files(tmp_path)[0], (0, 0))
        store.cleaner.run()
        assert store.min_physical_offset == 4096
