"""TableFile: whatever a crash leaves, every change that was saved is there, and nothing that never was."""

from __future__ import annotations

import errno
import json
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.protocol.bodies import ConsumerOffsetSerializeWrapper
from pyromq.store.files import OsFiles
from pyromq.store.small_files.table_file import ReadOnlyTable, TableFile, read_table
from pyromq.store.small_files.table_formats import OFFSETS
from pyromq.store.small_files.table_journal import JournalRecord
from tests.faults.disk_model import Disk, Recorder, Remark, Tree, build
from tests.store.helpers import FaultyFiles, QuickFiles

State = dict[str, dict[int, int]]
Offsets = TableFile[ConsumerOffsetSerializeWrapper, dict[int, int]]
KEYS = ("T@G", "T@H", "U@G")


def table_file(root: Path, files: OsFiles | None = None) -> Offsets:
    return TableFile(root / "config" / OFFSETS.name, OFFSETS, files or QuickFiles())


class Owner:
    """Changes a table as a broker does, and knows what is saved."""

    def __init__(self, file: Offsets) -> None:
        self.file = file
        loaded = file.load()
        self.state: State = loaded.offset_table if loaded else {}
        self.number = file.number
        self._unsaved: list[tuple[int, bytes]] = []

    def change(self, key: str, offsets: dict[int, int] | None) -> tuple[int, bytes]:
        """Change a row, or remove it; return the record."""
        self.number += 1
        if offsets is None:
            self.state.pop(key, None)
            return self.number, _encode(JournalRecord(number=self.number, removed=[key]))
        self.state.setdefault(key, {}).update(offsets)
        return self.number, _encode(JournalRecord(number=self.number, rows={key: offsets}))

    def save(self) -> None:
        """Write the whole table."""
        number = self.number
        self.file.save(OFFSETS.print(self.state.items()), number)
        self.file.cut(number)

    def write(self, records: list[tuple[int, bytes]]) -> None:
        """Make changes durable, and with them those for which that failed."""
        self._unsaved += records
        if self.file.needs_whole:
            self.save()
        else:
            self.file.append(self._unsaved)
        self._unsaved = []


def _encode(record: JournalRecord[dict[int, int]]) -> bytes:
    return msgspec.json.encode(record)


def read(root: Path) -> State:
    table = read_table(root / "config", OFFSETS)
    return table.offset_table if table else {}


def copy(state: State) -> State:
    return {key: dict(offsets) for key, offsets in state.items()}


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    """A table on disk with one row."""
    owner = Owner(table_file(tmp_path))
    owner.write([owner.change("T@G", {0: 1})])
    return owner


# --- what is where


def test_the_first_change_writes_the_table_and_its_backup_and_no_journal(owner: Owner, tmp_path: Path) -> None:
    assert sorted(path.name for path in (tmp_path / "config").iterdir()) == [
        "consumerOffset.json",
        "consumerOffset.json.bak",
    ]
    text = (tmp_path / "config" / "consumerOffset.json").read_text()
    assert '"offsetTable":{\n\t\t"T@G":{0:1\n\t\t}\n\t},\n\t"pyromqJournal":"' in text


def test_later_changes_are_in_the_journal_and_whoever_reads_folds_them_in(owner: Owner, tmp_path: Path) -> None:
    before = owner.file.path.read_bytes()
    owner.write([owner.change("T@G", {1: 2}), owner.change("U@G", {0: 3})])
    owner.write([owner.change("T@G", {1: 4})])
    assert owner.file.path.read_bytes() == before
    assert read(tmp_path) == {"T@G": {0: 1, 1: 4}, "U@G": {0: 3}}


def test_a_saved_table_has_everything_and_the_journal_is_gone(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {1: 2})])
    owner.save()
    owner.file.close()
    assert not (tmp_path / "config" / "consumerOffset.json.journal").exists()
    assert read(tmp_path) == {"T@G": {0: 1, 1: 2}}


def test_what_is_appended_while_the_table_is_saved_stays_in_the_journal(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {1: 2})])
    text, number = OFFSETS.print(copy(owner.state).items()), owner.number
    owner.write([owner.change("T@G", {1: 3})])
    owner.file.save(text, number)
    owner.write([owner.change("U@G", {0: 4})])
    owner.file.cut(number)
    assert read(tmp_path) == {"T@G": {0: 1, 1: 3}, "U@G": {0: 4}}
    owner.write([owner.change("U@G", {0: 5})])
    assert read(tmp_path) == owner.state


def test_the_next_run_folds_the_journal_in_and_begins_a_new_one(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {1: 2})])
    later = Owner(table_file(tmp_path))
    assert later.state == {"T@G": {0: 1, 1: 2}}
    assert later.file.needs_rewrite
    later.write([later.change("T@G", {1: 3})])
    later.write([later.change("T@G", {1: 4})])
    assert read(tmp_path) == {"T@G": {0: 1, 1: 4}}


# --- which journal counts


def test_a_journal_never_changes_a_newer_table(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {0: 2})])
    journal = tmp_path / "config" / "consumerOffset.json.journal"
    kept = journal.read_bytes()
    owner.write([owner.change("T@G", {0: 3})])
    owner.save()
    journal.write_bytes(kept)  # as if a crash had come before it was removed
    assert read(tmp_path) == {"T@G": {0: 3}}


def test_a_table_that_another_broker_wrote_is_taken_as_it_is(
    owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner.write([owner.change("T@G", {0: 2})])
    (tmp_path / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T@G":{0:9}}}')
    with caplog.at_level(logging.WARNING):
        later = Owner(table_file(tmp_path))
    assert later.state == {"T@G": {0: 9}}
    assert "belongs to another table" in caplog.text
    later.write([later.change("T@G", {0: 10})])
    later.write([later.change("T@G", {0: 11})])
    assert read(tmp_path) == {"T@G": {0: 11}}
    assert (tmp_path / "config" / "consumerOffset.json.journal.old").exists()


def test_a_table_that_was_copied_from_elsewhere_is_taken_as_it_is(owner: Owner, tmp_path: Path) -> None:
    other = Owner(table_file(tmp_path / "other"))
    other.write([other.change("U@G", {0: 1})])
    owner.write([owner.change("T@G", {0: 2})])
    owner.file.path.write_bytes(other.file.path.read_bytes())
    assert read(tmp_path) == {"U@G": {0: 1}}


def test_a_journal_without_its_table_is_left_out(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {0: 2})])
    for path in (tmp_path / "config").glob("*.json*"):
        if not path.name.endswith(".journal"):
            path.unlink()
    assert read(tmp_path) == {}
    later = Owner(table_file(tmp_path))
    later.write([later.change("U@G", {0: 1})])
    later.write([later.change("U@G", {0: 2})])
    assert read(tmp_path) == {"U@G": {0: 2}}


def test_the_backup_and_the_journal_are_complete_too(owner: Owner, tmp_path: Path) -> None:
    for number in range(5):
        owner.write([owner.change("T@G", {0: number})])
        if number == 2:
            owner.save()
    owner.file.path.write_bytes(b"{ damaged")
    file = table_file(tmp_path)
    loaded = file.load()
    assert loaded is not None
    assert (loaded.offset_table, file.is_older) == ({"T@G": {0: 4}}, True)


def test_an_unreadable_table_is_an_error_or_left_out_where_it_is_only_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text("{ damaged")
    with pytest.raises(ConfigError, match=r"consumerOffset\.json"):
        table_file(tmp_path).load()
    assert read_table(tmp_path / "config", OFFSETS) is None


def test_damaged_lines_are_left_out_and_reported(
    owner: Owner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner.write([owner.change("T@G", {1: 1}), owner.change("T@G", {2: 2}), owner.change("T@G", {3: 3})])
    journal = tmp_path / "config" / "consumerOffset.json.journal"
    lines = journal.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"2", b"7", 1)
    journal.write_bytes(b"\n".join(lines))
    with caplog.at_level(logging.ERROR):
        assert read(tmp_path) == {"T@G": {0: 1, 1: 1, 3: 3}}
    assert "count=1" in caplog.text


def test_a_table_that_is_only_read_is_never_written(owner: Owner, tmp_path: Path) -> None:
    owner.write([owner.change("T@G", {1: 1})])
    before = {path.name: path.read_bytes() for path in (tmp_path / "config").iterdir()}
    file = ReadOnlyTable(owner.file.path, OFFSETS)
    file.load()
    assert (file.needs_whole, file.has_old_journal, file.needs_rewrite) == (False, False, False)
    file.append([(9, b"{}")])
    file.save(b"{}", 9)
    file.cut(9)
    file.close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "config").iterdir()} == before


def test_our_tables_are_json_that_other_brokers_read(owner: Owner) -> None:
    text = owner.file.path.read_text().replace("{0:", '{"0":')
    assert list(json.loads(text)) == ["offsetTable", "pyromqJournal", "pyromqCrc32"]


# --- failing disks


def test_after_a_failed_flush_the_whole_table_must_be_saved_before_anything_is_appended(tmp_path: Path) -> None:
    files = FaultyFiles(flushes=False)
    owner = Owner(table_file(tmp_path, files))
    owner.write([owner.change("T@G", {0: 1})])
    owner.write([owner.change("T@G", {0: 2})])
    number = owner.number
    files.fail = lambda name, _: errno.EIO if name == "fdatasync" else None
    with pytest.raises(OSError, match="Input/output"):
        owner.write([owner.change("T@G", {0: 3})])
    files.fail = lambda name, _: None
    owner.file.save(OFFSETS.print([("T@G", {0: 2})]), number)  # it was begun before
    owner.file.cut(number)
    assert owner.file.needs_whole
    owner.write([owner.change("T@G", {0: 4})])
    assert not owner.file.needs_whole
    owner.write([owner.change("T@G", {0: 5})])
    assert read(tmp_path) == {"T@G": {0: 5}}


changes = st.tuples(
    st.sampled_from(KEYS), st.none() | st.dictionaries(st.integers(0, 3), st.integers(0, 9), min_size=1, max_size=3)
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(changes, min_size=1, max_size=40)),
        st.tuples(st.just("save"), st.integers(0, 2)),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=1,
    max_size=8,
)


class History:
    """All states that a table went through, and which of them is saved."""

    def __init__(self) -> None:
        self.states: list[State] = [{}]
        self.saved = 0

    def allows(self, found: State) -> bool:
        """Return True if every row is as it was at some time since the last save; torn writes may mix these times."""
        recent = self.states[self.saved :]
        return all(
            found.get(key, {}).get(queue) in {state.get(key, {}).get(queue) for state in recent}
            for key in KEYS
            for queue in range(4)
        )


def play(root: Path, files: OsFiles, todo: Iterable[tuple[str, Any]]) -> Iterator[tuple[list[State], bool]]:
    """Do what the steps say; yield the new states before and after each is saved."""
    owner = Owner(table_file(root, files))
    for what, argument in todo:
        if what == "restart":
            owner.file.close()
            owner = Owner(table_file(root, files))
        elif what == "save":
            yield [], False
            text, number, late = OFFSETS.print(copy(owner.state).items()), owner.number, argument
            for value in range(late):
                if owner.file.needs_whole:
                    break
                record = owner.change("T@G", {0: value})
                yield [copy(owner.state)], False
                owner.file.append([record])
                yield [], True
            owner.file.save(text, number)
            owner.file.cut(number)
        else:
            records, states = [], []
            for key, offsets in argument:
                records.append(owner.change(key, offsets))
                states.append(copy(owner.state))
            yield states, False
            owner.write(records)
            yield [], True


@settings(max_examples=15, deadline=None)
@given(todo=steps, seed=st.integers(0, 2**32))
def test_wherever_a_crash_comes_no_saved_change_is_lost(
    tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[str, Any]], seed: int
) -> None:
    root = tmp_path_factory.mktemp("life")
    files = Recorder(root / "store")
    for states, is_saved in play(root / "store", files, todo):
        files.remark((states, is_saved))
    chance = random.Random(seed)
    disk, history = Disk(), History()
    for number, event in enumerate(files.events):
        if isinstance(event, Remark):
            states, is_saved = event.value  # type: ignore[misc]
            history.states += states
            history.saved = len(history.states) - 1 if is_saved else history.saved
            continue
        disk.apply(event)
        images: list[Callable[[], Tree]] = [disk.everything, disk.nothing, lambda: disk.something(chance)]
        check(chance.choice(images)(), root / f"crashed-{number}", history)


def check(image: Tree, root: Path, history: History) -> None:
    """Start on what a crash left: everything saved is there, and the next crash finds it too."""
    build(image, root)
    owner = Owner(table_file(root))
    assert history.allows(owner.state), (owner.state, history.states[history.saved :])
    before = copy(owner.state)
    assert read(root) == before
    owner.write([owner.change("U@G", {3: 77})])
    owner.write([owner.change("U@G", {3: 78})])
    before.setdefault("U@G", {})[3] = 78
    assert read(root) == before


@settings(max_examples=30, deadline=None)
@given(todo=steps, failing=st.sets(st.integers(1, 60), max_size=4), error=st.sampled_from([errno.ENOSPC, errno.EIO]))
def test_whatever_call_fails_no_saved_change_is_lost(
    tmp_path_factory: pytest.TempPathFactory, todo: list[tuple[str, Any]], failing: set[int], error: int
) -> None:
    root = tmp_path_factory.mktemp("life")
    calls = iter(range(1, 1 << 30))
    files = FaultyFiles(lambda name, _: error if name != "open" and next(calls) in failing else None, flushes=False)
    owner, history = Owner(table_file(root, files)), History()
    for what, argument in todo:
        try:
            if what == "restart":
                owner = Owner(table_file(root, files))
                history = History()
                history.states = [copy(owner.state)]
            elif what == "save":
                owner.save()
                history.saved = len(history.states) - 1
            else:
                records = []
                for key, offsets in argument:
                    records.append(owner.change(key, offsets))
                    history.states.append(copy(owner.state))
                owner.write(records)
                history.saved = len(history.states) - 1
        except OSError:
            pass
        assert history.allows(read(root))
