"""A view of somebody else's files: the same answers as the store itself, never more, and nothing written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import OffsetOutOfRange, StoreError
from pyromq.protocol.messages.record import Record, decode_messages, encode_record, read_head
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.check.verify import StoreCheck
from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, PRE_BLANK
from pyromq.store.message_store import GetResult, GetStatus, MessageStore
from pyromq.store.read.reader import StoreReader
from tests.store.helpers import FaultyFiles, bodies, left_by_a_kill, log_files, message, queue_files, small_store


@contextmanager
def filled(root: Path, count: int = 60) -> Iterator[MessageStore]:
    """Give an open store with messages in three queues, over several files."""
    with small_store(root) as store:
        for number in range(count):
            tag = "even" if number % 2 == 0 else "odd"
            store.put(message(queue_id=number % 3, body=b"%d" % number * 20, tag=tag))
            if number % 5 == 4:
                store.commit()
        store.commit()
        yield store


def fill(root: Path) -> None:
    """Leave a closed store with messages."""
    with filled(root):
        pass


def fingerprint(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that could be changed about a directory's files."""
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def shown(result: GetResult) -> tuple[object, ...]:
    """Return a result with its bytes instead of its views."""
    return (
        result.status, result.next_offset, result.min_offset, result.max_offset, b"".join(result.views), result.count,
        result.size, result.suggest_slave,
    )  # fmt: skip


def test_it_answers_as_the_store_does(tmp_path: Path) -> None:
    with filled(tmp_path) as store, StoreReader(tmp_path) as reader:
        assert reader.topics == store.topics
        assert reader.queue_ids("orders") == store.queue_ids("orders") == [0, 1, 2]
        assert reader.max_physical_offset == store.max_physical_offset
        assert reader.min_physical_offset == store.min_physical_offset
        for queue_id in range(4):
            assert reader.min_offset("orders", queue_id) == store.min_offset("orders", queue_id)
            assert reader.max_offset("orders", queue_id) == store.max_offset("orders", queue_id)
            assert reader.earliest_time("orders", queue_id) == store.earliest_time("orders", queue_id)
            for offset in range(23):
                for codes in (None, frozenset({tag_code("odd")})):
                    for max_bytes in (None, 300):
                        assert shown(
                            reader.get("orders", queue_id, offset, 7, max_bytes=max_bytes, codes=codes)
                        ) == shown(store.get("orders", queue_id, offset, 7, max_bytes=max_bytes, codes=codes))


def test_it_finds_messages_by_time(tmp_path: Path) -> None:
    with filled(tmp_path) as store, StoreReader(tmp_path) as reader:
        stored = [read_head(bytes(store.get("orders", 1, n, 1).views[0])).store_timestamp_ms for n in range(20)]
        for moment in range(stored[0] - 3, stored[-1] + 3):
            assert reader.offset_at("orders", 1, moment) == store.offset_at("orders", 1, moment)
            assert reader.first_offset_since("orders", 1, moment) == sum(time < moment for time in stored)


def test_a_message_is_read_by_its_physical_offset(tmp_path: Path) -> None:
    with filled(tmp_path) as store, StoreReader(tmp_path) as reader:
        for physical_offset, *_ in ENTRY.iter_unpack(reader.raw_entries("orders", 2, 0, 100)):
            assert reader.read(physical_offset) == store.read(physical_offset) is not None
            assert reader.read(physical_offset + 1) is None


def test_nothing_is_written_not_even_by_a_refresh(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    (tmp_path / "store" / "lock").unlink()
    before = fingerprint(tmp_path)
    with StoreReader(tmp_path) as reader:
        reader.get("orders", 0, 0, 32)
        reader.read(0)
        reader.refresh()
    assert fingerprint(tmp_path) == before


def test_a_directory_without_the_right_to_write_is_enough(tmp_path: Path) -> None:
    fill(tmp_path / "store")

    class Watched(FaultyFiles):
        def open(self, path: str, *, create: bool = False) -> int:
            assert not create
            return os.open(path, os.O_RDONLY)

    files = Watched()
    with StoreReader(tmp_path, files=files) as reader:
        assert reader.get("orders", 0, 0, 32).count > 0
    assert set(files.calls) <= {"pread"}


def test_what_is_not_committed_is_not_seen(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        place = store.put(message(body=b"joined"))
        with StoreReader(tmp_path) as reader:
            assert reader.max_offset("orders", 0) == place.queue_offset
            store.commit()
            assert reader.max_offset("orders", 0) == place.queue_offset
            assert reader.read(place.physical_offset) is None
            reader.refresh()
            assert reader.max_offset("orders", 0) == place.queue_offset + 1
            assert reader.read(place.physical_offset) is not None


def test_a_record_without_its_entry_is_not_seen(tmp_path: Path) -> None:
    # As under SYNC_FLUSH: the record is in the log and waits for its flush.
    with filled(tmp_path / "a") as store:
        end = store.max_physical_offset
        (path,) = [file for file in log_files(tmp_path / "a") if int(file.name) <= end < int(file.name) + 4096]
        record = encode_record(Record(topic="orders", body=b"secret"), b"orders", 20, end, 1)
        with path.open("r+b") as file:
            file.seek(end - int(path.name))
            file.write(record)
        with StoreReader(tmp_path / "a") as reader:
            assert reader.read(end) is None
            assert reader.max_physical_offset == end
            assert reader.get("orders", 0, 20, 1).status is GetStatus.OFFSET_OVERFLOW_ONE


@pytest.mark.parametrize("kept", [5, 8, 11, 13, 17, 19])
def test_a_half_written_entry_is_not_seen(tmp_path: Path, kept: int) -> None:
    with filled(tmp_path) as store:
        end = store.max_offset("orders", 0)
        store.put(message(body=b"last", tag="a tag whose code fills eight bytes"))
        store.commit()
        path = queue_files(tmp_path)[-1]
        position = end * ENTRY_SIZE - int(path.name)
        whole = path.read_bytes()[position : position + ENTRY_SIZE]
        assert whole[-1]
        with path.open("r+b") as file:
            file.seek(position)
            file.write(whole[:kept].ljust(ENTRY_SIZE, b"\0"))
        with StoreReader(tmp_path) as reader:
            assert reader.max_offset("orders", 0) == end


def test_a_copy_left_by_a_kill_is_read_up_to_what_was_visible(tmp_path: Path) -> None:
    with filled(tmp_path / "a") as store:
        expected = bodies(store, queue_id=1)
        root = left_by_a_kill(store, tmp_path / "b")
    with StoreReader(root) as reader:
        assert bodies(reader, queue_id=1) == expected


def test_entries_that_outlived_the_tail_of_the_log_are_not_seen(tmp_path: Path) -> None:
    fill(tmp_path)
    last = log_files(tmp_path)[-1]
    last.write_bytes(bytes(4096))
    lost_from = int(last.name)
    with StoreReader(tmp_path) as reader:
        assert reader.max_physical_offset <= lost_from
        for queue_id in range(3):
            end = reader.max_offset("orders", queue_id)
            assert 0 < end < 20
            assert reader.get("orders", queue_id, end - 1, 1).status is GetStatus.FOUND


def test_garbage_behind_the_end_and_files_made_ahead_are_not_seen(tmp_path: Path) -> None:
    # Apache's broker makes the next log file ahead, and does not clear what it cuts.
    with filled(tmp_path / "a") as store:
        end = store.max_physical_offset
    path = log_files(tmp_path / "a")[-1]
    with path.open("r+b") as file:
        file.seek(end - int(path.name))
        file.write(b"\xda\xa3" * 20)
    (path.parent / f"{int(path.name) + 4096:020d}").write_bytes(bytes(4096))
    with StoreReader(tmp_path / "a") as reader:
        assert reader.max_physical_offset == end
        assert sum(reader.max_offset("orders", queue_id) for queue_id in range(3)) == 60
        assert reader.log_segments[-1].path == str(path)


def test_a_queue_that_begins_inside_its_first_file_begins_behind_the_filling(tmp_path: Path) -> None:
    fill(tmp_path)
    for path in log_files(tmp_path)[:2]:
        path.unlink()
    first = queue_files(tmp_path)[0]
    data = first.read_bytes()
    first.write_bytes(PRE_BLANK * 2 + data[2 * ENTRY_SIZE :])
    with StoreReader(tmp_path) as reader:
        low = reader.min_offset("orders", 0)
        assert low > 2
        assert reader.get("orders", 0, 0, 1).status is GetStatus.OFFSET_TOO_SMALL
        assert decode_messages(b"".join(reader.get("orders", 0, low, 1).views))[0].queue_offset == low


def test_a_log_in_several_directories_is_one_log(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        expected = bodies(store)
    other = tmp_path / "other"
    other.mkdir()
    for path in log_files(tmp_path)[1::2]:
        path.rename(other / path.name)
    with StoreReader(tmp_path, commit_log=[tmp_path / "commitlog", other]) as reader:
        assert bodies(reader) == expected


def test_a_directory_of_a_java_broker_is_read(tmp_path: Path) -> None:
    # Bytes that Apache's 4.9 store wrote; its files are larger, and none of ours are beside them.
    record = bytes.fromhex(
        "00000087daa320a73610a686000000000000000700000000000000000000000000000000"
        "0000000000000000000003e87f0000010000162e000001a1e059a1217f00000100002a9f00000002"
        "00000000000000000000000568656c6c6f06546f706963410021"
        "554e49515f4b455901554b3102544147530154616741024b455953016b31206b32"
    )
    queue = tmp_path / "consumequeue" / "TopicA" / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020d}").write_bytes(bytes.fromhex("00000000000000000000008700000000 0027a807").ljust(400, b"\0"))
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(record.ljust(65536, b"\0"))
    (tmp_path / "commitlog" / f"{65536:020d}").write_bytes(bytes(65536))
    with StoreReader(tmp_path) as reader:
        result = reader.get("TopicA", 0, 0, 32, codes=frozenset({tag_code("TagA")}))
        (found,) = decode_messages(b"".join(result.views))
        assert (found.body, found.tags, found.keys) == (b"hello", "TagA", ("k1", "k2"))
        assert (reader.max_offset("TopicA", 0), reader.max_physical_offset) == (1, len(record))
    assert list(StoreCheck(tmp_path).run()) == []


def test_a_damaged_message_is_left_out_and_its_neighbours_are_not(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        position = store.get("orders", 0, 3, 1)
        record = bytes(position.views[0])
    physical_offset = read_head(record).physical_offset
    path = log_files(tmp_path)[physical_offset // 4096]
    data = bytearray(path.read_bytes())
    data[physical_offset % 4096 + 90] ^= 1
    path.write_bytes(data)
    with StoreReader(tmp_path) as reader:
        result = reader.get("orders", 0, 0, 8)
        assert [one.queue_offset for one in decode_messages(b"".join(result.views))] == [0, 1, 2, 4, 5, 6, 7]
        assert (result.status, result.next_offset, result.count) == (GetStatus.FOUND, 8, 7)
        assert result.size == sum(map(len, result.views))
        assert reader.get("orders", 0, 3, 1).views == []
        assert reader.read(physical_offset) is None


def test_files_that_go_meanwhile_count_as_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    with StoreReader(tmp_path) as reader:
        log_files(tmp_path)[0].unlink()
        queue_files(tmp_path, queue_id=1)[0].unlink()
        reader.close()  # or what is open stays readable
        assert reader.get("orders", 0, 0, 3).views == []
        assert reader.get("orders", 1, 0, 3).status is GetStatus.OFFSET_FOUND_NULL
        with pytest.raises(OffsetOutOfRange, match="orders queue 1"):
            reader.raw_entries("orders", 1, 0, 20)
        reader.refresh()
        assert reader.get("orders", 0, 0, 3).status is GetStatus.OFFSET_TOO_SMALL
        shutil.rmtree(tmp_path / "consumequeue")
        reader.refresh()
        assert reader.topics == []


def test_entries_come_as_stored_and_as_columns(tmp_path: Path) -> None:
    with filled(tmp_path) as store, StoreReader(tmp_path) as reader:
        raw = reader.raw_entries("orders", 0, 5, 100)
        assert len(raw) == 15 * ENTRY_SIZE
        columns = reader.entry_array("orders", 0, 5, 100)
        assert columns.dtype.names == ("physical_offset", "size", "tags_code")
        assert store.read(int(columns["physical_offset"][0])) is not None
        assert [int(n) for n in columns["tags_code"][:2]] == [tag_code("odd"), tag_code("even")]
        assert reader.raw_entries("orders", 9, 0, 5) == b""


def test_a_directory_without_a_store_is_refused_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store in .*neither commitlog/ nor store/commitlog/"):
        StoreReader(tmp_path)


@settings(max_examples=40, deadline=None)
@given(garbage=st.binary(max_size=400), position=st.integers(0, 4095))
def test_no_garbage_in_the_log_makes_it_raise_or_lie(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, position: int
) -> None:
    root = tmp_path_factory.mktemp("garbage")
    with filled(root, 30) as store:
        sent = {one for queue_id in range(3) for one in bodies(store, queue_id=queue_id)}
    path = log_files(root)[0]
    data = bytearray(path.read_bytes())
    data[position : position + len(garbage)] = garbage
    path.write_bytes(data[:4096])
    with StoreReader(root) as reader:
        for queue_id in range(3):
            for offset in range(reader.min_offset("orders", queue_id), reader.max_offset("orders", queue_id)):
                for one in decode_messages(b"".join(reader.get("orders", queue_id, offset, 4).views)):
                    assert one.stored_body in sent  # the rest of a record has no checksum
    shutil.rmtree(root)


WRITER = """
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tests.store.helpers import message, small_store

root, flush, first, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
settings = dict(commit_log_file_size=16384, consume_queue_file_size=2000, flush_interval_ms=5, checkpoint_interval_ms=7)
store = small_store(root, flush_disk_type=flush, **settings)
store.open()
for number in range(first, last):
    store.put(message(queue_id=number % 3, body=b"%d" % number + b"x" * (number * 37 % 700), tag=f"tag-{number}"))
    if number % 4 == 0:
        store.commit()
print("done", flush=True)
store.close()
"""


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_live_store_that_writes_rolls_and_restarts_is_read_without_a_wrong_byte(tmp_path: Path, flush: str) -> None:
    seen = [0, 0, 0]
    (tmp_path / "commitlog").mkdir()
    with StoreReader(tmp_path) as reader:
        for part in range(3):
            arguments = [sys.executable, "-c", WRITER, str(tmp_path), flush, str(part * 900), str(part * 900 + 900)]
            writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
            try:
                while writer.poll() is None:
                    follow(reader, seen)
            finally:
                writer.kill()
                assert writer.stdout is not None
                assert writer.stdout.read() == "done\n"
                writer.stdout.close()
        follow(reader, seen)
    assert seen == [900, 900, 900]


def follow(reader: StoreReader, seen: list[int]) -> None:
    """Read what is new in every queue, and check each message."""
    reader.refresh()
    for queue_id in range(3):
        end = reader.max_offset("orders", queue_id)
        assert end >= seen[queue_id]
        while seen[queue_id] < end:
            result = reader.get("orders", queue_id, seen[queue_id], 32)
            assert result.status is GetStatus.FOUND
            for one in decode_messages(b"".join(result.views)):
                number = seen[queue_id] * 3 + queue_id
                assert one.queue_offset == seen[queue_id]
                assert one.body == b"%d" % number + b"x" * (number * 37 % 700)
                assert one.tags == f"tag-{number}"
                seen[queue_id] += 1
