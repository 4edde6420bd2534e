"""Reading ranges from a broker that loses messages, fails, or answers nonsense."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from pyromq.errors import BrokerError, CorruptRecord, MessageIllegal, OffsetOutOfRange, RemotingError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.brokers.slice_reader import read_slices
from tests.spark.read.fake_broker import QUEUE, TOPIC, FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(end=10) as broker:
        yield broker


@pytest.fixture
def options(broker: FakeBroker) -> ReadOptions:
    return ReadOptions(
        namesrv=broker.address,
        topics=(TOPIC,),
        start="earliest",
        columns=("queue_offset", "body", "broker_name"),
        retry_timeout=0.5,
    )


def _read(options: ReadOptions, start: int = 0, stop: int = 10) -> list[int]:
    batches = list(read_slices([QueueSlice(QUEUE, start, stop)], options))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["body"] == b"body %d" % row["queue_offset"] and row["broker_name"] == "fake" for row in rows)
    return [row["queue_offset"] for row in rows]


def test_a_range_is_read_and_nothing_beyond_it(options: ReadOptions, broker: FakeBroker) -> None:
    assert _read(replace(options, pull_batch_size=3), 2, 9) == list(range(2, 9))
    assert [(pull.queue_offset, pull.max_msg_nums) for pull in broker.pulls] == [(2, 3), (5, 3), (8, 1)]
    first = broker.pulls[0]
    assert (first.consumer_group, first.subscription, first.pyromq_max_bytes) == ("TOOLS_CONSUMER", "*", 8 << 20)


def test_pulls_are_gathered_into_batches_of_the_size_asked_for(options: ReadOptions) -> None:
    options = replace(options, pull_batch_size=2, batch_rows=4)
    part = QueueSlice(QUEUE, 0, 10)
    assert [batch.num_rows for batch in read_slices([part], options)] == [4, 4, 2]
    assert [batch.num_rows for batch in read_slices([part], replace(options, batch_bytes=1))] == [2] * 5
    assert [batch.num_rows for batch in read_slices([part, part], replace(options, batch_rows=50))] == [10, 10]


def test_other_tags_with_the_same_hash_are_dropped_and_so_is_what_lies_beyond(
    options: ReadOptions, broker: FakeBroker
) -> None:
    broker.tags = {0: "Aa", 1: "BB", 2: "Aa", 3: "BB", 7: "Aa"}  # the fake filters nothing, not even by hash
    broker.missing = {4, 5, 6}
    assert _read(replace(options, tags="Aa || x"), 0, 7) == [0, 2]
    assert broker.pulls[0].subscription == "Aa || x"


@pytest.mark.parametrize("failure", [None, RemotingCommand(code=ResponseCode.SYSTEM_BUSY, remark="too much to do")])
def test_trouble_that_passes_is_not_noticed(
    options: ReadOptions, broker: FakeBroker, failure: RemotingCommand | None, caplog: pytest.LogCaptureFixture
) -> None:
    broker.answers += [failure, failure]
    with caplog.at_level(logging.WARNING):
        assert _read(replace(options, retry_timeout=30)) == list(range(10))
    assert len(broker.pulls) == 3
    assert "queue orders/fake/0, offset 0, retrying: " in caplog.text


def test_trouble_that_stays_ends_the_task(options: ReadOptions, broker: FakeBroker) -> None:
    broker.answers += [None] * 100
    with pytest.raises(RemotingError):
        _read(options)
    assert len(broker.pulls) > 1


def test_an_answer_that_no_retry_can_change_ends_the_task_at_once(options: ReadOptions, broker: FakeBroker) -> None:
    broker.answers.append(RemotingCommand(code=ResponseCode.MESSAGE_ILLEGAL, remark="no"))
    with pytest.raises(MessageIllegal):
        _read(replace(options, retry_timeout=30))
    assert len(broker.pulls) == 1


def test_messages_lost_to_retention_are_counted(options: ReadOptions, broker: FakeBroker) -> None:
    broker.first = 7
    with pytest.raises(OffsetOutOfRange) as caught:
        _read(options, 2)
    assert str(caught.value) == (
        "queue orders/fake/0: wanted offset 2, first available 7, 5 messages lost to retention; "
        "set failOnDataLoss=false to continue"
    )


def test_without_fail_on_data_loss_reading_goes_on_with_a_warning(
    options: ReadOptions, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.first = 7
    with caplog.at_level(logging.WARNING):
        assert _read(replace(options, fail_on_data_loss=False), 2) == [7, 8, 9]
    assert "wanted offset 2, first available 7, 5 messages lost" in caplog.text
    broker.first = 30
    broker.end = 40
    assert _read(replace(options, fail_on_data_loss=False), 2) == [], "all of the range is gone"


@pytest.mark.parametrize("missing", [{0}, {4, 5}, {9}])
def test_a_hole_is_never_silent(options: ReadOptions, broker: FakeBroker, missing: set[int]) -> None:
    broker.missing = missing
    with pytest.raises(OffsetOutOfRange, match=f"wanted offset {min(missing)}, first available {max(missing) + 1},"):
        _read(options)
    assert _read(replace(options, fail_on_data_loss=False)) == [offset for offset in range(10) if offset not in missing]


@pytest.mark.parametrize("end", [0, 4, 1])
def test_a_queue_that_ends_too_early_is_named(options: ReadOptions, broker: FakeBroker, end: int) -> None:
    broker.end = end
    with pytest.raises(
        OffsetOutOfRange, match=f"queue orders/fake/0: wanted offset 4, but it ends at {end}; its topic"
    ):
        _read(options, 4)
    assert _read(replace(options, fail_on_data_loss=False), 4) == []


def test_a_broker_that_is_still_catching_up_is_waited_for(options: ReadOptions, broker: FakeBroker) -> None:
    broker.answers.append(RemotingCommand(code=ResponseCode.SERVICE_NOT_AVAILABLE, remark="starting"))
    broker.end = 5
    reading = read_slices([QueueSlice(QUEUE, 0, 10)], replace(options, retry_timeout=30, batch_rows=5))
    assert next(reading).num_rows == 5
    broker.end = 10
    assert next(reading).num_rows == 5


def test_a_damaged_record_is_named_with_its_queue(options: ReadOptions, broker: FakeBroker) -> None:
    record = bytearray(broker.record(3))
    record[4] = 0
    broker.answers.append(bytes(record))
    with pytest.raises(
        CorruptRecord, match="queue orders/fake/0: damaged record at physical offset 3000, queue offset 3"
    ):
        _read(options, 3)


def test_an_answer_cut_short_is_refused(options: ReadOptions, broker: FakeBroker) -> None:
    broker.answers.append(broker.record(0)[:-1])
    with pytest.raises(CorruptRecord, match="queue orders/fake/0: damaged answer: no whole record at byte 0"):
        _read(options)


def test_an_offset_that_comes_twice_is_refused(options: ReadOptions, broker: FakeBroker) -> None:
    broker.answers.append(broker.record(0) * 2)
    with pytest.raises(CorruptRecord, match="offset 0 came after a later offset"):
        _read(options)


def test_a_task_without_ranges_reads_nothing(options: ReadOptions) -> None:
    assert list(read_slices((), options)) == []


def test_an_unreachable_broker_is_a_remoting_error(options: ReadOptions) -> None:
    with pytest.raises((RemotingError, BrokerError)):
        _read(replace(options, namesrv="127.0.0.1:1", retry_timeout=0.1))
