"""A store that is checked: nothing is found in a sound one, and one flipped bit is named with its file and place."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.bodies import DataVersion, TopicConfig
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.check.verify import StoreCheck
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, PRE_BLANK
from pyromq.store.files import OsFiles
from pyromq.store.index import message_index
from pyromq.store.index.index_file import HEADER, IndexHeader
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import TOPICS
from tests.store.helpers import QuickFiles, left_by_a_kill, log_files, message, queue_files, small_store

SLOTS, INDEX_ENTRIES = 50, 300
SMALL_INDEX: dict[str, Any] = {"max_hash_slots": SLOTS, "max_index_entries": INDEX_ENTRIES}
TABLES = {
    "topics.json": b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{"orders":{"topicName":"orders",'
    b'"readQueueNums":3,"writeQueueNums":3,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":0,"order":false}}}',
    "consumerOffset.json": b'{"offsetTable":{"orders@g":{0:3,1:4}}}',
    "subscriptionGroup.json": b'{"dataVersion":{"counter":1,"timestamp":1},"subscriptionGroupTable":{}}',
    "delayOffset.json": b'{"offsetTable":{1:3}}',
}


def keyed(number: int, queue_id: int = 0, body: bytes = b"hello") -> Record:
    record = message(queue_id=queue_id, body=body, tag=f"tag-{number}")
    text = encode_properties(
        {"UNIQ_KEY": f"unique-{number}", "KEYS": f"a-{number} b-{number}", "TAGS": f"tag-{number}"}
    )
    record.properties = text.encode()
    return record


def fill(root: Path, count: int = 60) -> Path:
    """Leave a closed store with messages in three queues, with keys, tables, and several files of each kind."""
    with small_store(root, **SMALL_INDEX) as store:
        put_some(store, count)
    (root / "config").mkdir()
    for name, text in TABLES.items():
        (root / "config" / name).write_bytes(text)
        (root / "config" / f"{name}.bak").write_bytes(text)
    return root


def put_some(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.put(keyed(number, number % 3, b"%d" % number * 20))
        if number % 5 == 4:
            store.commit()
    store.commit()


def found_in(root: Path, **options: Any) -> list[Finding]:
    return list(StoreCheck(root, **options).run())


def problems(root: Path) -> list[Finding]:
    return [finding for finding in found_in(root) if finding.severity is Severity.PROBLEM]


def flip(path: Path, position: int, bit: int = 0) -> None:
    """Change one bit."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def flip_body(path: Path) -> None:
    """Change one bit in the body of a record in the middle of a log file."""
    flip(path, path.read_bytes().index(bytes.fromhex("daa320a7"), 2000) + 90)


def names(found: list[Finding], path: Path, root: Path, first: int, last: int) -> bool:
    """Tell whether some finding names a file and a place within bounds."""
    name = str(path.relative_to(root))
    return any(one.file == name and (one.offset is None or first <= one.offset <= last) for one in found)


@pytest.mark.parametrize("count", [1, 60, 400])
def test_a_sound_store_is_clean(tmp_path: Path, count: int) -> None:
    fill(tmp_path, count)
    check = StoreCheck(tmp_path)
    assert list(check.run()) == []
    assert check.records == count
    assert len(index_files(tmp_path)) == -(-count * 3 // (INDEX_ENTRIES - 1))


def test_nothing_is_changed_by_looking(tmp_path: Path) -> None:
    fill(tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}
    found_in(tmp_path)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")} == before


# --- records

FIELDS = {"size": 2, "magic": 5, "crc": 9, "queue id": 15, "queue offset": 27, "physical offset": 35, "body": 95}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("which", [0, 7, 59])
def test_a_flipped_bit_in_a_record_is_named(tmp_path: Path, field: str, which: int) -> None:
    fill(tmp_path)
    with StoreReader(tmp_path) as reader:
        entries = ENTRY.unpack_from(reader.raw_entries("orders", which % 3, which // 3, which // 3 + 1))
    path = log_files(tmp_path)[entries[0] // 4096]
    start = entries[0] % 4096
    flip(path, start + FIELDS[field])
    found = problems(tmp_path)
    in_queue = [one for one in found if one.kind == "entry" and str(entries[0]) in one.text]
    assert in_queue or names(found, path, tmp_path, start, start), found


@pytest.mark.parametrize("text", [b"orders", b"TAGS", b"tag-7", b"unique-7", b"a-7"])
def test_a_changed_topic_tag_or_key_is_named(tmp_path: Path, text: bytes) -> None:
    fill(tmp_path)
    with StoreReader(tmp_path) as reader:
        physical_offset = ENTRY.unpack_from(reader.raw_entries("orders", 1, 2, 3))[0]
    path = log_files(tmp_path)[physical_offset // 4096]
    data = path.read_bytes()
    flip(path, data.index(text, physical_offset % 4096))
    assert any(str(physical_offset) in one.text for one in problems(tmp_path)), problems(tmp_path)


def test_the_rest_of_the_log_is_checked_behind_damage(tmp_path: Path) -> None:
    fill(tmp_path)
    for path in log_files(tmp_path)[:2]:
        flip_body(path)
    check = StoreCheck(tmp_path)
    damaged = [one for one in check.run() if one.kind == "record"]
    assert [one.file for one in damaged] == [f"commitlog/{path.name}" for path in log_files(tmp_path)[:2]]
    assert check.records == 58
    assert len(check.damage) == 2


def test_a_blank_record_of_the_wrong_size_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    path = log_files(tmp_path)[0]
    start = path.read_bytes().rindex(bytes.fromhex("cbd43194")) - 4
    flip(path, start + 3)
    assert names(problems(tmp_path), path, tmp_path, start, start)


def test_garbage_behind_the_end_and_a_file_made_ahead_are_no_problem(tmp_path: Path) -> None:
    # As Apache's broker leaves a directory.
    fill(tmp_path)
    with StoreReader(tmp_path) as reader:
        end = reader.max_physical_offset
    path = log_files(tmp_path)[-1]
    with path.open("r+b") as file:
        file.seek(end - int(path.name))
        file.write(b"\xda\xa3\x20\xa7" * 20)
    (path.parent / f"{int(path.name) + 4096:020d}").write_bytes(bytes(4096))
    assert problems(tmp_path) == []


def test_a_page_that_the_disk_does_not_give_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    bad = log_files(tmp_path)[1]

    class BadDisk(OsFiles):
        def __init__(self) -> None:
            self.bad: set[int] = set()

        def open(self, path: str, *, create: bool = False) -> int:
            descriptor = super().open(path, create=create)
            if path == str(bad):
                self.bad.add(descriptor)
            return descriptor

        def pread(self, descriptor: int, length: int, position: int) -> bytes:
            if descriptor in self.bad and length > 1:
                raise OSError(5, "Input/output error")
            return super().pread(descriptor, length, position)

    check = StoreCheck(tmp_path, files=BadDisk())
    found = list(check.run())
    assert any("does not give" in one.text and one.file == f"commitlog/{bad.name}" for one in found)
    assert check.records > 30


# --- queue entries


@pytest.mark.parametrize("position", range(0, ENTRY_SIZE, 3))
@pytest.mark.parametrize("offset", [0, 7, 19])
def test_a_flipped_bit_in_an_entry_is_named(tmp_path: Path, offset: int, position: int) -> None:
    fill(tmp_path)
    path = queue_files(tmp_path)[offset // 10]
    start = offset % 10 * ENTRY_SIZE
    flip(path, start + position)
    assert names(problems(tmp_path), path, tmp_path, start, start), problems(tmp_path)


def test_missing_entries_are_told_in_one_line(tmp_path: Path) -> None:
    fill(tmp_path)
    path = queue_files(tmp_path)[1]
    path.write_bytes(bytes(4 * ENTRY_SIZE) + path.read_bytes()[4 * ENTRY_SIZE :])
    found = [one for one in problems(tmp_path) if "have no entry" in one.text]
    assert [(one.file, one.offset, one.text[:10]) for one in found] == [
        (str(path.relative_to(tmp_path)), 0, "4 messages")
    ]


def test_a_lost_queue_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "orders" / "1")
    assert [one.file for one in problems(tmp_path)] == ["consumequeue/orders/1"]


def test_an_entry_that_no_record_stands_behind_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    path = queue_files(tmp_path)[-1]
    entry = path.read_bytes()[:ENTRY_SIZE]
    (path.parent / f"{int(path.name) + 200:020d}").write_bytes(entry.ljust(200, b"\0"))
    found = problems(tmp_path)
    assert [(one.file[-20:], one.offset) for one in found] == [(f"{int(path.name) + 200:020d}", 0)]


def test_expired_entries_and_filling_before_the_first_message_are_no_problem(tmp_path: Path) -> None:
    fill(tmp_path)
    for path in log_files(tmp_path)[:2]:
        path.unlink()
    first = queue_files(tmp_path)[0]
    first.write_bytes(PRE_BLANK * 2 + first.read_bytes()[2 * ENTRY_SIZE :])
    assert problems(tmp_path) == []


def test_a_delayed_message_may_have_any_whole_number_of_seconds(tmp_path: Path) -> None:
    with small_store(tmp_path, delay_levels_ms=(7_000, 9_000)) as store:
        for _ in range(3):
            record = message(topic="SCHEDULE_TOPIC_XXXX")
            record.properties = encode_properties({"DELAY": "2"}).encode()
            store.put(record)
    assert problems(tmp_path) == []
    path = queue_files(tmp_path, "SCHEDULE_TOPIC_XXXX")[0]
    for bit in range(8):
        flip(path, 2 * ENTRY_SIZE - 1, bit)
        assert names(problems(tmp_path), path, tmp_path, ENTRY_SIZE, ENTRY_SIZE)
        flip(path, 2 * ENTRY_SIZE - 1, bit)


# --- index


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


@pytest.mark.parametrize("field", [0, 3, 6, 11, 18])
def test_a_flipped_bit_in_an_index_entry_is_named(tmp_path: Path, field: int) -> None:
    fill(tmp_path)
    path = index_files(tmp_path)[0]
    start = HEADER.size + 4 * SLOTS + 20 * 17
    flip(path, start + field)
    assert names(problems(tmp_path), path, tmp_path, start, start), problems(tmp_path)


def test_a_flipped_bit_in_a_slot_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    path = index_files(tmp_path)[0]
    slot = next(n for n in range(SLOTS) if struct.unpack_from(">i", path.read_bytes(), HEADER.size + 4 * n)[0])
    flip(path, HEADER.size + 4 * slot + 3)
    assert names(problems(tmp_path), path, tmp_path, HEADER.size + 4 * slot, HEADER.size + 4 * slot)


def test_keys_that_the_index_lost_are_told(tmp_path: Path) -> None:
    fill(tmp_path)
    index_files(tmp_path)[0].unlink()
    found = found_in(tmp_path)
    assert found == [] or any(one.kind == "index" for one in found)


# --- tables, checkpoint, names


@pytest.mark.parametrize("name", [*TABLES, *(f"{name}.bak" for name in TABLES)])
def test_a_flipped_bit_in_a_table_is_named(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    flip(tmp_path / "config" / name, 0, 4)
    assert [(one.kind, one.file) for one in problems(tmp_path)] == [("table", f"config/{name}")]


@pytest.mark.parametrize("position", [0, 6, 7, 8, 15, 100, 4000])
def test_a_flipped_bit_in_the_checkpoint_is_named(tmp_path: Path, position: int) -> None:
    fill(tmp_path)
    flip(tmp_path / "checkpoint", position)
    assert {one.file for one in problems(tmp_path)} == {"checkpoint"}


def test_a_checkpoint_of_a_broker_that_only_read_the_log_again_is_no_problem(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "checkpoint"
    data = path.read_bytes()
    log_time, queues_time = data[:8], data[8:16]
    assert queues_time < log_time  # ours sends it back to the oldest key that it might lose
    path.write_bytes(log_time + log_time + data[16:])
    assert problems(tmp_path) == []


@pytest.mark.parametrize("name", ["pyromq.position", "pyromq.index", "pyromq.queues"])
def test_a_flipped_bit_in_a_file_of_ours_is_named(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    flip(tmp_path / name, 5)
    assert name in {one.file for one in problems(tmp_path)}


def test_what_would_stop_an_apache_broker_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    log, queue = log_files(tmp_path)[0].parent, queue_files(tmp_path)[0].parent
    (log / ".hidden").write_bytes(b"")
    (queue / "notes.txt").write_bytes(b"")
    (queue / "00000000000000009999x").mkdir()
    last = queue_files(tmp_path, queue_id=1)[-1]
    (last.parent / f"{int(last.name) + 200:020d}").write_bytes(bytes(200))
    short = queue_files(tmp_path, queue_id=2)[0]
    short.write_bytes(short.read_bytes()[:150])
    named = {one.file.rpartition("/")[2] for one in problems(tmp_path) if one.kind == "file"}
    assert named == {".hidden", "notes.txt", "00000000000000009999x", f"{int(last.name) + 200:020d}", short.name}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    fill(tmp_path)
    gone = log_files(tmp_path)[1]
    gone.unlink()
    assert f"commitlog/{gone.name}" in {one.file for one in problems(tmp_path) if one.kind == "file"}


@pytest.mark.parametrize("field", ["begin_ms", "end_ms", "begin_offset", "end_offset", "next_entry"])
def test_what_an_index_file_says_of_itself_is_compared(tmp_path: Path, field: str) -> None:
    fill(tmp_path)
    file = index_files(tmp_path)[0]
    with file.open("r+b") as stream:
        header = IndexHeader.unpack(stream.read(HEADER.size))
        stream.seek(0)
        stream.write(HEADER.pack(*header._replace(**{field: getattr(header, field) ^ 1 << 28})))
    assert f"index/{file.name}" in {one.file for one in problems(tmp_path) if one.kind == "index"}


# --- not settled


def test_a_store_left_by_a_kill_has_notes_and_no_problem(tmp_path: Path) -> None:
    with small_store(tmp_path / "a", **SMALL_INDEX) as store:
        put_some(store, 60)
        root = left_by_a_kill(store, tmp_path / "b")
    assert problems(root) == []
    assert any("not stop cleanly" in one.text for one in found_in(root))


def test_a_live_store_is_said_to_be_one(tmp_path: Path) -> None:
    with small_store(tmp_path, **SMALL_INDEX) as store:
        put_some(store, 60)
        found = found_in(tmp_path)
        assert [one.severity for one in found if one.severity is Severity.PROBLEM] == []
        assert "a broker has this directory open" in found[0].text
        store.put(message())
        store.commit()  # its lock is still held


def test_slots_that_a_live_broker_writes_later_are_one_note_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_index, "_PAGES_A_PASS", 1)
    with small_store(tmp_path, max_hash_slots=20_000, max_index_entries=1_000) as store:
        put_some(store, 60)
        store.flusher.checkpoint()
        behind = [one for one in found_in(tmp_path) if "slots are behind" in one.text]
        assert [one.severity for one in behind] == [Severity.NOTE]
        assert problems(tmp_path) == []


def test_a_slot_of_a_full_file_is_judged_although_the_store_is_live(tmp_path: Path) -> None:
    with small_store(tmp_path, max_hash_slots=SLOTS, max_index_entries=80) as store:
        put_some(store, 60)
        store.flusher.checkpoint()
        first = min((tmp_path / "index").iterdir())
        with first.open("r+b") as stream:
            stream.seek(HEADER.size)
            stream.write(bytes([1] * 32))
        assert any("slot" in one.text and one.file == f"index/{first.name}" for one in problems(tmp_path))


def test_a_directory_of_another_broker_without_our_files_is_checked_too(tmp_path: Path) -> None:
    fill(tmp_path)
    for path in tmp_path.glob("pyromq.*"):
        path.unlink()
    assert problems(tmp_path) == []
    flip_body(log_files(tmp_path)[0])
    assert any(one.kind == "record" for one in problems(tmp_path))


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 900), max_size=40),
    queues=st.integers(1, 4),
    every=st.integers(1, 7),
    restart=st.booleans(),
)
def test_random_small_stores_are_clean(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], queues: int, every: int, restart: bool
) -> None:
    root = tmp_path_factory.mktemp("random") / "store"
    for part in (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]) if restart else (sizes,):
        with small_store(root, QuickFiles(), **SMALL_INDEX) as store:
            for number, size in enumerate(part):
                store.put(keyed(number, number % queues, b"x" * size))
                if number % every == 0:
                    store.commit()
    (root / "commitlog").mkdir(exist_ok=True)
    assert found_in(root) == []
    shutil.rmtree(root)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_bit_flipped_in_any_record_or_entry_is_named(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("flipped") / "store"
    fill(root, 30)
    queue_id = data.draw(st.integers(0, 2))
    with StoreReader(root) as reader:
        offset = data.draw(st.integers(0, reader.max_offset("orders", queue_id) - 1))
        physical_offset, _, _ = ENTRY.unpack(reader.raw_entries("orders", queue_id, offset, offset + 1))
    bit = data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        # Size, magic, checksum, queue id; or the offsets; or the body.
        within = data.draw(st.integers(0, 15) | st.integers(20, 35) | st.integers(88, 105))
        flip(log_files(root)[physical_offset // 4096], physical_offset % 4096 + within, bit)
    else:
        within = data.draw(st.integers(0, ENTRY_SIZE - 1))
        flip(queue_files(root, queue_id=queue_id)[offset // 10], offset % 10 * ENTRY_SIZE + within, bit)
    assert problems(root)
    shutil.rmtree(root)


# --- journals of tables


def journaled(root: Path) -> TableFile[Any, Any]:
    """Leave a table of topics whose last change is in its journal."""
    file = TableFile(root / "config" / "topics.json", TOPICS, QuickFiles())
    file.load()
    file.save(TOPICS.print({"orders": TopicConfig(topic_name="orders")}.items(), DataVersion(1, 1)), 1)
    texts = [b'{"number":%d,"rows":{"new-%d":{"topicName":"new-%d"}}}' % (number, number, number) for number in (2, 3)]
    file.append(list(enumerate(texts, 2)))
    file.close()
    return file


def test_a_journal_is_told_and_is_no_problem(tmp_path: Path) -> None:
    journaled(fill(tmp_path))
    (found,) = StoreCheck(tmp_path).run()
    assert (found.severity, found.file) == (Severity.NOTE, "config/topics.json.journal")
    assert found.text == "2 changes are not in the table yet: a start or a repair of ours folds them in"


def test_a_topic_that_only_the_journal_knows_is_known(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message("new-3"))
    journaled(tmp_path)
    shutil.rmtree(tmp_path / "consumequeue" / "new-3")
    assert [one.kind for one in StoreCheck(tmp_path).run() if one.severity is Severity.PROBLEM] == ["entry"]


def test_a_damaged_line_of_a_journal_is_a_problem_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    path = Path(str(journaled(fill(tmp_path)).path) + ".journal")
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"new-2", b"new-4", 1))
    assert next(str(one) for one in StoreCheck(tmp_path).run()) == (
        "problem: config/topics.json.journal: 1 lines cannot be read"
    )
    path.write_bytes(whole[:-5])
    assert [one.severity for one in StoreCheck(tmp_path).run()] == [Severity.NOTE]


def test_a_journal_of_another_table_is_told(tmp_path: Path) -> None:
    journaled(fill(tmp_path)).path.write_bytes(TABLES["topics.json"])
    (tmp_path / "config" / "unknown.json.journal").write_bytes(b"")
    found = list(StoreCheck(tmp_path).run())
    assert [(one.severity, "left out" in one.text) for one in found] == [(Severity.NOTE, True)] * 2
