"""JSON bodies and files, byte for byte as Java writes them."""

from __future__ import annotations

import zlib

import pytest

from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    BrokerData,
    BrokerStatsItem,
    ClientConnection,
    ConsumeFromWhere,
    ConsumeQueueData,
    ConsumerData,
    ConsumeResult,
    ConsumeStats,
    ConsumeStatus,
    ConsumeType,
    DataVersion,
    MessageModel,
    OffsetWrapper,
    PlainAccessConfig,
    ProcessQueueInfo,
    ProducerData,
    ProducerInfo,
    QueueData,
    QueueTimeSpan,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicOffset,
)
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.record import body_crc

QUEUE_0 = MessageQueue("TopicTest", "broker-a", 0)
QUEUE_1 = MessageQueue("TopicTest", "broker-a", 1)
QUEUE_0_TEXT = '{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}'
QUEUE_1_TEXT = '{"brokerName":"broker-a","queueId":1,"topic":"TopicTest"}'

SUBSCRIPTION = SubscriptionData(
    topic="TopicTest",
    sub_string="TagA || TagB",
    tags_set=["TagA", "TagB"],
    code_set=[2598919, 2598920],
    sub_version=1640000000000,
)
SUBSCRIPTION_TEXT = (
    '{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
    '"subVersion":1640000000000,"tagsSet":["TagA","TagB"],"topic":"TopicTest"}'
)
BROKER = BrokerData("DefaultCluster", "broker-a", {0: "10.0.0.5:10911", 1: "10.0.0.6:10911"})
BROKER_TEXT = (
    '{"brokerAddrs":{0:"10.0.0.5:10911",1:"10.0.0.6:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"}'
)
TOPICS = TopicConfigSerializeWrapper(DataVersion(1640000000000, 3), {"TopicTest": TopicConfig("TopicTest", 8, 8)})
VERSION_TEXT = '{"counter":3,"timestamp":1640000000000}'
TOPICS_TEXT = (
    f'{{"dataVersion":{VERSION_TEXT},"topicConfigTable":{{"TopicTest":{{"order":false,"perm":6,"readQueueNums":8,'
    '"topicFilterType":"SINGLE_TAG","topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":8}}}'
)
STATS = ConsumeStats({QUEUE_1: OffsetWrapper(20, 0, 0), QUEUE_0: OffsetWrapper(10, 8, 1640000000000)}, 1.5)
STATS_TEXT = (
    f'{{"consumeTps":1.5,"offsetTable":{{{QUEUE_1_TEXT}:{{"brokerOffset":20,"consumerOffset":0,"lastTimestamp":0}},'
    f'{QUEUE_0_TEXT}:{{"brokerOffset":10,"consumerOffset":8,"lastTimestamp":1640000000000}}}}}}'
)
CONNECTION = ClientConnection("10.0.0.9@12345", "10.0.0.9:5555", LanguageCode.JAVA, 399)
CONNECTION_TEXT = '{"clientAddr":"10.0.0.9:5555","clientId":"10.0.0.9@12345","language":"JAVA","version":399}'
ROUTE_TEXT = (
    f'{{"brokerDatas":[{BROKER_TEXT}],"filterServerTable":{{}},"queueDatas":[{{"brokerName":"broker-a","perm":6,'
    '"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
)

JAVA_REGISTRATION = """
    78da63606050af564ace2fcd2b492d52b232d6512ac9cc4d2d2e49cc2d50b23234333180835a0606064620960ac92fc84c0e01aa51b000
    423385604f3f771fd7f8104777a02c53742c0081821461
"""

BODIES: list[tuple[bodies.Body | DataVersion, str]] = [
    (bodies.TopicRouteData(None, [QueueData("broker-a", 8, 8, 6, 0)], [BROKER]), ROUTE_TEXT),
    (
        bodies.TopicRouteData("broker-a:8", [], []),
        '{"brokerDatas":[],"filterServerTable":{},"orderTopicConf":"broker-a:8","queueDatas":[]}',
    ),
    (
        bodies.ClusterInfo({"broker-a": BROKER}, {"DefaultCluster": ["broker-a"]}),
        f'{{"brokerAddrTable":{{"broker-a":{BROKER_TEXT}}},"clusterAddrTable":{{"DefaultCluster":["broker-a"]}}}}',
    ),
    (
        bodies.HeartbeatData(
            "10.0.0.9@12345#67890",
            [ProducerData("PG")],
            [
                ConsumerData(
                    "CG",
                    ConsumeType.CONSUME_PASSIVELY,
                    MessageModel.CLUSTERING,
                    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
                    [SUBSCRIPTION],
                )
            ],
        ),
        '{"clientID":"10.0.0.9@12345#67890","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING",'
        f'"subscriptionDataSet":[{SUBSCRIPTION_TEXT}],"unitMode":false}}],"producerDataSet":[{{"groupName":"PG"}}]}}',
    ),
    (
        bodies.RegisterBrokerBody(TOPICS),
        f'{{"filterServerList":[],"topicConfigSerializeWrapper":{TOPICS_TEXT}}}',
    ),
    (TOPICS, TOPICS_TEXT),
    (DataVersion(1640000000000, 3), VERSION_TEXT),
    (
        bodies.ConsumerOffsetSerializeWrapper({"TopicTest@CG": {0: 100, 1: 200}}),
        '{"offsetTable":{"TopicTest@CG":{0:100,1:200}}}',
    ),
    (
        bodies.GetConsumerListByGroupResponseBody(["10.0.0.9@12345", "10.0.0.8@222"]),
        '{"consumerIdList":["10.0.0.9@12345","10.0.0.8@222"]}',
    ),
    (
        bodies.LockBatchRequestBody("CG", "10.0.0.9@12345", [QUEUE_0]),
        f'{{"clientId":"10.0.0.9@12345","consumerGroup":"CG","mqSet":[{QUEUE_0_TEXT}]}}',
    ),
    (
        bodies.UnlockBatchRequestBody("CG", "10.0.0.9@12345", [QUEUE_0]),
        f'{{"clientId":"10.0.0.9@12345","consumerGroup":"CG","mqSet":[{QUEUE_0_TEXT}]}}',
    ),
    (bodies.LockBatchResponseBody([QUEUE_1, QUEUE_0]), f'{{"lockOKMQSet":[{QUEUE_1_TEXT},{QUEUE_0_TEXT}]}}'),
    (STATS, STATS_TEXT),
    (
        bodies.ConsumeStatsList([{"CG": [STATS]}], "10.0.0.5:10911", 2),
        f'{{"brokerAddr":"10.0.0.5:10911","consumeStatsList":[{{"CG":[{STATS_TEXT}]}}],"totalDiff":2}}',
    ),
    (
        bodies.TopicStatsTable({QUEUE_0: TopicOffset(0, 10, 1640000000000)}),
        f'{{"offsetTable":{{{QUEUE_0_TEXT}:{{"lastUpdateTimestamp":1640000000000,"maxOffset":10,"minOffset":0}}}}}}',
    ),
    (bodies.KVTable({"TopicTest": "broker-a:8"}), '{"table":{"TopicTest":"broker-a:8"}}'),
    (bodies.TopicList(["TopicTest", "T2"]), '{"topicList":["TopicTest","T2"]}'),
    (
        bodies.TopicList(["TopicTest", "T2"], "10.0.0.5:10911"),
        '{"brokerAddr":"10.0.0.5:10911","topicList":["TopicTest","T2"]}',
    ),
    (bodies.GroupList(["CG"]), '{"groupList":["CG"]}'),
    (
        bodies.ConsumerRunningInfo(
            {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": "false"},
            [SUBSCRIPTION],
            {QUEUE_0: ProcessQueueInfo(commit_offset=5)},
            {"TopicTest": ConsumeStatus()},
        ),
        f'{{"mqTable":{{{QUEUE_0_TEXT}:{{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,'
        '"cachedMsgSizeInMiB":0,"commitOffset":5,"droped":false,"lastConsumeTimestamp":0,"lastLockTimestamp":0,'
        '"lastPullTimestamp":0,"locked":false,"transactionMsgCount":0,"transactionMsgMaxOffset":0,'
        '"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY",'
        '"PROP_CONSUMEORDERLY":"false"},"statusTable":{"TopicTest":{"consumeFailedMsgs":0,"consumeFailedTPS":0.0,'
        '"consumeOKTPS":0.0,"consumeRT":0.0,"pullRT":0.0,"pullTPS":0.0}},'
        f'"subscriptionSet":[{SUBSCRIPTION_TEXT}]}}',
    ),
    (
        bodies.SubscriptionGroupWrapper(DataVersion(1640000000000, 3), {"CG": SubscriptionGroupConfig("CG")}),
        f'{{"dataVersion":{VERSION_TEXT},"subscriptionGroupTable":{{"CG":{{"brokerId":0,'
        '"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"CG",'
        '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
        '"whichBrokerWhenConsumeSlowly":1}}}',
    ),
    (
        bodies.ConsumerConnection([CONNECTION], {"TopicTest": SUBSCRIPTION}),
        f'{{"connectionSet":[{CONNECTION_TEXT}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        f'"subscriptionTable":{{"TopicTest":{SUBSCRIPTION_TEXT}}}}}',
    ),
    (bodies.ProducerConnection([CONNECTION]), f'{{"connectionSet":[{CONNECTION_TEXT}]}}'),
    (
        bodies.BrokerStatsData(BrokerStatsItem(5, 0.5, 1.0)),
        '{"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0},'
        '"statsMinute":{"avgpt":1.0,"sum":5,"tps":0.5}}',
    ),
    (
        bodies.QueryConsumeTimeSpanBody(
            [
                QueueTimeSpan(
                    QUEUE_0,
                    1640000000000,
                    1640000001000,
                    1640000000500,
                    3,
                    "2021-12-20#11:33:20:000",
                    "2021-12-20#11:33:21:000",
                    "2021-12-20#11:33:20:500",
                )
            ]
        ),
        '{"consumeTimeSpanSet":[{"consumeTimeStamp":1640000000500,"consumeTimeStampStr":"2021-12-20#11:33:20:500",'
        '"delayTime":3,"maxTimeStamp":1640000001000,"maxTimeStampStr":"2021-12-20#11:33:21:000",'
        f'"messageQueue":{QUEUE_0_TEXT},"minTimeStamp":1640000000000,"minTimeStampStr":"2021-12-20#11:33:20:000"}}]}}',
    ),
    (
        bodies.QueryConsumeQueueResponseBody(
            queue_data=[ConsumeQueueData(100, 200, 2598919)], max_queue_index=10, min_queue_index=0
        ),
        '{"maxQueueIndex":10,"minQueueIndex":0,"queueData":[{"eval":false,"physicOffset":100,"physicSize":200,'
        '"tagsCode":2598919}]}',
    ),
    (
        bodies.ConsumeMessageDirectlyResult(consume_result=ConsumeResult.CR_SUCCESS, spent_time_mills=4),
        '{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":4}',
    ),
    (
        bodies.ResetOffsetBody({QUEUE_1: 9, QUEUE_0: 7}),
        f'{{"offsetTable":{{{QUEUE_1_TEXT}:9,{QUEUE_0_TEXT}:7}}}}',
    ),
    (
        bodies.ResetOffsetBodyForC([bodies.MessageQueueOffset("TopicTest", "broker-a", 0, 7)]),
        '{"offsetTable":[{"brokerName":"broker-a","offset":7,"queueId":0,"topic":"TopicTest"}]}',
    ),
    (
        bodies.GetConsumerStatusBody(message_queue_table={QUEUE_1: 9}),
        f'{{"consumerTable":{{}},"messageQueueTable":{{{QUEUE_1_TEXT}:9}}}}',
    ),
    (
        bodies.GetConsumerStatusBody(consumer_table={"10.0.0.9@12345": {QUEUE_1: 9}}),
        f'{{"consumerTable":{{"10.0.0.9@12345":{{{QUEUE_1_TEXT}:9}}}},"messageQueueTable":{{}}}}',
    ),
    (
        bodies.CheckClientRequestBody(
            "10.0.0.9@12345",
            "CG",
            SubscriptionData("TopicTest", "a > 5", sub_version=1640000000000, expression_type="SQL92"),
        ),
        '{"clientId":"10.0.0.9@12345","group":"CG","subscriptionData":{"classFilterMode":false,"codeSet":[],'
        '"expressionType":"SQL92","subString":"a > 5","subVersion":1640000000000,"tagsSet":[],"topic":"TopicTest"}}',
    ),
    (bodies.QueryCorrectionOffsetBody({0: 5}), '{"correctionOffsets":{0:5}}'),
    (
        bodies.AclInfo(["10.0.*.*"], [PlainAccessConfig("RocketMQ", "12345678", topic_perms=["TopicTest=PUB|SUB"])]),
        '{"globalWhiteAddrs":["10.0.*.*"],"plainAccessConfigs":[{"accessKey":"RocketMQ","admin":false,'
        '"secretKey":"12345678","topicPerms":["TopicTest=PUB|SUB"]}]}',
    ),
    (
        bodies.OffsetMovedEvent("CG", QUEUE_0, 3, 5),
        f'{{"consumerGroup":"CG","messageQueue":{QUEUE_0_TEXT},"offsetNew":5,"offsetRequest":3}}',
    ),
    (bodies.DelayOffsetSerializeWrapper({1: 100, 2: 0}), '{"offsetTable":{1:100,2:0}}'),
    (
        bodies.ProducerTableInfo({"PG": [ProducerInfo("c", "/127.0.0.1:38082", LanguageCode.JAVA, 401, 0)]}),
        '{"data":{"PG":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":0,"remoteIP":"/127.0.0.1:38082",'
        '"version":401}]}}',
    ),
]


@pytest.mark.parametrize(("body", "text"), BODIES, ids=[type(body).__name__ for body, _ in BODIES])
def test_a_body_is_written_and_read_as_in_java(body: bodies.Body, text: str) -> None:
    assert bodies.encode(body).decode() == text
    assert bodies.decode(type(body), text.encode()) == body


def test_a_route_can_be_written_as_standard_json() -> None:
    route = bodies.TopicRouteData(None, [], [BrokerData("集群", "broker-a", {0: "10.0.0.5:10911"})])

    assert bodies.encode(route, quoted_keys=True).decode() == (
        r'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.5:10911"},"brokerName":"broker-a","cluster":"\u96C6\u7FA4"}],'
        r'"filterServerTable":{},"queueDatas":[]}'
    )


def test_the_registration_has_the_checksum_that_java_computed() -> None:
    body = bodies.RegisterBrokerBody(TOPICS)

    assert body_crc(bodies.encode_register_body(body)) == 1165874732


def test_the_compressed_registration_inflates_to_what_java_packs() -> None:
    body = bodies.RegisterBrokerBody(TOPICS)
    packed = bodies.encode_register_body(body, compressed=True)

    assert zlib.decompress(packed) == (
        b'\x00\x00\x00\x27{"counter":3,"timestamp":1640000000000}\x00\x00\x00\x01'
        b"\x00\x00\x00\x1aTopicTest 8 8 6 SINGLE_TAG\x00\x00\x00\x02[]"
    )


def test_a_registration_packed_by_java_is_read() -> None:
    packed = bytes.fromhex(JAVA_REGISTRATION)

    assert body_crc(packed) == 2059952750
    assert bodies.decode_register_body(packed, compressed=True) == bodies.RegisterBrokerBody(TOPICS)


def test_topics_json_has_the_lines_that_java_writes() -> None:
    topics = TopicConfigSerializeWrapper(DataVersion(1639000000000, 3), {"T1": TopicConfig("T1", 4, 4)})

    assert dumps_pretty(topics).decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":3,\n\t\t"timestamp":1639000000000\n\t},\n\t"topicConfigTable":{\n'
        '\t\t"T1":{\n\t\t\t"order":false,\n\t\t\t"perm":6,\n\t\t\t"readQueueNums":4,\n'
        '\t\t\t"topicFilterType":"SINGLE_TAG",\n\t\t\t"topicName":"T1",\n\t\t\t"topicSysFlag":0,\n'
        '\t\t\t"writeQueueNums":4\n\t\t}\n\t}\n}'
    )


def test_maps_with_numbers_as_keys_stay_on_one_line_of_a_file() -> None:
    offsets = bodies.ConsumerOffsetSerializeWrapper({"%RETRY%G1@G1": {}, "T1@G1": {0: 5, 1: 7, 10: 9}})
    delays = bodies.DelayOffsetSerializeWrapper({1: 3, 2: 4, 12: 30})

    assert dumps_pretty(offsets).decode() == (
        '{\n\t"offsetTable":{\n\t\t"%RETRY%G1@G1":{},\n\t\t"T1@G1":{0:5,1:7,10:9\n\t\t}\n\t}\n}'
    )
    assert dumps_pretty(delays).decode() == '{\n\t"offsetTable":{1:3,2:4,12:30\n\t}\n}'


def test_files_read_back_whichever_way_their_keys_are_written() -> None:
    offsets = bodies.ConsumerOffsetSerializeWrapper({"%RETRY%G1@G1": {}, "T1@G1": {0: 5, 1: 7, 10: 9}})

    assert bodies.decode(type(offsets), dumps_pretty(offsets)) == offsets
    assert bodies.decode(type(offsets), bodies.encode(offsets, quoted_keys=True)) == offsets
    assert bodies.decode(type(offsets), b'{"offsetTable":{"T1@G1":{"0":"5"}}}').offset_table == {"T1@G1": {0: 5}}
