"""Reads after a restart: many records come in one call, and one that cannot be read takes no other with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.store.helpers import QuickFiles, bodies, message, small_store

SENT = [b"%02d" % number + b"x" * 40 for number in range(40)]


class BadSector(QuickFiles):
    """Files of which some bytes of the log cannot be read."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self._bad = range(start, end)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        is_log = "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}")
        if is_log and offset < self._bad.stop and self._bad.start < offset + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(descriptor, length, offset)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to know which file is read")
@pytest.mark.parametrize("queues", [1, 3])
@pytest.mark.parametrize("damaged", [0, 5, 17, 39])
def test_a_record_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path, queues: int, damaged: int) -> None:
    size = 1 << 20
    with small_store(tmp_path, commit_log_file_size=size) as store:
        places = [store.put(message(body=body, queue_id=number % queues)) for number, body in enumerate(SENT)]
        store.commit()
    bad = places[damaged]
    with small_store(
        tmp_path, BadSector(bad.physical_offset + 20, bad.physical_offset + 30), commit_log_file_size=size
    ) as store:
        for _ in range(2):
            found = sorted(body for queue_id in range(queues) for body in bodies(store, queue_id=queue_id))
            assert found == [body for body in SENT if body != SENT[damaged]]
