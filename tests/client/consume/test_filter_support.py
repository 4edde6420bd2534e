"""Whether a broker can filter by an expression: it is asked before the first pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyromq.client.consume.filter_support import OLDEST_VERSION
from pyromq.client.consume.subscriptions import Sql
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError, NotSupported
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.messages.message import Message
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.server import RemotingServer
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import register_broker


async def send_amounts(producer: Producer, topic: str, amounts: range) -> None:
    messages = [Message(topic=topic, body=b"%d" % number, properties={"amount": str(number)}) for number in amounts]
    await asyncio.gather(*[producer.send(message) for message in messages])


async def test_a_broker_that_does_not_filter_by_property_stops_the_start(topic: str) -> None:
    with LocalCluster(settings={"enablePropertyFilter": False}) as cluster:
        async with Producer("shop", cluster.namesrv) as producer:
            await send_amounts(producer, topic, range(1))
        consumer = LitePullConsumer("audit", cluster.namesrv, {topic: Sql("amount > 10")})
        with pytest.raises(BrokerError, match="enablePropertyFilter") as caught:
            await consumer.start()
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
        assert cluster.brokers[0].server is not None
        assert "audit" not in cluster.brokers[0].server.clients.consumers
        async with LitePullConsumer("audit", cluster.namesrv) as reader:
            with pytest.raises(BrokerError, match="enablePropertyFilter"):
                await reader.assign(await reader.queues(topic), Sql("amount > 10"))
            assert reader.assignment == []


class OtherBroker:
    """A broker of another version, as far as filters go; counts the checks and pulls that it is asked for."""

    def __init__(self, code: int, version: int) -> None:
        self.code = code
        self.checks = self.pulls = 0
        self._version = version

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.CHECK_CLIENT_CONFIG: self._check,
            RequestCode.QUERY_CONSUMER_OFFSET: lambda command, _: response(command, header={"offset": "0"}),
            RequestCode.PULL_MESSAGE: self._pull,
        }

    def _check(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        self.checks += 1
        answer = response(command, self.code, "as the script says")
        answer.version = self._version
        return answer

    def _pull(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        self.pulls += 1
        return response(command, ResponseCode.SYSTEM_ERROR, "there is nothing here")


@asynccontextmanager
async def serving(cluster: LocalCluster, topic: str, other: OtherBroker) -> AsyncIterator[None]:
    """Have a broker of another version as the only one of a topic."""
    server = RemotingServer(other.handlers(), host="127.0.0.1", port=0, clock=cluster.clock)
    async with server, await BrokerApi.connect(cluster.namesrv) as api:
        await register_broker(api, f"other-{topic}", f"127.0.0.1:{server.port}", topic)
        yield


@pytest.mark.parametrize(
    ("code", "version", "kind", "reason"),
    [
        (ResponseCode.SUCCESS, OLDEST_VERSION - 1, NotSupported, "too old to filter by SQL92"),
        (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 121, NotSupported, "too old to filter by SQL92"),
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, 399, BrokerError, "as the script says"),
    ],
)
async def test_a_broker_is_asked_before_anything_is_pulled(
    cluster: LocalCluster, topic: str, group: str, code: int, version: int, kind: type[Exception], reason: str
) -> None:
    other = OtherBroker(code, version)
    async with serving(cluster, topic, other):
        with pytest.raises(kind, match=reason):
            await LitePullConsumer(group, cluster.namesrv, {topic: Sql("amount > 10")}).start()
    assert other.pulls == 0


async def test_a_broker_that_is_busy_is_asked_again_before_the_first_pull(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    other = OtherBroker(ResponseCode.SYSTEM_BUSY, 399)
    async with serving(cluster, topic, other), LitePullConsumer(group, cluster.namesrv) as consumer:
        queues = await consumer.queues(topic)
        await consumer.assign(queues, Sql("amount > 10"))
        await eventually(lambda: other.checks > 1 + len(queues))
        assert other.pulls == 0
        other.code = ResponseCode.SUCCESS
        await eventually(lambda: other.pulls > 0)
