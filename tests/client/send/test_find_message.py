"""After an unknown outcome: was the message stored?"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError, NoRoute, RequestTimeout
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.message import Message
from pyromq.protocol.messages.message_id import UniqueIds, near_time_ms, series_prefix
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster


async def test_a_stored_message_is_found_by_either_id(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv) as producer:
        result = await producer.send(Message(topic=topic, body=b"here", tags="t"))
        for message_id in (result.message_id, result.offset_message_id):
            found = await producer.find(topic, message_id)
            assert found is not None
            assert (found.body, found.tags, found.queue) == (b"here", "t", result.queue)
            assert (found.queue_offset, found.message_id) == (result.queue_offset, result.message_id)


async def test_what_was_never_stored_is_not_found(cluster: LocalCluster, topic: str) -> None:
    async with Producer("p", cluster.namesrv) as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
        await producer.send(Message(topic=f"{topic}-other", body=b"x"))
        last = "0" if result.message_id[-1] != "0" else "1"
        assert await producer.find(topic, result.message_id[:-1] + last) is None
        assert await producer.find(f"{topic}-other", result.message_id) is None
        assert await producer.find(f"{topic}-other", result.offset_message_id) is None
        assert await producer.find(topic, "no id at all") is None
        with pytest.raises(NoRoute):
            await producer.find("no-such-topic", result.message_id)


async def test_after_a_time_out_the_exception_has_the_id_to_look_for(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv, send_timeout=0.3) as producer:
        await producer.send(Message(topic=topic, body=b"first"))
        server = cluster.brokers[0].server
        assert server is not None
        real = server.handlers[310]

        def store_and_say_nothing(command: RemotingCommand, connection: Connection) -> None:
            send, connection.send = connection.send, lambda frame: None  # type: ignore[method-assign]
            real(command, connection)
            asyncio.get_running_loop().call_later(0.05, setattr, connection, "send", send)

        server.handlers[310] = store_and_say_nothing
        with pytest.raises(RequestTimeout, match="no answer from") as failure:
            await producer.send(Message(topic=topic, body=b"second"))
        assert f"{cluster.brokers[0].address} answers" in str(failure.value), "the way there is fine"
        found = await producer.find(topic, failure.value.message_id)
        assert found is not None
        assert found.body == b"second"


async def test_a_broker_that_cannot_be_asked_is_an_error_unless_another_has_it(topic: str) -> None:
    async with LocalCluster(brokers=2) as cluster, Producer("p", cluster.namesrv) as producer:
        results = [await producer.send(Message(topic=topic, body=b"x")) for _ in range(8)]
        on_b = next(result for result in results if result.queue.broker_name == "broker-b")
        on_a = next(result for result in results if result.queue.broker_name == "broker-a")
        server = cluster.brokers[0].server
        assert server is not None
        server.handlers[12] = refuse
        assert await producer.find(topic, on_b.message_id) is not None
        with pytest.raises(BrokerError, match="not today"):
            await producer.find(topic, on_a.message_id)


def refuse(command: RemotingCommand, connection: Connection) -> None:
    raise BrokerError("not today")


@pytest.mark.parametrize("day", [1, 15, 31])
def test_the_time_in_an_id_is_found_again(day: int) -> None:
    made_ms = int(datetime(2026, 3, day, 12, 0, tzinfo=UTC).timestamp() * 1000)
    message_id = UniqueIds(lambda: series_prefix("10.0.0.1", 7, 9)).next(made_ms)
    for days_later in (0, 3, 20):
        assert near_time_ms(message_id, made_ms + days_later * 86_400_000) == made_ms


def test_what_is_no_id_has_no_time() -> None:
    assert near_time_ms("short", 0) is None
    assert near_time_ms("Z" * 32, 0) is None
