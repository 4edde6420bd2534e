"""The journal of a table: what a line holds, what a damaged one costs, and which table it belongs to."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pyromq.protocol.bodies import DataVersion
from pyromq.store.files import OsFiles
from pyromq.store.small_files.json_file import sealed, unsealed
from pyromq.store.small_files.table_journal import (
    JournalMark,
    JournalRecord,
    JournalWriter,
    marked,
    new_journal_id,
    read_journal,
    unmarked,
)
from tests.store.helpers import FaultyFiles

ID = "5f3a9c21d4e0b7aa"
FIRST, SECOND, THIRD = b'{"number":1}', b'{"number":2}', b'{"number":3}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.json.journal"


def writer(path: Path, files: OsFiles | None = None) -> JournalWriter:
    return JournalWriter(str(path), ID, files or OsFiles())


def records(path: Path, journal: str = ID) -> list[bytes]:
    return read_journal(path.read_bytes(), journal).records


def test_a_mark_is_the_last_member_of_a_table_and_survives_its_checksum() -> None:
    text = sealed(marked(b'{\n\t"a":{}\n}', JournalMark(ID, 42)))
    assert text.startswith(b'{\n\t"a":{},\n\t"pyromqJournal":"5f3a9c21d4e0b7aa:42",\n\t"pyromqCrc32":"')
    assert unmarked(unsealed(text)) == (b'{\n\t"a":{}}', JournalMark(ID, 42))
    assert unmarked(b'{"a":1}') == (b'{"a":1}', None)


def test_ids_differ() -> None:
    assert len({new_journal_id() for _ in range(100)}) == 100


def test_a_line_is_its_checksum_and_json_for_everybody(path: Path) -> None:
    writer(path).append([(1, FIRST)])
    lines = path.read_bytes().splitlines()
    assert [line[9:] for line in lines] == [b'{"journal":"5f3a9c21d4e0b7aa","format":1}', FIRST]
    assert all(int(line[:8], 16) for line in lines)


def test_what_was_appended_is_read_in_order(path: Path) -> None:
    journal = writer(path)
    journal.append([(1, FIRST), (2, SECOND)])
    journal.append([(3, THIRD)])
    assert records(path) == [FIRST, SECOND, THIRD]
    assert journal.size == path.stat().st_size


def test_a_cut_leaves_the_later_records_and_at_last_no_file(path: Path) -> None:
    journal = writer(path)
    journal.append([(1, FIRST), (2, SECOND)])
    journal.append([(3, THIRD)])
    journal.cut(0)
    assert records(path) == [FIRST, SECOND, THIRD]
    journal.cut(2)
    assert records(path) == [THIRD]
    journal.append([(4, b'{"number":4}')])
    assert records(path) == [THIRD, b'{"number":4}']
    journal.cut(4)
    assert not path.exists()
    journal.append([(5, b'{"number":5}')])
    assert records(path) == [b'{"number":5}']


@pytest.mark.parametrize("kept", range(1, 22))
def test_an_unfinished_line_at_the_end_is_no_damage(path: Path, kept: int) -> None:
    journal = writer(path)
    journal.append([(1, FIRST)])
    size = path.stat().st_size
    journal.append([(2, SECOND)])
    found = read_journal(path.read_bytes()[: size + kept], ID)
    assert (found.records, found.damaged) == ([FIRST, *([SECOND] if kept == 21 else [])], 0)


def test_whatever_bit_is_flipped_only_its_line_is_left_out(path: Path) -> None:
    writer(path).append([(1, FIRST), (2, SECOND), (3, THIRD)])
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        found = read_journal(bytes(data), ID)
        assert len(found.records) >= (1 if data.count(b"\n") < 4 else 2)  # without a line end two lines are one
        assert set(found.records) <= {FIRST, SECOND, THIRD}
        assert not found.is_foreign


def test_a_journal_of_another_table_is_told_from_one_that_cannot_be_read(path: Path) -> None:
    writer(path).append([(1, FIRST)])
    assert read_journal(path.read_bytes(), "0" * 16) == ([], 0, True)
    assert read_journal(b"rubbish\nmore", ID) == ([], 0, False)
    assert read_journal(b"", ID) == ([], 0, False)
    assert not read_journal(path.read_bytes(), ID).is_foreign


def test_without_room_nothing_changes_and_the_next_attempt_goes_on(path: Path) -> None:
    files = FaultyFiles()
    journal = writer(path, files)
    journal.append([(1, FIRST)])
    files.fail = lambda name, _: errno.ENOSPC if name == "pwrite" else None
    with pytest.raises(OSError, match="No space"):
        journal.append([(2, SECOND)])
    assert journal.is_sound
    files.fail = lambda name, _: None
    journal.append([(3, THIRD)])
    assert records(path) == [FIRST, THIRD]


@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite", "sync_directory"])
def test_a_journal_that_could_not_be_created_is_created_at_the_next_attempt(path: Path, call: str) -> None:
    files = FaultyFiles(lambda name, _: errno.ENOSPC if name == call else None)
    journal = writer(path, files)
    with pytest.raises(OSError, match="No space"):
        journal.append([(1, FIRST), (2, SECOND)])
    files.fail = lambda name, _: None
    journal.append([(3, THIRD)])
    assert records(path) == [THIRD]


def test_after_a_failed_flush_it_is_unsound(path: Path) -> None:
    files = FaultyFiles()
    journal = writer(path, files)
    journal.append([(1, FIRST)])
    files.fail = lambda name, _: errno.EIO if name == "fdatasync" else None
    with pytest.raises(OSError, match="Input/output"):
        journal.append([(2, SECOND)])
    assert not journal.is_sound


def test_a_record_has_only_the_members_that_say_something() -> None:
    import msgspec

    record: JournalRecord[int] = JournalRecord(number=7, version=DataVersion(1, 2))
    assert msgspec.json.encode(record) == b'{"number":7,"version":{"timestamp":1,"counter":2}}'
