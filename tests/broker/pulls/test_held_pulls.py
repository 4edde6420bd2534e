from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, pull_header

WAITS = 4 | 2  # brings its subscription, and may be held


async def hold(peer: Peer, broker: Broker, **fields: Any) -> asyncio.Task[RemotingCommand]:
    """Pull, and return once the broker holds it."""
    held = broker.http_info()["held_pulls"]
    connection = await peer.remoting.connection(peer.address)

    command = request(11, pull_header(sys_flag=fields.pop("sys_flag", WAITS), **fields))
    task = asyncio.ensure_future(connection.request(command, timeout=10_000))
    await eventually(lambda: broker.http_info()["held_pulls"] > held)
    return task


async def test_a_held_pull_is_answered_when_a_message_arrives(peer: Peer, broker: Broker, connect: Connect) -> None:
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker)
    producer = await connect(broker)
    await producer.send(body=b"fresh")
    answer = await task
    assert answer.code == ResponseCode.SUCCESS
    assert [message.body for message in decode_messages(answer.body)] == [b"fresh"]
    assert broker.http_info()["held_pulls"] == 0


async def test_held_pulls_of_a_deleted_topic_are_told_so_at_once(peer: Peer, broker: Broker) -> None:
    await peer.send()
    await peer.send("refunds")
    tasks = [await hold(peer, broker, queue_offset=1), await hold(peer, broker, queue_offset=1, subscription="a")]
    other = await hold(peer, broker, topic="refunds", queue_offset=1)
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert [(await task).code for task in tasks] == [ResponseCode.TOPIC_NOT_EXIST] * 2
    await peer.send("refunds", body=b"fresh")
    assert (await other).code == ResponseCode.SUCCESS


async def test_only_a_wanted_tag_wakes_a_pull(peer: Peer, broker: Broker) -> None:
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker, subscription="a")
    await peer.send(body=b"other", properties="TAGS\x01b")
    assert not task.done()
    await peer.send(body=b"mine", properties="TAGS\x01a")
    assert [message.body for message in decode_messages((await task).body)] == [b"mine"]


async def test_a_pull_that_waited_long_enough_is_told_that_there_is_nothing(
    peer: Peer, broker: Broker, clock: TestClock
) -> None:
    await peer.send()
    task = await hold(peer, broker, queue_offset=1, suspend_timeout_millis=15_000)
    await clock.advance_async(seconds=13)
    assert not task.done()
    await clock.advance_async(seconds=5)
    answer = await task
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE")


async def test_unwanted_messages_move_a_held_pull_on(peer: Peer, broker: Broker, clock: TestClock) -> None:
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker, subscription="a", suspend_timeout_millis=60_000)
    await peer.send(properties="TAGS\x01b")
    await clock.advance_async(seconds=8)
    answer = await task
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.header(PullMessageResponseHeader).next_begin_offset == 1


async def test_without_long_polling_a_pull_waits_a_second(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(longPollingEnable="false")
    peer = await connect(broker)
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker)
    await clock.advance_async(seconds=3)
    assert (await task).code == ResponseCode.PULL_NOT_FOUND


async def test_a_pull_may_commit_only_when_it_comes_not_when_it_is_woken(peer: Peer, broker: Broker) -> None:
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker, sys_flag=WAITS | 1, commit_offset=5)
    assert broker.offsets.get("billing", "orders", 0) == 5
    broker.offsets.commit("billing", "orders", 0, 9, "somebody else")
    await peer.send()
    await task
    assert broker.offsets.get("billing", "orders", 0) == 9


async def test_a_broker_that_stops_answers_what_it_holds(tmp_path: Path, clock: TestClock, connect: Connect) -> None:
    settings = broker_config({"listenPort": "0", "storePathRootDir": str(tmp_path)})
    async with Broker(settings, clock) as broker:
        peer = await connect(broker)
        await peer.send("orders", queue_id=1)
        task = await hold(peer, broker, suspend_timeout_millis=300_000)
    assert (await task).code == ResponseCode.PULL_NOT_FOUND


async def test_pulls_of_a_closed_connection_are_dropped(peer: Peer, broker: Broker, connect: Connect) -> None:
    await peer.send("orders", queue_id=1)
    consumer = await connect(broker)
    task = await hold(consumer, broker, suspend_timeout_millis=300_000)
    await consumer.remoting.close()
    await eventually(lambda: broker.http_info()["held_pulls"] == 0)
    with pytest.raises(Exception, match="lost"):
        await task
    await peer.send()


async def test_more_pulls_than_the_limit_are_told_that_the_broker_is_busy(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(pyromqMaxHeldPulls=1)
    peer = await connect(broker)
    await peer.send("orders", queue_id=1)
    first = await hold(peer, broker)
    await peer.pull(sys_flag=WAITS, expect=ResponseCode.SYSTEM_BUSY)
    await peer.send()
    await first


async def test_many_held_pulls_of_one_queue_are_all_woken(peer: Peer, broker: Broker) -> None:
    await peer.send("orders", queue_id=1)
    tasks = [await hold(peer, broker) for _ in range(100)]
    await peer.send(body=b"for all")
    answers = await asyncio.gather(*tasks)
    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}


async def test_a_topic_that_is_closed_while_a_pull_waits_is_told_to_it(
    peer: Peer, broker: Broker, clock: TestClock
) -> None:
    await peer.send("orders", queue_id=1)
    task = await hold(peer, broker)
    broker.topics.update(topic_config("orders", 4, perm=2))
    await clock.advance_async(seconds=20)
    assert (await task).code == ResponseCode.NO_PERMISSION


async def test_a_peer_that_leaves_is_forgotten_without_the_collector(
    broker: Broker, connect: Connect, clock: TestClock
) -> None:
    """The collector of a server does not look at what lives long: its connections must not end as cycles."""
    gc.collect()
    gc.disable()
    try:
        peers = [await connect(broker) for _ in range(3)]
        for number, peer in enumerate(peers):
            await peer.beat(f"client-{number}", "billing")
            await peer.send("orders", queue_id=3)
            task = await hold(peer, broker, queue_id=number)
            task.add_done_callback(lambda task: task.exception())
        left = [weakref.ref(connection) for connection in broker._ports._main.connections]
        assert len(left) == 3
        for peer in peers:
            await peer.remoting.close()
        await clock.advance_async(seconds=60)  # held pulls run out
        await eventually(lambda: all(reference() is None for reference in left))
    finally:
        gc.enable()
