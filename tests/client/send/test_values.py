"""send(topic, value): values become messages by the topic's codec."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from pyromq import blocking
from pyromq.client.send.producer import Producer
from pyromq.codecs import Json, MessagePack
from pyromq.errors import ClientError, InvalidMessage, PayloadError
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster
from tests.client.helpers import read_topic


class Order(Struct):
    id: str
    cents: int


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (Order("o-1", 5), b'{"id":"o-1","cents":5}'),
        ({"id": 1}, b'{"id":1}'),
        ("text", b"text"),
        (b"bytes", b"bytes"),
        (bytearray(b"bytes"), b"bytes"),
        (memoryview(b"bytes"), b"bytes"),
        (None, b"null"),
    ],
)
async def test_a_value_is_sent_by_the_codec(
    cluster: LocalCluster, producer: Producer, topic: str, value: object, body: bytes
) -> None:
    await producer.send(topic, value, tags="created", keys="o-1", properties={"region": "north"})
    (found,) = await read_topic(cluster, topic, 1)
    assert (found.body, found.tags, found.keys, found.properties["region"]) == (body, "created", ("o-1",), "north")


async def test_a_topic_may_have_its_own_codec(cluster: LocalCluster, topic: str) -> None:
    async with Producer("test-producer", cluster.namesrv, codec={topic: MessagePack()}) as producer:
        assert producer.message("another", [1]).body == Json().encode([1])
        await producer.send_oneway(topic, [1])
        await producer.send_batch([producer.message(topic, [1]), producer.message(topic, [1], keys=["a"])])
    found = await read_topic(cluster, topic, 3)
    assert [message.body for message in found] == [MessagePack().encode([1])] * 3


def test_the_blocking_producer_sends_values_too(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("test-producer", cluster.namesrv) as producer:
        result = producer.send(topic, Order("o-1", 5), keys="o-1")
        producer.send(producer.message(topic, {"id": 2}))
        stored = producer.find(topic, result.message_id)
    assert stored is not None
    assert stored.body == b'{"id":"o-1","cents":5}'


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        ((Message("orders", b"x"), {"id": 1}), {}, r"a Message has its body: send\(message\), or send\(topic, value\)"),
        (("orders", Message("orders", b"x")), {}, r"a Message has its topic: send\(message\), or"),
        ((Message("orders", b"x"),), {"tags": "created"}, r"belong into the Message: Message\(topic, body, tags="),
        (("orders",), {}, r"only a Message can be sent, not str: .* or send\(topic, value\)"),
        ((b"orders", {}), {}, "only a Message can be sent, not bytes"),
        (("orders", object()), {}, "a message to orders: a value of type object cannot be sent"),
    ],
)
async def test_a_wrong_call_is_refused_with_the_right_form(
    producer: Producer, arguments: Any, options: Any, reason: str
) -> None:
    for method in (producer.send, producer.send_oneway):
        with pytest.raises((InvalidMessage, PayloadError), match=reason):
            await method(*arguments, **options)


async def test_the_environment_names_the_name_servers(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
    async with Producer("test-producer") as producer:
        assert await producer.queues("TBW102")
    monkeypatch.setenv("NAMESRV_ADDR", "nonsense")
    with pytest.raises(ClientError, match="nonsense"):
        Producer("test-producer")
    Producer("test-producer", cluster.namesrv)


@pytest.mark.parametrize("namesrv", [9876, b"127.0.0.1:9876", [9876], ("127.0.0.1", 9876)])
def test_a_wrong_kind_of_address_is_refused_at_once(namesrv: Any) -> None:
    with pytest.raises(ClientError, match="namesrv= takes 'host:port', several separated by ';', or a list of them"):
        Producer("test-producer", namesrv)
