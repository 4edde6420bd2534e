"""Reads after a restart: many records come in one call, and one that cannot be read takes no other with it."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import pytest

from pyromq.store.read.disk import residency
from tests.store.helpers import QuickFiles, bodies, message, small_store

SENT = [b"%02d" % number + b"x" * 40 for number in range(40)]


class BadSector(QuickFiles):
    """Files of which some bytes of the log cannot be read."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__()
        self._bad = range(start, end)

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        if self._is_bad(descriptor, length, offset):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pread(descriptor, length, offset)

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        """Say what the system does: what the disk cannot read is not in memory."""
        return not self._is_bad(descriptor, length, position) and super().is_cached(descriptor, length, position)

    def _is_bad(self, descriptor: int, length: int, offset: int) -> bool:
        return is_log(descriptor) and offset < self._bad.stop and self._bad.start < offset + length


class CountedReads(QuickFiles):
    """Files of which it is known how often the log was read by a call."""

    reads = 0

    def pread(self, descriptor: int, length: int, offset: int) -> bytes:
        self.reads += is_log(descriptor)
        return super().pread(descriptor, length, offset)


def is_log(descriptor: int) -> bool:
    return "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}")


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


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to know which file is read")
def test_records_that_are_known_to_be_in_memory_are_checked_without_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that catches up after a restart costs sends less."""
    monkeypatch.setattr(residency, "BELIEVED", math.inf)
    with small_store(tmp_path, commit_log_file_size=1 << 20) as store:
        for number, body in enumerate(SENT):
            store.put(message(body=body, queue_id=number % 2))
        store.commit()
    files = CountedReads()
    with small_store(tmp_path, files, commit_log_file_size=1 << 20) as store:
        bodies(store, queue_id=0)  # from then on the system has said what is in memory
        files.reads = 0
        assert bodies(store, queue_id=1) == SENT[1::2]
        assert files.reads == 0
