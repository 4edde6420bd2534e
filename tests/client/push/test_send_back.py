"""What becomes of messages that a listener does not take: back to the broker, or again from memory, but never lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from pyromq.broker.messages.retries import is_exhausted
from pyromq.client.listener.outcomes import ROLLBACK, Ack, DeadLetter, RetryLater
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import TopicPublishInfo
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.push.send_back import RetryCopies, delay_level
from pyromq.client.send.producer import Producer
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.names import TBW102, retry_topic
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, SendBacks, committed, fill

UNSUPPORTED = 3


@pytest.fixture
async def own_cluster() -> AsyncIterator[LocalCluster]:
    """A cluster whose clock may be moved."""
    async with LocalCluster() as running:
        yield running


async def send_one(cluster: LocalCluster, topic: str, body: bytes = b"one") -> None:
    async with Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        await producer.send(Message(topic=topic, body=body, keys=["k"]), queue=queue)


async def committed_sum(cluster: LocalCluster, group: str, topic: str) -> int:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        return sum(await committed(api, cluster.brokers[0].address, group, topic))


def charge(message: MessageExt) -> None:
    raise ValueError(f"no account for {message.keys[0]}")


async def test_what_failed_goes_back_with_its_cause_and_is_done_here(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    backs = SendBacks(own_cluster)
    await send_one(own_cluster, topic)

    async def listen(message: MessageExt) -> None:
        charge(message)

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: len(backs.headers) == 1)
    (header,) = backs.headers
    assert (header.group, header.origin_topic, header.offset, header.delay_level) == (group, topic, 0, 0)
    assert header.max_reconsume_times is None
    assert header.pyromq_delay_ms is None
    line = charge.__code__.co_firstlineno + 1
    assert header.pyromq_cause == f"ValueError: no account for k (test_send_back.py:{line} in charge)"
    assert await committed_sum(own_cluster, group, topic) == 1


@pytest.mark.parametrize(
    ("outcome", "level", "delay_ms"),
    [
        (RetryLater(), 0, None),
        (RetryLater(delay=timedelta(minutes=4.5)), 9, 270_000),
        (RetryLater(delay=0.25), 1, 250),
        (DeadLetter("hopeless"), -1, None),
        (ROLLBACK, 0, None),
    ],
)
@pytest.mark.parametrize("how", ["returned", "raised"])
async def test_the_listener_says_when_it_shall_come_again(
    own_cluster: LocalCluster, topic: str, group: str, outcome: object, level: int, delay_ms: int | None, how: str
) -> None:
    backs = SendBacks(own_cluster)
    await send_one(own_cluster, topic)

    async def listen(message: MessageExt) -> object:
        if how == "raised" and isinstance(outcome, Exception):
            raise outcome
        return outcome

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest", max_reconsume=5):
        await eventually(lambda: len(backs.headers) == 1)
    (header,) = backs.headers
    assert (header.delay_level, header.pyromq_delay_ms, header.max_reconsume_times) == (level, delay_ms, 5)


@pytest.mark.parametrize(
    ("delay", "level"),
    [(None, 0), (0, 1), (1, 1), (1.5, 2), (10, 3), (11, 4), (59, 5), (601, 15), (7200, 18), (86_400, 18)],
)
def test_a_delay_becomes_the_next_longer_level(delay: float | None, level: int) -> None:
    assert delay_level(delay) == level


async def test_the_rest_of_a_batch_goes_back(own_cluster: LocalCluster, topic: str, group: str) -> None:
    backs = SendBacks(own_cluster)
    async with Producer("p", own_cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        await producer.send_batch([Message(topic=topic, body=b"%d" % number) for number in range(6)], queue=queue)
    batches: list[list[MessageExt]] = []

    async def listen(messages: list[MessageExt]) -> Ack:
        batches.append(messages)
        return Ack(first=4)

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest", batch_size=6):
        await eventually(lambda: len(backs.headers) == 2)
    (batch,) = batches
    assert [message.body for message in batch] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [header.offset for header in backs.headers] == [message.physical_offset for message in batch[4:]]
    assert await committed_sum(own_cluster, group, topic) == 6


async def test_what_cannot_go_back_comes_again_from_memory_and_is_not_committed(
    own_cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    backs = SendBacks(own_cluster, UNSUPPORTED)
    await send_one(own_cluster, topic)
    times: list[tuple[float, int]] = []

    async def listen(message: MessageExt) -> None:
        times.append((own_cluster.clock.now(), message.reconsume_times))
        if len(times) < 4:
            raise ValueError("not yet")

    consumer = PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest", clock=own_cluster.clock
    )
    async with consumer:
        while len(times) < 3:
            await own_cluster.clock.advance_async(seconds=1)
        await consumer.commit()
        assert await committed_sum(own_cluster, group, topic) == 0
        while len(times) < 4:
            await own_cluster.clock.advance_async(seconds=1)
        await consumer.commit()
        assert await committed_sum(own_cluster, group, topic) == 1
    assert [count for _, count in times] == [0, 1, 2, 3]
    assert all(4.9 <= later - sooner < 8 for (sooner, _), (later, _) in pairwise(times))
    assert len(backs.headers) == 3
    assert [header.reconsume_times for header in backs.copies] == [1, 2, 3]
    assert "could not be sent back, it is retried from memory: REQUEST_CODE_NOT_SUPPORTED" in caplog.text
    assert "nor could a copy: SYSTEM_ERROR (1): no copies either" in caplog.text


async def test_where_sending_back_fails_a_copy_goes_to_the_retry_topic(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    """As when the log has the message no more: the consumer still holds it."""
    backs = SendBacks(own_cluster, code=1, takes_copies=True)
    body = bytes(5000)  # travels compressed
    async with Producer("p", own_cluster.namesrv, clock=own_cluster.clock) as producer:
        result = await producer.send(Message(topic=topic, body=body, tags="a", keys=["k"], properties={"x": "y"}))
    heard: list[MessageExt] = []

    async def listen(message: MessageExt) -> None:
        heard.append(message)
        if len(heard) == 1:
            charge(message)

    consumer = PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest", clock=own_cluster.clock
    )
    async with consumer:
        await eventually(lambda: len(backs.copies) == 1)

        async def is_done_here() -> bool:
            await consumer.commit()
            return await committed_sum(own_cluster, group, topic) == 1

        await eventually(is_done_here)
        while len(heard) < 2:
            await own_cluster.clock.advance_async(seconds=2)
    first, again = heard
    (header,) = backs.copies
    assert (header.reconsume_times, header.max_reconsume_times) == (1, None)
    assert (again.topic, again.body, again.reconsume_times) == (topic, body, 1)
    assert (again.message_id, again.tags, again.keys) == (result.message_id, "a", ("k",))
    assert again.store_timestamp_ms - first.store_timestamp_ms >= 10_000, "by level 3, as the broker would have it"
    assert again.born_timestamp_ms == first.born_timestamp_ms
    kept = {name: again.properties[name] for name in ("x", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY")}
    assert kept == {"x": "y", "RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": result.offset_message_id, "DELAY": "3"}
    assert again.properties["PYROMQ_CAUSE"].startswith("ValueError: no account for k")


class TakesCopies:
    """Takes the place of routes and brokers."""

    def __init__(self) -> None:
        self.headers: list[SendMessageRequestHeaderV2] = []

    async def find_queues(self, topic: str) -> TopicPublishInfo:
        return TopicPublishInfo([MessageQueue(topic, "broker-a", 0)])

    async def find_master(self, queue: MessageQueue) -> str:
        return "broker-a"

    async def send(self, address: str, header: SendMessageRequestHeaderV2, body: bytes, *, timeout: float) -> None:
        self.headers.append(header)


async def test_a_message_that_comes_again_as_copies_is_tried_as_often_as_others() -> None:
    broker = TakesCopies()
    copies = RetryCopies(cast(Any, broker), cast(Any, broker), "g", max_reconsume=2, namespace=None)
    group = SubscriptionGroupConfig(group_name="g")
    queue = MessageQueue("T", "broker-a", 0)
    for times in range(3):
        message = MessageExt("T", b"", reconsume_times=times)
        await copies.retry(message, queue, 0, "")
    dead = [is_exhausted(group, one.reconsume_times or 0, one.max_reconsume_times, 409) for one in broker.headers]
    assert dead == [False, False, True], "the third failure is the last, as for what is sent back"


async def test_what_could_not_go_back_comes_again_after_a_restart(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    SendBacks(own_cluster, UNSUPPORTED)
    await send_one(own_cluster, topic)
    tried = asyncio.Event()

    async def fail(message: MessageExt) -> None:
        tried.set()
        raise ValueError

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, fail, start_from="earliest"):
        await tried.wait()
    heard = Heard()
    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, heard):
        assert await heard.wait_for(1) == [b"one"]


async def test_others_go_on_while_one_message_fails(own_cluster: LocalCluster, topic: str, group: str) -> None:
    SendBacks(own_cluster, UNSUPPORTED)
    async with Producer("p", own_cluster.namesrv) as producer:
        sent = await fill(producer, topic, 100)
    good: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        if message.body == sent[7]:
            raise ValueError("this one never works")
        good.append(message.body)

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: len(good) == 99)


async def test_a_message_from_the_retry_topic_shows_the_topic_it_was_sent_to(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    heard = Heard()
    async with (
        PushConsumer(group, own_cluster.namesrv, {topic: "*"}, heard),
        await BrokerApi.connect(own_cluster.namesrv) as api,
    ):
        header = SendMessageRequestHeaderV2(
            producer_group="broker",
            topic=retry_topic(group),
            default_topic=TBW102,
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=encode_properties({"RETRY_TOPIC": topic, "UNIQ_KEY": "A" * 32}),
            reconsume_times=2,
        )
        await api.send(own_cluster.brokers[0].address, header, b"again")
        await heard.wait_for(1)
    (message,) = heard.messages
    assert (message.topic, message.body, message.reconsume_times) == (topic, b"again", 2)


@pytest.mark.parametrize("plain", [False, True])
async def test_a_listener_that_hangs_is_timed_out_and_its_message_goes_back(
    own_cluster: LocalCluster, topic: str, group: str, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    backs = SendBacks(own_cluster)
    async with Producer("p", own_cluster.namesrv) as producer:
        sent = await fill(producer, topic, 20)
    begun, gate = threading.Event(), threading.Event()
    good: list[bytes] = []

    def hang(message: MessageExt) -> None:
        if message.body == sent[0]:
            begun.set()
            gate.wait(60)
        else:
            good.append(message.body)

    async def hang_async(message: MessageExt) -> None:
        if message.body == sent[0]:
            begun.set()
            await asyncio.Event().wait()
        good.append(message.body)

    consumer = PushConsumer(
        group,
        own_cluster.namesrv,
        {topic: "*"},
        hang if plain else hang_async,
        start_from="earliest",
        concurrency=1,
        consume_timeout=timedelta(minutes=10),
        clock=own_cluster.clock,
    )
    async with consumer:
        await eventually(begun.is_set)
        await own_cluster.clock.advance_async(minutes=9)
        assert not backs.headers
        await own_cluster.clock.advance_async(minutes=2)
        await eventually(lambda: len(good) == 19)
        assert len(backs.headers) == 1
        assert backs.headers[0].pyromq_cause == "TimeoutError: the listener did not return within 600 s"
        await consumer.commit()
        assert await committed_sum(own_cluster, group, topic) == 20
        gate.set()
    assert len([record for record in caplog.records if "did not return within" in record.getMessage()]) == 1


async def test_a_failure_is_logged_with_its_traceback_the_first_time(
    own_cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    backs = SendBacks(own_cluster)
    async with Producer("p", own_cluster.namesrv) as producer:
        await fill(producer, topic, 5)

    async def listen(message: MessageExt) -> None:
        raise ZeroDivisionError("always")

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: len(backs.headers) == 5)
    records = [record for record in caplog.records if "the listener of group" in record.getMessage()]
    assert len(records) == 5
    assert all(record.levelno == logging.WARNING for record in records)
    assert [bool(record.exc_info) for record in records].count(True) == 1
