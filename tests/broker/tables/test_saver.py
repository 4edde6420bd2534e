from __future__ import annotations

import errno
import threading
from pathlib import Path

from pyromq.broker.tables.saver import Saver
from pyromq.store.files import OsFiles
from pyromq.store.small_files.json_file import JsonFile


class GatedFile(JsonFile):
    """A file whose writes wait until the test lets them go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.saved: list[bytes] = []

    def save(self, text: bytes) -> None:
        assert self.gate.wait(30)
        self.saved.append(text)


class FullDisk(OsFiles):
    """A disk on which nothing fits until the test makes room."""

    full = True

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().pwrite(descriptor, data, position)


async def test_many_changes_during_a_save_cost_one_more_save_of_the_newest_state(tmp_path: Path) -> None:
    file = GatedFile(tmp_path / "table.json")
    state = [0]
    saver = Saver(file, lambda: state[0], lambda value: b"%d" % value)
    saver.request()
    for _ in range(100):
        state[0] += 1
        saver.request()
    file.gate.set()
    await saver.finish()
    assert file.saved[-1] == b"100"
    assert len(file.saved) <= 2


async def test_a_failed_save_is_reported_and_can_be_retried(tmp_path: Path) -> None:
    disk = FullDisk()
    file = JsonFile(tmp_path / "table.json", disk)
    saver = Saver(file, lambda: 7, lambda value: b"%d" % value)
    saver.request()
    assert not await saver.finish()
    disk.full = False
    saver.retry()
    await saver.finish()
    assert file.load(bytes) == b"7"
    saver.retry()
    assert not saver.pending
