from __future__ import annotations

import shutil
import tempfile
from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.bodies import (
    ConsumerConnection,
    ConsumeStats,
    GroupList,
    KVTable,
    ProducerConnection,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicStatsTable,
    decode,
    encode,
)
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import TestClock
from tests.broker.helpers import Peer

ALL_FIGURES = """
bootTimestamp runtime putMessageEntireTimeMax putMessageTimesTotal putMessageFailedTimes putMessageSizeTotal
putMessageDistributeTime putMessageAverageSize dispatchMaxBuffer getMessageEntireTimeMax putTps getFoundTps getMissTps
getTotalTps getTransferedTps commitLogDiskRatio consumeQueueDiskRatio commitLogMinOffset commitLogMaxOffset
brokerVersionDesc brokerVersion msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow sendThreadPoolQueueSize
sendThreadPoolQueueCapacity pullThreadPoolQueueSize pullThreadPoolQueueCapacity queryThreadPoolQueueSize
queryThreadPoolQueueCapacity EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity dispatchBehindBytes
pageCacheLockTimeMills sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills earliestMessageTimeStamp startAcceptSendRequestTimeStamp
remainTransientStoreBufferNumbs remainHowManyDataToFlush commitLogDirCapacity putLatency99 putLatency999
"""
CLUSTER_LIST_NEEDS = """
putTps getTransferedTps sendThreadPoolQueueSize pullThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio
brokerVersionDesc msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
"""


def new_topic(name: str = "orders", **fields: Any) -> dict[str, str]:
    values = {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": 8,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": "false",
    }
    return {key: str(value) for key, value in (values | fields).items()}


async def test_a_topic_is_created_changed_and_listed(peer: Peer, broker: Broker) -> None:
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic())
    body = (await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    config = decode(TopicConfigSerializeWrapper, body).topic_config_table["orders"]
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (8, 4, 6)
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic(perm=4))
    await peer.send(expect=ResponseCode.NO_PERMISSION)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "no blanks"},
        {"name": "TBW102"},
        {"name": "DefaultCluster"},
        {"name": "rmq_sys_mine"},
        {"readQueueNums": -1},
        {"writeQueueNums": 1_000_000},
        {"perm": 9},
        {"topicFilterType": "NONE"},
    ],
)
async def test_a_topic_that_may_not_be_is_refused(peer: Peer, broker: Broker, fields: dict[str, Any]) -> None:
    before = broker.topics.snapshot()
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, new_topic(**fields), expect=ResponseCode.SYSTEM_ERROR)
    assert broker.topics.snapshot() == before


async def test_the_ends_of_a_topics_queues_are_told(peer: Peer, clock: TestClock) -> None:
    await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}, expect=ResponseCode.TOPIC_NOT_EXIST)
    started_ms = clock.now_ms()
    for _ in range(3):
        await peer.send(queue_id=1)
    answer = await peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    table = decode(TopicStatsTable, answer.body).offset_table
    assert len(table) == 4
    filled = table[MessageQueue("orders", "broker-a", 1)]
    assert (filled.min_offset, filled.max_offset) == (0, 3)
    assert started_ms <= filled.last_update_timestamp <= clock.now_ms()
    assert table[MessageQueue("orders", "broker-a", 0)].last_update_timestamp == 0


async def test_groups_are_changed_listed_and_deleted(peer: Peer, broker: Broker) -> None:
    config = SubscriptionGroupConfig(group_name="billing", retry_max_times=3)
    await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode(config))
    body = (await peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
    assert decode(SubscriptionGroupWrapper, body).subscription_group_table["billing"].retry_max_times == 3
    await peer.send()
    broker.offsets.commit("billing", "orders", 0, 1, "me")
    await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing", "removeOffset": "true"})
    assert "billing" not in broker.groups.by_name
    assert broker.offsets.snapshot() == {}


async def test_a_groups_progress_is_told_by_queue(peer: Peer, broker: Broker, clock: TestClock) -> None:
    for _ in range(5):
        await peer.send(queue_id=1)
    broker.offsets.commit("billing", "orders", 1, 3, "me")
    for fields in ({"consumerGroup": "billing"}, {"consumerGroup": "billing", "topic": "orders"}):
        stats = decode(ConsumeStats, (await peer.ask(RequestCode.GET_CONSUME_STATS, fields)).body)
        row = stats.offset_table[MessageQueue("orders", "broker-a", 1)]
        assert (row.broker_offset, row.consumer_offset) == (5, 3)
        assert 0 < row.last_timestamp <= clock.now_ms()
        assert stats.offset_table[MessageQueue("orders", "broker-a", 0)].consumer_offset == 0
    await peer.beat("c1", "billing", {"refunds": "*"})
    fields = {"consumerGroup": "billing", "topic": "orders"}
    assert decode(ConsumeStats, (await peer.ask(RequestCode.GET_CONSUME_STATS, fields)).body).offset_table == {}


async def test_how_fast_a_group_consumes_is_told(peer: Peer, clock: TestClock) -> None:
    await peer.send()
    await peer.pull()
    await clock.advance_async(seconds=21)
    for _ in range(30):
        await peer.pull()
    await clock.advance_async(seconds=11)
    answer = await peer.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "billing", "topic": "orders"})
    assert 0.5 < decode(ConsumeStats, answer.body).consume_tps < 4


async def test_the_members_of_groups_are_told(peer: Peer) -> None:
    await peer.beat("c1", "billing", {"orders": "a"})
    await peer.beat("p1", producer="shop")
    answer = await peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "billing"})
    consumers = decode(ConsumerConnection, answer.body)
    assert [(member.client_id, member.language) for member in consumers.connection_set] == [("c1", LanguageCode.PYTHON)]
    assert consumers.subscription_table["orders"].sub_string == "a"
    answer = await peer.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "shop"})
    assert decode(ProducerConnection, answer.body).connection_set[0].client_addr.startswith("127.0.0.1:")
    nobody, nothing = {"consumerGroup": "x"}, {"producerGroup": "x"}
    await peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, nobody, expect=ResponseCode.CONSUMER_NOT_ONLINE)
    await peer.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, nothing, expect=ResponseCode.SYSTEM_ERROR)


async def test_who_consumes_a_topic_is_told(peer: Peer, broker: Broker) -> None:
    await peer.send()
    broker.offsets.commit("audit", "orders", 0, 1, "me")
    await peer.beat("c1", "billing", {"orders": "a"})
    answer = await peer.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert decode(GroupList, answer.body).group_list == ["audit", "billing"]


async def test_system_topics_are_listed(peer: Peer) -> None:
    await peer.send()
    names = decode(TopicList, (await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body).topic_list
    assert "TBW102" in names
    assert "orders" not in names


async def test_settings_are_told_as_lines(peer: Peer, broker: Broker) -> None:
    answer = await peer.ask(RequestCode.GET_BROKER_CONFIG)
    lines = answer.body.decode().splitlines()
    assert "brokerName=broker-a" in lines
    assert "brokerRole=ASYNC_MASTER" in lines
    assert "useTLS=false" in lines, "mqadmin exportConfigs fails without it"
    assert answer.ext_fields["version"].startswith('{"counter":')


async def test_figures_are_told_that_mqadmin_needs(peer: Peer, clock: TestClock) -> None:
    await peer.send()
    await peer.pull()
    await clock.advance_async(seconds=21)
    table = decode(KVTable, (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert set(CLUSTER_LIST_NEEDS.split()) <= table.keys()
    assert (table["brokerVersionDesc"], table["msgPutTotalTodayNow"], table["msgGetTotalTodayNow"]) == (
        "V4_9_8",
        "1",
        "1",
    )
    assert len([float(rate) for rate in table["putTps"].split(" ")]) == 3
    assert set(ALL_FIGURES.split()) <= table.keys()
    assert any(key.startswith("commitLogDiskRatio_") for key in table)
    disk = shutil.disk_usage(tempfile.gettempdir())  # what is kept for root counts neither as used nor as free
    assert abs(float(table["commitLogDiskRatio"]) - disk.used / (disk.used + disk.free)) < 0.03
    assert abs(int(table["earliestMessageTimeStamp"]) - clock.now_ms()) < 3_600_000


async def test_pulls_that_find_something_and_those_that_do_not_are_told_apart(peer: Peer, clock: TestClock) -> None:
    for _ in range(4):
        await peer.send()
    await clock.advance_async(seconds=11)
    for _ in range(5):
        await peer.pull()
        await peer.pull(queue_offset=4, expect=ResponseCode.PULL_NOT_FOUND)
        await peer.pull(queue_offset=4, expect=ResponseCode.PULL_NOT_FOUND)
    await clock.advance_async(seconds=11)
    table = decode(KVTable, (await peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    found, missed, both, messages = (
        float(table[key].split(" ")[0]) for key in ("getFoundTps", "getMissTps", "getTotalTps", "getTransferedTps")
    )
    assert 0 < found < missed < both < messages
    assert abs(found + missed - both) < 0.01
    assert abs(4 * found - messages) < 0.01


async def test_what_comes_later_is_answered_as_not_supported(peer: Peer) -> None:
    for code in (RequestCode.REGISTER_FILTER_SERVER, RequestCode.TRIGGER_DELETE_FILES, 9999):
        answer = await peer.ask(code, expect=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        assert answer.remark == f" request type {int(code)} not supported"
