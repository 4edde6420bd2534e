"""A real process, really killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import StoreLocked
from tests.store.helpers import read_queue, small_store

WRITER = """
import sys, itertools
from pathlib import Path
from tests.store.helpers import message, small_store

store = small_store(
    Path(sys.argv[1]), flush_disk_type=sys.argv[2], flush_interval_ms=20, checkpoint_interval_ms=30,
    commit_log_file_size=65536, consume_queue_file_size=2000,
)
store.open()
for number in itertools.count():
    joined = []
    for index in range(number % 7 + 1):
        queue_id = index % 3
        body = b"%d-%d-" % (number, index) + b"x" * (number * 37 % 900)
        joined.append((queue_id, store.put(message(queue_id=queue_id, body=body)).queue_offset, body))
    store.commit()
    for queue_id, offset, body in joined:
        print(queue_id, offset, body.decode())
    sys.stdout.flush()
"""


def start_writer(root: Path, flush: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(root), flush]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def kill_after(writer: subprocess.Popen[str], lines: int) -> list[tuple[int, int, str]]:
    """Read some acknowledgements, kill, and return all that were printed whole."""
    assert writer.stdout is not None
    printed = [writer.stdout.readline() for _ in range(lines)]
    os.kill(writer.pid, signal.SIGKILL)
    printed += writer.stdout.readlines()
    writer.wait()
    writer.stdout.close()
    whole = [line.split() for line in printed if line.endswith("\n")]
    return [(int(queue_id), int(offset), body) for queue_id, offset, body in whole]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, flush: str) -> None:
    chance = random.Random(7)
    settings: dict[str, Any] = {"commit_log_file_size": 65536, "consume_queue_file_size": 2000}
    acknowledged: dict[tuple[int, int], str] = {}
    for _ in range(5):
        writer = start_writer(tmp_path, flush)
        for queue_id, offset, body in kill_after(writer, chance.randrange(1, 600)):
            acknowledged[queue_id, offset] = body
        assert (tmp_path / "abort").exists()
        with small_store(tmp_path, **settings) as store:
            found = {
                (queue_id, one.queue_offset): one.body.decode()
                for queue_id in range(3)
                for one in read_queue(store, queue_id=queue_id)
            }
        assert found.items() >= acknowledged.items()
        for queue_id in range(3):
            offsets = [offset for queue, offset in found if queue == queue_id]
            assert offsets == list(range(len(offsets)))


def test_a_directory_in_use_by_another_process_is_refused_until_that_one_dies(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, "ASYNC_FLUSH")
    assert writer.stdout is not None
    writer.stdout.readline()
    with pytest.raises(StoreLocked, match=str(tmp_path)):
        small_store(tmp_path).open()
    kill_after(writer, 1)
    with small_store(tmp_path, commit_log_file_size=65536, consume_queue_file_size=2000) as store:
        assert store.max_offset("orders", 0) > 0
