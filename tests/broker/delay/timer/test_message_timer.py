"""Messages with a delay or a time of their own: delivered on time, once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.timed_messages import (
    ListTimedMessagesRequestHeader,
    ListTimedMessagesResponseHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
)
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import RecallHandle, encode_handle
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer

DAY_MS = 24 * 3600 * 1000


def timed(name: str = "u-1", /, **properties: object) -> str:
    return encode_properties({"UNIQ_KEY": name, **{key: str(value) for key, value in properties.items()}})


def delivered(broker: Broker, topic: str = "orders", queue_id: int = 0) -> list[MessageExt]:
    views = broker.store.get(topic, queue_id, 0, 1000, max_bytes=1 << 20).views
    return decode_messages(b"".join(views))


def bodies(broker: Broker, topic: str = "orders") -> list[bytes]:
    return [message.body for message in delivered(broker, topic)]


def waiting(broker: Broker) -> int:
    count: int = broker.http_info()["timed_messages_waiting"]
    return count


async def recall(peer: Peer, name: str, topic: str = "orders", expect: int = 0, **fields: Any) -> Any:
    handle = encode_handle(RecallHandle(topic, "broker-a", "0", name))
    header = RecallMessageRequestHeader(producer_group="shop", topic=topic, recall_handle=handle, **fields)
    return await peer.ask(RequestCode.RECALL_MESSAGE, header, expect=expect)


async def pending(peer: Peer, **fields: Any) -> tuple[list[MessageExt], ListTimedMessagesResponseHeader]:
    answer = await peer.ask(RequestCode.LIST_TIMED_MESSAGES, ListTimedMessagesRequestHeader(**fields))
    return decode_messages(answer.body), answer.header(ListTimedMessagesResponseHeader)


# --- who waits


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": 5},
        {"TIMER_DELAY_MS": 5000},
        {"TIMER_DELIVER_MS": "at"},
        {"__STARTDELIVERTIME": "at"},
        {"TIMER_DELAY_SEC": 5, "TIMER_DELIVER_MS": 1},
    ],
)
async def test_a_message_with_a_time_is_delivered_then_and_not_before(
    broker: Broker, peer: Peer, clock: TestClock, properties: dict[str, object]
) -> None:
    at = str(clock.now_ms() + 5000)
    wanted = {name: at if value == "at" else value for name, value in properties.items()}
    await peer.send(properties=timed(**wanted))
    await clock.advance_async(seconds=4)
    assert bodies(broker) == []
    assert waiting(broker) == 1
    await clock.advance_async(seconds=2)
    await eventually(lambda: bodies(broker) == [b"hello"])
    (message,) = delivered(broker)
    assert 0 <= message.store_timestamp_ms - int(message.properties["TIMER_OUT_MS"]) < 4000
    await eventually(lambda: waiting(broker) == 0)


async def test_what_waits_lies_in_the_timers_topic_as_in_rocketmq_5(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    before = clock.now_ms()
    await peer.send(queue_id=3, properties=timed(TIMER_DELAY_SEC=60, TAGS="paid"))
    (message,) = delivered(broker, TIMER_TOPIC)
    assert message.properties["REAL_TOPIC"] == "orders"
    assert message.properties["REAL_QID"] == "3"
    assert before + 60_000 <= int(message.properties["TIMER_OUT_MS"]) <= clock.now_ms() + 60_000
    assert broker.topics.find(TIMER_TOPIC).queues == 1


async def test_a_delivered_message_is_the_one_that_was_sent(broker: Broker, peer: Peer, clock: TestClock) -> None:
    await peer.send(
        body=b"body",
        queue_id=2,
        flag=7,
        reconsume_times=1,
        properties=timed(TIMER_DELAY_MS=50, TAGS="paid", KEYS="o-1"),
    )
    await eventually(lambda: len(delivered(broker, "orders", 2)) == 1)
    (message,) = delivered(broker, "orders", 2)
    assert (message.body, message.flag, message.reconsume_times, message.queue_id) == (b"body", 7, 1, 2)
    assert (message.message_id, message.tags, message.keys) == ("u-1", "paid", ("o-1",))
    assert message.born_timestamp_ms == 1_700_000_000_000
    assert "TIMER_DEQUEUE_MS" in message.properties
    assert broker.store.find("orders", "o-1", 10) == [message.physical_offset]


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_SEC": 0}, {"TIMER_DELAY_MS": -1}, {"TIMER_DELIVER_MS": 1000}])
async def test_a_message_whose_time_has_come_is_a_plain_one(
    broker: Broker, peer: Peer, properties: dict[str, object]
) -> None:
    await peer.send(properties=timed(**properties))
    assert bodies(broker) == [b"hello"]
    assert TIMER_TOPIC not in broker.store.topics
    assert "TIMER_OUT_MS" not in delivered(broker)[0].properties


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({"TIMER_DELAY_SEC": 40 * 86400 + 1}, "40 days"),
        ({"TIMER_DELIVER_MS": 10**15}, "40 days"),
        ({"TIMER_DELAY_SEC": "soon"}, "TIMER_DELAY_SEC is not a whole number"),
        ({"__STARTDELIVERTIME": "1" * 30}, "__STARTDELIVERTIME is not a whole number"),
        ({"TIMER_DELAY_SEC": 5, "filler": "x" * 32_400}, "too large"),
    ],
)
async def test_a_time_that_cannot_be_kept_is_refused(
    broker: Broker, peer: Peer, properties: dict[str, object], remark: str
) -> None:
    answer = await peer.send(properties=timed(**properties), expect=ResponseCode.MESSAGE_ILLEGAL)
    assert remark in (answer.remark or "")
    assert broker.store.max_physical_offset == 0


async def test_forty_days_are_kept(broker: Broker, peer: Peer) -> None:
    await peer.send(properties=timed(TIMER_DELAY_MS=40 * DAY_MS))
    await eventually(lambda: waiting(broker) == 1)


async def test_a_message_that_has_waited_once_does_not_wait_again(broker: Broker, peer: Peer) -> None:
    await peer.send(properties=timed(TIMER_DELAY_MS=20))
    await eventually(lambda: len(delivered(broker)) == 1)
    (message,) = delivered(broker)
    await peer.send(body=b"sent on", properties=message.raw_properties.decode())
    assert bodies(broker) == [b"hello", b"sent on"]


async def test_many_due_at_once_come_in_the_order_of_their_times(broker: Broker, peer: Peer, clock: TestClock) -> None:
    start = clock.now_ms() + 10_000
    for number in reversed(range(300)):
        await peer.send(body=b"%d" % number, properties=timed(f"u-{number}", TIMER_DELIVER_MS=start + number))
    await clock.advance_async(seconds=15)
    await eventually(lambda: len(bodies(broker)) == 300)
    assert bodies(broker) == [b"%d" % number for number in range(300)]


async def test_nobody_may_send_to_the_timers_topic(broker: Broker, peer: Peer) -> None:
    await peer.send(TIMER_TOPIC, expect=ResponseCode.NO_PERMISSION)


# --- restarts


async def test_what_waits_survives_a_restart(start_broker: StartBroker, connect: Connect, clock: TestClock) -> None:
    first = await start_broker()
    await (await connect(first)).send(properties=timed(TIMER_DELAY_SEC=3600))
    await first.__aexit__(None, None, None)
    second = await start_broker()
    await eventually(lambda: waiting(second) == 1)
    await clock.advance_async(hours=2, step=30)
    await eventually(lambda: bodies(second) == [b"hello"])


async def test_what_became_due_while_the_broker_was_down_is_delivered_when_it_is_back(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    first = await start_broker()
    await (await connect(first)).send(properties=timed(TIMER_DELAY_SEC=60))
    await first.__aexit__(None, None, None)
    await clock.advance_async(minutes=2)
    second = await start_broker()
    await eventually(lambda: bodies(second) == [b"hello"])


async def test_a_damaged_table_is_made_again_from_the_log(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    first = await start_broker()
    peer = await connect(first)
    await peer.send(body=b"soon", properties=timed("u-0", TIMER_DELAY_MS=10))
    await eventually(lambda: bodies(first) == [b"soon"])
    await peer.send(properties=timed(TIMER_DELAY_SEC=60))
    await first.__aexit__(None, None, None)
    table = tmp_path / "store" / "pyromq.timer" / "pending.db"
    table.write_bytes(b"no database" * 1000)
    second = await start_broker()
    await eventually(lambda: waiting(second) == 1)
    await clock.advance_async(minutes=2)
    await eventually(lambda: bodies(second) == [b"soon", b"hello"])


async def test_a_table_of_another_log_is_made_again(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    first = await start_broker()
    for number in range(3):
        await (await connect(first)).send(properties=timed(f"u-{number}", TIMER_DELAY_SEC=60))
    await eventually(lambda: waiting(first) == 3)
    await first.__aexit__(None, None, None)
    root = tmp_path / "store"
    shutil.copytree(root / "pyromq.timer", tmp_path / "kept")
    shutil.rmtree(root)
    root.mkdir()
    shutil.move(tmp_path / "kept", root / "pyromq.timer")
    second = await start_broker()
    await (await connect(second)).send(properties=timed(TIMER_DELAY_SEC=60))
    await eventually(lambda: waiting(second) == 1)
    await clock.advance_async(minutes=2)
    await eventually(lambda: bodies(second) == [b"hello"])


async def test_a_wrong_time_in_the_table_delivers_nothing_early(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    first = await start_broker()
    await (await connect(first)).send(properties=timed(TIMER_DELAY_SEC=60))
    await eventually(lambda: waiting(first) == 1)
    await first.__aexit__(None, None, None)
    with sqlite3.connect(tmp_path / "store" / "pyromq.timer" / "pending.db") as table:
        assert table.execute("UPDATE pending SET due_ms = 1000").rowcount == 1
    second = await start_broker()
    await clock.advance_async(seconds=10)
    assert bodies(second) == []
    await clock.advance_async(minutes=1)
    await eventually(lambda: bodies(second) == [b"hello"])


# --- cancelling and listing


async def test_a_cancelled_message_is_never_delivered(broker: Broker, peer: Peer, clock: TestClock) -> None:
    await peer.send(properties=timed("u-1", TIMER_DELAY_SEC=10))
    await peer.send(body=b"other", properties=timed("u-2", TIMER_DELAY_SEC=10))
    answer = await recall(peer, "u-1")
    assert answer.header(RecallMessageResponseHeader).msg_id == "u-1"
    await clock.advance_async(seconds=15)
    await eventually(lambda: bodies(broker) == [b"other"])
    assert waiting(broker) == 0


async def test_what_does_not_wait_cannot_be_cancelled(broker: Broker, peer: Peer) -> None:
    await peer.send(properties=timed("plain"))
    await peer.send(properties=timed("late", TIMER_DELAY_MS=10))
    await peer.send(properties=timed("twice", TIMER_DELAY_SEC=100))
    await eventually(lambda: len(bodies(broker)) == 2)
    await recall(peer, "twice")
    for name in ("plain", "late", "twice", "unknown"):
        answer = await recall(peer, name, expect=ResponseCode.ILLEGAL_OPERATION)
        assert name in (answer.remark or "")


async def test_a_message_of_another_topic_is_not_cancelled(broker: Broker, peer: Peer) -> None:
    await peer.send(properties=timed(TIMER_DELAY_SEC=100))
    await recall(peer, "u-1", topic="payments", expect=ResponseCode.ILLEGAL_OPERATION)
    await recall(peer, "u-1", topic="")


async def test_a_message_without_an_id_is_cancelled_by_its_place(broker: Broker, peer: Peer, clock: TestClock) -> None:
    answer = await peer.send(properties=encode_properties({"TIMER_DELAY_SEC": "10"}))
    place = (answer.ext_fields or {})["msgId"]
    await recall(peer, place)
    await clock.advance_async(seconds=15)
    assert bodies(broker) == []


async def test_a_send_that_was_stored_twice_is_cancelled_twice(broker: Broker, peer: Peer, clock: TestClock) -> None:
    for _ in range(2):
        await peer.send(properties=timed("u-1", TIMER_DELAY_SEC=10))
    await recall(peer, "u-1")
    await clock.advance_async(seconds=15)
    assert bodies(broker) == []
    assert waiting(broker) == 0


async def test_of_two_who_cancel_at_once_one_is_told_that_it_waited(broker: Broker, peer: Peer) -> None:
    await peer.send(properties=timed(TIMER_DELAY_SEC=60))
    handle = encode_handle(RecallHandle("orders", "broker-a", "0", "u-1"))
    command = [
        request(RequestCode.RECALL_MESSAGE, RecallMessageRequestHeader(topic="orders", recall_handle=handle))
        for _ in range(2)
    ]
    answers = await asyncio.gather(*[peer.remoting.request(peer.address, one, 30) for one in command])
    assert sorted(answer.code for answer in answers) == [ResponseCode.SUCCESS, ResponseCode.ILLEGAL_OPERATION]
    await eventually(lambda: waiting(broker) == 0)


async def test_a_cancellation_survives_a_restart(start_broker: StartBroker, connect: Connect, clock: TestClock) -> None:
    first = await start_broker()
    peer = await connect(first)
    await peer.send(properties=timed(TIMER_DELAY_SEC=60))
    await recall(peer, "u-1")
    await first.__aexit__(None, None, None)
    second = await start_broker()
    await clock.advance_async(minutes=2)
    assert bodies(second) == []
    assert waiting(second) == 0


async def test_a_handle_that_is_none_is_refused(broker: Broker, peer: Peer) -> None:
    for handle in ("", "?", "AAAA", encode_handle(RecallHandle("orders", "b", "0", "two words"))):
        header = RecallMessageRequestHeader(topic="orders", recall_handle=handle)
        answer = await peer.ask(RequestCode.RECALL_MESSAGE, header, expect=ResponseCode.SYSTEM_ERROR)
        assert "not a recall handle" in (answer.remark or "")


async def test_what_waits_is_listed_page_by_page_in_order_of_its_time(broker: Broker, peer: Peer) -> None:
    for number in (3, 1, 2):
        topic = "orders" if number < 3 else "payments"
        await peer.send(topic, properties=timed(f"u-{number}", TIMER_DELAY_SEC=100 * number))
    names, after = [], (-1, -1)
    for _ in range(3):
        (message,), page = await pending(peer, max_num=1, after_ms=after[0], after_offset=after[1])
        names.append(message.message_id)
        after = page.next_ms, page.next_offset
        assert page.count == 3
    assert names == ["u-1", "u-2", "u-3"]
    rest, page = await pending(peer, max_num=1, after_ms=after[0], after_offset=after[1])
    assert rest == []
    assert page.is_last
    messages, page = await pending(peer, topic="payments")
    assert [message.message_id for message in messages] == ["u-3"]
    assert page.is_last


async def test_the_timer_says_when_its_table_cannot_keep_up(
    broker: Broker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.delay.timer.message_timer._MOST_UNSAVED", -1)
    await peer.send(properties=timed(TIMER_DELAY_SEC=60), expect=ResponseCode.SYSTEM_BUSY)
    await peer.send(properties=timed())


# --- the disk


async def test_a_message_that_cannot_be_delivered_now_is_delivered_later(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.send(properties=timed(TIMER_DELAY_SEC=1))
    broker.store.cleaner.refuses_messages = True
    await clock.advance_async(seconds=3)
    assert bodies(broker) == []
    assert waiting(broker) == 1
    broker.store.cleaner.refuses_messages = False
    await clock.advance_async(seconds=3)
    await eventually(lambda: bodies(broker) == [b"hello"])


async def test_nothing_of_the_timer_is_on_disk_until_somebody_uses_it(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker()
    await (await connect(broker)).send()
    await clock.advance_async(seconds=5)
    assert not (tmp_path / "store" / "pyromq.timer").exists()
