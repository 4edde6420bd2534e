"""TableSaver: a change is saved by a few bytes; the whole table is written while other changes go on."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.broker.tables import table_saver
from pyromq.broker.tables.table_saver import PrintTable, TableChanges, TableSaver
from pyromq.store.files import OsFiles
from pyromq.store.small_files.table_file import TableFile, read_table
from pyromq.store.small_files.table_formats import OFFSETS
from pyromq.testing import eventually
from tests.store.helpers import FaultyFiles

Row = dict[int, int]


class CountingFiles(FaultyFiles):
    """Counts the bytes that are written; can fail, and while `passes` is clear, writing a whole table waits."""

    def __init__(self) -> None:
        super().__init__(flushes=False)
        self.bytes = 0
        self.passes = threading.Event()
        self.passes.set()
        self._tables: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        self._tables.discard(descriptor)
        if path.endswith(".tmp"):
            self._tables.add(descriptor)
        return descriptor

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if descriptor in self._tables:
            assert self.passes.wait(30)
        self.bytes += len(data)
        return super().pwrite(descriptor, data, position)


class Rig:
    """A table of offsets, and a saver for it."""

    def __init__(self, directory: Path, files: OsFiles | None = None) -> None:
        self.directory = directory
        self.file = TableFile(directory / OFFSETS.name, OFFSETS, files)
        loaded = self.file.load()
        self.table: dict[str, Row] = loaded.offset_table if loaded else {}
        self.saver: TableSaver[Row] = TableSaver(self.file, self._whole)
        self.printed = 0

    def _whole(self) -> PrintTable:
        rows = [(key, dict(row)) for key, row in self.table.items()]
        self.printed += 1
        return lambda: OFFSETS.print(rows)

    def put(self, key: str, row: Row) -> int:
        """Change a row and have it saved."""
        self.table.setdefault(key, {}).update(row)
        self.saver.changes.rows.setdefault(key, {}).update(row)
        return self.saver.request()

    def remove(self, key: str) -> int:
        """Remove a row and have that saved."""
        self.table.pop(key, None)
        self.saver.changes.remove(key)
        return self.saver.request()

    @property
    def stored(self) -> dict[str, Row]:
        """What the disk has."""
        table = read_table(self.directory, OFFSETS)
        return table.offset_table if table else {}

    @property
    def has_journal(self) -> bool:
        """Whether there is a journal."""
        return (self.directory / (OFFSETS.name + ".journal")).exists()


async def test_a_change_of_a_large_table_costs_a_few_bytes(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    for number in range(2000):
        rig.put(f"T-{number}@G", {0: number})
    assert await rig.saver.finish()
    files.bytes = printed = 0
    printed = rig.printed
    for number in range(10):
        rig.put("T-7@G", {1: number})
        assert await rig.saver.finish()
    assert files.bytes < 10 * 100
    assert rig.printed == printed
    assert rig.stored == rig.table


async def test_many_changes_during_a_write_cost_one_more_write(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    rig.put("T@G", {0: 0})
    assert await rig.saver.finish()
    before = files.calls["fdatasync"]
    for number in range(100):
        rig.put("T@G", {0: number})
    assert await rig.saver.finish()
    assert files.calls["fdatasync"] - before <= 2
    assert rig.stored == {"T@G": {0: 99}}


async def test_listeners_hear_when_what_changed_before_is_saved(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    heard: list[bool] = []
    rig.saver.when_saved(heard.append)
    assert heard == [True]  # nothing to wait for
    files.passes.clear()
    number = rig.put("T@G", {0: 1})
    rig.saver.when_saved(heard.append)
    assert (heard, rig.saver.pending, rig.saver.saved < number) == ([True], True, True)
    files.passes.set()
    await eventually(lambda: heard == [True, True])
    assert (rig.saver.pending, rig.saver.saved) == (False, number)


async def test_changes_are_saved_while_the_whole_table_is_being_written(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    rig.put("T@G", {0: 1})
    rig.put("U@G", {0: 1})
    assert await rig.saver.finish()
    rig.put("T@G", {0: 2})
    assert await rig.saver.finish()
    files.passes.clear()
    rig.saver.rewrite_soon()
    await asyncio.sleep(0)
    rig.put("T@G", {0: 3})
    rig.remove("U@G")
    assert await rig.saver.finish()
    assert rig.stored == {"T@G": {0: 3}}
    files.passes.set()
    await rig.saver.close()
    assert rig.stored == {"T@G": {0: 3}}
    assert not rig.has_journal


async def test_a_failed_save_is_told_and_can_be_retried(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    rig.put("T@G", {0: 1})
    assert await rig.saver.finish()
    heard: list[bool] = []
    files.fail = lambda name, _: errno.ENOSPC if name == "pwrite" else None
    for number in (2, 3):
        rig.put("T@G", {0: number, number: number})
        rig.saver.when_saved(heard.append)
        assert not await rig.saver.finish()
    rig.remove("U@G")
    assert not await rig.saver.finish()
    assert heard == [False, False]
    assert rig.stored == {"T@G": {0: 1}}
    printed = rig.printed
    files.fail = lambda name, _: None
    rig.saver.retry()
    assert await rig.saver.finish()
    assert rig.stored == {"T@G": {0: 3, 2: 2, 3: 3}}
    assert rig.printed == printed  # without room only the journal is tried again
    rig.saver.retry()
    assert not rig.saver.pending


async def test_after_a_failed_flush_the_whole_table_is_written_at_once(tmp_path: Path) -> None:
    files = CountingFiles()
    rig = Rig(tmp_path, files)
    rig.put("T@G", {0: 1})
    assert await rig.saver.finish()
    failing = iter([errno.EIO])
    files.fail = lambda name, _: next(failing, None) if name == "fdatasync" else None
    rig.put("T@G", {0: 2})
    assert await rig.saver.finish()
    assert rig.stored == {"T@G": {0: 2}}
    await eventually(lambda: not rig.has_journal)  # it is cut after the table is saved


async def test_a_journal_is_folded_in_after_a_minute_or_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path, CountingFiles())
    rig.put("T@G", {0: 1})
    assert await rig.saver.finish()
    rig.put("T@G", {0: 2})
    assert await rig.saver.finish()
    for _ in range(11):
        rig.saver.tick()
    assert rig.has_journal
    rig.saver.tick()
    await eventually(lambda: not rig.has_journal)
    printed = rig.printed
    for _ in range(30):
        rig.saver.tick()
    assert rig.printed == printed
    monkeypatch.setattr(table_saver, "_LARGE", 1000)
    for number in range(100):
        rig.put("T@G", {0: number})
        await rig.saver.finish()
    await eventually(lambda: rig.printed > printed)
    await rig.saver.close()
    assert rig.stored == {"T@G": {0: 99}}


async def test_a_clean_stop_leaves_no_journal_not_even_that_of_a_killed_broker(tmp_path: Path) -> None:
    killed = Rig(tmp_path, CountingFiles())
    killed.put("T@G", {0: 1})
    assert await killed.saver.finish()
    killed.put("T@G", {0: 2})
    assert await killed.saver.finish()
    assert killed.has_journal
    idle = Rig(tmp_path, CountingFiles())
    await idle.saver.close()
    assert not idle.has_journal
    assert idle.stored == {"T@G": {0: 2}}


async def test_a_table_without_a_journal_is_rewritten_at_the_start_so_that_no_change_waits_for_that(
    tmp_path: Path,
) -> None:
    (tmp_path / OFFSETS.name).write_text('{"offsetTable":{"T@G":{0:5}}}')
    rig = Rig(tmp_path, CountingFiles())
    rig.saver.begin()
    await eventually(lambda: not rig.file.needs_whole)
    printed = rig.printed
    rig.put("T@G", {0: 6})
    assert await rig.saver.finish()
    assert (rig.printed, rig.stored) == (printed, {"T@G": {0: 6}})
    Rig(tmp_path / "nothing").saver.begin()
    assert not (tmp_path / "nothing").exists()


async def test_an_error_of_a_listener_costs_no_other_its_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    heard: list[bool] = []
    rig.put("T@G", {0: 1})
    rig.saver.when_saved(lambda saved: [][int(saved)])
    rig.saver.when_saved(heard.append)
    await rig.saver.finish()
    assert heard == [True]


def test_changes_that_follow_each_other_are_one_change() -> None:
    first: TableChanges[Row] = TableChanges({"a": None}, {"b": {0: 1, 1: 1}, "c": {0: 1}})
    both = first.followed_by(TableChanges({"c": None}, {"b": {1: 2}, "a": {0: 3}}))
    assert both == TableChanges({"a": None, "c": None}, {"b": {0: 1, 1: 2}, "a": {0: 3}})
    assert (bool(both), bool(TableChanges())) == (True, False)


def test_many_rows_are_several_records_and_the_first_removes() -> None:
    changes: TableChanges[int] = TableChanges({"gone": None}, {str(number): number for number in range(450)})
    records = list(changes.records(7, None))
    assert [number for number, _ in records] == [7, 8, 9]
    assert changes.record_count == 3
    assert [b"gone" in text for _, text in records] == [True, False, False]
    assert len(list(TableChanges().records(1, None))) == TableChanges().record_count == 1


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("remove"), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["rewrite", "retry", "wait", "turn"])),
    ),
    max_size=25,
)


@settings(max_examples=30, deadline=None)
@given(todo=steps, seed=st.integers(0, 1000), rate=st.sampled_from([0.0, 0.05, 0.3]))
def test_what_is_told_to_be_saved_is_on_disk_whatever_fails_meanwhile(
    tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[Any, ...]], seed: int, rate: float
) -> None:
    asyncio.run(_random_life(tmp_path_factory.mktemp("life"), todo, random.Random(seed), rate))


async def _random_life(root: Path, todo: list[tuple[Any, ...]], chance: random.Random, rate: float) -> None:
    files = CountingFiles()
    files.fail = lambda name, _: errno.EIO if name != "open" and chance.random() < rate else None
    rig = Rig(root, files)
    for what, *arguments in todo:
        match what:
            case "put":
                rig.put(arguments[0], {arguments[1]: arguments[2]})
            case "remove":
                rig.remove(*arguments)
            case "rewrite":
                rig.saver.rewrite_soon()
            case "retry":
                rig.saver.retry()
            case "turn":
                await asyncio.sleep(0)
            case _:
                if await rig.saver.finish():
                    assert rig.stored == rig.table
    files.fail = lambda name, _: None
    await rig.saver.close()
    assert rig.stored == rig.table
    assert not rig.has_journal
