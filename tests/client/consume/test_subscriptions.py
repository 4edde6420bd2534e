"""Subscriptions by property: which messages come, and which expressions are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq import blocking
from pyromq.client.consume.subscriptions import Expression, Sql, subscribe
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, LocalProtocolError
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import read


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
        ("amount > 'x'", LocalProtocolError, "cannot be ordered"),
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


@pytest.mark.parametrize(
    ("subscriptions", "right"),
    [
        ("orders", "{'orders': '*'}, not 'orders'"),
        ("a,b", "{'a': '*', 'b': '*'}, not 'a,b'"),
        (["a", "b"], "{'a': '*', 'b': '*'}, not ['a', 'b']"),
        (("a",), "{'a': '*'}, not ('a',)"),
        ([], "{'orders': '*'}, not []"),
        ([1], "{'orders': '*'}, not [1]"),
        ({}, "{'orders': '*'}, or leave it out"),
    ],
)
def test_what_is_no_dict_of_topics_is_refused_with_the_right_form(subscriptions: Any, right: str) -> None:
    with pytest.raises(ClientError) as push:
        PushConsumer("billing", "127.0.0.1:1", subscriptions, print)
    with pytest.raises(ClientError) as poll:
        LitePullConsumer("billing", "127.0.0.1:1", subscriptions)
    assert right in str(push.value)
    assert right in str(poll.value)


@pytest.mark.parametrize("expression", ["a,b", "a, b", "a;b", "a|b", "a && b", "a || b, c"])
def test_tags_joined_by_another_sign_are_refused_with_the_right_form(expression: str) -> None:
    with pytest.raises(ClientError, match=r"tags are separated by \|\|") as raised:
        subscribe("orders", expression)
    assert ("'a || b || c'" if "c" in expression else "'a || b'") in str(raised.value)


def test_a_tag_may_contain_a_single_ampersand() -> None:
    assert subscribe("orders", "R&D || sales").tags == ("R&D", "sales")


def test_an_odd_tag_can_be_wanted_by_sql() -> None:
    with pytest.raises(ClientError) as raised:
        subscribe("orders", "a,b")
    hint = str(raised.value).partition('or Sql("')[2].partition('")')[0]
    assert subscribe("orders", Sql(hint)).expression == "TAGS = 'a,b'"
