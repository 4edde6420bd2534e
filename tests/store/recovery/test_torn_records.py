"""A power cut leaves sectors of the last record out: it is no record, though its body is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.protocol.messages.properties import encode_properties
from tests.store.helpers import bodies, left_by_a_kill, message, small_store

SECTOR = 512
FIRST_FILE = "00000000000000000000"


def _leave(tmp_path: Path, text: str) -> tuple[Path, int, int]:
    """Return a directory whose last record has long properties, and where that record begins and ends."""
    with small_store(tmp_path / "before") as store:
        store.put(message(body=b"whole"))
        store.commit()
        store.flush()
        store.flusher.note_position()
        record = message(body=b"torn")
        record.properties = encode_properties({"a": text}).encode()
        place = store.put(record)
        store.commit()
        return left_by_a_kill(store, tmp_path / "killed"), place.physical_offset, place.physical_offset + place.size


def _zero(root: Path, start: int, end: int) -> None:
    with (root / "commitlog" / FIRST_FILE).open("r+b") as file:
        file.seek(start)
        file.write(bytes(end - start))


@pytest.mark.parametrize("sectors", [0, 1, 2])
def test_a_record_whose_properties_are_missing_from_a_sector_on_is_cut_off(tmp_path: Path, sectors: int) -> None:
    root, start, end = _leave(tmp_path, "x" * 1500)
    first = start + 200 + -(start + 200) % SECTOR + sectors * SECTOR
    assert first < end
    _zero(root, first, end)
    with small_store(root) as store:
        assert bodies(store) == [b"whole"]
        assert store.max_physical_offset == start
        assert list((root / "quarantine").iterdir())


def test_a_record_with_a_sector_missing_in_its_properties_is_cut_off(tmp_path: Path) -> None:
    root, start, _ = _leave(tmp_path, "x" * 1500)
    middle = start + -start % SECTOR + SECTOR
    _zero(root, middle, middle + SECTOR)
    with small_store(root) as store:
        assert bodies(store) == [b"whole"]


@pytest.mark.parametrize("text", ["x" * 1500, "\0 zeros \0\0 here", "ends with zeros\0\0"])
def test_a_whole_record_stays_whatever_its_properties_are(tmp_path: Path, text: str) -> None:
    root, _, end = _leave(tmp_path, text)
    with small_store(root) as store:
        assert bodies(store) == [b"whole", b"torn"]
        assert store.max_physical_offset == end
