from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from pyromq.errors import MalformedHeader, ProtocolError
from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    QueueData,
    TopicConfig,
    TopicFilterType,
    fastjson,
)
from pyromq.protocol.bodies.codec import _tidy
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.messages.message import MessageQueue

KINDS = [
    kind
    for kind in vars(bodies).values()
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind is not bodies.Body
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
I32 = st.integers(-(2**31), 2**31 - 1)


def values(kind: types.Type) -> st.SearchStrategy[Any]:
    match kind:
        case types.StructType():
            return st.builds(kind.cls, **{field.name: values(field.type) for field in kind.fields})
        case types.NamedTupleType():
            return st.builds(kind.cls, *(values(field.type) for field in kind.fields))
        case types.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=2)
        case types.ListType():
            return st.lists(values(kind.item_type), max_size=2)
        case types.UnionType():
            return st.none() | values(kind.types[0])
        case types.EnumType():
            return st.sampled_from(kind.cls)
        case types.IntType():
            return st.integers(kind.ge, kind.le) if kind.ge is not None else I32
        case types.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case types.BoolType():
            return st.booleans()
        case types.StrType():
            return TEXTS
    raise AssertionError(kind)


BODIES = st.sampled_from(KINDS).flatmap(lambda kind: values(types.type_info(kind)))


def test_all_bodies_are_here() -> None:
    assert len(KINDS) > 50


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
@settings(max_examples=8)
@given(st.data())
def test_a_body_reads_back_as_it_was_written(kind: type[bodies.Body], data: st.DataObject) -> None:
    body = data.draw(values(types.type_info(kind)))
    assert bodies.decode(kind, bodies.encode(body)) == body
    assert bodies.decode(kind, bodies.encode(body, quoted_keys=True)) == body
    assert bodies.decode(kind, fastjson.dumps_pretty(body)) == body


@given(BODIES)
def test_tidying_changes_nothing_that_fits_already(body: bodies.Body) -> None:
    value = fastjson.loads(bodies.encode(body))
    tidied = _tidy(value, types.type_info(type(body)))
    assert msgspec.convert(tidied, type(body), strict=False, str_keys=True) == body


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TEXTS | st.sampled_from(["topic", "offsetTable", "consumerDataSet", "mqSet", "brokerDatas", "codeSet"]),
            inner,
        )
    ),
    max_leaves=8,
)


@given(BODIES | JSON, st.sampled_from(KINDS), st.data())
def test_damaged_bodies_raise_nothing_but_protocol_errors(
    body: Any, other_kind: type[bodies.Body], data: st.DataObject
) -> None:
    text = bytearray(bodies.encode(body))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(text)))
        text[position : position + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    kind = type(body) if isinstance(body, bodies.Body) else other_kind
    try:
        assert isinstance(bodies.decode(kind, bytes(text)), kind)
    except ProtocolError:
        return


@pytest.mark.parametrize(
    "data", [b"", b" ", b"null", b"[]", b"5", b'"t"', b"{", b'{"topicList":5}', b'{"topicList":{}}']
)
def test_what_is_no_such_body_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedHeader):
        bodies.decode(bodies.TopicList, data)


def test_a_number_beyond_its_range_is_malformed() -> None:
    with pytest.raises(MalformedHeader, match="QueueData"):
        bodies.decode(QueueData, b'{"perm":2147483648}')
    with pytest.raises(MalformedHeader):
        bodies.decode(bodies.DataVersion, b'{"counter":1e30}')


# --- what clients in the wild send ----------------------------------------------------------------------------------


def test_a_heartbeat_of_a_cpp_client_with_ordinals_and_texts() -> None:
    heartbeat = bodies.decode(
        bodies.HeartbeatData,
        b'{"clientID":"4711-10.0.0.9@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,'
        b'"groupName":"g","messageModel":0,"subscriptionDataSet":[{"classFilterMode":false,"subString":"*",'
        b'"subVersion":"1640000000000","topic":"t"}]}]}\n',
    )
    (consumer,) = heartbeat.consumer_data_set
    (subscription,) = consumer.subscription_data_set

    assert heartbeat.producer_data_set == []
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.BROADCASTING
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    assert (subscription.sub_version, subscription.tags_set, subscription.code_set) == (1640000000000, [], [])
    assert (subscription.expression_type, consumer.unit_mode) == ("TAG", False)


@pytest.mark.parametrize("name", ["CONSUME_ACTIVELY", "consume_actively", 0, "0"])
def test_enums_come_by_name_in_any_case_or_by_ordinal(name: str | int) -> None:
    consumer = bodies.decode(bodies.ConsumerData, fastjson.dumps({"consumeType": name}))
    assert consumer.consume_type is ConsumeType.CONSUME_ACTIVELY


@pytest.mark.parametrize("name", ["SOMETHING_ELSE", 7, -1, None, ""])
def test_an_enum_nobody_knows_counts_as_missing(name: object) -> None:
    consumer = bodies.decode(bodies.ConsumerData, b'{"messageModel":%b}' % fastjson.dumps(name))
    assert consumer.message_model is MessageModel.CLUSTERING


@pytest.mark.parametrize("language", ["GO", "go", 9, "9"])
def test_languages_come_by_name_or_number(language: str | int) -> None:
    connection = bodies.decode(bodies.ClientConnection, fastjson.dumps({"language": language}))
    assert connection.language is LanguageCode.GO


@pytest.mark.parametrize(
    ("text", "config"),
    [
        (b'{"topicName":"t"}', TopicConfig("t", 16, 16, 6, TopicFilterType.SINGLE_TAG, 0, False)),
        (b'{"topicName":"t","perm":"4","readQueueNums":8.0,"order":"true"}', TopicConfig("t", 8, 16, 4, order=True)),
        (b'{"topicName":"t","perm":" +4 ","order":1}', TopicConfig("t", perm=4, order=True)),
        (b'{"topicName":"t","perm":null,"order":null,"writeQueueNums":""}', TopicConfig("t")),
        (b'{"topic_name":"t","TOPICSYSFLAG":3,"unknown":[1]}', TopicConfig("t", topic_sys_flag=3)),
        (b"{topicName:'t',topicFilterType:1,}", TopicConfig("t", topic_filter_type=TopicFilterType.MULTI_TAG)),
        (b'{"topicName":5}', TopicConfig("5")),
    ],
)
def test_members_are_read_as_leniently_as_java_reads_them(text: bytes, config: TopicConfig) -> None:
    assert bodies.decode(TopicConfig, text) == config


def test_the_old_name_of_the_sys_flag_is_read() -> None:
    assert bodies.decode(QueueData, b'{"brokerName":"b","topicSynFlag":1}') == QueueData("b", topic_sys_flag=1)


def test_the_go_client_s_spelling_of_dropped_is_read() -> None:
    assert bodies.decode(bodies.ProcessQueueInfo, b'{"dropped":true}').dropped
    assert bodies.decode(bodies.ProcessQueueInfo, b'{"droped":true}').dropped


@pytest.mark.parametrize("keys", ['{0:"a:1",1:"b:2"}', '{"0":"a:1","1":"b:2"}', '{ 0 : "a:1" , "1":"b:2" }'])
def test_broker_ids_are_numbers_with_and_without_quotes(keys: str) -> None:
    broker = bodies.decode(bodies.BrokerData, f'{{"brokerName":"b","brokerAddrs":{keys}}}'.encode())
    assert broker.broker_addrs == {0: "a:1", 1: "b:2"}


@pytest.mark.parametrize(
    "key",
    ['{"brokerName":"b","queueId":0,"topic":"t"}', '{topic:"t",queue_id:"0",brokerName:"b"}',
     r'"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"t\"}"'],
)  # fmt: skip
def test_queues_are_keys_as_bare_objects_or_as_their_text(key: str) -> None:
    body = bodies.decode(bodies.ResetOffsetBody, f'{{"offsetTable":{{{key}:"7"}}}}'.encode())
    assert body.offset_table == {MessageQueue("t", "b", 0): 7}


@pytest.mark.parametrize(
    "key", ['{"queueId":0}', "5", '"text"', '"[1]"', r'"{\"queueId\":[1],\"topic\":\"t\",\"brokerName\":\"b\"}"']
)
def test_a_key_that_is_no_queue_is_malformed(key: str) -> None:
    with pytest.raises(MalformedHeader):
        bodies.decode(bodies.ResetOffsetBody, f'{{"offsetTable":{{{key}:7}}}}'.encode())


def test_shared_objects_come_as_references() -> None:
    body = bodies.decode(
        bodies.ClusterInfo,
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"x"},"brokerName":"a"},"b":{"$ref":"$.brokerAddrTable.a"}}}',
    )
    assert body.broker_addr_table["b"] == body.broker_addr_table["a"]


def test_null_in_a_map_or_list_is_left_out() -> None:
    route = bodies.decode(
        bodies.TopicRouteData, b'{"filterServerTable":{"a":null},"queueDatas":null,"brokerDatas":[null]}'
    )
    assert route == bodies.TopicRouteData()


def test_the_next_version_has_the_time_and_one_more() -> None:
    assert bodies.DataVersion(5, 6).next(now_ms=9) == bodies.DataVersion(9, 7)


def test_time_spans_get_their_texts_in_local_time() -> None:
    span = bodies.QueueTimeSpan(MessageQueue("t", "b", 0), 0, 1640000000007, 5).with_texts()
    assert span.max_time_stamp_str is not None
    assert span.max_time_stamp_str.endswith(":007")
    assert len(span.max_time_stamp_str) == len("2021-12-20#11:33:20:500")
    assert (span.min_time_stamp, span.max_time_stamp, span.consume_time_stamp) == (0, 1640000000007, 5)
