"""Every file of ours has a format; one of a later release is refused by its name, and nothing has changed then."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from pyromq.errors import UnknownFormat
from pyromq.store.check.verify import StoreCheck
from pyromq.store.files import OsFiles
from pyromq.store.index.pending_table import Pending, PendingProgress, PendingTable
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import TOPICS
from tests.store.helpers import message, small_config, small_store

PACKED = ("pyromq.position", "pyromq.index")
SEALED = (
    "pyromq.confirmed",
    "pyromq.deletions",
    "pyromq.epochs",
    "pyromq.fences",
    "pyromq.last_run",
    "pyromq.queues",
    "pyromq.slaves",
)
JOURNALS = ("config/topics.json.journal", "config/subscriptionGroup.json.journal", "config/consumerOffset.json.journal")
TIMER = "pyromq.timer/pending.db"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store that was used and closed."""
    with small_store(tmp_path, OsFiles()) as store:
        store.put(message())
        store.commit()
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def plant(root: Path, name: str, format: int) -> None:
    """Write a file as a release with another format would."""
    path = root / name
    path.parent.mkdir(exist_ok=True)
    if name in PACKED:
        body = format.to_bytes(4, "big") + b"what a later release keeps here, longer than ours" * 2
        path.write_bytes(body + crc32(body).to_bytes(4, "big"))
    elif name in SEALED:
        text = b'{"what": "a later release keeps here"}\n%d ' % format
        path.write_bytes(text + b"%08x\n" % crc32(text))
    elif name in JOURNALS:
        text = b'{"journal":"5f3a9c21d4e0b7aa","format":%d}' % format
        path.write_bytes(b"%08x %s\n" % (crc32(text, crc32(b"5f3a9c21d4e0b7aa")), text))
    else:
        table = PendingTable(root)
        table.save([Pending(1, 1)], [], PendingProgress(1, 1))
        table.close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {format}")
            connection.execute(f"PRAGMA application_id = {format}")


@pytest.mark.parametrize("name", [*PACKED, *SEALED, *JOURNALS, TIMER])
def test_a_file_of_a_later_release_is_refused_by_its_name_and_nothing_changes(root: Path, name: str) -> None:
    plant(root, name, 2)
    before = contents(root)
    refused = re.escape(f"{root / name} has format 2, and this release knows format 1")
    with pytest.raises(UnknownFormat, match=refused), small_store(root, OsFiles(), shows_confirmed_only=True):
        pass
    with pytest.raises(UnknownFormat, match=refused):
        list(StoreCheck(root).run())
    assert contents(root) == before


def test_files_from_before_formats_had_numbers_are_read(root: Path) -> None:
    position, index = ((root / name).read_bytes() for name in PACKED)
    for name, data in zip(PACKED, (position, index), strict=True):
        assert data[:4] == b"\0\0\0\1"
        (root / name).write_bytes(data[4:-4] + crc32(data[4:-4]).to_bytes(4, "big"))
    text, _, seal = (root / "pyromq.queues").read_bytes().partition(b"\n")
    assert re.fullmatch(rb"1 [0-9a-f]{8}\n", seal)
    (root / "pyromq.queues").write_bytes(text + b"\n%08x\n" % crc32(text))
    assert not [finding for finding in StoreCheck(root).run() if "checksum" in finding.text]
    with MessageStore(small_config(root), lambda: 1_700_000_000_000, OsFiles()) as store:
        assert store.max_offset("orders", 0) == 1
        store.put(message())
        store.commit()
    assert (root / "pyromq.position").read_bytes()[:4] == b"\0\0\0\1"


def test_what_people_put_beside_our_files_is_none_of_them(root: Path) -> None:
    (root / "pyromq.old").mkdir()
    (root / "pyromq.notes").write_text("the disk was changed on Monday\n")
    with small_store(root, OsFiles()) as store:
        assert store.max_offset("orders", 0) == 1


@pytest.mark.parametrize("byte", range(12))
def test_a_flipped_bit_is_damage_and_no_later_format(tmp_path: Path, byte: int) -> None:
    path = tmp_path / "pyromq.slaves"
    replace_sealed(OsFiles(), str(path), {"1": "10.0.0.2:10911"})
    data = bytearray(path.read_bytes())
    data[-1 - byte] ^= 2
    path.write_bytes(data)
    assert read_sealed(OsFiles(), str(path), dict[str, str]) is None


def test_a_journal_of_a_later_release_is_not_folded_into_its_table(tmp_path: Path) -> None:
    plant(tmp_path, JOURNALS[0], 2)
    with pytest.raises(UnknownFormat, match=r"topics\.json\.journal has format 2"):
        TableFile(tmp_path / "config" / "topics.json", TOPICS).load()
