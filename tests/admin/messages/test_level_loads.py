"""What waits at delay levels, on all brokers together."""

from __future__ import annotations

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster


async def test_levels_say_how_many_wait_and_when_the_next_is_due(topic: str) -> None:
    async with (
        LocalCluster(brokers=2) as cluster,
        Producer("levels", cluster.namesrv, clock=cluster.clock) as producer,
        AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
    ):
        assert await admin.timed_messages.levels() == ()
        began_ms = cluster.clock.now_ms()
        await admin.topics.create(topic, read_queues=1, write_queues=1)
        for number in range(4):  # two on each broker
            broker = ("broker-a", "broker-b")[number % 2]
            message = Message(topic=topic, body=b"%d" % number)
            await producer.send(message, level=14, queue=MessageQueue(topic, broker, 0))
        await producer.send(Message(topic=f"{topic}-other", body=b"hours"), level=18)
        minutes, hours = await admin.timed_messages.levels()
        assert (minutes.level, minutes.delay_ms, minutes.waiting, minutes.next_topic) == (14, 600_000, 4, topic)
        assert (hours.level, hours.waiting, hours.next_topic) == (18, 1, f"{topic}-other")
        assert minutes.next_due_ms is not None
        assert minutes.last_due_ms is not None
        assert began_ms + 600_000 <= minutes.next_due_ms <= minutes.last_due_ms <= cluster.clock.now_ms() + 600_000
        assert hours.next_due_ms == hours.last_due_ms
        await cluster.clock.advance_async(minutes=11, step=30)
        assert [load.level for load in await admin.timed_messages.levels()] == [18]


async def test_the_delays_are_those_of_the_broker(topic: str) -> None:
    async with (
        LocalCluster(settings={"messageDelayLevel": "1s 1h"}) as cluster,
        Producer("levels", cluster.namesrv) as producer,
        AdminClient(cluster.namesrv) as admin,
    ):
        await producer.send(Message(topic=topic, body=b"later"), level=2)
        (load,) = await admin.timed_messages.levels()
        assert (load.level, load.delay_ms, load.waiting) == (2, 3_600_000, 1)
