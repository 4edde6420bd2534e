from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, SerializeType
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, pull_header


def offsets(answer: RemotingCommand) -> tuple[int, int, int, int]:
    header = answer.header(PullMessageResponseHeader)
    return header.suggest_which_broker_id, header.next_begin_offset, header.min_offset, header.max_offset


async def test_a_pull_brings_messages_and_where_to_go_on(peer: Peer) -> None:
    for number in range(5):
        await peer.send(body=b"%d" % number)
    answer = await peer.pull(max_msg_nums=3)
    assert answer.remark == "FOUND"
    assert offsets(answer) == (0, 3, 0, 5)
    assert [message.body for message in await peer.read(queue_offset=3)] == [b"3", b"4"]


async def test_only_wanted_tags_come_and_the_offset_passes_the_others(peer: Peer) -> None:
    for tag in ("a", "b", "c", "a"):
        await peer.send(body=tag.encode(), properties=f"TAGS\x01{tag}")
    assert [message.body for message in await peer.read(subscription="a || c")] == [b"a", b"c", b"a"]
    answer = await peer.pull(subscription="z", expect=ResponseCode.PULL_RETRY_IMMEDIATELY)
    assert (answer.remark, offsets(answer)) == ("NO_MATCHED_MESSAGE", (0, 4, 0, 4))


@pytest.mark.parametrize(
    ("queue_id", "offset", "code", "remark", "next_offset"),
    [
        (0, 2, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 2),
        (0, 9, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 2),
        (0, -1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
        (1, 0, ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0),
        (1, 5, ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE", 0),
    ],
)
async def test_each_status_of_the_store_has_its_code(
    peer: Peer, queue_id: int, offset: int, code: int, remark: str, next_offset: int
) -> None:
    await peer.send()
    await peer.send()
    answer = await peer.pull(queue_id=queue_id, queue_offset=offset, expect=code)
    assert answer.remark == remark
    assert offsets(answer)[1] == next_offset
    assert answer.body == b""


async def test_stock_limits_hold_unless_the_caller_sets_its_own(peer: Peer) -> None:
    for _ in range(40):
        await peer.send(body=bytes(10_000))
    assert len(await peer.read(max_msg_nums=1000)) == 25  # 256 KiB
    assert len(await peer.read(max_msg_nums=1000, pyromq_max_bytes=8 << 20)) == 40
    assert len(await peer.read(max_msg_nums=30, pyromq_max_bytes=8 << 20)) == 30
    assert len(await peer.read(max_msg_nums=1000, pyromq_max_bytes=30_000)) == 2
    assert len(await peer.read(max_msg_nums=1000, pyromq_max_bytes=1)) == 1
    assert len(await peer.read(max_msg_nums=1000, pyromq_max_bytes=-1)) == 25


async def test_no_caller_gets_more_than_8_mib_at_once(peer: Peer) -> None:
    for _ in range(5):
        await peer.send(body=bytes(2 << 20))
    answer = await peer.pull(max_msg_nums=1000, pyromq_max_bytes=1 << 30)
    assert 6 << 20 < len(answer.body) <= 8 << 20


async def test_binary_headers_are_answered_in_kind(peer: Peer) -> None:
    await peer.send()
    answer = await peer.ask(11, pull_header(), serialize=SerializeType.ROCKETMQ)
    assert answer.serialize is SerializeType.ROCKETMQ
    assert offsets(answer) == (0, 1, 0, 1)


async def test_a_pull_can_commit_on_its_way(peer: Peer, broker: Broker) -> None:
    await peer.send()
    await peer.pull(sys_flag=4 | 1, commit_offset=1)
    assert broker.offsets.get("billing", "orders", 0) == 1
    await peer.pull(sys_flag=4, commit_offset=0)
    assert broker.offsets.get("billing", "orders", 0) == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "nonsense"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "write-only"}, ResponseCode.NO_PERMISSION),
        ({"queue_id": 4}, ResponseCode.SYSTEM_ERROR),
        ({"queue_id": -1}, ResponseCode.SYSTEM_ERROR),
        ({"consumer_group": "no@group"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumer_group": "switched-off"}, ResponseCode.NO_PERMISSION),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"subscription": "a > 5", "expression_type": "SQL92"}, ResponseCode.SYSTEM_ERROR),
        ({"sys_flag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"sys_flag": 0, "consumer_group": "online"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        (
            {"sys_flag": 0, "consumer_group": "online", "topic": "other", "sub_version": 9},
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ),
        ({"sys_flag": 0, "consumer_group": "loud"}, ResponseCode.NO_PERMISSION),
    ],
)
async def test_a_pull_is_refused_with_rocketmqs_code(
    peer: Peer, broker: Broker, fields: dict[str, Any], code: int
) -> None:
    await peer.send()
    await peer.send("other")
    broker.topics.update(topic_config("write-only", 4, perm=2))
    broker.groups.update(SubscriptionGroupConfig(group_name="switched-off", consume_enable=False))
    broker.groups.update(SubscriptionGroupConfig(group_name="loud", consume_broadcast_enable=False))
    await peer.beat("c1", "online", {"other": "*"}, version=5)
    await peer.beat("c1", "loud", {"orders": "*"}, model=MessageModel.BROADCASTING)
    answer = await peer.pull(fields.pop("topic", "orders"), expect=code, **fields)
    assert answer.remark


async def test_the_first_failing_check_decides(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(brokerPermission=2, autoCreateSubscriptionGroup="false")
    peer = await connect(broker)
    await peer.pull("nonsense", expect=ResponseCode.NO_PERMISSION)  # of the broker, before group and topic


async def test_an_unknown_group_is_refused_where_groups_are_not_created_by_use(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = await connect(await start_broker(autoCreateSubscriptionGroup="false"))
    await peer.pull("nonsense", expect=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    await peer.pull("BenchmarkTest", consumer_group="TOOLS_CONSUMER", expect=ResponseCode.PULL_NOT_FOUND)


async def test_without_an_expression_the_heartbeat_says_what_is_wanted(peer: Peer) -> None:
    await peer.send(body=b"a", properties="TAGS\x01a")
    await peer.send(body=b"b", properties="TAGS\x01b")
    await peer.beat("c1", "billing", {"orders": "b"})
    assert [message.body for message in await peer.read(sys_flag=0, subscription=None, sub_version=1)] == [b"b"]


async def test_what_a_group_was_given_is_counted(peer: Peer, broker: Broker) -> None:
    for _ in range(3):
        await peer.send()
    answer = await peer.pull()
    count = broker.stats.gets["orders", "billing"]
    assert (count.messages, count.bytes) == (3, len(answer.body))
