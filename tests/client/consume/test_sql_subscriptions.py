"""Consumers that filter by property: what comes, what is refused and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pyromq import blocking
from pyromq.client.consume.filter_support import OLDEST_VERSION
from pyromq.client.consume.subscriptions import Expression, Sql
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError, ClientError, LocalProtocolError, NotSupported
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.messages.message import Message
from pyromq.remoting.connection import Connection, Handler
from pyromq.remoting.server import RemotingServer
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import read, register_broker


async def send_amounts(producer: Producer, topic: str, amounts: range) -> None:
    messages = [Message(topic=topic, body=b"%d" % number, properties={"amount": str(number)}) for number in amounts]
    await asyncio.gather(*[producer.send(message) for message in messages])


async def test_only_messages_that_match_come_and_the_offsets_pass_the_others(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await send_amounts(producer, topic, range(100))
    subscriptions: dict[str, Expression] = {topic: Sql("amount >= 95 OR amount = 3")}
    async with LitePullConsumer(group, cluster.namesrv, subscriptions, start_from="earliest") as consumer:
        found = await read(consumer, 6)
        assert sorted(int(message.body) for message in found) == [3, 95, 96, 97, 98, 99]
        await eventually(lambda: sum(consumer.position(queue) or 0 for queue in consumer.assignment) == 100)
        assert await consumer.poll(timeout=0.05) == []


async def test_a_message_that_matches_comes_at_once(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await send_amounts(producer, topic, range(4))
    async with LitePullConsumer(group, cluster.namesrv, {topic: Sql("amount > 50")}) as consumer:
        await eventually(lambda: all(consumer.position(queue) is not None for queue in consumer.assignment))
        waiting = asyncio.create_task(consumer.poll(timeout=20))
        await send_amounts(producer, topic, range(40, 44))
        await send_amounts(producer, topic, range(60, 61))
        assert [message.body for message in await asyncio.wait_for(waiting, 10)] == [b"60"]


async def test_queues_assigned_by_hand_are_filtered_too(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await send_amounts(producer, topic, range(20))
    async with LitePullConsumer(group, cluster.namesrv, start_from="earliest") as consumer:
        await consumer.assign(await consumer.queues(topic), Sql("amount BETWEEN 5 AND 7"))
        assert sorted(int(message.body) for message in await read(consumer, 3)) == [5, 6, 7]


async def test_heartbeats_tell_the_expression_and_no_tags(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await send_amounts(producer, topic, range(1))
    async with LitePullConsumer(group, cluster.namesrv, {topic: Sql("amount > 10")}):
        server = cluster.brokers[0].server
        assert server is not None
        data = server.clients.consumers[group].subscriptions[topic].data
        assert (data.sub_string, data.expression_type, data.tags_set, data.code_set) == ("amount > 10", "SQL92", [], [])
        assert data.sub_version > 0


def test_the_blocking_consumer_takes_expressions_as_well(cluster: LocalCluster, topic: str, group: str) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic=topic, body=b"%d" % number, properties={"amount": str(number)}))
    with blocking.LitePullConsumer(
        group, cluster.namesrv, {topic: Sql("amount = 3")}, start_from="earliest"
    ) as consumer:
        assert [message.body for message in consumer.poll(timeout=10)] == [b"3"]


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind", "reason"),
    [
        ("amount >", LocalProtocolError, "SQL92: expected a property"),
        ("amount > 'x'", LocalProtocolError, "no place in an order"),
        ("a = 1 b = 2", ClientError, "brokers ignore 'b = 2'"),
        ("a CONTAINS 'x'", ClientError, "brokers ignore"),
        ("", ClientError, "expected tags such as"),
        (" ", ClientError, "expected tags such as"),
    ],
)
def test_a_wrong_expression_is_refused_before_anybody_is_asked(
    expression: str, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        LitePullConsumer("group", "127.0.0.1:1", {"orders": Sql(expression)})


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
