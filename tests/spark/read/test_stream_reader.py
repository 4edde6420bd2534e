"""The offsets that a stream reports to Spark, call by call, without a JVM."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyromq.errors import OffsetOutOfRange, PyroMQError
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.brokers.broker_queues import BrokerQueues
from pyromq.spark.read.plan.partitions import Slices
from pyromq.spark.read.stream_reader import StreamReader
from tests.spark.read.fake_broker import TOPIC, FakeBroker

EVERYTHING = ReadAllAvailable()


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(end=10) as broker:
        yield broker


@pytest.fixture
def options(broker: FakeBroker) -> ReadOptions:
    return ReadOptions(
        namesrv=broker.address, topics=(TOPIC,), start="latest", columns=("queue_offset",), retry_timeout=1
    )


def _at(offset: int) -> dict[str, Any]:
    return {"orders": {"fake": {"0": offset}}}


def _ranges(partitions: list[InputPartition]) -> list[tuple[int, int]]:
    assert all(isinstance(partition, Slices) for partition in partitions)
    return [(part.start, part.stop) for partition in partitions for part in partition.value]


def _read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return [row["queue_offset"] for batch in batches for row in batch.to_pylist()]


def test_a_new_query_pins_its_start_by_an_empty_batch(options: ReadOptions, broker: FakeBroker) -> None:
    reader = StreamReader(options)
    assert reader.initialOffset() == _at(10)
    broker.end = 15
    assert reader.initialOffset() == _at(10), "Spark asks twice and uses the second answer"
    assert reader.latestOffset(_at(10), EVERYTHING) == _at(10)
    assert reader.partitions(_at(10), _at(10)) == []
    assert reader.latestOffset(_at(10), EVERYTHING) == _at(15)
    assert _read(reader, _at(10), _at(15)) == list(range(10, 15))


def test_a_batch_0_that_crashed_is_empty_again_and_nothing_is_skipped(options: ReadOptions, broker: FakeBroker) -> None:
    broker.end = 15  # the first run recorded 10
    reader = StreamReader(options)
    start = reader.initialOffset()
    assert start == _at(15), "asked again in a new process, `latest` means something else"
    assert reader.partitions(start, _at(10)) == []
    assert reader.latestOffset(_at(10), EVERYTHING) == _at(15), "not pinned again"
    assert _read(reader, _at(10), _at(15)) == list(range(10, 15))


def test_a_batch_that_crashed_is_read_again(options: ReadOptions) -> None:
    reader = StreamReader(options)
    assert _read(reader, _at(2), _at(7)) == list(range(2, 7))
    assert reader.latestOffset(_at(7), EVERYTHING) == _at(10)


def test_available_now_stops_where_the_queue_ended_when_it_began(options: ReadOptions, broker: FakeBroker) -> None:
    reader = StreamReader(replace(options, start="earliest"))
    reader.prepareForTriggerAvailableNow()
    broker.end = 20
    assert reader.initialOffset() == _at(0)
    first = reader.latestOffset(_at(0), ReadMaxRows(6))
    assert first == {**_at(6), "(beginning)": _at(0)}
    assert _read(reader, _at(0), first) == list(range(6))
    assert reader.latestOffset(first, ReadMaxRows(6)) == _at(10)
    assert _read(reader, first, _at(10)) == list(range(6, 10))
    assert reader.latestOffset(_at(10), ReadMaxRows(6)) == _at(10)
    assert reader.reportLatestOffset() == _at(10)


def test_a_bounded_run_that_crashed_in_its_first_batch_reads_the_same_again(
    options: ReadOptions, broker: FakeBroker
) -> None:
    first = StreamReader(replace(options, start="earliest"))
    first.prepareForTriggerAvailableNow()
    end = json.loads(json.dumps(first.latestOffset(first.initialOffset(), ReadMaxRows(6))))
    broker.end = 15
    again = StreamReader(options)  # `latest`: what Spark asks for as the start is not where batch 0 began
    again.prepareForTriggerAvailableNow()
    start = again.initialOffset()
    assert start == _at(15)
    assert _read(again, start, end) == list(range(6))
    assert again.latestOffset(end, EVERYTHING) == _at(15)
    assert _read(again, end, _at(15)) == list(range(6, 15))


def test_a_bounded_run_with_nothing_more_ends_with_the_same_text(options: ReadOptions) -> None:
    reader = StreamReader(replace(options, start="earliest"))
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert json.dumps(reader.latestOffset(end, EVERYTHING)) == json.dumps(end)
    assert reader.partitions(end, end) == []


def test_available_now_from_latest_reads_nothing_even_if_messages_arrive(
    options: ReadOptions, broker: FakeBroker
) -> None:
    reader = StreamReader(options)
    reader.prepareForTriggerAvailableNow()
    broker.end = 20
    assert reader.initialOffset() == _at(10)
    assert [reader.latestOffset(_at(10), EVERYTHING) for _ in range(2)] == [_at(10), _at(10)]


def test_the_read_limit_is_spark_s_own(options: ReadOptions) -> None:
    assert StreamReader(options).getDefaultReadLimit() == ReadAllAvailable()
    limited = StreamReader(replace(options, max_offsets_per_trigger=4))
    assert limited.getDefaultReadLimit() == ReadMaxRows(4)
    assert limited.latestOffset(_at(0), ReadMaxRows(4)) == _at(4)
    assert limited.latestOffset(_at(0), EVERYTHING) == _at(10), "Trigger.Once asks for everything"
    assert limited.reportLatestOffset() == _at(10)


def test_few_messages_wait_for_more_but_not_for_ever(options: ReadOptions, broker: FakeBroker) -> None:
    reader = StreamReader(replace(options, min_offsets_per_trigger=5, max_trigger_delay=3600))
    assert reader.latestOffset(_at(8), EVERYTHING) == _at(10), "nothing was read before, so these have waited"
    broker.end = 14
    assert reader.latestOffset(_at(10), EVERYTHING) == _at(10)
    assert reader.reportLatestOffset() == _at(14), "what waits is in the progress"
    broker.end = 15
    assert reader.latestOffset(_at(10), EVERYTHING) == _at(15)
    reader._last_batch -= 3601
    broker.end = 16
    assert reader.latestOffset(_at(15), EVERYTHING) == _at(16)


def test_a_bounded_run_waits_for_no_more(options: ReadOptions) -> None:
    reader = StreamReader(replace(options, min_offsets_per_trigger=50))
    reader._last_batch = time.monotonic()
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(_at(8), EVERYTHING) == _at(10)


def test_an_idle_poll_returns_the_same_text_after_a_moment(options: ReadOptions) -> None:
    reader = StreamReader(options)
    began = time.monotonic()
    assert json.dumps(reader.latestOffset(_at(10), EVERYTHING)) == json.dumps(_at(10))
    assert time.monotonic() - began > 0.4, "an idle stream must not spin"


def test_a_broker_out_of_reach_keeps_its_offsets_and_the_stream_goes_on(
    options: ReadOptions, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeBroker(end=10) as broker:
        reader = StreamReader(replace(options, namesrv=broker.address))
        assert reader.latestOffset(_at(8), EVERYTHING) == _at(10)
    began = time.monotonic()
    for _ in range(2):
        assert reader.latestOffset(_at(10), EVERYTHING) == _at(10)
    assert time.monotonic() - began > 0.8, "nor may it spin while its broker is away"
    assert caplog.text.count("queue orders/fake/0 is unreachable") == 1


def test_a_queue_whose_first_message_nobody_tells_now_waits_for_the_next_batch(
    options: ReadOptions, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = StreamReader(options)
    with monkeypatch.context() as patch:
        patch.setattr(BrokerQueues, "reachable_min_offsets", lambda *_: {})
        for begin in (_at(8), _at(12), {}):
            assert reader.latestOffset(begin, EVERYTHING) == begin, "neither unchecked nor below its start"
    assert reader.latestOffset({}, EVERYTHING) == _at(0)
    assert reader.latestOffset(_at(0), EVERYTHING) == _at(10)


def test_a_bounded_run_reads_every_queue_that_it_set_out_to_read(
    options: ReadOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = StreamReader(options)
    reader.prepareForTriggerAvailableNow()
    monkeypatch.setattr(BrokerQueues, "reachable_min_offsets", lambda *_: {})
    assert reader.latestOffset({}, EVERYTHING) == _at(0), "its broker may come back while the task waits"
    assert reader.latestOffset(_at(0), EVERYTHING) == _at(10)


def test_a_queue_that_is_new_begins_at_its_first_message(options: ReadOptions, broker: FakeBroker) -> None:
    broker.first = 3
    reader = StreamReader(options)
    other = {"gone": {"broker-x": {"5": 77}}}
    first = reader.latestOffset(other, EVERYTHING)
    assert first == {**other, **_at(3)}, "a topic that is no longer read keeps its offset"
    assert list(first) == ["gone", "orders"], "sorted"
    assert reader.partitions(other, first) == []
    end = reader.latestOffset(first, EVERYTHING)
    assert end == {**other, **_at(10)}
    assert _ranges(reader.partitions(first, end)) == [(3, 10)]


def test_a_crash_in_the_first_batch_of_a_new_queue_hides_no_loss(options: ReadOptions, broker: FakeBroker) -> None:
    reader = StreamReader(options)
    start = reader.latestOffset({}, EVERYTHING)
    end = reader.latestOffset(start, EVERYTHING)
    broker.first = 4
    with pytest.raises(OffsetOutOfRange, match="wanted offset 0, first available 4, 4 messages lost"):
        _read(StreamReader(options), start, end)


def test_a_limit_does_not_count_what_is_lost(options: ReadOptions, broker: FakeBroker) -> None:
    broker.first, broker.end = 1000, 1010
    reader = StreamReader(replace(options, fail_on_data_loss=False))
    end = reader.latestOffset(_at(0), ReadMaxRows(4))
    assert end == _at(1004)
    few = StreamReader(replace(reader._options, max_records_per_partition=4))
    (task,) = few.partitions(_at(0), end)
    assert _ranges([task]) == [(1000, 1004)], "split into tasks, the queue would lose its order"


def test_retention_that_overtook_the_stream_is_told(options: ReadOptions, broker: FakeBroker) -> None:
    broker.first = 7
    with pytest.raises(OffsetOutOfRange, match="wanted offset 2, first available 7, 5 messages lost"):
        StreamReader(options).latestOffset(_at(2), EVERYTHING)
    reader = StreamReader(replace(options, fail_on_data_loss=False))
    end = reader.latestOffset(_at(2), EVERYTHING)
    assert _read(reader, _at(2), end) == [7, 8, 9]


def test_an_end_below_the_start_is_told_or_read_from_the_first_message(
    options: ReadOptions, broker: FakeBroker
) -> None:
    broker.end = 4
    with pytest.raises(OffsetOutOfRange, match="wanted offset 9, but it ends at 4; its topic was deleted or recreated"):
        StreamReader(options).latestOffset(_at(9), EVERYTHING)
    reader = StreamReader(replace(options, fail_on_data_loss=False))
    end = reader.latestOffset(_at(9), EVERYTHING)
    assert end == _at(4)
    assert _read(reader, _at(9), end) == [0, 1, 2, 3]
    assert _read(StreamReader(reader._options), _at(9), end) == [0, 1, 2, 3], "a replay reads the same"


def test_the_reader_travels_to_the_executors(options: ReadOptions) -> None:
    reader = StreamReader(options)
    reader.latestOffset(_at(8), EVERYTHING)
    copy = pickle.loads(pickle.dumps(reader))
    assert _read(copy, _at(8), _at(10)) == [8, 9]


def test_a_cluster_out_of_reach_at_the_start_is_an_error(options: ReadOptions) -> None:
    with pytest.raises(PyroMQError, match="no name server answers"):
        StreamReader(replace(options, namesrv="127.0.0.1:1")).initialOffset()
