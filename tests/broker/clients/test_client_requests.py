from __future__ import annotations

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import pytest

from pyromq.broker.clients.client_requests import ClientHandlers
from pyromq.broker.server import Broker
from pyromq.protocol.bodies import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageModel,
    SubscriptionGroupConfig,
    decode,
    encode,
)
from pyromq.protocol.codes import VERSION, RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer


async def members(peer: Peer, group: str = "billing", expect: int = 0) -> bytes:
    return (await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, expect=expect)).body


def notices(peer: Peer) -> list[str]:
    return [command.ext_fields["consumerGroup"] for command in peer.received]


async def test_a_heartbeat_registers_its_client_and_tells_our_version(peer: Peer, broker: Broker) -> None:
    answer = await peer.beat("10.0.0.9@1")
    assert answer.version == VERSION
    try:
        assert answer.ext_fields == {"pyromq": version("pyromq")}
    except PackageNotFoundError:
        assert answer.ext_fields == {"pyromq": "unknown"}
    assert await members(peer) == b'{"consumerIdList":["10.0.0.9@1"]}'


async def test_a_consumers_group_and_retry_topic_come_into_being(peer: Peer, broker: Broker) -> None:
    await peer.beat()
    assert "billing" in broker.groups.by_name
    topic = broker.topics.by_name["%RETRY%billing"]
    assert (topic.read_queues, topic.write_queues, topic.config.perm) == (1, 1, 6)


async def test_a_producer_needs_no_group(peer: Peer, broker: Broker) -> None:
    await peer.beat("p1", producer="shop")
    assert list(broker.clients.producers) == ["shop"]
    assert "shop" not in broker.groups.by_name


async def test_a_group_that_nobody_is_in_has_no_list(peer: Peer) -> None:
    await members(peer, expect=ResponseCode.SYSTEM_ERROR)


async def test_members_hear_when_one_joins_resubscribes_or_leaves(peer: Peer, broker: Broker, connect: Connect) -> None:
    await peer.beat("c1")
    await eventually(lambda: notices(peer) == ["billing"])
    other = await connect(broker)
    await other.beat("c2")
    await eventually(lambda: len(notices(peer)) == 2 and len(notices(other)) == 1)
    await other.beat("c2")
    await other.beat("c2", topics={"orders": "*", "refunds": "*"})
    await eventually(lambda: len(notices(peer)) == 3 and len(notices(other)) == 2)
    await other.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2", "producerGroup": "", "consumerGroup": "billing"})
    await eventually(lambda: len(notices(peer)) == 4)
    assert await members(peer) == b'{"consumerIdList":["c1"]}'


async def test_a_connection_that_closes_leaves_its_groups(peer: Peer, broker: Broker, connect: Connect) -> None:
    await peer.beat("c1")
    other = await connect(broker)
    await other.beat("c2")
    await eventually(lambda: len(notices(peer)) == 2)
    await other.remoting.close()
    await eventually(lambda: len(notices(peer)) == 3)
    assert await members(peer) == b'{"consumerIdList":["c1"]}'


async def test_a_client_without_heartbeats_is_dropped_and_the_others_told(
    peer: Peer, broker: Broker, connect: Connect, clock: TestClock
) -> None:
    other = await connect(broker)
    await other.beat("silent")
    await peer.beat("c1")
    await peer.send("orders", queue_id=1)
    for _ in range(4):
        await clock.advance_async(seconds=33)
        await peer.beat("c1")
        await other.send()  # traffic, but no heartbeat
    await clock.advance_async(seconds=11)
    assert await members(peer) == b'{"consumerIdList":["c1"]}'
    assert len(notices(peer)) == 2  # it joined, and the other one went: Apache's broker keeps quiet about that


async def test_nobody_is_told_where_that_is_switched_off(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(notifyConsumerIdsChangedEnable="false")
    peer = await connect(broker)
    await peer.beat("c1")
    await peer.send()
    assert notices(peer) == []


async def test_a_group_may_wish_not_to_be_told(peer: Peer, broker: Broker) -> None:
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", notify_consumer_ids_changed_enable=False))
    await peer.beat("c1")
    await peer.send()
    assert notices(peer) == []


async def test_a_group_that_cannot_be_made_still_gets_its_heartbeat_answered(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(autoCreateSubscriptionGroup="false")
    peer = await connect(broker)
    await peer.beat("c1")
    assert broker.topics.get("%RETRY%billing") is None


async def test_a_group_whose_retry_topic_would_have_too_long_a_name_gets_none(peer: Peer, broker: Broker) -> None:
    await peer.beat("c1", "g" * 125)
    assert "g" * 125 in broker.groups.by_name
    assert not [name for name in broker.topics.by_name if name.startswith("%RETRY%")]


@pytest.mark.parametrize("body", [b"", b"null", b"{", b"[1]", b"\xff\xfe"])
async def test_a_heartbeat_that_cannot_be_read_is_answered_and_the_connection_stays(peer: Peer, body: bytes) -> None:
    await peer.ask(RequestCode.HEART_BEAT, None, body, expect=ResponseCode.SYSTEM_ERROR)
    await peer.beat()


async def test_a_cpp_clients_heartbeat_is_understood(peer: Peer, broker: Broker) -> None:
    body = (
        b'{"clientID":"1-10.0.0.9@DEFAULT","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"billing",'
        b'"messageModel":1,"subscriptionDataSet":[{"subString":"a","subVersion":"1700000000000","topic":"orders"}]}]}\n'
    )
    await peer.ask(RequestCode.HEART_BEAT, None, body)
    await peer.send(body=b"mine", properties="TAGS\x01a")
    await peer.send(body=b"other", properties="TAGS\x01b")
    messages = await peer.read(sys_flag=0, subscription=None)
    assert [message.body for message in messages] == [b"mine"]


QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


async def lock(peer: Peer, client_id: str, queues: list[MessageQueue]) -> list[MessageQueue]:
    body = encode(LockBatchRequestBody("billing", client_id, queues))
    answer = await peer.ask(RequestCode.LOCK_BATCH_MQ, None, body)
    return decode(LockBatchResponseBody, answer.body).lock_ok_mq_set


async def test_queues_are_locked_for_one_client_and_free_again_after_a_while(peer: Peer, clock: TestClock) -> None:
    assert await lock(peer, "c1", QUEUES[:1]) == QUEUES[:1]
    assert await lock(peer, "c2", QUEUES) == QUEUES[1:]
    body = encode(LockBatchRequestBody("billing", "c2", QUEUES[1:]))
    await peer.ask(RequestCode.UNLOCK_BATCH_MQ, None, body)
    assert await lock(peer, "c1", QUEUES) == QUEUES
    await clock.advance_async(seconds=65)
    assert await lock(peer, "c2", QUEUES) == QUEUES


async def test_setting_the_machines_clock_frees_no_lock_and_drops_no_client(
    peer: Peer, broker: Broker, connect: Connect, clock: TestClock
) -> None:
    await peer.beat("c1")
    assert await lock(peer, "c1", QUEUES) == QUEUES
    clock.set_wall_clock(minutes=10)
    await clock.advance_async(seconds=15)  # long enough for a look at silent clients and at locks
    assert await lock(peer, "c2", QUEUES) == []
    assert await members(peer) == b'{"consumerIdList":["c1"]}'
    clock.set_wall_clock(minutes=-20)
    await clock.advance_async(seconds=65)
    assert await lock(peer, "c2", QUEUES) == QUEUES


async def test_a_heartbeat_of_many_groups_is_registered_in_small_steps(peer: Peer, broker: Broker) -> None:
    await peer.beat("first")
    (connection,) = broker.service.connections
    groups = [
        ConsumerData(
            group_name=f"group-{number}",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=[],
        )
        for number in range(100)
    ]
    data = HeartbeatData(client_id="many", producer_data_set=[], consumer_data_set=groups)
    handlers = ClientHandlers(broker.service.parts, "")
    steps = handlers._register(data, request(RequestCode.HEART_BEAT), connection)
    known = []
    with suppress(StopIteration):
        while True:
            known.append(len(broker.service.parts.clients.consumers))
            next(steps)
    assert known[-1] >= 100
    assert max(after - before for before, after in pairwise(known)) == 1
