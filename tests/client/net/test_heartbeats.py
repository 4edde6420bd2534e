"""Heartbeats: who gets one, and how often."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyromq import UNKNOWN, TransactionProducer, TransactionState
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies import HeartbeatData, decode
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.names import SELF_TEST_TOPIC
from pyromq.remoting.connection import Connection
from pyromq.testing import TestClock, eventually
from tests.client.helpers import ScriptedBroker, register_broker

DEAD = "127.0.0.1:1"
TOPIC = "orders"


class HeartbeatCount(ScriptedBroker):
    """Keeps the producer groups of each heartbeat."""

    def __init__(self, clock: TestClock) -> None:
        super().__init__(0, clock)
        self.beats: list[list[str]] = []
        self.connections: list[Connection] = []
        self.handlers[RequestCode.HEART_BEAT] = self._beat

    def _beat(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        data = decode(HeartbeatData, command.body)
        self.beats.append(sorted(producer.group_name for producer in data.producer_data_set))
        self.connections.append(connection)
        return response(command)


@asynccontextmanager
async def one_of_two_is_dead(clock: TestClock) -> AsyncIterator[tuple[str, HeartbeatCount]]:
    """A name server that knows of two brokers; yield its address and the broker that is there."""
    server = NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None)
    async with server as names, HeartbeatCount(clock) as broker, await BrokerApi.connect(names.address) as api:
        await register_broker(api, "alive", broker.address, TOPIC, SELF_TEST_TOPIC)
        await register_broker(api, "dead", DEAD, TOPIC, SELF_TEST_TOPIC)
        yield names.address, broker


async def check(message: MessageExt) -> TransactionState:
    return UNKNOWN


@pytest.mark.parametrize("transactions", [False, True])
async def test_a_dead_broker_costs_the_others_no_heartbeats(transactions: bool) -> None:
    clock = TestClock()
    async with one_of_two_is_dead(clock) as (namesrv, broker):
        producer = (
            TransactionProducer("p", namesrv, check=check, clock=clock)
            if transactions
            else Producer("p", namesrv, clock=clock)
        )
        async with producer:
            await producer.queues(TOPIC)
            await eventually(lambda: len(broker.beats) == 1)
            for _ in range(9):  # brokers drop a client after 120 s without one
                await clock.advance_async(seconds=10)
            assert 3 <= len(broker.beats) <= 4


async def test_a_lost_connection_and_a_new_group_bring_the_next_heartbeat_forward() -> None:
    clock = TestClock()
    async with (
        one_of_two_is_dead(clock) as (namesrv, broker),
        Producer("first", namesrv, clock=clock, instance_name="shared") as first,
    ):
        await first.queues(TOPIC)
        await eventually(lambda: broker.beats == [["first"]])
        broker.connections[0].abort("as the test wants it")
        await eventually(lambda: broker.beats == [["first"]] * 2)
        async with Producer("second", namesrv, clock=clock, instance_name="shared") as second:
            await second.send(Message(topic=TOPIC, body=b"x"))
            while len(broker.beats) < 3:
                await clock.advance_async(seconds=1)
            assert broker.beats[2] == ["first", "second"]
