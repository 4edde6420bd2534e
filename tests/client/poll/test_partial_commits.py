"""Commits of a part of what was returned, subscriptions while it runs, and functions for queues given and taken."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from pyromq import blocking
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.push.push_settings import PushConsumerOptions
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import fill, read


async def one_queue(producer: Producer, topic: str, count: int) -> MessageQueue:
    await producer.send(Message(topic, b"0"))
    queue = (await producer.queues(topic))[0]
    for number in range(1, count):
        await producer.send(Message(topic, str(number).encode()), queue=queue)
    return queue


async def test_a_part_of_what_was_returned_is_committed(cluster: LocalCluster, producer: Producer, topic: str) -> None:
    queue = await one_queue(producer, topic, 8)
    consumer = LitePullConsumer("g", cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False)
    async with consumer:
        messages = [message for message in await read(consumer, 8) if message.queue == queue]
        await consumer.commit(messages[2])
        assert await consumer.committed(queue) == messages[2].queue_offset + 1
        await consumer.commit(messages[:2])
        assert await consumer.committed(queue) == messages[2].queue_offset + 1, "it never moves back"
        await consumer.commit({queue: messages[4].queue_offset + 1})
        assert await consumer.committed(queue) == messages[4].queue_offset + 1
        with pytest.raises(ClientError, match="was returned up to offset"):
            await consumer.commit({queue: 100})
        with pytest.raises(ClientError, match="is not assigned"):
            await consumer.commit({queue._replace(queue_id=99): 0})
        wrong: list[Any] = [{0: 5}, {queue: "5"}, [5], 5]
        for each in wrong:
            with pytest.raises((ClientError, TypeError)):
                await consumer.commit(each)
    async with consumer:
        again = [message for message in await read(consumer, 3) if message.queue == queue]
    assert [message.body for message in again] == [message.body for message in messages[5:]]


async def test_topics_are_added_and_removed_while_it_runs(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    other = f"{topic}-other"
    await fill(producer, topic, 4)
    await fill(producer, other, 4, tags=["a", "b"])
    async with LitePullConsumer("g", cluster.namesrv, start_from="earliest") as consumer:
        await consumer.subscribe(topic)
        assert {message.topic for message in await read(consumer, 4)} == {topic}
        await consumer.subscribe(other, "a")
        assert [message.tags for message in await read(consumer, 2)] == ["a", "a"]
        await consumer.unsubscribe(topic)
        assert {queue.topic for queue in consumer.assignment} == {other}
        await fill(producer, topic, 4)
        assert await consumer.poll(timeout=0.1) == []
        with pytest.raises(ClientError, match="not possible with subscriptions"):
            await consumer.assign(await consumer.queues(topic))
    async with LitePullConsumer("h", cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign(await consumer.queues(topic))
        with pytest.raises(ClientError, match=r"subscribe\(\) is not possible after assign"):
            await consumer.subscribe(topic)


async def test_a_pull_consumer_reports_queues_given_and_taken(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    await fill(producer, topic, 4)
    events: list[tuple[str, list[MessageQueue]]] = []

    async def given(queues: list[MessageQueue]) -> None:
        events.append(("given", queues))

    async def taken(queues: list[MessageQueue]) -> None:
        events.append(("taken", queues))
        await consumer.commit()  # it still has them

    consumer = LitePullConsumer(
        "g",
        cluster.namesrv,
        {topic: "*"},
        start_from="earliest",
        auto_commit=False,
        on_assigned=given,
        on_revoked=taken,
    )
    async with consumer:
        queues = consumer.assignment
        assert events == [("given", queues)]
        messages = await read(consumer, 4)
        async with LitePullConsumer("g", cluster.namesrv, {topic: "*"}):
            await eventually(lambda: len(events) == 2)
            word, lost = events[1]
            assert (word, len(lost)) == ("taken", 2)
            for queue in lost:
                count = sum(message.queue == queue for message in messages)
                await eventually(partial(_is_committed, consumer, queue, count))
        await eventually(lambda: len(events) == 3)
        assert events[2] == ("given", lost)
    assert len(events) == 3, "nothing is taken from a consumer that closes"


async def _is_committed(consumer: LitePullConsumer, queue: MessageQueue, offset: int) -> bool:
    return await consumer.committed(queue) == offset


async def test_a_push_consumer_reports_them_too_without_its_retry_topic(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    await fill(producer, topic, 4)
    events: list[tuple[str, set[str]]] = []

    def given(queues: list[MessageQueue]) -> None:
        events.append(("given", {queue.topic for queue in queues}))
        raise ValueError("rebalancing goes on")

    def taken(queues: list[MessageQueue]) -> None:
        events.append(("taken", {queue.topic for queue in queues}))

    async def listen(message: MessageExt) -> None: ...

    options: PushConsumerOptions = {"on_assigned": given, "on_revoked": taken}
    async with PushConsumer("g", cluster.namesrv, {topic: "*"}, listen, **options) as consumer:
        assert len(consumer.assignment) == 4
        await consumer.unsubscribe(topic)
    assert events == [("given", {topic}), ("taken", {topic})]


def test_a_plain_function_may_use_the_blocking_consumer(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("p", cluster.namesrv) as producer:
        for _ in range(4):
            producer.send(topic, "x")

    def taken(queues: list[MessageQueue]) -> None:
        consumer.commit()
        committed.extend(consumer.committed(queue) for queue in queues)

    committed: list[int | None] = []
    consumer = blocking.LitePullConsumer(
        "g", cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False, on_revoked=taken
    )
    with consumer:
        got = 0
        while got < 4:
            got += len(consumer.poll(timeout=5))
        consumer.unsubscribe(topic)
    assert committed == [1, 1, 1, 1]
