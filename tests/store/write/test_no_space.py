"""A disk that has no space for a message, and then has."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.errors import DiskFull
from pyromq.store.files import DiskUsage
from pyromq.store.write.no_space import ENOUGH
from tests.store.helpers import QuickFiles, message, small_store


class SmallDisk(QuickFiles):
    """A disk that gives no more space while the test says so."""

    is_full = False
    usable = 0

    def fallocate(self, descriptor: int, offset: int, length: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().fallocate(descriptor, offset, length)

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(1 << 40, self.usable)


LOOSE = {
    "disk_space_warning_level_ratio": 1.0,
    "disk_space_clean_forcibly_ratio": 1.0,
    "disk_max_used_space_ratio": 100,
}


def test_a_refused_message_is_remembered_until_one_is_stored(tmp_path: Path) -> None:
    disk = SmallDisk()
    with small_store(tmp_path, disk, **LOOSE) as store:
        store.put(message())
        store.commit()
        disk.is_full = True
        with pytest.raises(DiskFull, match="No space left"):
            store.put(message(queue_id=1))
        store.cleaner.check_disk()
        assert store.cleaner.no_space.error is not None
        disk.is_full = False
        store.put(message(queue_id=1))
        store.commit()
        store.cleaner.check_disk()
        assert store.cleaner.no_space.error is None


def test_a_disk_with_room_again_needs_no_message_to_prove_it(tmp_path: Path) -> None:
    disk = SmallDisk()
    with small_store(tmp_path, disk, **LOOSE) as store:
        disk.is_full = True
        with pytest.raises(DiskFull):
            store.put_batch([message(), message()])
        store.cleaner.check_disk()
        assert store.cleaner.no_space.error is not None
        disk.usable = ENOUGH
        store.cleaner.check_disk()
        assert store.cleaner.no_space.error is None
