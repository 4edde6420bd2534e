from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.errors import StoreLocked
from pyromq.store.files import OsFiles
from pyromq.store.small_files.lock import DirectoryLock

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, 0)
print("held", flush=True)
time.sleep(600)
"""
TRY = """
import sys
from pathlib import Path
from pyromq.errors import StoreLocked
from pyromq.store.files import OsFiles
from pyromq.store.small_files.lock import DirectoryLock
try:
    DirectoryLock(Path(sys.argv[1]), OsFiles()).acquire()
except StoreLocked as error:
    print(error)
else:
    print("acquired")
"""


def acquired(root: Path) -> DirectoryLock:
    lock = DirectoryLock(root, OsFiles())
    lock.acquire()
    return lock


def try_in_another_process(root: Path) -> str:
    return subprocess.run([sys.executable, "-c", TRY, str(root)], capture_output=True, text=True, check=True).stdout


def test_the_lock_file_holds_what_rocketmq_writes(tmp_path: Path) -> None:
    lock = acquired(tmp_path)
    lock.release()
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_a_second_open_in_the_same_process_is_refused_and_leaves_the_first_alone(tmp_path: Path) -> None:
    lock = acquired(tmp_path)
    with pytest.raises(StoreLocked, match=str(tmp_path)):
        acquired(tmp_path)
    assert "in use" in try_in_another_process(tmp_path)  # the refused try has not dropped the record lock
    lock.release()


def test_another_name_for_the_same_directory_is_the_same_directory(tmp_path: Path) -> None:
    root = tmp_path / "store"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    lock = acquired(root)
    with pytest.raises(StoreLocked):
        acquired(tmp_path / "link")
    lock.release()


def test_another_process_is_shut_out_until_release(tmp_path: Path) -> None:
    lock = acquired(tmp_path)
    assert str(tmp_path) in try_in_another_process(tmp_path)
    lock.release()
    assert try_in_another_process(tmp_path) == "acquired\n"
    acquired(tmp_path).release()


def test_a_holder_of_the_first_byte_as_java_takes_it_shuts_us_out_until_it_dies(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLocked, match="in use by another server"):
            acquired(tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
    acquired(tmp_path).release()
