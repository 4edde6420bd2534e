"""Reads of store files without Spark: every row must be what a plain reader returns."""

from __future__ import annotations

import json
import pickle
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyromq import Message, blocking
from pyromq.errors import ConfigError, OffsetOutOfRange, PyroMQError, StoreError
from pyromq.protocol.bodies import DataVersion
from pyromq.protocol.messages.record import Record
from pyromq.protocol.tag_filter import tag_code
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.files import store_files, store_plan
from pyromq.spark.read.files.store_plan import LogRange
from pyromq.spark.read.store_readers import StoreBatchReader, StoreStreamReader
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import OFFSETS, TOPICS
from pyromq.store.write.queue_tails import LIMIT
from pyromq.testing import LocalCluster
from tests.spark.conftest import send
from tests.spark.read.sample_store import (
    COUNT,
    PLACES,
    offsets_of,
    plain_messages,
    put_records,
    read_rows,
    rows_of,
    sample_record,
    store_reader,
    wait_for_entries,
)
from tests.store.helpers import LOG_FILE_SIZE, small_store


@pytest.mark.parametrize("by_log", [False, True])
def test_every_row_is_what_a_broker_would_hand_out(root: Path, monkeypatch: pytest.MonkeyPatch, by_log: bool) -> None:
    monkeypatch.setattr(store_plan, "SMALL", 0 if by_log else COUNT)
    columns = "topic,broker_name,queue_id,queue_offset,tags,keys,body,properties,physical_offset,store_size"
    reader = store_reader(root, columns=columns, batchRows="7")
    plain = plain_messages(root)
    partitions = reader.partitions()
    assert [isinstance(partition, LogRange) for partition in partitions] == [by_log]
    rows = rows_of(reader)
    assert len(rows) == COUNT
    assert all(offsets == sorted(offsets) for offsets in offsets_of(rows).values()), "each queue keeps its order"
    places = [row["physical_offset"] for row in rows]
    assert (places == sorted(places)) is by_log
    for row in rows:
        message = plain[row["queue_id"], row["queue_offset"]]
        assert (row["topic"], row["broker_name"]) == ("orders", None)
        assert (row["body"], row["tags"], dict(row["properties"])) == (message.body, message.tags, message.properties)
        assert row["keys"] == (["a", "b"] if "KEYS" in message.properties else None)
        assert (row["physical_offset"], row["store_size"]) == (message.physical_offset, message.store_size)


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
            put_records(store, sample_record(number, body=bytes(size)))
    asked = []
    map_file = store_files._map

    def noted(path: str, *, ahead: bool) -> memoryview | None:
        asked.append(ahead)
        return map_file(path, ahead=ahead)

    monkeypatch.setattr(store_files, "_map", noted)
    assert len(read_rows(tmp_path, **options)) == 5
    assert set(asked) == {ahead}


def test_all_topics_are_read_by_pattern_without_rocketmqs_own(root: Path, store: MessageStore) -> None:
    put_records(store, sample_record(0, "%RETRY%audit"), sample_record(0, "SCHEDULE_TOPIC_XXXX"))
    given = {"store": str(root), "columns": "topic", "subscribePattern": ".*"}
    reader = StoreBatchReader(read_options(given, streaming=False))
    assert {row["topic"] for row in rows_of(reader)} == {"orders", "refunds"}


def test_a_time_begins_and_ends_a_read(root: Path) -> None:
    plain = plain_messages(root)
    middle = sorted(message.store_timestamp_ms for message in plain.values())[COUNT // 2]
    late = {place for place, message in plain.items() if message.store_timestamp_ms >= middle}
    begun = read_rows(root, startingTimestamp=str(middle))
    ended = read_rows(root, endingTimestamp=str(middle))
    assert {(row["queue_id"], row["queue_offset"]) for row in begun} == late
    assert {(row["queue_id"], row["queue_offset"]) for row in ended} == plain.keys() - late


def test_tags_and_sql_are_applied_by_the_reader(root: Path, store: MessageStore) -> None:
    assert {row["tags"] for row in read_rows(root, columns="tags", tags="paid || unheard-of")} == {"paid"}
    records = [Record(topic="hashes", body=b"x", properties=f"TAGS\x01{tag}".encode()) for tag in ("Aa", "BB", "C")]
    for record in records:
        record.tags_code = tag_code("BB" if b"C" not in record.properties else "C")
    put_records(store, *records)
    assert [row["tags"] for row in read_rows(root, subscribe="hashes", columns="tags", tags="Aa")] == ["Aa"]
    rows = read_rows(root, columns="tags,properties", sql="number BETWEEN 10 AND 19 AND TAGS IS NOT NULL")
    assert sorted(int(dict(row["properties"])["number"]) for row in rows) == [n for n in range(10, 20) if n % 3 != 2]
    assert read_rows(root, tags="paid", sql="number > 1000") == []


def test_offsets_name_a_broker_or_anything(root: Path) -> None:
    offsets = json.dumps({"orders": {"broker-a": {"0": 5, "1": -1, "2": 60}}})
    assert offsets_of(read_rows(root, startingOffsets=offsets)) == {0: list(range(5, 67)), 2: list(range(60, 66))}
    rows = read_rows(root, startingOffsets=offsets, brokerName="broker-a", columns=f"{PLACES},broker_name")
    assert {row["broker_name"] for row in rows} == {"broker-a"}
    with pytest.raises(ConfigError, match="queue orders/broker-a/0, which this read does not include"):
        read_rows(root, startingOffsets=offsets, brokerName="broker-b")
    with pytest.raises(ConfigError, match="brokers a, b, but a store is one broker's"):
        read_rows(root, startingOffsets='{"orders": {"a": {"0": 1}, "b": {"0": 1}}}')
    with pytest.raises(OffsetOutOfRange, match="queue orders/store/0: wanted offset 70, but it ends at 67"):
        read_rows(root, endingOffsets='{"orders": {"": {"0": 70}}}')


# --- live


def test_messages_beyond_the_plan_are_not_seen_and_those_that_went_are_missed(root: Path, store: MessageStore) -> None:
    reader = store_reader(root)
    partitions = reader.partitions()
    put_records(store, sample_record(COUNT))
    assert sum(batch.num_rows for partition in partitions for batch in reader.read(partition)) == COUNT
    lost = sum(message.physical_offset < LOG_FILE_SIZE for message in plain_messages(root).values())
    (root / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(OffsetOutOfRange, match=r"queue orders/store/0: wanted offset 0, first available \d+"):
        list(reader.read(partitions[0]))
    patient = store_reader(root, failOnDataLoss="false")
    rows = [row for batch in patient.read(partitions[0]) for row in batch.to_pylist()]
    assert len(rows) == COUNT - lost
    assert len(read_rows(root)) == COUNT + 1 - lost, "a read that is planned now begins at what is there"


def test_what_retention_has_left_of_a_range_is_still_read(root: Path) -> None:
    reader = store_reader(root, failOnDataLoss="false")
    (partition,) = reader.partitions()
    (root / "consumequeue" / "orders" / "0" / f"{0:020}").unlink()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert offsets_of(rows)[0] == list(range(10, 67))
    with pytest.raises(OffsetOutOfRange, match="queue orders/store/0: wanted offset 0, first available 10"):
        list(store_reader(root).read(partition))


def test_a_stream_follows_what_becomes_visible(root: Path, store: MessageStore) -> None:
    given = {"store": str(root), "subscribe": "orders", "columns": PLACES, "startingOffsets": "latest"}
    reader = StoreStreamReader(read_options(given, streaming=True))
    start = reader.initialOffset()
    assert start == {"orders": {"store": {"0": 67, "1": 67, "2": 66}}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start, "an empty batch 0 pins the start"
    store.put(sample_record(COUNT, queue_id=2))
    assert reader.latestOffset(start, ReadAllAvailable()) == start, "what is not written is not visible"
    put_records(store, sample_record(COUNT + 1, queue_id=7))
    end = reader.latestOffset(start, ReadAllAvailable())
    reader._queues_found_at = float("-inf")  # as after some seconds, when new queues are looked for
    new = reader.latestOffset(end, ReadAllAvailable())
    assert new == {"orders": {"store": {"0": 67, "1": 67, "2": 67, "7": 0}}}, "the start of a new queue is recorded"
    end = reader.latestOffset(new, ReadAllAvailable())
    assert end == {"orders": {"store": {"0": 67, "1": 67, "2": 67, "7": 1}}}
    other = pickle.loads(pickle.dumps(StoreStreamReader(reader._options)))
    rows = [row for part in reader.partitions(start, end) for batch in other.read(part) for row in batch.to_pylist()]
    assert offsets_of(rows) == {2: [66], 7: [0]}


def test_a_stream_of_files_notices_a_topic_that_is_gone(root: Path) -> None:
    start = {"orders": {"store": {"0": 67, "1": 67, "2": 66, "9": 5}}}
    for bounded in (True, False):
        given = {"store": str(root), "subscribe": "orders"}
        reader = StoreStreamReader(read_options(given, streaming=True))
        if bounded:
            reader.prepareForTriggerAvailableNow()
        with pytest.raises(OffsetOutOfRange, match="queue orders/store/9: wanted offset 5, but it ends at 0"):
            reader.latestOffset(start, ReadAllAvailable())


def test_a_stream_of_files_may_go_on_through_the_broker() -> None:
    with LocalCluster() as cluster, blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
        given = {"subscribe": "moved", "columns": "body", "startingOffsets": "earliest"}
        sent = [Message(topic="moved", body=b"%d" % number) for number in range(30)]
        send(producer, sent[:20])
        wait_for_entries(cluster.brokers[0].store_path, "moved", 20)
        files = {"store": str(cluster.brokers[0].store_path), "brokerName": "broker-a"}
        offline = StoreStreamReader(read_options(given | files, streaming=True))
        offline.latestOffset(offline.initialOffset(), ReadAllAvailable())
        middle = offline.latestOffset(offline.initialOffset(), ReadAllAvailable())
        send(producer, sent[20:])
        online = StreamReader(read_options(given | {"namesrv": cluster.namesrv}, streaming=True))
        parts = online.partitions(middle, online.latestOffset(middle, ReadAllAvailable()))
        bodies = [row["body"] for part in parts for batch in online.read(part) for row in batch.to_pylist()]
        assert sorted(bodies) == [message.body for message in sent[20:]]


def entries_come(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let a running broker write its queue entries when a reader waits for them; return how long it wanted to wait."""
    waits: list[float] = []
    reader, sleep = threading.get_ident(), time.sleep

    def come(seconds: float) -> None:
        if threading.get_ident() != reader:  # some thread that another test has left
            sleep(seconds)
            return
        waits.append(seconds)
        store.tails.write_all()

    monkeypatch.setattr("pyromq.spark.read.store_readers.time.sleep", come)
    return waits


def test_offsets_ahead_of_the_files_of_a_running_broker_are_no_loss(
    root: Path, store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.tails.limit = LIMIT
    waits = entries_come(store, monkeypatch)
    put_records(store, *(sample_record(COUNT + number, queue_id=0) for number in range(5)))
    rows = read_rows(root, startingOffsets='{"orders": {"": {"0": 69, "1": -1, "2": -1}}}')
    assert (offsets_of(rows), len(waits)) == ({0: [69, 70, 71]}, 1)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_stream_that_a_broker_began_goes_on_with_files_that_are_behind_it(
    root: Path, store: MessageStore, monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    store.tails.limit = LIMIT
    put_records(store, *(sample_record(COUNT + number, queue_id=0) for number in range(5)))
    given = {"store": str(root), "subscribe": "orders", "brokerName": "broker-a"}
    reader = StoreStreamReader(read_options(given, streaming=True))
    if bounded:
        reader.prepareForTriggerAvailableNow()
    waits = entries_come(store, monkeypatch)
    begin = {"orders": {"broker-a": {"0": 69, "1": 67, "2": 66}}}
    end = reader.latestOffset(begin, ReadAllAvailable())
    assert end == {"orders": {"broker-a": {"0": 72, "1": 67, "2": 66}}}
    assert len(waits) == 1


def test_committed_offsets_are_those_that_the_broker_saved(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    table = '{"offsetTable":{"orders@audit":{0:10,1:66},"orders@other":{2:5}}}'
    (root / "config" / "consumerOffset.json").write_text(table)
    rows = read_rows(root, startingOffsets="committed", group="audit", columns=PLACES)
    first = {queue: min(row["queue_offset"] for row in rows if row["queue_id"] == queue) for queue in (0, 2)}
    assert first == {0: 10, 2: 0}, "a queue of which nothing was committed is read from its first message"
    assert read_rows(root, startingOffsets="committed", group="nobody", columns=PLACES) == read_rows(
        root, columns=PLACES
    )


def test_what_a_killed_broker_left_in_the_journals_of_its_tables_counts(root: Path) -> None:
    offsets = TableFile(root / "config" / OFFSETS.name, OFFSETS)
    offsets.save(OFFSETS.print([("orders@audit", {0: 10})]), 1)
    offsets.append([(2, b'{"number":2,"rows":{"orders@audit":{"0":12}}}')])
    rows = read_rows(root, startingOffsets="committed", group="audit", columns=PLACES)
    assert min(row["queue_offset"] for row in rows if row["queue_id"] == 0) == 12
    topics = TableFile(root / "config" / TOPICS.name, TOPICS)
    topics.save(TOPICS.print([], DataVersion(1, 1)), 1)
    topics.append([(2, b'{"number":2,"rows":{"quiet":{"topicName":"quiet"}}}')])
    assert store_reader(root, subscribe="quiet").partitions() == []


# --- errors


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
        read_rows(root, **options)
    assert "\n" not in str(caught.value)


def test_a_topic_without_messages_is_empty(root: Path) -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"quiet":{"topicName":"quiet"}}}')
    assert store_reader(root, subscribe="quiet").partitions() == []


def test_options_of_stores_need_one() -> None:
    for name, value in (("brokerName", "b"), ("checkCrc", "true")):
        with pytest.raises(ConfigError, match=f"option {name} belongs to option store"):
            read_options({"namesrv": "a:1", "subscribe": "x", name: value}, streaming=False)


def test_a_directory_without_a_store_says_what_is_missing(root: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store in .*: neither commitlog/ nor store/commitlog/ is there"):
        read_rows(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"no store in .*: Not a directory"):
        read_rows(root / "checkpoint")
    reader = store_reader(root)
    partitions = reader.partitions()
    away = StoreBatchReader(read_options({"store": str(tmp_path / "x"), "subscribe": "orders"}, streaming=False))
    with pytest.raises(StoreError, match="every executor must see the directory of option store"):
        list(away.read(partitions[0]))
    assert len(read_rows(Path(f"file://{tmp_path}"))) == COUNT, "the directory that holds store/ will do"
