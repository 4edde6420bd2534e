"""Permissions of topics, and topics with other queues to read than to write."""

from __future__ import annotations

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer

REFUSED = ResponseCode.NO_PERMISSION
NOTHING = ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize(("perm", "send", "pull"), [(6, 0, NOTHING), (4, REFUSED, NOTHING), (2, 0, REFUSED)])
async def test_a_topics_permission_counts_on_send_and_pull(
    peer: Peer, broker: Broker, perm: int, send: int, pull: int
) -> None:
    broker.topics.update(topic_config("orders", 2, perm=perm))
    await peer.send(expect=send)
    await peer.pull(queue_id=1, expect=pull)
    for ordered in (True, False):
        broker.topics.set_ordered({"orders"} if ordered else set())
        await peer.send(expect=send)


async def test_queues_beyond_those_for_writing_can_be_drained_and_written_by_id(peer: Peer, broker: Broker) -> None:
    config = TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=2)
    broker.topics.update(config)
    await peer.send(queue_id=7)  # a producer whose route is older
    assert len(await peer.read(queue_id=7)) == 1
    await peer.send(queue_id=8, expect=ResponseCode.SYSTEM_ERROR)
    chosen = [(await peer.send(queue_id=-1)).header(SendMessageResponseHeader).queue_id for _ in range(20)]
    assert set(chosen) <= {0, 1}


async def test_queues_that_are_not_for_reading_are_written_and_not_read(peer: Peer, broker: Broker) -> None:
    broker.topics.update(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=8))
    await peer.send(queue_id=7)
    await peer.pull(queue_id=7, expect=ResponseCode.SYSTEM_ERROR)
    await peer.pull(queue_id=1, expect=NOTHING)


async def test_a_topic_of_one_queue_keeps_all_messages_in_one_order(peer: Peer, broker: Broker) -> None:
    broker.topics.update(topic_config("orders", 1))
    for number in range(10):
        await peer.send(queue_id=-1, body=b"%d" % number)
    assert [message.body for message in await peer.read()] == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("settings", "suggested"),
    [
        ({}, 0),
        ({"accessMessageInMemoryMaxRatio": 0}, 0),  # slaves are not to be read
        ({"accessMessageInMemoryMaxRatio": 0, "slaveReadEnable": "true"}, 3),
        ({"slaveReadEnable": "true"}, 2),
    ],
)
async def test_who_is_far_behind_is_sent_to_a_slave_where_slaves_may_be_read(
    start_broker: StartBroker, connect: Connect, settings: dict[str, object], suggested: int
) -> None:
    broker = await start_broker(**settings)
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", broker_id=2, which_broker_when_consume_slowly=3))
    peer = await connect(broker)
    for _ in range(3):
        await peer.send()
    told = (await peer.pull()).header(PullMessageResponseHeader)
    assert told.suggest_which_broker_id == suggested
