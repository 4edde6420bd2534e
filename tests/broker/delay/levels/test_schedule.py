"""Delay levels: messages wait in SCHEDULE_TOPIC_XXXX and are delivered on time, once, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyromq.broker.delay.levels.delay_level import BATCH
from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.errors import DiskFull
from pyromq.protocol.bodies import KVTable, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.consume_queue import ENTRY
from pyromq.store.message_store import MessageStore
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.delay.levels.schedules import bodies, delayed, expect, progress, send, stored
from tests.broker.helpers import Peer
from tests.broker.test_cleaning import BODY, SMALL, Disk, fill

# --- what is stored


async def test_a_delayed_message_waits_in_the_queue_of_its_level(peer: Peer, broker: Broker) -> None:
    sent = delayed(3, TAGS="paid", WAIT="true", UNIQ_KEY="k")
    answer = await peer.send(body=b"later", queue_id=2, properties=sent)
    assert (answer.ext_fields["queueId"], answer.ext_fields["queueOffset"]) == ("2", "0")
    (message,) = stored(broker.store, SCHEDULE_TOPIC, 2)
    assert answer.ext_fields["msgId"] == message.offset_message_id
    assert message.properties == {
        "DELAY": "3", "TAGS": "paid", "WAIT": "true", "UNIQ_KEY": "k", "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "orders", "REAL_QID": "2",
    }  # fmt: skip
    _, _, due_ms = ENTRY.unpack(broker.store.raw_entries(SCHEDULE_TOPIC, 2, 0, 1))
    assert due_ms == message.store_timestamp_ms + 10_000
    assert stored(broker.store, "orders", 2) == []


async def test_it_is_delivered_with_all_its_properties_and_its_first_store_host(
    peer: Peer, broker: Broker, clock: TestClock
) -> None:
    await peer.send(
        body=b"later", queue_id=2, flag=9, reconsume_times=4, properties=delayed(3, TAGS="paid", WAIT="true")
    )
    (scheduled,) = stored(broker.store, SCHEDULE_TOPIC, 2)
    await clock.advance_async(seconds=11)
    await eventually(lambda: bool(stored(broker.store, "orders", 2)))
    (message,) = stored(broker.store, "orders", 2)
    for name in ("body", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host", "reconsume_times"):
        assert getattr(message, name) == getattr(scheduled, name)
    assert message.raw_properties == scheduled.raw_properties
    assert 10_000 <= message.store_timestamp_ms - scheduled.store_timestamp_ms < 10_500
    only_paid = await peer.read(queue_id=2, subscription="paid")
    assert [found.body for found in only_paid] == [b"later"]
    assert counts(broker) == (1, 1)


def counts(broker: Broker) -> tuple[int, int]:
    """Return how many messages were counted for the schedule topic and for the real one."""
    return broker.topics.find(SCHEDULE_TOPIC).puts, broker.topics.find("orders").puts


async def test_it_is_not_delivered_a_moment_early(peer: Peer, broker: Broker, clock: TestClock) -> None:
    await send(peer, b"later", 5)
    await clock.advance_async(seconds=59)
    assert bodies(broker) == []
    assert broker.http_info()["delayed_messages_waiting"] == 1
    await clock.advance_async(seconds=1.2)
    await expect(broker, b"later")
    await eventually(lambda: broker.http_info()["delayed_messages_waiting"] == 0)
    assert broker.http_info()["delayed_messages_max_late_ms"] < 1000


async def test_mqadmin_sees_how_far_each_level_is(peer: Peer, broker: Broker, clock: TestClock) -> None:
    for level in (1, 1, 2):
        await send(peer, b"m", level)
    await clock.advance_async(seconds=2)
    await expect(broker, b"m", b"m")
    answer = await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = decode(KVTable, answer.body).table
    figures = {key: value for key, value in table.items() if key.startswith("scheduleMessageOffset_")}
    assert len(figures) == 18
    assert [figures[f"scheduleMessageOffset_{level}"] for level in (1, 2, 3)] == ["2,2", "0,1", "0,0"]


@pytest.mark.parametrize("level", ["0", "-1", "00", "+0"])
async def test_a_level_that_is_not_above_zero_delays_nothing(peer: Peer, broker: Broker, level: str) -> None:
    await send(peer, b"now", level)
    await expect(broker, b"now")


async def test_a_level_above_the_highest_is_the_highest(peer: Peer, broker: Broker) -> None:
    await send(peer, b"later", 10**6)
    (message,) = stored(broker.store, SCHEDULE_TOPIC, 17)
    assert message.properties["DELAY"] == "18"


async def test_a_level_that_is_no_number_is_refused(peer: Peer, broker: Broker) -> None:
    for level in ("x", "3s", "1_0", "٣"):
        answer = await peer.send(properties=delayed(level), expect=ResponseCode.SYSTEM_ERROR)
        assert answer.remark is not None
        assert repr(level) in answer.remark
    assert broker.store.max_physical_offset == 0


async def test_all_levels_are_delivered_in_their_own_time(peer: Peer, broker: Broker, clock: TestClock) -> None:
    for level in range(1, 19):
        for number in range(2):
            await send(peer, b"%d %d" % (level, number), level)
    levels_ms = broker.config.store.delay_levels_ms
    await clock.advance_async(hours=2, seconds=30)
    await expect(broker, *(b"%d %d" % (1 + n // 2, n % 2) for n in range(36)))
    for message in stored(broker.store):
        level = int(message.properties["DELAY"])
        (scheduled, *_) = stored(broker.store, SCHEDULE_TOPIC, level - 1)
        assert levels_ms[level - 1] <= message.store_timestamp_ms - scheduled.store_timestamp_ms
    assert broker.http_info()["delayed_messages_max_late_ms"] <= 10_000  # the clock's own steps


async def test_other_levels_can_be_configured(start_broker: StartBroker, connect: Connect, clock: TestClock) -> None:
    broker = await start_broker(messageDelayLevel="2s 1m")
    peer = await connect(broker)
    await send(peer, b"minute", 5)
    await send(peer, b"2 s", 1)
    await clock.advance_async(seconds=3)
    await expect(broker, b"2 s")
    await clock.advance_async(seconds=60)
    await expect(broker, b"2 s", b"minute")


async def test_a_pull_that_waits_gets_what_is_delivered(peer: Peer, broker: Broker, clock: TestClock) -> None:
    await peer.beat()
    await send(peer, b"first", 0)
    await send(peer, b"later")
    pulled = await peer.read(queue_offset=1, sys_flag=4 | 2, suspend_timeout_millis=20_000)
    assert [message.body for message in pulled] == [b"later"]


async def test_a_flush_is_waited_for_where_it_is_promised(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(flushDiskType="SYNC_FLUSH")
    peer = await connect(broker)
    for number in range(5):
        await send(peer, b"%d" % number)
    await eventually(lambda: len(bodies(broker)) == 5)
    await eventually(lambda: broker.http_info()["delayed_messages_waiting"] == 0)


async def test_a_large_backlog_is_delivered_in_small_batches(
    peer: Peer, broker: Broker, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        await send(peer, b"%d" % number)
    groups = [0]
    put, commit = broker.store.put, broker.store.commit

    def count_put(record: Record) -> Any:
        groups[-1] += 1
        return put(record)

    def count_commit(acknowledge: Callable[[], None]) -> None:
        groups.append(0)
        commit(acknowledge)

    monkeypatch.setattr(broker.store, "put", count_put)
    monkeypatch.setattr(broker.store, "commit", count_commit)
    await clock.advance_async(seconds=2)
    await eventually(lambda: len(bodies(broker)) == 300)
    assert sum(groups) == 300
    assert max(groups) <= BATCH


# --- progress


async def test_progress_is_saved_in_rocketmqs_form(peer: Peer, broker: Broker, clock: TestClock) -> None:
    root = broker.config.store.root
    file = root / "config" / "delayOffset.json"
    for level in (1, 1, 2, 18):
        await send(peer, b"m", level)
    await clock.advance_async(seconds=6)
    await eventually(lambda: broker.store.flushed_offset == broker.store.max_physical_offset)
    await clock.advance_async(seconds=1)
    await clock.advance_async(seconds=1)
    await eventually(lambda: file.exists() and progress(root)["offsetTable"] == {"1": 2, "2": 1})
    text = file.read_text()
    assert text.startswith('{\n\t"offsetTable":{1:2,2:1\n\t},')


async def test_a_delivery_counts_as_progress_only_when_it_is_flushed(
    peer: Peer, broker: Broker, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = [broker.store.flushed_offset]
    monkeypatch.setattr(MessageStore, "flushed_offset", property(lambda store: flushed[0]))
    await send(peer, b"later")
    await clock.advance_async(seconds=5)
    await expect(broker, b"later")
    file = broker.config.store.root / "config" / "delayOffset.json"
    assert not file.exists()  # a power cut would take the delivery, and must not take the message
    flushed[0] = broker.store.max_physical_offset
    await clock.advance_async(seconds=3)
    await eventually(file.exists)
    assert progress(broker.config.store.root)["offsetTable"] == {"1": 1}


# --- what goes wrong


async def test_a_full_disk_delays_delivery_and_loses_nothing(
    peer: Peer, broker: Broker, clock: TestClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        await send(peer, b"%d" % number)
    put, left = broker.store.put, [2]

    def refuse_after_two(record: Record) -> Any:
        if not left[0]:
            raise DiskFull("the disk is full")
        left[0] -= 1
        return put(record)

    monkeypatch.setattr(broker.store, "put", refuse_after_two)
    await clock.advance_async(seconds=6)
    await expect(broker, b"0", b"1")
    assert sum("delayed messages wait" in text for text in caplog.messages) == 1
    monkeypatch.undo()
    await clock.advance_async(seconds=2)
    await expect(broker, *(b"%d" % number for number in range(5)))


async def test_a_deleted_topic_gets_its_delayed_messages_when_it_is_made_again(
    peer: Peer, broker: Broker, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    await send(peer, b"a")
    await send(peer, b"b")
    await peer.send("others", body=b"c", properties=delayed(1))
    broker.topics.remove("orders")
    await clock.advance_async(seconds=2)
    await expect(broker, b"a", b"b")
    await expect(broker, b"c", topic="others")
    assert sum("a deleted topic" in text for text in caplog.messages) == 1
    await peer.pull(expect=ResponseCode.TOPIC_NOT_EXIST)
    broker.topics.update(topic_config("orders", 1))
    assert [message.body for message in await peer.read()] == [b"a", b"b"]


async def test_a_message_for_a_queue_that_went_comes_to_one_that_is_read(
    peer: Peer, broker: Broker, clock: TestClock
) -> None:
    broker.topics.update(topic_config("orders", 4))
    await peer.send(body=b"a", queue_id=3, properties=delayed(1))
    broker.topics.update(topic_config("orders", 2))
    await clock.advance_async(seconds=2)
    await eventually(lambda: bool(stored(broker.store, "orders", 1)))
    assert [message.body for message in await peer.read(queue_id=1)] == [b"a"]
    assert stored(broker.store, "orders", 3) == []


async def test_a_message_that_names_no_topic_of_its_own_does_not_stop_the_others(
    peer: Peer, broker: Broker, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: list[dict[str, str]] = [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"REAL_TOPIC": "orders", "REAL_QID": str(1 << 40)},
        {"REAL_TOPIC": "../orders", "REAL_QID": "0"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    ]
    for properties in wrong:
        broker.store.put(Record(topic=SCHEDULE_TOPIC, body=b"lost", properties=delayed(1, **properties).encode()))
    await send(peer, b"later")
    await clock.advance_async(seconds=2)
    await expect(broker, b"later")
    assert sum("cannot be delivered" in text for text in caplog.messages) == len(wrong)


async def test_levels_that_are_configured_no_longer_are_delivered_in_time(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker()
    peer = await connect(broker)
    await send(peer, b"30 s", 4)
    await broker.__aexit__(None, None, None)
    again = await start_broker(messageDelayLevel="1s 5s")
    await clock.advance_async(seconds=20)
    assert bodies(again) == []
    await clock.advance_async(seconds=11)
    await expect(again, b"30 s")


async def test_after_the_clock_was_set_back_messages_are_late_by_their_level_at_most(
    peer: Peer, broker: Broker, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        await send(peer, b"%d" % number, 3)
        await clock.advance_async(seconds=1)
    now_ms = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() - 3_600_000)  # timers go on, as the system's do
    monkeypatch.setattr(broker.store._appender, "_now_ms", clock.now_ms)
    await send(peer, b"after", 3)
    await clock.advance_async(seconds=9)
    assert bodies(broker) == []
    await clock.advance_async(seconds=12)
    await expect(broker, b"0", b"1", b"2", b"after")


# --- retention


async def test_a_file_stays_while_a_message_waits_in_it_for_longer_than_files_are_kept(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(Disk(), messageDelayLevel="1s 2m", fileReservedTime=0, **SMALL)
    peer = await connect(broker)
    await fill(broker, peer, 1, "others")
    await peer.send("others", BODY)  # in the second file
    await send(peer, b"late", level=2)
    await fill(broker, peer, 3, "others")
    await clock.advance_async(seconds=90)
    assert (broker.store.min_physical_offset, bodies(broker)) == (65_536, [])  # nothing waited in the first file
    await clock.advance_async(seconds=31)
    await expect(broker, b"late")
    await eventually(lambda: broker.store.flushed_offset == broker.store.max_physical_offset)
    await clock.advance_async(seconds=30)
    await eventually(lambda: broker.store.min_physical_offset > 65_536)
    assert bodies(broker) == [b"late"]


async def test_files_that_go_whatever_their_age_take_delayed_messages_with_them(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    disk = Disk()
    broker = await start_broker(disk, **SMALL)
    peer = await connect(broker)
    await send(peer, b"late", level=18)
    await fill(broker, peer, 3, "others")
    disk.percent = 95
    await clock.advance_async(seconds=11)
    await eventually(lambda: broker.store.min_physical_offset > 0)
