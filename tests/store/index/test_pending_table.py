"""The timer's table: rows in order of their time, changed all together or not at all, and never trusted blindly."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import DiskFull, UnknownFormat
from pyromq.store.index.pending_table import (
    BEFORE_ALL,
    DIRECTORY_NAME,
    FILE_NAME,
    Pending,
    PendingProgress,
    PendingTable,
    count_pending,
)

FOREVER = 2**62


@pytest.fixture
def table(tmp_path: Path) -> PendingTable:
    return PendingTable(tmp_path)


def all_of(table: PendingTable) -> list[Pending]:
    return table.due(BEFORE_ALL, FOREVER, 10_000)


def test_there_is_no_file_before_the_first_save(table: PendingTable, tmp_path: Path) -> None:
    assert table.open() is None
    assert all_of(table) == []
    assert table.first_offset() is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_saved_is_there_after_a_restart(table: PendingTable, tmp_path: Path) -> None:
    table.save([Pending(30, 1), Pending(10, 2), Pending(20, 3)], [], PendingProgress(3, 500))
    table.save([Pending(5, 4)], [Pending(10, 2), Pending(99, 99)], PendingProgress(4, 600))
    table.close()
    again = PendingTable(tmp_path)
    assert again.open() == PendingProgress(4, 600)
    assert again.count == 3
    assert all_of(again) == [Pending(5, 4), Pending(20, 3), Pending(30, 1)]
    again.close()


def test_messages_of_one_time_are_told_apart(table: PendingTable) -> None:
    table.save([Pending(10, offset) for offset in range(100)], [], PendingProgress(1, 1))
    first = table.due(BEFORE_ALL, 10, 60)
    assert [*first, *table.due(first[-1], 10, 60)] == [Pending(10, offset) for offset in range(100)]
    assert Pending(10, 50) in table
    assert Pending(11, 50) not in table
    table.close()


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.integers(0, 2**62), st.integers(0, 30), max_size=30), st.integers(0, 30))
def test_it_answers_as_a_sorted_list_does(due: dict[int, int], until_ms: int) -> None:
    expected = sorted(Pending(due_ms, offset) for offset, due_ms in due.items())
    with tempfile.TemporaryDirectory(prefix="pyromq-") as directory:
        table = PendingTable(Path(directory))
        table.save(expected, [], PendingProgress(1, 1))
        assert table.due(BEFORE_ALL, until_ms, 100) == [message for message in expected if message.due_ms <= until_ms]
        assert table.first_offset() == min(due, default=None)
        for middle in expected[:3]:
            assert table.due(middle, FOREVER, 3) == [message for message in expected if message > middle][:3]
            before = [message for message in expected if message.physical_offset < middle.physical_offset]
            assert table.stored_before(middle.physical_offset, BEFORE_ALL, 100) == before
        table.close()


def test_a_full_disk_changes_nothing(table: PendingTable) -> None:
    table.save([Pending(1, 1)], [], PendingProgress(1, 1))
    assert table._connection is not None
    table._connection.execute("PRAGMA max_page_count = 4")
    with pytest.raises(DiskFull):
        table.save([Pending(offset, offset) for offset in range(2, 100_000)], [Pending(1, 1)], PendingProgress(2, 2))
    assert all_of(table) == [Pending(1, 1)]
    assert table.count == 1
    table._connection.execute("PRAGMA max_page_count = 100000")
    table.save([Pending(2, 2)], [Pending(1, 1)], PendingProgress(2, 2))
    assert all_of(table) == [Pending(2, 2)]
    table.close()


@pytest.mark.parametrize("damage", [b"", b"no database" * 500])
def test_a_damaged_file_is_left_out(table: PendingTable, tmp_path: Path, damage: bytes) -> None:
    table.save([Pending(1, 1)], [], PendingProgress(1, 1))
    table.close()
    (tmp_path / DIRECTORY_NAME / FILE_NAME).write_bytes(damage)
    again = PendingTable(tmp_path)
    assert again.open() is None
    again.save([Pending(2, 2)], [], PendingProgress(1, 1))
    assert all_of(again) == [Pending(2, 2)]
    again.close()


def test_a_file_whose_format_is_damaged_is_left_out(table: PendingTable, tmp_path: Path) -> None:
    table.save([Pending(1, 1)], [], PendingProgress(1, 1))
    assert table._connection is not None
    table._connection.execute("PRAGMA user_version = 9")
    table.close()
    assert PendingTable(tmp_path).open() is None


def test_a_file_of_a_later_format_is_refused(table: PendingTable, tmp_path: Path) -> None:
    table.save([Pending(1, 1)], [], PendingProgress(1, 1))
    assert table._connection is not None
    table._connection.execute("PRAGMA user_version = 9")
    table._connection.execute("PRAGMA application_id = 9")
    table.close()
    with pytest.raises(UnknownFormat, match=r"pending\.db has format 9, and this release knows format 1"):
        PendingTable(tmp_path).open()


def test_waiting_messages_are_counted_from_outside(table: PendingTable, tmp_path: Path) -> None:
    assert count_pending(tmp_path, 3, 10, is_live=False) == 7
    table.save([Pending(1, 1), Pending(2, 2)], [], PendingProgress(8, 1))
    live = count_pending(tmp_path, 3, 10, is_live=True)
    names = sorted(path.name for path in (tmp_path / DIRECTORY_NAME).iterdir())
    killed = count_pending(tmp_path, 3, 10, is_live=False)
    assert sorted(path.name for path in (tmp_path / DIRECTORY_NAME).iterdir()) == names
    table.close()
    assert [live, killed, count_pending(tmp_path, 3, 10, is_live=False)] == [4, 4, 4]
    (tmp_path / DIRECTORY_NAME / FILE_NAME).write_bytes(b"damage" * 100)
    assert count_pending(tmp_path, 3, 10, is_live=False) == 7
