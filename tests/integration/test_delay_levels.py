"""Delayed messages from our producer to our consumer, over real sockets, with a clock that the test moves."""

from __future__ import annotations

import pytest

from pyromq import InvalidMessage, LitePullConsumer, Message, Producer
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS, parse_delay_levels
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import LocalCluster

LEVELS_MS = parse_delay_levels(DEFAULT_DELAY_LEVELS)


async def read(cluster: LocalCluster, count: int) -> list[MessageExt]:
    """Return this many messages of the topic, by their levels."""
    found: list[MessageExt] = []
    async with LitePullConsumer("readers", cluster.namesrv, clock=cluster.clock) as consumer:
        queues = await consumer.queues("orders")
        await consumer.assign(queues)
        for queue in queues:
            await consumer.seek_to_begin(queue)
        while len(found) < count:
            found += await consumer.poll(10)
    return sorted(found, key=lambda message: int(message.properties.get("DELAY", "0")))


async def test_every_level_takes_its_time_and_the_producer_hears_of_its_queue_at_once() -> None:
    async with LocalCluster() as cluster, Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        sent_ms: dict[str, int] = {}
        for level in range(1, 19):
            sent_ms[str(level)] = cluster.clock.now_ms()
            result = await producer.send(Message(topic="orders", body=b"%d" % level, keys=["k"]), level=level)
            assert result.queue.topic == "orders"
        await cluster.clock.advance_async(hours=2, minutes=1)
        messages = await read(cluster, 18)
        assert [message.body for message in messages] == [b"%d" % level for level in range(1, 19)]
        for message, level_ms in zip(messages, LEVELS_MS, strict=True):
            waited_ms = message.store_timestamp_ms - sent_ms[message.properties["DELAY"]]
            assert level_ms <= waited_ms < level_ms + 15_000  # the clock moves by 10 s at most


async def test_a_broker_that_was_down_delivers_what_is_overdue_and_nothing_twice() -> None:
    async with LocalCluster() as cluster, Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for number in range(10):
            await producer.send(Message(topic="orders", body=b"early %d" % number), level=1)
        await cluster.clock.advance_async(seconds=2)
        for number in range(10):
            await producer.send(Message(topic="orders", body=b"late %d" % number), level=3)
        for _ in range(3):
            cluster.stop_broker()
            await cluster.clock.advance_async(seconds=10)
            cluster.start_broker()
        bodies = [message.body for message in await read(cluster, 20)]
        expected = [b"%s %d" % (kind, number) for kind in (b"early", b"late") for number in range(10)]
        assert sorted(bodies) == expected
        server = cluster.brokers[0].server
        assert server is not None
        assert sum(server.store.max_offset("orders", queue_id) for queue_id in range(4)) == 20
        assert server.http_info()["delayed_messages_waiting"] == 0


async def test_only_a_number_is_a_level_and_zero_is_no_delay() -> None:
    async with LocalCluster() as cluster, Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for wrong in (-1, True, 1.5, "3"):
            with pytest.raises(InvalidMessage, match="a delay level is a number"):
                await producer.send(Message(topic="orders", body=b"x"), level=wrong)  # type: ignore[arg-type]
        await producer.send(Message(topic="orders", body=b"now"), level=0)
        assert [message.body for message in await read(cluster, 1)] == [b"now"]


async def test_a_producer_that_lingers_delays_as_well() -> None:
    async with (
        LocalCluster() as cluster,
        Producer("shop", cluster.namesrv, clock=cluster.clock, linger=0.001) as producer,
    ):
        await producer.send(Message(topic="orders", body=b"later"), level=1)
        await cluster.clock.advance_async(seconds=2)
        (message,) = await read(cluster, 1)
        assert message.properties["DELAY"] == "1"
