"""How much a push consumer fetches and hands out: limits of its buffer, a rate, a pause, a pull interval."""

from __future__ import annotations

import asyncio

from pyromq.client.config import FlowControl
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, fill


async def test_no_more_is_held_than_flow_control_allows(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    sent = await fill(producer, topic, 2000)
    gate = asyncio.Event()
    done: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        await gate.wait()
        done.append(message.body)

    flow = FlowControl(messages=50)
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", flow_control=flow, clock=cluster.clock
    ) as consumer:
        held = [queue for queue in consumer._session.assignment if queue.queue.topic == topic]
        await eventually(lambda: all(len(queue) >= 50 for queue in held))
        await cluster.clock.advance_async(seconds=1)
        assert all(len(queue) < 50 + 32 for queue in held)
        gate.set()
        await eventually(lambda: len(done) == 2000)
    assert sorted(done) == sorted(sent)


async def test_one_slow_message_stops_pulling_when_the_span_is_reached(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    await asyncio.gather(
        *[producer.send(Message(topic=topic, body=b"%d" % number), queue=queue) for number in range(500)]
    )
    gate = asyncio.Event()
    done: list[int] = []

    async def listen(message: MessageExt) -> None:
        if message.queue_offset == 0:
            await gate.wait()
        done.append(message.queue_offset)

    flow = FlowControl(span=100)
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", flow_control=flow, clock=cluster.clock
    ):
        await eventually(lambda: len(done) >= 100)
        await cluster.clock.advance_async(seconds=1)
        assert len(done) <= 100 + 32
        gate.set()
        await eventually(lambda: len(done) == 500)


async def test_a_rate_is_held(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        await fill(producer, topic, 200)
        times: list[float] = []

        async def listen(message: MessageExt) -> None:
            times.append(cluster.clock.now())

        async with PushConsumer(
            group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", rate=50, clock=cluster.clock
        ):
            await eventually(lambda: len(times) > 0)
            while len(times) < 160:
                await cluster.clock.advance_async(seconds=0.2)
        for start in range(0, 100, 10):
            within = [time for time in times if times[start] <= time < times[start] + 1.0]
            assert 30 <= len(within) <= 52, "never faster; slower only if this machine is"


async def test_a_rate_is_held_when_the_machines_clock_is_set_back(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 2)
    heard = Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", rate=200, clock=cluster.clock
    ):
        await heard.wait_for(2)
        cluster.clock.set_wall_clock(minutes=-10)
        await fill(producer, topic, 20)
        await heard.wait_for(22)


async def test_a_paused_consumer_hears_nothing_until_it_is_resumed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    heard = Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=cluster.clock
    ) as consumer:
        await heard.wait_for(4)
        consumer.pause()
        sent = await fill(producer, topic, 40)
        await cluster.clock.advance_async(seconds=1)
        assert len(heard.messages) == 4
        consumer.resume()
        assert set(sent) <= set(await heard.wait_for(44))


async def test_the_pull_interval_spaces_pulls(topic: str, group: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        for number in range(6):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
        times: list[float] = []

        async def listen(message: MessageExt) -> None:
            times.append(cluster.clock.now())

        async with PushConsumer(
            group,
            cluster.namesrv,
            {topic: "*"},
            listen,
            start_from="earliest",
            pull_batch=2,
            pull_interval=10.0,
            clock=cluster.clock,
        ):
            while len(times) < 6:
                await cluster.clock.advance_async(seconds=2)
        assert times[2] - times[1] >= 9
        assert times[4] - times[3] >= 9
