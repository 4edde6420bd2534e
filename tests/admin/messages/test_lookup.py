"""One message by its id, whoever gave it that."""

from __future__ import annotations

import socket

import pytest

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.admin.messages import lookup
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError, QueryNotFound, TopicNotFound
from pyromq.protocol.messages.hosts import encode_host
from pyromq.protocol.messages.message_id import decode_offset_id, encode_offset_id
from pyromq.testing import LocalCluster


async def test_both_kinds_of_ids_are_found_with_and_without_a_topic(
    pair: LocalCluster, api: BrokerApi, admin: AdminClient, topic: str
) -> None:
    for broker in pair.brokers:
        await api.create_topic(broker.address, topic, 1)
    async with Producer("filling", pair.namesrv, clock=pair.clock) as producer:
        for queue in await producer.queues(topic):
            sent = await producer.send(Message(topic=topic, body=queue.broker_name.encode()), queue=queue)
            assert sent.message_id != sent.offset_message_id
            for message_id in (sent.message_id, sent.offset_message_id):
                for given in (topic, None):
                    found = await admin.messages.get(message_id, given)
                    assert found.body == queue.broker_name.encode()
                    assert found.queue == queue
    for broker in pair.brokers:
        await api.create_topic(broker.address, f"other-{topic}", 1)
    with pytest.raises(QueryNotFound, match=f"no message of topic 'other-{topic}' has the id {sent.offset_message_id}"):
        await admin.messages.get(sent.offset_message_id, f"other-{topic}")


@pytest.mark.parametrize("message_id", ["nonsense", "", "7F00000100002A9F0000000000FFFFFF", "ü" * 32, "0" * 5000])
async def test_an_id_that_no_message_has_is_said_so(admin: AdminClient, message_id: str) -> None:
    with pytest.raises(QueryNotFound, match="no message of any topic has the id"):
        await admin.messages.get(message_id)


async def test_an_id_with_another_address_makes_nobody_connect_there(admin: AdminClient) -> None:
    """Whoever shows an id to an operator would have the console knock at any port of its network."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        stranger.setblocking(False)
        message_id = encode_offset_id(encode_host("127.0.0.1", stranger.getsockname()[1]), 0)
        with pytest.raises(QueryNotFound):
            await admin.messages.get(message_id)
        with pytest.raises(BlockingIOError):
            stranger.accept()


async def test_a_topic_that_nobody_has_is_said_so(admin: AdminClient) -> None:
    with pytest.raises(TopicNotFound, match="no broker has the topic 'nowhere'"):
        await admin.messages.get("7F00000100002A9F0000000000FFFFFF", "nowhere")


async def test_among_very_many_topics_one_must_be_named(admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_TOPICS", -1)
    with pytest.raises(ClientError, match=r"there are [\d,]+ topics: name the one of message abc"):
        await admin.messages.get("abc")


async def test_the_place_may_name_a_broker_that_is_a_slave_now() -> None:
    with LocalCluster(1, slaves=1) as cluster:
        async with (
            Producer("filling", cluster.namesrv, clock=cluster.clock) as producer,
            AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
        ):
            sent = await producer.send(Message(topic="orders", body=b"kept"))
            _, physical_offset = decode_offset_id(sent.offset_message_id)
            host, _, port = cluster.slaves[0].address.rpartition(":")
            by_slave = encode_offset_id(encode_host(host, int(port)), physical_offset)
            found = await admin.messages.get(by_slave, "orders")
            assert (found.body, found.broker_name) == (b"kept", "broker-a")
            assert found.offset_message_id == sent.offset_message_id
