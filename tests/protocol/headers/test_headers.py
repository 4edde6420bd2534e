"""Each header against a table of its fields: `S` text, `I` i32, `L` i64, `B` boolean, `?` optional."""

from __future__ import annotations

import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator
from enum import IntEnum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyromq.protocol.headers as headers
from pyromq.errors import MalformedHeader
from pyromq.protocol.command import SerializeType, decode, request
from pyromq.protocol.headers import I32, I64, Header, from_ext, to_ext
from pyromq.protocol.headers.admin import UpdateAndCreateTopicRequestHeader
from pyromq.protocol.headers.offsets import GetMaxOffsetRequestHeader
from pyromq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader, TransactionState

FIELDS = {
    "SendMessageRequestHeader": "producerGroup:S topic:S defaultTopic:S defaultTopicQueueNums:I queueId:I sysFlag:I"
    " bornTimestamp:L flag:I properties:S? reconsumeTimes:I? unitMode:B maxReconsumeTimes:I? batch:B bname:S?",
    "SendMessageRequestHeaderV2": "a:S b:S c:S d:I e:I f:I g:L h:I i:S? j:I? k:B l:I? m:B n:S?",
    "SignedSendHeader": (
        "a:S b:S c:S d:I e:I f:I g:L h:I i:S? j:I? k:B l:I? m:B n:S? "
        "AccessKey:S Signature:S SecurityToken:S? pyromqCode:S? pyromqNonce:S? pyromqTime:S?"
    ),
    "SendMessageResponseHeader": "msgId:S? queueId:I queueOffset:L transactionId:S? MSG_REGION:S? TRACE_ON:B",
    "ConsumerSendMsgBackRequestHeader": "offset:L group:S delayLevel:I originMsgId:S? originTopic:S? unitMode:B"
    " maxReconsumeTimes:I? bname:S?",
    "PushReplyMessageToClientRequestHeader": "producerGroup:S topic:S defaultTopic:S defaultTopicQueueNums:I queueId:I"
    " sysFlag:I bornTimestamp:L flag:I properties:S? reconsumeTimes:I? unitMode:B bornHost:S storeHost:S"
    " storeTimestamp:L",
    "PullMessageRequestHeader": "consumerGroup:S topic:S queueId:I queueOffset:L maxMsgNums:I sysFlag:I commitOffset:L"
    " suspendTimeoutMillis:L subscription:S? subVersion:L expressionType:S? bname:S? pyromqMaxBytes:L?",
    "PullMessageResponseHeader": "suggestWhichBrokerId:L nextBeginOffset:L minOffset:L maxOffset:L",
    "ReadLogRequestHeader": "offset:L length:I",
    "TableChangesRequestHeader": "brokerId:L session:S piece:I topics:L groups:L offsets:L suspendMs:I"
    " filters:L? locks:L? delays:L?",
    "PromoteBrokerRequestHeader": "force:B",
    "StepDownRequestHeader": "step:S brokerId:I address:S store:S epoch:L patienceMs:I",
    "ReadAuditLogRequestHeader": "limit:I?",
    "TablePartRequestHeader": "pyromqFrom:L?",
    "TablePartResponseHeader": "pyromqNext:L? pyromqEdition:S?",
    "PullQueuesRequestHeader": "consumerGroup:S topic:S ranges:S subscription:S? maxMsgNums:I maxBytes:L",
    "PullQueuesResponseHeader": "count:I suggestWhichBrokerId:L nextOffsets:S minOffsets:S maxOffsets:S",
    "QueryMessageRequestHeader": "topic:S key:S maxNum:I beginTimestamp:L endTimestamp:L _UNIQUE_KEY_QUERY:B"
    " pyromqBefore:L?",
    "QueryMessageResponseHeader": "indexLastUpdateTimestamp:L indexLastUpdatePhyoffset:L",
    "ViewMessageByIdRequestHeader": "offset:L",
    "QueryConsumerOffsetRequestHeader": "consumerGroup:S topic:S queueId:I bname:S?",
    "QueryConsumerOffsetResponseHeader": "offset:L",
    "UpdateConsumerOffsetRequestHeader": "consumerGroup:S topic:S queueId:I commitOffset:L bname:S?",
    "SearchOffsetByTimestampRequestHeader": "topic:S queueId:I timestamp:L bname:S?",
    "SearchOffsetByTimestampResponseHeader": "offset:L",
    "GetMaxOffsetRequestHeader": "topic:S queueId:I bname:S?",
    "GetMaxOffsetResponseHeader": "offset:L",
    "GetMinOffsetRequestHeader": "topic:S queueId:I bname:S?",
    "GetMinOffsetResponseHeader": "offset:L",
    "GetEarliestMsgStoretimeRequestHeader": "topic:S queueId:I bname:S?",
    "GetEarliestMsgStoretimeResponseHeader": "timestamp:L",
    "RecallMessageRequestHeader": "producerGroup:S? topic:S recallHandle:S bname:S? pyromqOffsetMsgId:S?",
    "RecallMessageResponseHeader": "msgId:S",
    "ListTimedMessagesRequestHeader": "topic:S? afterMs:L? afterOffset:L? maxNum:I?",
    "ListTimedMessagesResponseHeader": "nextMs:L nextOffset:L isLast:B count:L?",
    "HeartBeatResponseHeader": "pyromq:S?",
    "UnregisterClientRequestHeader": "clientID:S producerGroup:S? consumerGroup:S?",
    "GetConsumerListByGroupRequestHeader": "consumerGroup:S",
    "NotifyConsumerIdsChangedRequestHeader": "consumerGroup:S",
    "ResetConsumerClientOffsetRequestHeader": "topic:S group:S timestamp:L isForce:B",
    "GetConsumerStatusFromClientRequestHeader": "topic:S group:S clientAddr:S?",
    "GetConsumerRunningInfoRequestHeader": "consumerGroup:S clientId:S jstackEnable:B",
    "ConsumeMessageDirectlyRequestHeader": "consumerGroup:S clientId:S? msgId:S? brokerName:S?",
    "EndTransactionRequestHeader": "producerGroup:S tranStateTableOffset:L commitLogOffset:L commitOrRollback:T"
    " fromTransactionCheck:B msgId:S transactionId:S? bname:S?",
    "CheckTransactionStateRequestHeader": "tranStateTableOffset:L commitLogOffset:L msgId:S? transactionId:S?"
    " offsetMsgId:S?",
    "ResumeCheckHalfMessageRequestHeader": "msgId:S?",
    "ListTransactionsRequestHeader": "givenUp:B offset:L maxNum:I",
    "ListTransactionsResponseHeader": "nextOffset:L isLast:B",
    "RegisterBrokerRequestHeader": "brokerName:S brokerAddr:S clusterName:S haServerAddr:S brokerId:L compressed:B"
    " bodyCrc32:I? pyromqEpoch:L? pyromqHistory:S?",
    "RegisterBrokerResponseHeader": "haServerAddr:S? masterAddr:S? pyromqRival:S?",
    "UnregisterBrokerRequestHeader": "brokerName:S brokerAddr:S clusterName:S brokerId:L pyromqEpoch:L?",
    "QueryDataVersionRequestHeader": "brokerName:S brokerAddr:S clusterName:S brokerId:L",
    "QueryDataVersionResponseHeader": "changed:B!",
    "GetRouteInfoByTopicRequestHeader": "topic:S acceptStandardJsonOnly:B",
    "PutKvConfigRequestHeader": "namespace:S key:S value:S",
    "GetKvConfigRequestHeader": "namespace:S key:S",
    "GetKvConfigResponseHeader": "value:S?",
    "DeleteKvConfigRequestHeader": "namespace:S key:S",
    "GetKvListByNamespaceRequestHeader": "namespace:S",
    "WipeWritePermOfBrokerRequestHeader": "brokerName:S",
    "WipeWritePermOfBrokerResponseHeader": "wipeTopicCount:I",
    "AddWritePermOfBrokerRequestHeader": "brokerName:S",
    "AddWritePermOfBrokerResponseHeader": "addTopicCount:I",
    "DeleteTopicInNamesrvRequestHeader": "topic:S clusterName:S?",
    "GetTopicsByClusterRequestHeader": "cluster:S",
    "UpdateAndCreateTopicRequestHeader": "topic:S defaultTopic:S readQueueNums:I writeQueueNums:I perm:I"
    " topicFilterType:F topicSysFlag:I? order:B",
    "DeleteTopicInBrokerRequestHeader": "topic:S",
    "GetBrokerConfigResponseHeader": "version:S",
    "GetTopicStatsInfoRequestHeader": "topic:S",
    "GetConsumerConnectionListRequestHeader": "consumerGroup:S",
    "GetProducerConnectionListRequestHeader": "producerGroup:S",
    "DeleteSubscriptionGroupRequestHeader": "groupName:S removeOffset:B",
    "GetConsumeStatsRequestHeader": "consumerGroup:S topic:S?",
    "InvokeBrokerToResetOffsetRequestHeader": "topic:S group:S timestamp:L isForce:B",
    "InvokeBrokerToGetConsumerStatusRequestHeader": "topic:S group:S clientAddr:S?",
    "QueryTopicConsumeByWhoRequestHeader": "topic:S",
    "QueryConsumeTimeSpanRequestHeader": "topic:S group:S",
    "QueryCorrectionOffsetRequestHeader": "filterGroups:S? compareGroup:S topic:S",
    "CloneGroupOffsetRequestHeader": "srcGroup:S destGroup:S topic:S? offline:B",
    "ViewBrokerStatsDataRequestHeader": "statsName:S statsKey:S",
    "GetBrokerConsumeStatsRequestHeader": "isOrder:B",
    "QueryConsumeQueueRequestHeader": "topic:S queueId:I index:L count:I consumerGroup:S?",
    "UpdateAndCreateAclConfigRequestHeader": "accessKey:S secretKey:S? whiteRemoteAddress:S? admin:B"
    " defaultTopicPerm:S? defaultGroupPerm:S? topicPerms:S? groupPerms:S?",
    "DeleteAclConfigRequestHeader": "accessKey:S",
    "GetBrokerClusterAclInfoResponseHeader": "version:S allAclFileVersion:S? brokerName:S brokerAddr:S clusterName:S",
    "UpdateGlobalWhiteAddrsConfigRequestHeader": "globalWhiteAddrs:S aclFileFullPath:S?",
    "RegisterFilterServerRequestHeader": "filterServerAddr:S",
    "RegisterFilterServerResponseHeader": "brokerName:S brokerId:L",
    "RegisterMessageFilterClassRequestHeader": "consumerGroup:S topic:S className:S classCRC:I?",
}
# T: how a transaction ended. F: a topic's filter type. The largest of each range tells i32 from i64.
SAMPLES = {"S": "text", "I": str(2**31 - 1), "L": str(2**63 - 1), "B": "true", "T": "8", "F": "MULTI_TAG"}
UNREADABLE = {"I": str(2**31), "L": str(2**63), "T": "7", "F": "ANY_TAG"}


def _all_headers() -> Iterator[type[Header]]:
    for module in pkgutil.iter_modules(headers.__path__):
        values = vars(importlib.import_module(f"{headers.__name__}.{module.name}")).values()
        kinds = (value for value in values if isinstance(value, type) and issubclass(value, Header))
        yield from (kind for kind in kinds if kind is not Header and not kind.__name__.startswith("_"))


HEADERS = {kind.__name__: kind for kind in _all_headers()}


def _notation(name: str) -> dict[str, str]:
    return dict(field.split(":") for field in FIELDS[name].split())


def _sample(name: str) -> dict[str, str]:
    return {key: SAMPLES[kind[0]] for key, kind in _notation(name).items()}


def test_every_header_is_in_the_table() -> None:
    assert HEADERS.keys() == FIELDS.keys()


@pytest.mark.parametrize("name", FIELDS)
def test_a_header_has_exactly_the_fields_of_the_protocol(name: str) -> None:
    assert to_ext(from_ext(_sample(name), HEADERS[name])) == _sample(name)


@pytest.mark.parametrize("name", FIELDS)
def test_a_required_field_may_not_be_missing_and_an_optional_one_may(name: str) -> None:
    for key, kind in _notation(name).items():
        ext = {other: text for other, text in _sample(name).items() if other != key}
        if kind[-1] == "?" or kind == "B":
            from_ext(ext, HEADERS[name])
        else:
            with pytest.raises(MalformedHeader, match=key):
                from_ext(ext, HEADERS[name])


@pytest.mark.parametrize("name", FIELDS)
def test_an_unreadable_required_field_is_malformed_and_an_optional_one_counts_as_absent(name: str) -> None:
    for key, kind in _notation(name).items():
        text = UNREADABLE.get(kind[0])
        if text is None:
            continue
        ext = _sample(name) | {key: text}
        if kind[-1] == "?":
            without = {other: text for other, text in _sample(name).items() if other != key}
            assert from_ext(ext, HEADERS[name]) == from_ext(without, HEADERS[name])
        else:
            with pytest.raises(MalformedHeader, match=key):
                from_ext(ext, HEADERS[name])


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("1", True), ("false", False), ("0", False), ("yes", False)]
)
def test_booleans_are_read_as_all_clients_write_them(text: str, value: bool) -> None:
    ext = _sample("SendMessageRequestHeader") | {"batch": text}
    assert from_ext(ext, SendMessageRequestHeader).batch is value


def test_unknown_fields_are_ignored() -> None:
    ext = {"topic": "t", "queueId": "3", "AccessKey": "me", "future": "x"}
    assert from_ext(ext, GetMaxOffsetRequestHeader) == GetMaxOffsetRequestHeader(topic="t", queue_id=3)


def test_a_malformed_header_names_header_and_field() -> None:
    with pytest.raises(MalformedHeader, match=r"GetMaxOffsetRequestHeader: .*queueId"):
        from_ext({"topic": "t", "queueId": "three"}, GetMaxOffsetRequestHeader)


def test_fields_that_are_none_do_not_travel() -> None:
    assert to_ext(GetMaxOffsetRequestHeader(topic="t", queue_id=3)) == {"topic": "t", "queueId": "3"}


def test_booleans_travel_in_lower_case_and_enum_members_as_numbers() -> None:
    header = EndTransactionRequestHeader(
        producer_group="g",
        tran_state_table_offset=1,
        commit_log_offset=-2,
        commit_or_rollback=TransactionState.ROLLBACK,
        from_transaction_check=True,
        msg_id="",
    )
    assert to_ext(header) == {
        "producerGroup": "g",
        "tranStateTableOffset": "1",
        "commitLogOffset": "-2",
        "commitOrRollback": "12",
        "fromTransactionCheck": "true",
        "msgId": "",
    }


def test_a_topic_filter_type_is_one_of_two() -> None:
    ext = _sample("UpdateAndCreateTopicRequestHeader") | {"topicFilterType": "NONE"}
    with pytest.raises(MalformedHeader):
        from_ext(ext, UpdateAndCreateTopicRequestHeader)


def test_both_send_headers_have_the_same_attributes() -> None:
    assert SendMessageRequestHeaderV2.__struct_fields__ == SendMessageRequestHeader.__struct_fields__


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _values(kind: typing.Any) -> st.SearchStrategy[typing.Any]:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return st.one_of(*map(_values, typing.get_args(kind)))
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return st.sampled_from(kind)
    simple: dict[typing.Any, st.SearchStrategy[typing.Any]] = {
        str: TEXT,
        bool: st.booleans(),
        I32: st.integers(-(2**31), 2**31 - 1),
        I64: st.integers(-(2**63), 2**63 - 1),
        type(None): st.none(),
    }
    return simple[kind]


def _instances(kind: type[Header]) -> st.SearchStrategy[Header]:
    return st.builds(kind, **{field.name: _values(field.type) for field in msgspec.structs.fields(kind)})


ANY_HEADER = st.sampled_from(list(HEADERS.values())).flatmap(_instances)


@given(ANY_HEADER, st.sampled_from(SerializeType))
def test_headers_survive_the_wire(header: Header, serialize: SerializeType) -> None:
    frame = request(1, header, serialize=serialize).encode()
    assert decode(frame[4:]).header(type(header)) == header


@given(ANY_HEADER | _instances(SendMessageRequestHeaderV2))
def test_a_header_as_json_holds_its_ext_fields_as_strings(header: Header) -> None:
    assert msgspec.json.decode(header.to_json(), type=dict[str, str]) == to_ext(header)
