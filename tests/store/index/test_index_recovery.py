"""The index after crashes, of ours and of RocketMQ's brokers: every key of every message is found again."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq.store.index.index_file import ENTRY, HEADER, Geometry, IndexHeader
from pyromq.store.index.key_hash import key_hash
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.checkpoint import CheckpointFiles
from tests.store.helpers import FakeTime, QuickFiles, left_by_a_kill, small_config, small_store
from tests.store.index.plain_index import PlainIndexFile
from tests.store.index.test_message_index import TINY, found, index_files, keyed

GEOMETRY = Geometry(*TINY.values())
STEPS = 12


def put(store: MessageStore, number: int) -> None:
    store.put(keyed(f"a{number}", f"b{number % 3}", unique=f"U{number}", body=b"%d" % number))
    store.commit()


def check(store: MessageStore, count: int) -> None:
    for number in range(count):
        assert found(store, f"a{number}") == [b"%d" % number]
        assert found(store, f"U{number}") == [b"%d" % number]
    for rest in range(3):
        assert found(store, f"b{rest}") == [b"%d" % number for number in range(rest, count, 3)]


def check_recovery(root: Path, count: int) -> None:
    """Open what a crash left, find everything, go on, and find everything after one more restart."""
    with small_store(root, QuickFiles(), **TINY) as store:
        check(store, count)
        put(store, count)
        check(store, count + 1)
    with small_store(root, QuickFiles(), **TINY) as store:
        check(store, count + 1)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path, int]]:
    """Give directories after each message, each with the one of its last checkpoint; a file holds five messages."""
    base = tmp_path_factory.mktemp("images")
    store = small_store(base / "live", QuickFiles(), **TINY)
    store.open()
    flushed, found_images = base / "flushed-0", []
    shutil.copytree(base / "live", flushed)
    for number in range(STEPS):
        put(store, number)
        if number % 4 == 2:
            store.flusher.checkpoint()
            flushed = base / f"flushed-{number}"
            shutil.copytree(base / "live", flushed)
        store.query("orders", "none", 1)  # has the keys written
        shutil.copytree(base / "live", base / f"killed-{number}")
        found_images.append((base / f"killed-{number}", flushed, number + 1))
    store.close()
    return found_images


def tear(image: Path, flushed: Path, pieces: random.Random) -> None:
    """Give an index file parts of what it was when it was last flushed: what came later may be lost in any part."""
    for path in index_files(image) if (image / "index").exists() else []:
        now = bytearray(path.read_bytes())
        old_path = flushed / "index" / path.name
        old = old_path.read_bytes() if old_path.exists() else bytes(len(now))
        if not old_path.exists() and pieces.random() < 0.3:
            path.unlink()
            continue
        position = 0
        while position < len(now):
            length = pieces.choice([4, 20, 64, 512])
            if pieces.random() < 0.5:
                now[position : position + length] = old[position : position + length]
            position += length
        path.write_bytes(now)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_part_of_the_unflushed_index_is_lost_every_key_is_found(
    tmp_path: Path, images: list[tuple[Path, Path, int]], seed: int
) -> None:
    for number, (image, flushed, count) in enumerate(images):
        root = tmp_path / str(number)
        shutil.copytree(image, root)
        tear(root, flushed, random.Random(1000 * seed + number))
        check_recovery(root, count)


def test_a_kill_between_any_two_messages_loses_no_key(tmp_path: Path, images: list[tuple[Path, Path, int]]) -> None:
    for number, (image, _, count) in enumerate(images):
        shutil.copytree(image, tmp_path / str(number))
        check_recovery(tmp_path / str(number), count)


def lose_slots(data: bytearray) -> None:
    data[HEADER.size : GEOMETRY.entries_start] = bytes(GEOMETRY.entries_start - HEADER.size)


def bend_slots(data: bytearray) -> None:
    data[HEADER.size : GEOMETRY.entries_start] = b"\x7f" * (GEOMETRY.entries_start - HEADER.size)


def lose_header(data: bytearray) -> None:
    data[: HEADER.size] = bytes(HEADER.size)


def lose_entries(data: bytearray) -> None:
    data[GEOMETRY.entry_position(2) :] = bytes(len(data) - GEOMETRY.entry_position(2))


def lose_half(data: bytearray) -> None:
    del data[len(data) // 2 :]


def lose_all(data: bytearray) -> None:
    data.clear()


def grow(data: bytearray) -> None:
    data += bytes(7)


@pytest.mark.parametrize("damage", [lose_slots, bend_slots, lose_header, lose_entries, lose_half, lose_all, grow])
@pytest.mark.parametrize("with_position", [True, False])
def test_a_damaged_last_file_is_mended_from_the_log_after_a_crash(
    tmp_path: Path, damage: Callable[[bytearray], None], with_position: bool
) -> None:
    store = small_store(tmp_path / "live", QuickFiles(), **TINY)
    store.open()
    for number in range(8):
        put(store, number)
        store.flusher.checkpoint()
    root = left_by_a_kill(store, tmp_path / "killed")
    if not with_position:
        (root / "pyromq.position").unlink()
    path = index_files(root)[-1]
    data = bytearray(path.read_bytes())
    damage(data)
    path.write_bytes(data)
    check_recovery(root, 8)


def test_one_bit_flipped_anywhere_keeps_the_store_working(tmp_path: Path) -> None:
    with small_store(tmp_path / "clean", QuickFiles(), **TINY) as store:
        for number in range(8):
            put(store, number)
    bits = random.Random(4)
    for number in range(60):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "clean", root)
        path = bits.choice([*index_files(root), root / "pyromq.index"])
        data = bytearray(path.read_bytes())
        data[bits.randrange(len(data))] ^= 1 << bits.randrange(8)
        path.write_bytes(data)
        if bits.random() < 0.5:
            (root / "abort").touch()
        with small_store(root, QuickFiles(), **TINY) as store:
            for key in ("a1", "b2", "U7"):
                store.query("orders", key, 64)  # may miss one; never fails
            put(store, 8)
            assert found(store, "U8") == [b"8"]
        shutil.rmtree(root)


def test_a_lost_index_is_made_anew(tmp_path: Path) -> None:
    with small_store(tmp_path, QuickFiles(), **TINY) as store:
        for number in range(8):
            put(store, number)
    shutil.rmtree(tmp_path / "index")
    check_recovery(tmp_path, 8)


def test_a_store_whose_messages_have_no_keys_is_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_store(tmp_path, QuickFiles(), **TINY) as store:
        for _ in range(5):
            store.put(keyed())
        store.commit()
        end = store.max_physical_offset
    caplog.set_level("INFO")
    with small_store(tmp_path, QuickFiles(), **TINY):
        assert f"from={end} " in caplog.text


def test_a_directory_keeps_the_layout_it_was_made_with(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with small_store(tmp_path, QuickFiles(), **TINY) as store:
        put(store, 0)
    with small_store(tmp_path, QuickFiles(), max_hash_slots=16, max_index_entries=64) as store:
        assert "maxHashSlotNum=8 maxIndexNum=16" in caplog.text
        put(store, 1)
        check(store, 2)
    assert {path.stat().st_size for path in index_files(tmp_path)} == {GEOMETRY.file_size}


def test_files_of_another_layout_are_set_aside_and_made_anew(tmp_path: Path) -> None:
    with small_store(tmp_path, QuickFiles(), **TINY) as store:
        put(store, 0)
    name = index_files(tmp_path)[0].name
    (tmp_path / "pyromq.index").unlink()
    with small_store(tmp_path, QuickFiles(), max_hash_slots=16, max_index_entries=64) as store:
        check(store, 1)
    assert (tmp_path / "quarantine" / f"index~{name}").stat().st_size == GEOMETRY.file_size


def test_keys_of_records_that_the_log_has_lost_are_dropped(tmp_path: Path) -> None:
    store = small_store(tmp_path / "live", QuickFiles(), **TINY)
    store.open()
    for number in range(3):
        put(store, number)
    store.flusher.checkpoint()
    cut = store.max_physical_offset
    for number in range(3, 8):
        put(store, number)
    store.query("orders", "none", 1)
    root = left_by_a_kill(store, tmp_path / "killed")
    log = root / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes()[:cut].ljust(4096, b"\0"))
    check_recovery(root, 3)


# --- brokers of RocketMQ's


def without_ours(root: Path, *, clean: bool) -> None:
    """Leave what another broker leaves: none of our files, and its mark of a crash."""
    for path in root.glob("pyromq.*"):
        path.unlink()
    (root / "abort").unlink(missing_ok=True)
    if not clean:
        (root / "abort").touch()


def rewrite_index(root: Path, count: int, *, dropped: int = 0, keys_of_last: int = 3, twice: bool = False) -> None:
    """Write the index as a Java broker does, one key at a time, the header through with each."""
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    file, name = PlainIndexFile(GEOMETRY), 20_230_101_000_000_000
    for number, offset, time_ms in _places(root, count - dropped):
        keys = [f"U{number}", f"a{number}", f"b{number % 3}"]
        if number == count - dropped - 1:
            keys = keys[:keys_of_last]
        for key in keys * (2 if twice and number == count - 1 else 1):
            if file.is_full:
                (root / "index" / str(name)).write_bytes(file.data)
                file, name = PlainIndexFile(GEOMETRY), name + 1
            file.put(key_hash("orders", key), offset, time_ms)
    (root / "index" / str(name)).write_bytes(file.data)


def _places(root: Path, count: int) -> list[tuple[int, int, int]]:
    copy = root.with_name("copy")
    shutil.copytree(root, copy)
    with MessageStore(small_config(copy, message_index=False), FakeTime(), QuickFiles()) as store:
        records = [(store.get("orders", 0, number, 1).views, number) for number in range(count)]
        places = []
        for views, number in records:
            data = b"".join(views)
            places.append((number, int.from_bytes(data[28:36], "big"), int.from_bytes(data[56:64], "big")))
    shutil.rmtree(copy)
    return places


@pytest.fixture
def java_store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with small_store(root, QuickFiles(), **TINY) as store:
        for number in range(8):
            put(store, number)
    return root


@pytest.mark.parametrize("entries", [16, 15])  # with 15 the keys of a message may be in two files
@pytest.mark.parametrize("count", range(1, STEPS))
def test_after_our_crash_a_java_broker_reads_the_log_from_where_it_loses_keys(
    tmp_path: Path, count: int, entries: int
) -> None:
    """It deletes each file that ends after the checkpoint's index time, and reads the log from the queues' time on."""
    times = FakeTime()
    config = small_config(tmp_path / "live", max_hash_slots=GEOMETRY.slots, max_index_entries=entries)
    store = MessageStore(config, times, QuickFiles())
    store.open()
    for number in range(count):
        times.now_ms += 10_000
        put(store, number)
        store.flusher.checkpoint()
    root = left_by_a_kill(store, tmp_path / "killed")
    checkpoint, _ = CheckpointFiles(root, QuickFiles()).read()
    kept = Counter(_offsets_kept(root, Geometry(GEOMETRY.slots, entries), checkpoint.index_timestamp_ms))
    places = _places(root, count)
    lost = [time_ms for _, offset, time_ms in places if kept[offset] < 3]
    assert checkpoint.trusted_timestamp_ms <= min(lost, default=checkpoint.trusted_timestamp_ms)
    assert checkpoint.log_timestamp_ms == places[-1][2]


def _offsets_kept(root: Path, geometry: Geometry, index_timestamp_ms: int) -> Iterator[int]:
    """Give the place of each entry in the files that a Java broker would keep."""
    for path in index_files(root):
        data = path.read_bytes()
        header = IndexHeader(*HEADER.unpack(data[: HEADER.size]))
        if header.end_ms <= index_timestamp_ms:
            for number in range(1, header.next_entry):
                yield ENTRY.unpack_from(data, geometry.entry_position(number))[1]


def test_files_of_a_java_broker_that_stopped_properly_are_read_and_continued(java_store: Path) -> None:
    rewrite_index(java_store, 8)
    without_ours(java_store, clean=True)
    names = [path.name for path in index_files(java_store)]
    check_recovery(java_store, 8)
    assert [path.name for path in index_files(java_store)] == names  # the last one had room


@pytest.mark.parametrize("dropped", [0, 1, 3])
@pytest.mark.parametrize("keys_of_last", [1, 2, 3])
def test_keys_that_a_java_broker_did_not_write_before_it_stopped_are_found(
    java_store: Path, dropped: int, keys_of_last: int
) -> None:
    ours = [path.read_bytes() for path in index_files(java_store)]
    rewrite_index(java_store, 8, dropped=dropped, keys_of_last=keys_of_last)
    without_ours(java_store, clean=True)
    with small_store(java_store, QuickFiles(), **TINY) as store:
        check(store, 8)
    assert ours == [path.read_bytes() for path in index_files(java_store)]  # no key is there twice


def test_a_message_indexed_twice_is_answered_once(java_store: Path) -> None:
    rewrite_index(java_store, 8, twice=True)
    without_ours(java_store, clean=True)
    check_recovery(java_store, 8)


@pytest.mark.parametrize("dropped", [0, 1, 5, 7])
@pytest.mark.parametrize("hole", [False, True])
def test_files_of_a_java_broker_that_crashed_are_mended_from_the_log(
    java_store: Path, dropped: int, hole: bool
) -> None:
    rewrite_index(java_store, 8, dropped=dropped)
    without_ours(java_store, clean=False)
    last = index_files(java_store)[-1]
    if hole:
        data = bytearray(last.read_bytes())
        data[GEOMETRY.entry_position(2) + 7 :] = bytes(len(data) - GEOMETRY.entry_position(2) - 7)
        last.write_bytes(data)
    check_recovery(java_store, 8)


def test_our_closed_files_are_what_a_java_broker_would_have_written(java_store: Path) -> None:
    ours = [path.read_bytes() for path in index_files(java_store)]
    rewrite_index(java_store, 8)
    assert ours == [path.read_bytes() for path in index_files(java_store)]
    assert ENTRY.size == 20
