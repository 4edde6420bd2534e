"""Damage in the log, mended with the bytes of a copy."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from pyromq.errors import CorruptRecord, StoreError
from pyromq.store.message_store import MessageStore
from tests.store.helpers import LOG_FILE_SIZE, FaultyFiles, bodies, left_by_a_kill, log_files, message, small_store

TEXTS = [bytes([65 + number]) * 500 for number in range(20)]  # about three files


def filled(root: Path) -> tuple[bytes, list[int]]:
    """Fill a store and return the bytes of its log, and where its records begin."""
    with small_store(root) as store:
        places = [put(store, text) for text in TEXTS]
    return b"".join(path.read_bytes() for path in log_files(root)), places


def put(store: MessageStore, text: bytes) -> int:
    placed = store.put(message(body=text))
    store.commit()
    return placed.physical_offset


def flip(root: Path, place: int, at: int = 200) -> None:
    """Change a byte of a record."""
    path = log_files(root)[place // LOG_FILE_SIZE]
    data = bytearray(path.read_bytes())
    data[place % LOG_FILE_SIZE + at] ^= 0x40
    path.write_bytes(data)


def heal(store: MessageStore, whole: bytes, piece: int = 1 << 20) -> None:
    """Give a store the bytes of all that is fenced, in pieces."""
    for fence in store.healing.ranges():
        position, data = fence.start, b""
        while position < fence.end:
            at = position + len(data)
            data += whole[at : min(at + piece, fence.end)]
            end, _ = store.healing.heal(position, data)
            position, data = end, data[end - position :]


def log_bytes(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in log_files(root))


@pytest.mark.parametrize("at", [2, 6, 30, 200], ids=["size", "magic", "offset", "body"])
def test_a_message_that_was_damaged_at_rest_is_served_again(tmp_path: Path, at: int) -> None:
    whole, places = filled(tmp_path)
    flip(tmp_path, places[3], at)
    flip(tmp_path, places[9], at)
    with small_store(tmp_path) as store:
        assert bodies(store) == [text for number, text in enumerate(TEXTS) if number not in (3, 9)]
        assert len(store.fences) == 2
        heal(store, whole)
        assert bodies(store) == TEXTS
        assert not store.fences
    assert log_bytes(tmp_path) == whole
    with small_store(tmp_path) as store:
        assert not store.fences
        assert bodies(store) == TEXTS


@pytest.mark.parametrize("piece", [1, 100, 700, 1 << 20])
def test_a_lost_file_is_written_again_with_the_entries_of_its_messages(tmp_path: Path, piece: int) -> None:
    whole, _ = filled(tmp_path)
    log_files(tmp_path)[1].unlink()
    shutil.rmtree(tmp_path / "consumequeue")
    with small_store(tmp_path) as store:
        assert len(bodies(store)) < len(TEXTS)
        heal(store, whole, piece)
        assert bodies(store) == TEXTS
    assert log_bytes(tmp_path) == whole


@pytest.mark.parametrize("number", [0, 1, 6, 19])
def test_a_record_that_recovery_walked_around_gets_its_entry(tmp_path: Path, number: int) -> None:
    whole, places = filled(tmp_path / "store")
    flip(tmp_path / "store", places[number])
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with small_store(tmp_path / "store") as store:
        assert len(store.fences) == 1
        heal(store, whole)
        assert bodies(store) == TEXTS
        root = left_by_a_kill(store, tmp_path / "killed")
    with small_store(root) as store:
        assert bodies(store) == TEXTS
        assert put(store, b"next") > places[-1]
        assert bodies(store) == [*TEXTS, b"next"]


@pytest.mark.parametrize("cause", ["another place", "damaged there too", "cut off"])
def test_bytes_that_do_not_fit_change_nothing(tmp_path: Path, cause: str) -> None:
    whole, places = filled(tmp_path)
    flip(tmp_path, places[3])
    before = log_bytes(tmp_path)
    good = whole[places[3] : places[4]]
    wrong = {
        "another place": whole[places[4] : places[5]],
        "damaged there too": before[places[3] : places[4]],
        "cut off": good[:-9] + bytes(9),
    }[cause]
    with small_store(tmp_path) as store:
        bodies(store)
        with pytest.raises(CorruptRecord, match="no records that fit"):
            store.healing.heal(places[3], wrong)
        assert len(store.fences) == 1
    assert log_bytes(tmp_path) == before


def test_only_what_is_fenced_is_written_over(tmp_path: Path) -> None:
    whole, places = filled(tmp_path)
    with small_store(tmp_path) as store, pytest.raises(StoreError, match="nothing is fenced"):
        store.healing.heal(places[3], whole[places[3] : places[4]])


@pytest.mark.parametrize("call", ["pwrite", "fdatasync", "rename"])
def test_a_failure_leaves_the_fence(tmp_path: Path, call: str) -> None:
    whole, places = filled(tmp_path)
    flip(tmp_path, places[3])
    with small_store(tmp_path) as store:
        bodies(store)
    files = FaultyFiles(flushes=False)
    with small_store(tmp_path, files) as store:
        files.fail = lambda name, _: errno.EIO if name == call else None
        with pytest.raises(StoreError):
            heal(store, whole)
        files.fail = lambda name, _: None
        root = left_by_a_kill(store, tmp_path / "killed")
    with small_store(root) as store:
        assert len(store.fences) == 1
        heal(store, whole)
        assert bodies(store) == TEXTS
        assert not store.fences
