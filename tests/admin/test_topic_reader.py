"""Reading what a topic holds, without a group."""

from __future__ import annotations

import pytest

from pyromq import Message, Producer
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster


async def test_all_queues_of_all_brokers_are_read_in_order(pair: LocalCluster, api: BrokerApi, topic: str) -> None:
    for broker in pair.brokers:
        await api.create_topic(broker.address, topic, 2)
    async with Producer("filling", pair.namesrv, clock=pair.clock) as producer:
        for queue in await producer.queues(topic):
            for number in range(3):
                await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
        reader = await TopicReader.open(api, topic)
        found: dict[MessageQueue, list[bytes]] = {}
        async for message in reader.read():
            queue = MessageQueue(topic, message.broker_name or "", message.queue_id)
            found.setdefault(queue, []).append(message.body)
            if len(found) == 1:  # later messages are not read
                await producer.send(Message(topic=topic, body=b"late"), queue=queue)
    assert list(found) == reader.queues
    assert set(map(tuple, found.values())) == {(b"0", b"1", b"2")}
    assert await reader.ends(reader.queues[1]) == (0, 3)


async def test_a_topic_that_no_broker_has_is_an_error(api: BrokerApi) -> None:
    with pytest.raises(NoRoute, match="nowhere"):
        await TopicReader.open(api, "nowhere")
