"""What a store writes is for its user and its group, whatever the mask of the process is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.store.check.backup import StoreBackup
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock
from tests.broker.helpers import Peer


def modes(root: Path) -> dict[str, int]:
    """Return the mode of everything below a directory, and of itself."""
    return {str(path.relative_to(root.parent)): stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}


def too_open(root: Path) -> dict[str, str]:
    """Return what others could read, or the group could write."""
    return {name: oct(mode) for name, mode in modes(root).items() if mode & 0o027}


async def test_files_and_directories_of_a_broker_are_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        clock, root = TestClock(), tmp_path / "data" / "store"
        async with Broker(broker_config({"listenPort": "0", "storePathRootDir": str(root)}), clock) as broker:
            peer = Peer(broker.address, clock)
            await peer.send(properties="KEYS\x01k\x02")
            assert too_open(tmp_path / "data") == {}
        StoreBackup(root, tmp_path / "backup").run()
    finally:
        os.umask(before)
    assert too_open(tmp_path / "data") == {}
    assert too_open(tmp_path / "backup") == {}
    assert len(modes(tmp_path / "data")) > 15
    assert len(modes(tmp_path / "backup")) > 10


def test_directories_that_are_there_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o700)
    OsFiles().makedirs(str(tmp_path / "there" / "a" / "b"))
    OsFiles().makedirs(str(tmp_path / "there" / "a" / "b"))
    found = modes(tmp_path / "there")
    assert found == {"there": 0o700, "there/a": 0o750, "there/a/b": 0o750}
