"""delay=, at= and cancel: what reaches the broker, what comes back, and never a message early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pyromq import blocking
from pyromq.admin import AdminClient
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.delays import delay_properties
from pyromq.client.send.producer import Producer
from pyromq.clock import SystemClock
from pyromq.errors import ClientError, InvalidMessage, MessageIllegal, NotSupported
from pyromq.namesrv.server import NameServer
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, ScriptedBroker, register_broker


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster whose clock the test moves."""
    with LocalCluster(data=tmp_path) as running:
        yield running


def stored(cluster: LocalCluster, topic: str) -> list[MessageExt]:
    server = cluster.brokers[0].server
    assert server is not None
    return [
        message
        for queue_id in server.store.queue_ids(topic)
        for message in decode_messages(b"".join(server.store.get(topic, queue_id, 0, 1000, max_bytes=1 << 20).views))
    ]


@pytest.mark.parametrize("how", ["delay", "seconds", "at", "local time"])
async def test_a_message_is_delivered_when_its_sender_wants(own_cluster: LocalCluster, topic: str, how: str) -> None:
    clock = own_cluster.clock
    moment = datetime.fromtimestamp(clock.now() + 7200, UTC)
    ways: dict[str, dict[str, Any]] = {
        "delay": {"delay": timedelta(hours=2)},
        "seconds": {"delay": 7200},
        "at": {"at": moment},
        "local time": {"at": moment.astimezone().replace(tzinfo=None)},
    }
    async with Producer("timed", own_cluster.namesrv, clock=clock) as producer:
        await producer.send(Message(topic=topic, body=b"later"), **ways[how])
    await clock.advance_async(hours=1, minutes=59, step=60)
    assert stored(own_cluster, topic) == []
    await clock.advance_async(minutes=2, step=60)
    await eventually(lambda: [message.body for message in stored(own_cluster, topic)] == [b"later"])


async def test_a_cancelled_message_is_not_delivered(own_cluster: LocalCluster, topic: str) -> None:
    clock = own_cluster.clock
    async with Producer("timed", own_cluster.namesrv, clock=clock) as producer:
        kept = await producer.send(Message(topic=topic, body=b"kept"), delay=60)
        dropped = await producer.send(Message(topic=topic, body=b"dropped"), delay=60, order_key="o-1")
        assert await producer.cancel(dropped)
        assert not await producer.cancel(dropped)
        await clock.advance_async(seconds=70)
        await eventually(lambda: [message.body for message in stored(own_cluster, topic)] == [b"kept"])
        assert not await producer.cancel(kept)


async def test_a_message_sent_on_with_another_delay_waits_anew(own_cluster: LocalCluster, topic: str) -> None:
    clock = own_cluster.clock
    async with Producer("timed", own_cluster.namesrv, clock=clock) as producer:
        await producer.send(Message(topic=topic, body=b"first"), delay=0.05)
        await eventually(lambda: len(stored(own_cluster, topic)) == 1)
        (first,) = stored(own_cluster, topic)
        times = {name: value for name, value in first.properties.items() if name.startswith("TIMER_")}
        await producer.send(Message(topic=topic, body=b"again", properties=times), delay=60)
        assert len(stored(own_cluster, topic)) == 1
        await clock.advance_async(seconds=70)
        await eventually(lambda: len(stored(own_cluster, topic)) == 2)


async def test_timed_messages_do_not_linger_with_others(own_cluster: LocalCluster, topic: str) -> None:
    async with Producer("timed", own_cluster.namesrv, clock=own_cluster.clock, linger=0.01) as producer:
        sends = [producer.send(Message(topic=topic, body=b"%d" % number), delay=3600) for number in range(3)]
        results = await asyncio.gather(*sends)
        assert [await producer.cancel(result) for result in results] == [True] * 3


async def test_a_namespace_does_not_hinder_cancelling(own_cluster: LocalCluster, topic: str) -> None:
    async with Producer("timed", own_cluster.namesrv, clock=own_cluster.clock, namespace="shop") as producer:
        assert await producer.cancel(await producer.send(Message(topic=topic, body=b"x"), delay=3600))


async def test_more_than_forty_days_are_refused(own_cluster: LocalCluster, topic: str) -> None:
    async with Producer("timed", own_cluster.namesrv, clock=own_cluster.clock) as producer:
        with pytest.raises(MessageIllegal, match="40 days"):
            await producer.send(Message(topic=topic, body=b"x"), delay=timedelta(days=41))


@pytest.mark.parametrize(
    "options",
    [
        {"delay": timedelta(1), "at": datetime.now(UTC)},
        {"delay": 1, "level": 3},
        {"delay": "10s"},
        {"delay": float("nan")},
        {"delay": True},
        {"at": 12},
    ],
)
async def test_what_is_no_time_is_refused_at_once(producer: Producer, topic: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        await producer.send(Message(topic=topic, body=b"x"), **options)


def test_times_are_rounded_up_so_that_nothing_is_early() -> None:
    assert delay_properties(timedelta(microseconds=1500), None, None) == {"TIMER_DELAY_MS": "2"}
    assert delay_properties(-5, None, None) == {"TIMER_DELAY_MS": "0"}
    at = datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)
    assert delay_properties(None, at, None) == {"TIMER_DELIVER_MS": "1769860800001"}
    assert delay_properties(None, None, None) is None


async def test_a_broker_that_is_not_pyromqs_gets_no_timed_message(topic: str) -> None:
    clock = SystemClock()
    async with (
        NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as name_server,
        ScriptedBroker(0, clock) as broker,
        await BrokerApi.connect(name_server.address) as api,
        Producer("timed", name_server.address) as producer,
    ):
        await register_broker(api, "broker-a", broker.address, topic)
        plain = await producer.send(Message(topic=topic, body=b"x"))
        for call in (
            producer.send(Message(topic=topic, body=b"x"), delay=timedelta(seconds=1)),
            producer.send(Message(topic=topic, body=b"x"), at=datetime.now(UTC), order_key="k"),
            producer.cancel(plain),
        ):
            with pytest.raises(NotSupported, match="not PyroMQ's"):
                await call
        assert broker.sends == 1
        async with AdminClient(name_server.address) as admin:
            with pytest.raises(NotSupported):
                await admin.timed_messages.cancel(plain.message_id)
            with pytest.raises(NotSupported):
                [message async for message in admin.timed_messages.pending()]
            assert await admin.timed_messages.count() == 0


async def test_what_a_push_consumer_gets_of_a_timed_message(own_cluster: LocalCluster, topic: str, group: str) -> None:
    heard = Heard()
    clock = own_cluster.clock
    async with (
        Producer("timed", own_cluster.namesrv, clock=clock) as producer,
        PushConsumer(group, own_cluster.namesrv, {topic: "paid"}, heard, start_from="earliest", clock=clock),
    ):
        await producer.send(Message(topic=topic, body=b"x", tags="paid", keys=["k-1"]), delay=0.1)
        assert await heard.wait_for(1) == [b"x"]
    (message,) = heard.messages
    assert (message.topic, message.tags, message.keys) == (topic, "paid", ("k-1",))


def test_the_blocking_producer_delays_and_cancels(own_cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("timed", own_cluster.namesrv, clock=own_cluster.clock) as producer:
        result = producer.send(Message(topic=topic, body=b"x"), delay=timedelta(hours=1))
        assert producer.cancel(result)
        assert not producer.cancel(result)


async def test_a_closed_producer_cancels_nothing(own_cluster: LocalCluster, topic: str) -> None:
    producer = Producer("timed", own_cluster.namesrv, clock=own_cluster.clock)
    async with producer:
        result = await producer.send(Message(topic=topic, body=b"x"), delay=3600)
    with pytest.raises(ClientError):
        await producer.cancel(result)
