"""What released clients really send, point by point: frames and headers."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import SerializeType, decode
from pyromq.protocol.headers.clients import UnregisterClientRequestHeader
from pyromq.protocol.headers.offsets import GetMaxOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from pyromq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader, TransactionState
from tests.protocol.framing import frame, json_frame

# C++ 1.0.1 and 2.1.0: numbers and texts mixed, credentials always, a line feed at the end of header and JSON bodies.
CPP_SEND = (
    b'{"code":10,"extFields":{"AccessKey":"","OnsChannel":"ALIYUN","Signature":"x","batch":"0","bornTimestamp":1700000000000,'
    b'"defaultTopic":"TBW102","defaultTopicQueueNums":4,"flag":0,"producerGroup":"g","properties":"TAGS\\u0001a\\u0002",'
    b'"queueId":3,"reconsumeTimes":"0","sysFlag":"0","topic":"orders","unitMode":"0"},"flag":0,"language":"CPP","opaque":5,'
    b'"remark":"","serializeTypeCurrentRPC":"JSON","version":63}\n'
)
CPP_BATCH_V2 = (
    b'{"code":310,"extFields":{"a":"g","b":"orders","c":"TBW102","d":"4","e":"3","f":"0","g":"1700000000000","h":"0",'
    b'"i":"","j":"0","k":"0","m":"1"},"flag":0,"language":"CPP","opaque":6,"version":333}\n'
)
JAVASCRIPT_PULL = (
    b'{"code":11,"language":"JAVA","version":121,"opaque":7,"flag":0,"remark":"","extFields":{"consumerGroup":"g",'
    b'"topic":"orders","queueId":0,"queueOffset":"0","maxMsgNums":32,"sysFlag":7,"commitOffset":-1,'
    b'"suspendTimeoutMillis":15000,"subscription":"*","subVersion":1700000000000}}'
)


@pytest.mark.parametrize(
    ("version", "language"), [(63, "CPP"), (333, "CPP"), (121, "JAVA"), (78, "JAVA")], ids=lambda value: str(value)
)
def test_the_first_frame_of_each_is_a_route_request(version: int, language: str) -> None:
    command = decode(
        json_frame(code=105, language=language, version=version, opaque=1, flag=0, extFields={"topic": "orders"})
    )
    assert command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
    assert (command.version, command.language.name) == (version, language)
    assert command.header(GetRouteInfoByTopicRequestHeader).topic == "orders"


def test_a_line_feed_that_counts_in_the_length_ends_cpp_headers_and_bodies() -> None:
    command = decode(frame(CPP_SEND, b'{"clientID":"x"}\n'))
    assert command.serialize is SerializeType.JSON
    assert command.body == b'{"clientID":"x"}\n'
    assert command.language is LanguageCode.CPP


def test_texts_and_numbers_are_mixed_in_one_header() -> None:
    header = decode(frame(CPP_SEND)).header(SendMessageRequestHeader)
    assert (header.queue_id, header.reconsume_times, header.born_timestamp) == (3, 0, 1_700_000_000_000)
    assert header.properties == "TAGS\x01a\x02"


def test_a_remark_may_be_empty() -> None:
    assert not decode(frame(CPP_SEND)).remark


@pytest.mark.parametrize(("written", "batch"), [("0", False), ("1", True), ("true", True), ("false", False)])
def test_batch_flags_are_read_as_text(written: str, batch: bool) -> None:
    changed = CPP_SEND.replace(b'"batch":"0"', f'"batch":"{written}"'.encode())
    assert decode(frame(changed)).header(SendMessageRequestHeader).batch is batch


@pytest.mark.parametrize(("written", "batch"), [("false", False), ("true", True), ("0", False), ("1", True)])
def test_batch_flags_are_read_as_json_values(written: str, batch: bool) -> None:
    changed = CPP_SEND.replace(b'"batch":"0"', f'"batch":{written}'.encode())
    assert decode(frame(changed)).header(SendMessageRequestHeader).batch is batch


def test_a_cpp_batch_is_a_310_with_m_1() -> None:
    assert decode(frame(CPP_BATCH_V2)).header(SendMessageRequestHeaderV2).batch


def test_a_cpp_oneway_send_has_no_oneway_flag_and_waits_for_its_answer() -> None:
    assert not decode(frame(CPP_SEND)).is_oneway


def test_credentials_do_not_disturb_the_header() -> None:
    assert b'"AccessKey":""' in CPP_SEND
    assert decode(frame(CPP_SEND)).header(SendMessageRequestHeader).topic == "orders"


def test_all_values_that_a_signature_covers_are_kept_as_text() -> None:
    ext = decode(frame(CPP_SEND), typed=False).ext_fields
    signed = "".join(text for name, text in sorted(ext.items()) if name != "Signature")
    assert signed == "ALIYUN01700000000000TBW10240gTAGS\x01a\x02300orders0"


def test_the_documented_signature_comes_out_of_the_decoded_fields() -> None:
    command = decode(json_frame(code=30, extFields={"topic": "TopicTest", "queueId": 0, "AccessKey": "RocketMQ"}))
    data = "".join(text for _, text in sorted(command.ext_fields.items())).encode() + command.body
    signature = base64.b64encode(hmac.new(b"12345678", data, hashlib.sha1).digest())
    assert signature == b"81TVNXFMLTfMm08aNFX+r9iZBrY="


def test_a_negative_commit_offset_is_read_as_it_is() -> None:
    ext = {"consumerGroup": "g", "topic": "orders", "queueId": 1, "commitOffset": -1}
    header = decode(json_frame(code=15, extFields=ext)).header(UpdateConsumerOffsetRequestHeader)
    assert header.commit_offset == -1


def test_a_pull_without_expression_type_and_with_numbers_is_read() -> None:
    header = decode(frame(JAVASCRIPT_PULL)).header(PullMessageRequestHeader)
    assert (header.sys_flag, header.max_msg_nums, header.suspend_timeout_millis) == (7, 32, 15000)
    assert (header.subscription, header.expression_type, header.commit_offset) == ("*", None, -1)


@pytest.mark.parametrize(
    ("written", "state"),
    [("8", TransactionState.COMMIT), ("12", TransactionState.ROLLBACK), ("0", TransactionState.UNKNOWN)],
)
def test_the_end_of_a_transaction_is_read(written: str, state: TransactionState) -> None:
    ext = {
        "producerGroup": "g",
        "tranStateTableOffset": "1",
        "commitLogOffset": "2",
        "commitOrRollback": written,
        "fromTransactionCheck": "1",
        "msgId": "00",
        "transactionId": "",
    }
    header = decode(json_frame(code=37, extFields=ext)).header(EndTransactionRequestHeader)
    assert (header.commit_or_rollback, header.from_transaction_check, header.transaction_id) == (state, True, "")


def test_an_unregistration_names_unused_groups_by_empty_texts() -> None:
    ext = {"clientID": "10.0.0.1@1#DEFAULT", "producerGroup": "", "consumerGroup": "g"}
    header = decode(json_frame(code=35, extFields=ext)).header(UnregisterClientRequestHeader)
    assert (header.producer_group, header.consumer_group) == ("", "g")


def test_a_go_client_may_use_binary_headers() -> None:
    fixed = bytes.fromhex("001E 09 013D 00000001 00000000 00000000 0000001C")
    ext = b"\x00\x05topic\x00\x00\x00\x03abc" + b"\x00\x07queueId\x00\x00\x00\x012"
    command = decode(frame(fixed + ext, serialize=1))
    assert (command.language, command.version) == (LanguageCode.GO, 317)
    assert command.header(GetMaxOffsetRequestHeader) == GetMaxOffsetRequestHeader(topic="abc", queue_id=2)
