"""A damaged store that is put right: what could be read still can, and a check finds nothing any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import StoreError
from pyromq.protocol.messages.properties import encode_properties
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.check.repair import Repair
from pyromq.store.check.verify import StoreCheck
from pyromq.store.config import StoreConfig
from pyromq.store.consume_queue import ENTRY_SIZE
from pyromq.store.read.reader import StoreReader
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import TOPICS
from tests.store.check.test_verify import fill, flip, flip_body, found_in, index_files, journaled, problems
from tests.store.helpers import (
    FakeTime,
    QuickFiles,
    bodies,
    log_files,
    message,
    queue_files,
    read_queue,
    small_config,
    small_store,
)


def planned(root: Path, config: StoreConfig | None = None) -> Repair:
    check = StoreCheck(root)
    findings = list(check.run())
    return Repair(check, findings, config or small_config(root), FakeTime(1_800_000_000_000), QuickFiles())


def repaired(root: Path) -> list[Finding]:
    """Repair a directory and return what a check still finds."""
    planned(root).run()
    return found_in(root)


def contents(root: Path) -> dict[int, list[bytes]]:
    with StoreReader(root) as reader:
        # As stored: nothing tells whether the flag that says "compressed" is damaged.
        return {
            queue_id: [one.stored_body for one in read_queue(reader, queue_id=queue_id)]
            for queue_id in reader.queue_ids("orders")
        }


def test_a_log_in_several_directories_is_not_touched_and_that_is_said(tmp_path: Path) -> None:
    fill(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    log_files(tmp_path)[0].rename(other / log_files(tmp_path)[0].name)
    flip_body(log_files(tmp_path)[1])
    check = StoreCheck(tmp_path, commit_log=[other, tmp_path / "commitlog"])
    findings = list(check.run())
    assert [one.kind for one in findings if one.severity is Severity.PROBLEM] == ["record"]
    with pytest.raises(StoreError, match="several directories can be checked and served, but not repaired"):
        Repair(check, findings, small_config(tmp_path), FakeTime(), QuickFiles())


def test_a_sound_store_needs_nothing(tmp_path: Path) -> None:
    fill(tmp_path)
    assert planned(tmp_path).steps == []


def lose_entries(root: Path) -> None:
    path = queue_files(root)[1]
    path.write_bytes(bytes(4 * ENTRY_SIZE) + path.read_bytes()[4 * ENTRY_SIZE :])


def lose_a_file_of_a_queue(root: Path) -> None:
    queue_files(root)[0].unlink()


def make_a_queue_file_longer(root: Path) -> None:
    path = queue_files(root)[0]
    path.write_bytes(path.read_bytes() + b"x" * 40)


def add_strays(root: Path) -> None:
    (root / "commitlog" / "notes").write_bytes(b"mine")
    (root / "consumequeue" / "orders" / "1" / "notes").write_bytes(b"mine")


def add_an_empty_queue_file(root: Path) -> None:
    last = queue_files(root, queue_id=1)[-1]
    (last.parent / f"{int(last.name) + 200:020d}").write_bytes(bytes(200))


DERIVED: dict[str, Callable[[Path], None]] = {
    "a flipped entry": lambda root: flip(queue_files(root)[0], 3 * ENTRY_SIZE + 5),
    "a flipped tags code": lambda root: flip(queue_files(root)[0], 3 * ENTRY_SIZE + 17),
    "lost entries": lose_entries,
    "a lost queue": lambda root: shutil.rmtree(root / "consumequeue" / "orders" / "1"),
    "all queues lost": lambda root: shutil.rmtree(root / "consumequeue"),
    "a lost file of a queue": lose_a_file_of_a_queue,
    "a queue file too long": make_a_queue_file_longer,
    "an empty queue file": add_an_empty_queue_file,
    "strays": add_strays,
    "a flipped index entry": lambda root: flip(index_files(root)[0], 40 + 200 + 20 * 17 + 3),
    "a flipped slot": lambda root: flip(index_files(root)[0], 40 + 4 * 7),
    "a flipped checkpoint": lambda root: flip(root / "checkpoint", 6),
    "a flipped position": lambda root: flip(root / "pyromq.position", 6),
    "a table": lambda root: flip(root / "config" / "topics.json", 0, 4),
    "a backup": lambda root: flip(root / "config" / "consumerOffset.json.bak", 0, 4),
}


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_not_in_the_log_is_put_right_and_nothing_is_lost(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    before = contents(tmp_path)
    DERIVED[name](tmp_path)
    assert problems(tmp_path), "the damage was not noticed"
    assert repaired(tmp_path) == []
    assert contents(tmp_path) == before


def test_a_table_comes_back_from_its_backup_and_the_damaged_one_is_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "config" / "topics.json"
    sound = path.read_bytes()
    flip(path, 0, 4)
    damaged = path.read_bytes()
    assert repaired(tmp_path) == []
    assert path.read_bytes() == sound
    assert damaged in [kept.read_bytes() for kept in (tmp_path / "quarantine").iterdir()]


def test_strays_are_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    add_strays(tmp_path)
    repaired(tmp_path)
    assert [kept.read_bytes() for kept in (tmp_path / "quarantine").iterdir()] == [b"mine", b"mine"]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_damage_in_the_log_stays_fenced_and_all_else_is_read(tmp_path: Path, which: int) -> None:
    fill(tmp_path)
    before = {body for queue in contents(tmp_path).values() for body in queue}
    flip_body(log_files(tmp_path)[which])
    left = repaired(tmp_path)
    assert [one.severity for one in left] == [Severity.NOTE]
    assert "fenced" in left[0].text
    after = {body for queue in contents(tmp_path).values() for body in queue}
    assert len(before - after) == 1
    assert after < before
    with small_store(tmp_path) as store:
        assert {body for queue_id in range(3) for body in bodies(store, queue_id=queue_id)} == after


def test_a_lost_file_of_the_log_stays_fenced_and_all_else_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    before = {body for queue in contents(tmp_path).values() for body in queue}
    log_files(tmp_path)[1].unlink()
    kept = {body for queue in contents(tmp_path).values() for body in queue}
    left = repaired(tmp_path)
    assert {one.severity for one in left} == {Severity.NOTE}
    assert {body for queue in contents(tmp_path).values() for body in queue} >= kept
    assert kept < before


def test_offsets_of_a_store_in_use_go_on_where_they_were(tmp_path: Path) -> None:
    fill(tmp_path)
    flip_body(log_files(tmp_path)[-1])
    repaired(tmp_path)
    with small_store(tmp_path) as store:
        assert store.put(message()).queue_offset == 20


def test_a_live_store_is_left_alone(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message())
        store.commit()
        with pytest.raises(StoreError, match="stop it"):
            planned(tmp_path)


def test_levels_that_only_the_configuration_knows_are_asked_for(tmp_path: Path) -> None:
    levels = (7_000, 9_000)
    with small_store(tmp_path, delay_levels_ms=levels) as store:
        for _ in range(3):
            record = message(topic="SCHEDULE_TOPIC_XXXX")
            record.properties = encode_properties({"DELAY": "2"}).encode()
            store.put(record)
    entries = queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX")[0].read_bytes()
    (tmp_path / "commitlog" / "notes").write_bytes(b"mine")
    with pytest.raises(StoreError, match=r"broker\.conf"):
        planned(tmp_path)
    planned(tmp_path, small_config(tmp_path, delay_levels_ms=levels)).run()
    assert problems(tmp_path) == []
    assert queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX")[0].read_bytes() == entries


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_bit_was_flipped_all_else_is_read_after_a_repair(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("flipped") / "store"
    fill(root, 30)
    before = {body for queue in contents(root).values() for body in queue}
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "lock"]
    path = data.draw(st.sampled_from(files))
    size = path.stat().st_size
    if size:
        flip(path, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
    readable = {body for queue in contents(root).values() for body in queue}
    left = repaired(root)
    assert [one for one in left if one.severity is Severity.PROBLEM] == []
    after = {body for queue in contents(root).values() for body in queue}
    assert readable <= after <= before
    assert len(before - after) <= 1
    shutil.rmtree(root)


def test_a_repair_folds_a_journal_in_although_nothing_is_damaged(tmp_path: Path) -> None:
    journaled(fill(tmp_path))
    plan = planned(tmp_path)
    assert [step.text for step in plan.steps] == ["fold config/topics.json.journal into its table"]
    before = (tmp_path / "checkpoint").stat().st_mtime_ns
    plan.run()
    assert not (tmp_path / "config" / "topics.json.journal").exists()
    text = (tmp_path / "config" / "topics.json").read_text()
    assert all(f'"{name}"' in text for name in ("orders", "new-2", "new-3"))
    assert problems(tmp_path) == []
    assert planned(tmp_path).steps == []
    assert (tmp_path / "checkpoint").stat().st_mtime_ns == before  # the log was not read again


def test_a_damaged_table_comes_back_from_its_backup_and_its_journal(tmp_path: Path) -> None:
    journaled(fill(tmp_path))
    flip(tmp_path / "config" / "topics.json", 0, 4)
    assert repaired(tmp_path) == []
    table = read_table(tmp_path / "config", TOPICS)
    assert table is not None
    assert set(table.topic_config_table) == {"orders", "new-2", "new-3"}


def test_a_journal_with_a_damaged_line_is_folded_in_and_kept(tmp_path: Path) -> None:
    path = Path(str(journaled(fill(tmp_path)).path) + ".journal")
    damaged = path.read_bytes().replace(b"new-2", b"new-4", 1)
    path.write_bytes(damaged)
    assert repaired(tmp_path) == []
    table = read_table(tmp_path / "config", TOPICS)
    assert table is not None
    assert set(table.topic_config_table) == {"orders", "new-3"}
    assert damaged in [kept.read_bytes() for kept in (tmp_path / "quarantine").iterdir()]
