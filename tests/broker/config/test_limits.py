"""Limits that operators set, met by a running broker."""

from __future__ import annotations

import pytest

from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.names import BUILT_IN_GROUPS
from tests.broker.conftest import Connect, StartBroker

TOPIC = {
    "defaultTopic": "TBW102",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


def commit(group: str) -> dict[str, str]:
    return {"consumerGroup": group, "topic": "orders", "queueId": "0", "commitOffset": "1"}


@pytest.mark.parametrize(("settings", "most"), [({}, 1024), ({"pyromqMaxQueuesPerTopic": "4000"}, 4000)])
async def test_a_topic_has_so_many_queues(
    start_broker: StartBroker, connect: Connect, settings: dict[str, str], most: int
) -> None:
    broker = await start_broker(**settings)
    peer = await connect(broker)
    for count, code in ((most, ResponseCode.SUCCESS), (most + 1, ResponseCode.SYSTEM_ERROR)):
        counts = {"topic": f"t{count}", "readQueueNums": str(count), "writeQueueNums": str(count)}
        answer = await peer.ask(Code.UPDATE_AND_CREATE_TOPIC, {**TOPIC, **counts}, expect=code)
    assert f"0 to {most} queues (pyromqMaxQueuesPerTopic)" in (answer.remark or "")
    assert broker.figures().varz()["requests_over_limit"] == {"pyromqMaxQueuesPerTopic": 1}


async def test_offsets_are_kept_of_groups_that_exist_or_may_be_created(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(autoCreateSubscriptionGroup="false")
    peer = await connect(broker)
    await peer.send()
    await peer.ask(Code.UPDATE_CONSUMER_OFFSET, commit("new"), expect=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    await peer.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body=b'{"groupName":"new"}')
    await peer.ask(Code.UPDATE_CONSUMER_OFFSET, commit("new"))
    assert broker.offsets.keys == ["orders@new"]


async def test_no_more_groups_than_allowed_come_to_be_by_commits(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(pyromqMaxGroups=len(BUILT_IN_GROUPS) + 2)
    peer = await connect(broker)
    await peer.send()
    for name in ("g1", "g2"):
        await peer.ask(Code.UPDATE_CONSUMER_OFFSET, commit(name))
    answer = await peer.ask(Code.UPDATE_CONSUMER_OFFSET, commit("g3"), expect=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    assert "pyromqMaxGroups" in (answer.remark or "")
    assert sorted(broker.offsets.keys) == ["orders@g1", "orders@g2"]


async def test_a_large_heartbeat_is_refused_unread(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(pyromqMaxClientBodyBytes="2048")
    peer = await connect(broker)
    await peer.ask(Code.HEART_BEAT, {}, body=b'{"clientID":"c"}' + b" " * 2000)
    for code in (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.CHECK_CLIENT_CONFIG):
        answer = await peer.ask(code, {}, body=b"nonsense" * 300, expect=ResponseCode.SYSTEM_ERROR)
        assert "the limit is 2048 (pyromqMaxClientBodyBytes)" in (answer.remark or "")
