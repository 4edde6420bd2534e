"""Reads of store files without Spark: what is planned, and that every row is what a plain reader says."""

from __future__ import annotations

import json
import logging
import pickle
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Message, blocking
from pyromq.errors import ConfigError, CorruptRecord, OffsetOutOfRange, PyroMQError, StoreError
from pyromq.protocol.messages.compression import COMPRESSED_FLAG
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.protocol.tag_filter import tag_code
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.files import store_files, store_plan
from pyromq.spark.read.files.store_plan import LogRange
from pyromq.spark.read.store_readers import StoreBatchReader, StoreStreamReader
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.testing import LocalCluster
from tests.spark.conftest import send
from tests.store.helpers import HOST, LOG_FILE_SIZE, read_queue, small_store

COUNT, QUEUES = 200, 3
PLACES = "topic,queue_id,queue_offset"


def _record(number: int, topic: str = "orders", **changes: Any) -> Record:
    chooser = random.Random(number)
    tag = ("created", "paid", None)[number % 3]
    properties = {"number": str(number), **({"TAGS": tag} if tag else {}), **({"KEYS": "a b"} if number % 2 else {})}
    fields: dict[str, Any] = {
        "body": chooser.randbytes(chooser.choice((1, 50, 600))),
        "queue_id": number % QUEUES,
        "properties": encode_properties(properties).encode(),
        "tags_code": tag_code(tag),
        "born_timestamp_ms": 1_600_000_000_000 + number,
        "born_host": HOST,
        "store_host": HOST,
    }
    return Record(topic=topic, **(fields | changes))


def _put(store: MessageStore, *records: Record) -> None:
    for record in records:
        store.put(record)
    store.commit()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """An open store, as a live broker has it: files of a few messages each, two topics mixed in them."""
    with small_store(tmp_path / "store") as store:
        for number in range(COUNT):
            _put(store, _record(number), _record(number, "refunds", queue_id=0))
        yield store


@pytest.fixture
def root(tmp_path: Path, store: MessageStore) -> Path:
    return tmp_path / "store"


def _reader(root: Path, **options: str) -> StoreBatchReader:
    given = {"store": str(root), "subscribe": "orders", "columns": PLACES}
    return StoreBatchReader(read_options(given | options, streaming=False))


def _rows(reader: StoreBatchReader) -> list[dict[str, Any]]:
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def _read(root: Path, **options: str) -> list[dict[str, Any]]:
    return _rows(_reader(root, **options))


def _offsets(rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Return the offsets of each queue in the order in which they came."""
    offsets = defaultdict(list)
    for row in rows:
        offsets[row["queue_id"]].append(row["queue_offset"])
    return dict(offsets)


def _plain(root: Path, topic: str = "orders") -> dict[tuple[int, int], MessageExt]:
    """Read every message as a broker would."""
    with StoreReader(root) as reader:
        queues = [read_queue(reader, topic, queue_id) for queue_id in reader.queue_ids(topic)]
    return {(message.queue_id, message.queue_offset): message for queue in queues for message in queue}


@pytest.mark.parametrize("by_log", [False, True])
def test_every_row_is_what_a_broker_would_hand_out(root: Path, monkeypatch: pytest.MonkeyPatch, by_log: bool) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0 if by_log else COUNT)
    columns = "topic,broker_name,queue_id,queue_offset,tags,keys,body,properties,physical_offset,store_size"
    reader = _reader(root, columns=columns, batchRows="7")
    plain = _plain(root)
    partitions = reader.partitions()
    assert [isinstance(partition, LogRange) for partition in partitions] == [by_log]
    rows = _rows(reader)
    assert len(rows) == COUNT
    assert all(offsets == sorted(offsets) for offsets in _offsets(rows).values()), "each queue keeps its order"
    places = [row["physical_offset"] for row in rows]
    assert (places == sorted(places)) is by_log
    for row in rows:
        message = plain[row["queue_id"], row["queue_offset"]]
        assert (row["topic"], row["broker_name"]) == ("orders", None)
        assert (row["body"], row["tags"], dict(row["properties"])) == (message.body, message.tags, message.properties)
        assert row["keys"] == (["a", "b"] if "KEYS" in message.properties else None)
        assert (row["physical_offset"], row["store_size"]) == (message.physical_offset, message.store_size)


def test_log_ranges_divide_every_queue_without_gap_or_overlap(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    partitions = _reader(root, subscribe="orders,refunds", minPartitions="5").partitions()
    assert len(partitions) == 5
    assert all(isinstance(partition, LogRange) for partition in partitions)
    slices: dict[MessageQueue, list[QueueSlice]] = defaultdict(list)
    for part in (part for partition in partitions for part in partition.value):
        slices[part.queue].append(part)
    for queue, parts in slices.items():
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert parts[-1].stop == (COUNT if queue.topic == "refunds" else -(-(COUNT - queue.queue_id) // QUEUES))
    sizes = [sum(part.stop - part.start for part in partition.value) for partition in partitions]
    assert max(sizes) < 2 * min(sizes)


def test_no_task_has_more_records_than_it_may_however_small_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    with small_store(tmp_path / "store") as store:
        for number in range(60):
            _put(store, _record(number, body=b"x" if number < 50 else bytes(3000)))
    reader = _reader(tmp_path, maxRecordsPerPartition="12")
    sizes = [sum(part.stop - part.start for part in partition.value) for partition in reader.partitions()]
    assert max(sizes) <= 12 < sum(sizes) == 60
    assert _offsets(_rows(reader)) == {queue_id: list(range(20)) for queue_id in range(QUEUES)}


def test_a_topic_that_fills_little_of_the_log_is_read_by_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0)
    with small_store(tmp_path / "store") as store:
        for number in range(30):
            _put(store, _record(number, body=b"x"), _record(number, "others", body=bytes(2000)))
    partitions = _reader(tmp_path, minPartitions="3").partitions()
    assert [isinstance(partition, LogRange) for partition in partitions] == [False] * 3


@pytest.mark.parametrize(
    ("size", "options", "ahead"),
    [
        (40_000, {}, False),
        (40_000, {"checkCrc": "true"}, True),
        (40_000, {"columns": "body"}, True),
        (1_000, {}, True),
    ],
)
def test_large_bodies_that_nobody_asks_for_are_not_read_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, options: dict[str, str], ahead: bool
) -> None:
    with small_store(tmp_path / "store", commit_log_file_size=1 << 20) as store:
        for number in range(5):
            _put(store, _record(number, body=bytes(size)))
    asked = []
    map_file = store_files._map

    def noted(path: str, *, ahead: bool) -> memoryview | None:
        asked.append(ahead)
        return map_file(path, ahead=ahead)

    monkeypatch.setattr(store_files, "_map", noted)
    assert len(_read(tmp_path, **options)) == 5
    assert set(asked) == {ahead}


def test_all_topics_are_read_by_pattern_without_rocketmqs_own(root: Path, store: MessageStore) -> None:
    _put(store, _record(0, "%RETRY%audit"), _record(0, "SCHEDULE_TOPIC_XXXX"))
    given = {"store": str(root), "columns": "topic", "subscribePattern": ".*"}
    reader = StoreBatchReader(read_options(given, streaming=False))
    assert {row["topic"] for row in _rows(reader)} == {"orders", "refunds"}


def test_a_time_begins_and_ends_a_read(root: Path) -> None:
    plain = _plain(root)
    middle = sorted(message.store_timestamp_ms for message in plain.values())[COUNT // 2]
    late = {place for place, message in plain.items() if message.store_timestamp_ms >= middle}
    begun = _read(root, startingTimestamp=str(middle))
    ended = _read(root, endingTimestamp=str(middle))
    assert {(row["queue_id"], row["queue_offset"]) for row in begun} == late
    assert {(row["queue_id"], row["queue_offset"]) for row in ended} == plain.keys() - late


def test_tags_and_sql_are_applied_by_the_reader(root: Path, store: MessageStore) -> None:
    assert {row["tags"] for row in _read(root, columns="tags", tags="paid || unheard-of")} == {"paid"}
    records = [Record(topic="hashes", body=b"x", properties=f"TAGS\x01{tag}".encode()) for tag in ("Aa", "BB", "C")]
    for record in records:
        record.tags_code = tag_code("BB" if b"C" not in record.properties else "C")
    _put(store, *records)
    assert [row["tags"] for row in _read(root, subscribe="hashes", columns="tags", tags="Aa")] == ["Aa"]
    rows = _read(root, columns="tags,properties", sql="number BETWEEN 10 AND 19 AND TAGS IS NOT NULL")
    assert sorted(int(dict(row["properties"])["number"]) for row in rows) == [n for n in range(10, 20) if n % 3 != 2]
    assert _read(root, tags="paid", sql="number > 1000") == []


def test_offsets_name_a_broker_or_anything(root: Path) -> None:
    offsets = json.dumps({"orders": {"broker-a": {"0": 5, "1": -1, "2": 60}}})
    assert _offsets(_read(root, startingOffsets=offsets)) == {0: list(range(5, 67)), 2: list(range(60, 66))}
    rows = _read(root, startingOffsets=offsets, brokerName="broker-a", columns=f"{PLACES},broker_name")
    assert {row["broker_name"] for row in rows} == {"broker-a"}
    with pytest.raises(ConfigError, match="queue orders/broker-a/0, which this read does not include"):
        _read(root, startingOffsets=offsets, brokerName="broker-b")
    with pytest.raises(ConfigError, match="brokers a, b, but a store is one broker's"):
        _read(root, startingOffsets='{"orders": {"a": {"0": 1}, "b": {"0": 1}}}')
    with pytest.raises(OffsetOutOfRange, match="queue orders/store/0: wanted offset 70, but it ends at 67"):
        _read(root, endingOffsets='{"orders": {"": {"0": 70}}}')


# --- damage


def _overwrite(root: Path, position: int, data: bytes) -> None:
    """Change bytes of the log."""
    base = position // LOG_FILE_SIZE * LOG_FILE_SIZE
    with (root / "commitlog" / f"{base:020}").open("r+b") as file:
        file.seek(position - base)
        file.write(data)


@pytest.mark.parametrize(("at", "data"), [(0, b"\x7f"), (4, bytes(4)), (28, b"\1"), (20, b"\1"), (84, b"\x7f\0\0\0")])
def test_a_damaged_record_is_skipped_and_told(
    root: Path, caplog: pytest.LogCaptureFixture, at: int, data: bytes
) -> None:
    position = _plain(root)[1, 20].physical_offset
    _overwrite(root, position + at, data)
    with caplog.at_level(logging.WARNING):
        offsets = _offsets(_read(root))
    assert offsets[1] == [*range(20), *range(21, 67)]
    assert len(offsets[0]) + len(offsets[2]) == COUNT - 67
    file, place = root / "commitlog" / f"{position // LOG_FILE_SIZE * LOG_FILE_SIZE:020}", position % LOG_FILE_SIZE
    text = f"queue orders/store/1: offsets 20 to 20 are damaged ({file} at byte {place}), skipped"
    assert [line for line in caplog.messages if text in line]
    with pytest.raises(CorruptRecord, match="orders/store/1: offsets 20 to 20 are damaged"):
        _read(root, failOnDataLoss="true")


def test_a_record_of_another_topic_is_not_taken_for_one_of_this(root: Path) -> None:
    message = _plain(root)[1, 20]
    _overwrite(root, message.physical_offset + 88 + len(message.body) + 1, b"b")
    assert _offsets(_read(root))[1] == [*range(20), *range(21, 67)]


def test_damaged_entries_and_a_missing_log_file_are_skipped(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (root / "consumequeue" / "orders" / "0" / f"{0:020}").open("r+b") as file:
        file.seek(3 * 20)
        file.write(bytes(20))
    gone = root / "commitlog" / f"{5 * LOG_FILE_SIZE:020}"
    plain = _plain(root)
    gone.unlink()
    kept = {place for place, message in plain.items() if message.physical_offset // LOG_FILE_SIZE != 5}
    with caplog.at_level(logging.WARNING):
        assert {(row["queue_id"], row["queue_offset"]) for row in _read(root)} == kept - {(0, 3)}
    assert f"(…/consumequeue/orders/0/{0:020} at byte 60)" in " ".join(caplog.messages).replace(str(root), "…")
    assert "commitlog, whose file is missing" in " ".join(caplog.messages)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_damaged_a_broker_would_hand_out_the_same_rows(root: Path, seed: int) -> None:
    chooser = random.Random(seed)
    files = sorted([*(root / "commitlog").iterdir(), *(root / "consumequeue" / "orders").glob("*/*")])
    for path in chooser.choices(files, k=9):
        with path.open("r+b") as file:
            file.seek(chooser.randrange(path.stat().st_size - 40))
            file.write(chooser.choice((bytes(40), b"\xff" * 40, chooser.randbytes(1))))
    rows = _read(root, checkCrc="true", columns="queue_id,queue_offset,body")
    plain = {place: message.body for place, message in _plain(root).items()}
    assert {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows} == plain


def test_a_damaged_body_is_found_where_checksums_are_compared(root: Path) -> None:
    message = next(message for message in _plain(root).values() if len(message.body) == 600)
    _overwrite(root, message.physical_offset + 88 + 300, bytes([message.body[300] ^ 1]))
    assert len(_read(root)) == COUNT
    assert len(_read(root, checkCrc="true")) == COUNT - 1


def test_a_compressed_body_that_is_damaged_is_skipped_unless_it_is_not_asked_for(
    root: Path, store: MessageStore
) -> None:
    body = zlib.compress(b"abc" * 100)
    _put(store, *(Record(topic="zipped", body=body, sys_flag=COMPRESSED_FLAG) for _ in range(3)))
    place = _plain(root, "zipped")[0, 1].physical_offset
    _overwrite(root, place + 88 + 5, bytes([body[5] ^ 0xFF]))
    rows = _read(root, subscribe="zipped", columns="queue_offset,body")
    assert [(row["queue_offset"], row["body"]) for row in rows] == [(0, b"abc" * 100), (2, b"abc" * 100)]
    assert len(_read(root, subscribe="zipped")) == 3


def test_a_copy_that_ends_with_its_last_record_is_read_to_the_end(root: Path, store: MessageStore) -> None:
    end = store.max_physical_offset
    store.close()
    last = sorted((root / "commitlog").iterdir())[-1]
    with last.open("r+b") as file:
        file.truncate(end - int(last.name))
    assert len(_read(root, columns="body")) == COUNT
    assert len(_read(root, subscribe="refunds", columns="body")) == COUNT


# --- live


def test_messages_beyond_the_plan_are_not_seen_and_those_that_went_are_missed(root: Path, store: MessageStore) -> None:
    reader = _reader(root)
    partitions = reader.partitions()
    _put(store, _record(COUNT))
    assert sum(batch.num_rows for partition in partitions for batch in reader.read(partition)) == COUNT
    lost = sum(message.physical_offset < LOG_FILE_SIZE for message in _plain(root).values())
    (root / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(OffsetOutOfRange, match=r"queue orders/store/0: wanted offset 0, first available \d+"):
        list(reader.read(partitions[0]))
    patient = _reader(root, failOnDataLoss="false")
    rows = [row for batch in patient.read(partitions[0]) for row in batch.to_pylist()]
    assert len(rows) == COUNT - lost
    assert len(_read(root)) == COUNT + 1 - lost, "a read that is planned now begins at what is there"


def test_what_retention_has_left_of_a_range_is_still_read(root: Path) -> None:
    reader = _reader(root, failOnDataLoss="false")
    (partition,) = reader.partitions()
    (root / "consumequeue" / "orders" / "0" / f"{0:020}").unlink()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert _offsets(rows)[0] == list(range(10, 67))
    with pytest.raises(OffsetOutOfRange, match="queue orders/store/0: wanted offset 0, first available 10"):
        list(_reader(root).read(partition))


def test_a_stream_follows_what_becomes_visible(root: Path, store: MessageStore) -> None:
    given = {"store": str(root), "subscribe": "orders", "columns": PLACES, "startingOffsets": "latest"}
    reader = StoreStreamReader(read_options(given, streaming=True))
    start = reader.initialOffset()
    assert start == {"orders": {"store": {"0": 67, "1": 67, "2": 66}}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start, "an empty batch 0 pins the start"
    store.put(_record(COUNT, queue_id=2))
    assert reader.latestOffset(start, ReadAllAvailable()) == start, "what is not written is not visible"
    _put(store, _record(COUNT + 1, queue_id=7))
    end = reader.latestOffset(start, ReadAllAvailable())
    reader._queues_found_at = float("-inf")  # as after some seconds, when new queues are looked for
    end = reader.latestOffset(end, ReadAllAvailable())
    assert end == {"orders": {"store": {"0": 67, "1": 67, "2": 67, "7": 1}}}
    other = pickle.loads(pickle.dumps(StoreStreamReader(reader._options)))
    rows = [row for part in reader.partitions(start, end) for batch in other.read(part) for row in batch.to_pylist()]
    assert _offsets(rows) == {2: [66], 7: [0]}


def test_a_stream_of_files_may_go_on_through_the_broker() -> None:
    with LocalCluster() as cluster, blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
        given = {"subscribe": "moved", "columns": "body", "startingOffsets": "earliest"}
        sent = [Message(topic="moved", body=b"%d" % number) for number in range(30)]
        send(producer, sent[:20])
        files = {"store": str(cluster.brokers[0].store_path), "brokerName": "broker-a"}
        offline = StoreStreamReader(read_options(given | files, streaming=True))
        offline.latestOffset(offline.initialOffset(), ReadAllAvailable())
        middle = offline.latestOffset(offline.initialOffset(), ReadAllAvailable())
        send(producer, sent[20:])
        online = StreamReader(read_options(given | {"namesrv": cluster.namesrv}, streaming=True))
        parts = online.partitions(middle, online.latestOffset(middle, ReadAllAvailable()))
        bodies = [row["body"] for part in parts for batch in online.read(part) for row in batch.to_pylist()]
        assert sorted(bodies) == [message.body for message in sent[20:]]


def test_committed_offsets_are_those_that_the_broker_saved(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    table = '{"offsetTable":{"orders@audit":{0:10,1:66},"orders@other":{2:5}}}'
    (root / "config" / "consumerOffset.json").write_text(table)
    rows = _read(root, startingOffsets="committed", group="audit", columns=PLACES)
    first = {queue: min(row["queue_offset"] for row in rows if row["queue_id"] == queue) for queue in (0, 2)}
    assert first == {0: 10, 2: 0}, "a queue of which nothing was committed is read from its first message"
    assert _read(root, startingOffsets="committed", group="nobody", columns=PLACES) == _read(root, columns=PLACES)


# --- what is wrong


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "order"}, r"no topic 'order' in the store .*/store; it has orders"),
        ({"startingOffsets": "committed"}, "'committed' means the offsets of a consumer group: set the option group"),
        ({"pullTimeout": "1s"}, "option pullTimeout is for reads through brokers; leave it out with option store"),
        ({"namesrv": "127.0.0.1:9876"}, "set one of the options namesrv .* and store"),
        ({"sql": "a >"}, "option sql: "),
        ({"store": "hdfs://node/store"}, "option store: expected a directory that every executor sees"),
    ],
)
def test_a_wrong_option_is_one_line(root: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(PyroMQError, match=text) as caught:
        _read(root, **options)
    assert "\n" not in str(caught.value)


def test_a_topic_without_messages_is_empty(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"quiet":{"topicName":"quiet"}}}')
    assert _reader(root, subscribe="quiet").partitions() == []


def test_options_of_stores_need_one() -> None:
    for name, value in (("brokerName", "b"), ("checkCrc", "true")):
        with pytest.raises(ConfigError, match=f"option {name} belongs to option store"):
            read_options({"namesrv": "a:1", "subscribe": "x", name: value}, streaming=False)


def test_a_directory_without_a_store_says_what_is_missing(root: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store in .*: neither commitlog/ nor store/commitlog/ is there"):
        _read(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"no store in .*: Not a directory"):
        _read(root / "checkpoint")
    reader = _reader(root)
    partitions = reader.partitions()
    away = StoreBatchReader(read_options({"store": str(tmp_path / "x"), "subscribe": "orders"}, streaming=False))
    with pytest.raises(StoreError, match="every executor must see the directory of option store"):
        list(away.read(partitions[0]))
    assert len(_read(Path(f"file://{tmp_path}"))) == COUNT, "the directory that holds store/ will do"
