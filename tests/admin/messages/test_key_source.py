"""All messages of a key, page by page, from brokers of both kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from pyromq import Message, Producer
from pyromq.admin.messages.key_source import KeySource
from pyromq.admin.messages.search import TimeRange
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import BrokerError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.pull import QueryMessageRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster

ALWAYS = TimeRange()
COUNT = 150


async def fill(cluster: LocalCluster, topic: str, between: Callable[[int], float]) -> None:
    """Send messages with one key; `between` returns the seconds after each."""
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        for number in range(COUNT):
            await producer.send(Message(topic=topic, body=b"%d" % number, keys=["popular"]))
            if seconds := between(number):
                await cluster.clock.advance_async(seconds=seconds)


async def found(cluster: LocalCluster, topic: str, time: TimeRange = ALWAYS) -> list[int]:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        source = KeySource(api, cluster.brokers[0].address, "broker-a", topic, "popular", time)
        messages: list[MessageExt] = []
        while block := await source.next_block():
            messages += block
        assert {message.broker_name for message in messages} == {"broker-a"}
        return [int(message.body) for message in messages]


@contextmanager
def as_apache(cluster: LocalCluster) -> Iterator[None]:
    """Let the broker ignore what only ours know: the place to go on from, and times within a second."""
    server = cluster.brokers[0].server
    assert server is not None
    query = server.handlers[RequestCode.QUERY_MESSAGE]

    async def forgetful(request: RemotingCommand, connection: Connection) -> RemotingCommand:
        header = request.header(QueryMessageRequestHeader)
        end_ms = min(header.end_timestamp // 1000 * 1000 + 999, 2**63 - 1)
        header = replace(header, pyromq_before=None, end_timestamp=end_ms)
        answer = query(replace(request, ext=header), connection)
        assert inspect.isawaitable(answer)
        found = await answer
        assert isinstance(found, RemotingCommand)
        return found

    with patch.dict(server.handlers, {RequestCode.QUERY_MESSAGE: forgetful}):
        yield


async def test_all_are_found_even_if_they_came_within_one_second(cluster: LocalCluster, topic: str) -> None:
    await fill(cluster, topic, lambda number: 0.0)
    assert await found(cluster, topic) == list(range(COUNT))[::-1]


async def test_apaches_broker_is_asked_by_time(cluster: LocalCluster, topic: str) -> None:
    await fill(cluster, topic, lambda number: 1.5 if number % 20 == 19 else 0.0)
    with as_apache(cluster):
        assert await found(cluster, topic) == list(range(COUNT))[::-1]


async def test_more_than_apaches_broker_can_show_is_an_error_and_no_gap(cluster: LocalCluster, topic: str) -> None:
    async with Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        await producer.send(Message(topic=topic, body=b"0", keys=["popular"]))
        await cluster.clock.advance_async(seconds=1.5)
        # A batch, so that all have one time however slow the machine is.
        await producer.send_batch(
            [Message(topic=topic, body=b"%d" % number, keys=["popular"]) for number in range(1, COUNT)]
        )
    with as_apache(cluster), pytest.raises(BrokerError, match="more than 64 messages have this key at one time"):
        await found(cluster, topic)
