"""What is refused, in RocketMQ's order and with its codes."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.batch import BatchElement, encode_batch
from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header


@pytest.mark.parametrize(
    ("topic", "fields", "code"),
    [
        ("", {}, ResponseCode.SYSTEM_ERROR),
        ("no blanks", {}, ResponseCode.SYSTEM_ERROR),
        ("../../x", {}, ResponseCode.SYSTEM_ERROR),
        ("t" * 128, {}, ResponseCode.SYSTEM_ERROR),
        ("SCHEDULE_TOPIC_XXXX", {}, ResponseCode.NO_PERMISSION),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {}, ResponseCode.NO_PERMISSION),
        ("SELF_TEST_TOPIC", {}, ResponseCode.NO_PERMISSION),
        ("orders", {"default_topic": "nonsense"}, ResponseCode.TOPIC_NOT_EXIST),
        ("orders", {"queue_id": 4}, ResponseCode.SYSTEM_ERROR),
        ("orders", {"default_topic_queue_nums": 0, "queue_id": -1}, ResponseCode.SYSTEM_ERROR),
        ("%RETRY%no group@", {}, ResponseCode.SYSTEM_ERROR),
        ("orders", {"properties": "TRAN_MSG\x01true"}, ResponseCode.MESSAGE_ILLEGAL),
        ("orders", {"sys_flag": 4}, ResponseCode.NO_PERMISSION),
        ("orders", {"properties": "DELAY\x01soon"}, ResponseCode.SYSTEM_ERROR),
        ("orders", {"properties": "TIMER_DELIVER_MS\x01soon"}, ResponseCode.MESSAGE_ILLEGAL),
        ("orders", {"properties": "K\x01" + "x" * 32_767}, ResponseCode.MESSAGE_ILLEGAL),
        ("orders", {"properties": "K\x01" + "汉" * 32_768}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_a_send_is_refused_with_rocketmqs_code(
    peer: Peer, broker: Broker, topic: str, fields: dict[str, Any], code: int
) -> None:
    answer = await peer.send(topic, expect=code, **fields)
    assert answer.remark
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    assert broker.store.max_physical_offset == 0


async def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_taken(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = await connect(await start_broker(maxMessageSize=1000))
    await peer.send(body=bytes(1000))
    answer = await peer.send(body=bytes(1001), expect=ResponseCode.MESSAGE_ILLEGAL)
    assert answer.remark is not None
    assert "1000" in answer.remark  # the limit


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", encode_batch([BatchElement(0, bytes(600)), BatchElement(0, bytes(600))])],
    ids=["empty", "garbage", "too large"],
)
async def test_a_bad_batch_is_refused_whole(start_broker: StartBroker, connect: Connect, body: bytes) -> None:
    broker = await start_broker(maxMessageSize=1000)
    peer = await connect(broker)
    await peer.send()
    expected = ResponseCode.MESSAGE_ILLEGAL if len(body) > 1000 else ResponseCode.SYSTEM_ERROR
    end = broker.store.max_physical_offset
    await peer.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True), body, expect=expected)
    assert broker.store.max_physical_offset == end


async def test_a_batch_with_a_delayed_message_is_refused_whole(peer: Peer) -> None:
    body = encode_batch([BatchElement(0, b"a"), BatchElement(0, b"b", b"DELAY\x012")])
    await peer.ask(RequestCode.SEND_BATCH_MESSAGE, send_header(batch=True), body, expect=ResponseCode.MESSAGE_ILLEGAL)
    assert (await peer.pull(expect=ResponseCode.PULL_NOT_FOUND)).body == b""


async def test_a_delayed_retry_waits_as_others_do(peer: Peer, broker: Broker) -> None:
    await peer.beat()
    await peer.send("%RETRY%billing", properties="DELAY\x013")
    assert broker.store.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1


async def test_a_topic_without_write_permission_takes_nothing(peer: Peer, broker: Broker) -> None:
    # Apache's broker does not look at this; a producer with an old route would get its message stored.
    broker.topics.update(topic_config("orders", 4, perm=4))
    await peer.send(expect=ResponseCode.NO_PERMISSION)
    broker.topics.update(topic_config("orders", 4, perm=2))
    await peer.send()


async def test_a_broker_without_write_permission_refuses_ordered_topics_only(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(brokerPermission=4)
    peer = await connect(broker)
    await peer.send("plain")
    broker.topics.update(topic_config("ordered", 4))
    broker.topics.set_ordered({"ordered"})
    await peer.send("ordered", expect=ResponseCode.NO_PERMISSION)


async def test_an_ordered_topic_takes_messages_as_others_do(peer: Peer, broker: Broker) -> None:
    broker.topics.update(topic_config("ordered", 4))
    broker.topics.set_ordered({"ordered"})
    await peer.send("ordered", queue_id=3)


async def test_without_auto_creation_an_unknown_topic_is_not_made(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(autoCreateTopicEnable="false")
    peer = await connect(broker)
    await peer.send(expect=ResponseCode.TOPIC_NOT_EXIST)
    assert broker.topics.get("orders") is None


async def test_auto_creation_ends_at_its_limit(start_broker: StartBroker, connect: Connect) -> None:
    peer = await connect(await start_broker(pyromqMaxTopics=10))
    await peer.send("first")
    await peer.send("second")
    answer = await peer.send("third", expect=ResponseCode.TOPIC_NOT_EXIST)
    assert "pyromqMaxTopics" in (answer.remark or "")
    await peer.send("first")


async def test_a_retry_of_an_unknown_group_is_refused_where_groups_are_not_created_by_use(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = await connect(await start_broker(autoCreateSubscriptionGroup="false"))
    await peer.send("%RETRY%billing", expect=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


async def test_sends_wait_for_the_time_that_was_configured(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    broker = await start_broker(startAcceptSendRequestTimeStamp=clock.now_ms() + 3_600_000)
    peer = await connect(broker)
    await peer.send(expect=ResponseCode.SYSTEM_ERROR)
    await clock.advance_async(hours=2)
    await peer.send()


@pytest.mark.parametrize("missing", ["b", "e", "f"])
async def test_a_header_that_lacks_a_field_is_answered(peer: Peer, missing: str) -> None:
    fields = {"a": "g", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
    del fields[missing]
    await peer.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x", expect=ResponseCode.SYSTEM_ERROR)
    await peer.send()
