"""One message, named by an operator, goes to the listener apart from all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from pyromq import Ack, Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient, DirectResult
from pyromq.client.listener.outcomes import COMMIT, ROLLBACK, RetryLater
from pyromq.client.push.direct_consumption import LONGEST_WAIT, direct_result
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import ConsumeResult
from pyromq.testing import LocalCluster, eventually


async def sent_to_one_queue(producer: Producer, topic: str, count: int) -> list[str]:
    queue = (await producer.queues(topic))[0]
    return [
        (await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)).message_id
        for number in range(count)
    ]


async def consume(admin: AdminClient, consumer: PushConsumer, message_id: str, topic: str) -> DirectResult:
    return await admin.messages.consume(message_id, topic=topic, group=consumer.group, client_id=consumer.client_id)


async def test_a_plain_listener_handles_it_on_a_thread(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    (message_id,) = await sent_to_one_queue(producer, topic, 1)
    seen: list[tuple[str, bool]] = []

    def listen(message: MessageExt) -> None:
        seen.append((message.message_id, threading.current_thread() is threading.main_thread()))

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "never"}, listen) as consumer,
        AdminClient(cluster.namesrv) as admin,
    ):
        done = await consume(admin, consumer, message_id, topic)
    assert (done.result, done.orderly, done.auto_commit, done.remark) == ("CR_SUCCESS", False, True, None)
    assert seen == [(message_id, False)]


async def test_a_batch_listener_gets_a_batch_of_one(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    (message_id,) = await sent_to_one_queue(producer, topic, 1)
    sizes: list[int] = []

    async def listen(messages: list[MessageExt]) -> Ack:
        sizes.append(len(messages))
        return Ack(first=0)

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "never"}, listen, batch_size=8) as consumer,
        AdminClient(cluster.namesrv) as admin,
    ):
        done = await consume(admin, consumer, message_id, topic)
    assert (done.result, done.remark) == ("CR_LATER", "the listener acknowledged 0 of 1 messages")
    assert not done.succeeded
    assert sizes == [1]


async def test_an_orderly_listener_gets_it_between_two_messages_of_its_queue(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    ids = await sent_to_one_queue(producer, topic, 3)
    events: list[str] = []
    gate = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        events.append(f"{message.body.decode()} begins")
        await gate.wait()
        events.append(f"{message.body.decode()} ends")

    async with (
        PushConsumer(
            group, cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=cluster.clock
        ) as consumer,
        AdminClient(cluster.namesrv) as admin,
    ):
        await eventually(lambda: events == ["0 begins"])
        asking = asyncio.create_task(consume(admin, consumer, ids[0], topic))
        direct = consumer._session.direct
        await eventually(lambda: direct.waiting == 1)
        gate.set()
        done = await asking
        await eventually(lambda: len(events) == 8)
    assert (done.result, done.orderly) == ("CR_SUCCESS", True)
    begins, ends = events[::2], events[1::2]
    assert [text.split()[0] for text in begins] == [text.split()[0] for text in ends], "never two at once"
    assert sorted(begins) == ["0 begins", "0 begins", "1 begins", "2 begins"]


async def test_a_busy_orderly_queue_is_an_error_and_nothing_is_handled_later(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    ids = await sent_to_one_queue(producer, topic, 2)
    seen: list[bytes] = []
    gate = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        await gate.wait()

    async with (
        PushConsumer(
            group, cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=cluster.clock
        ) as consumer,
        AdminClient(cluster.namesrv) as admin,
    ):
        await eventually(lambda: len(seen) == 1)
        asking = asyncio.create_task(consume(admin, consumer, ids[1], topic))
        direct = consumer._session.direct
        await eventually(lambda: direct.waiting == 1)
        await cluster.clock.advance_async(seconds=LONGEST_WAIT + 0.1)
        with pytest.raises(BrokerError, match="the same orderly queue for 5 s: nothing was handled"):
            await asking
        gate.set()
        await eventually(lambda: len(seen) == 2)
    assert seen == [b"0", b"1"]


async def test_a_listener_that_takes_too_long_is_cancelled(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    (message_id,) = await sent_to_one_queue(producer, topic, 1)
    begun = asyncio.Event()

    async def listen(message: MessageExt) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with (
        PushConsumer(
            group, cluster.namesrv, {topic: "never"}, listen, consume_timeout=2, clock=cluster.clock
        ) as consumer,
        AdminClient(cluster.namesrv) as admin,
    ):
        asking = asyncio.create_task(consume(admin, consumer, message_id, topic))
        await begun.wait()
        await cluster.clock.advance_async(seconds=2.1)
        done = await asking
    assert done.result == "CR_THROW_EXCEPTION"
    assert "the listener did not return within 2 s" in (done.remark or "")


async def test_a_consumer_that_closes_waits_for_it_and_takes_no_more(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    (message_id,) = await sent_to_one_queue(producer, topic, 1)
    begun, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def listen(message: MessageExt) -> None:
        begun.set()
        await gate.wait()
        ended.set()

    consumer = PushConsumer(group, cluster.namesrv, {topic: "never"}, listen)
    async with AdminClient(cluster.namesrv) as admin:
        await consumer.start()
        direct = consumer._session.direct
        message = await admin.messages.get(message_id, topic)
        asking = asyncio.create_task(consume(admin, consumer, message_id, topic))
        await begun.wait()
        closing = asyncio.create_task(consumer.close())
        await eventually(lambda: direct.closed)
        with pytest.raises(BrokerError, match="closing, nothing was handled"):
            await direct.consume(message, lambda message: None)
        gate.set()
        await closing
        assert ended.is_set()
        await asyncio.wait([asking])


def iter_nothing() -> Iterator[int]:
    yield from ()


@pytest.mark.parametrize(
    ("outcome", "result", "remark"),
    [
        (None, ConsumeResult.CR_SUCCESS, None),
        (COMMIT, ConsumeResult.CR_COMMIT, None),
        (ROLLBACK, ConsumeResult.CR_ROLLBACK, None),
        (Ack(first=1), ConsumeResult.CR_SUCCESS, None),
        (RetryLater(5, "not now"), ConsumeResult.CR_LATER, "RetryLater: not now"),
        (ValueError("oops"), ConsumeResult.CR_THROW_EXCEPTION, "ValueError: oops"),
        (iter_nothing(), ConsumeResult.CR_LATER, "TypeError: the listener returned a generator"),
    ],
)
def test_outcomes_in_rocketmqs_words(outcome: object, result: ConsumeResult, remark: str | None) -> None:
    told = direct_result(outcome, 1.5, orderly=False)
    assert (told.consume_result, told.spent_time_mills) == (result, 1500)
    assert (told.remark or "").startswith(remark or "")
    assert (told.remark is None) == (remark is None)
