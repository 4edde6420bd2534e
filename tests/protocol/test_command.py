"""RemotingCommand on the wire: exact bytes, both header forms, and what strangers may send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import (
    MAX_FRAME,
    FrameDecoder,
    RemotingCommand,
    SerializeType,
    decode,
    request,
    response,
)
from pyromq.protocol.headers.clients import HeartBeatResponseHeader
from pyromq.protocol.headers.offsets import GetMaxOffsetRequestHeader, GetMaxOffsetResponseHeader
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from tests.protocol.framing import frame, json_frame

ROUTE_REQUEST = (
    b'\x00\x00\x00\x87\x00\x00\x00\x83{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA",'
    b'"opaque":0,"serializeTypeCurrentRPC":"JSON","version":399}'
)
HEARTBEAT_REQUEST = bytes.fromhex("0000001B 01000015 0022 00 018F 00000004 00000002 00000000 00000000 0102")


def test_a_java_route_request_is_written_byte_for_byte() -> None:
    command = RemotingCommand(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        language=LanguageCode.JAVA,
        version=399,
        ext=GetRouteInfoByTopicRequestHeader(topic="TopicTest"),
    )
    assert command.encode() == ROUTE_REQUEST


def test_a_java_route_request_is_read() -> None:
    command = decode(ROUTE_REQUEST[4:])
    assert (command.code, command.opaque, command.flag, command.version) == (105, 0, 0, 399)
    assert command.language is LanguageCode.JAVA
    assert command.remark is None
    assert command.header(GetRouteInfoByTopicRequestHeader).topic == "TopicTest"


def test_a_binary_heartbeat_is_written_byte_for_byte_and_read_back() -> None:
    command = RemotingCommand(
        RequestCode.HEART_BEAT,
        opaque=4,
        flag=2,
        language=LanguageCode.JAVA,
        version=399,
        body=b"\x01\x02",
        serialize=SerializeType.ROCKETMQ,
    )
    assert command.encode() == HEARTBEAT_REQUEST
    assert decode(HEARTBEAT_REQUEST[4:]) == command


@pytest.mark.parametrize(
    ("answer", "header"),
    [
        (
            RemotingCommand(0, 2, 1, LanguageCode.JAVA, 399),
            b'{"code":0,"flag":1,"language":"JAVA","opaque":2,"serializeTypeCurrentRPC":"JSON","version":399}',
        ),
        (
            RemotingCommand(17, 1, 1, LanguageCode.JAVA, 399, "..."),
            b'{"code":17,"flag":1,"language":"JAVA","opaque":1,"remark":"...",'
            b'"serializeTypeCurrentRPC":"JSON","version":399}',
        ),
    ],
)
def test_typical_answers_are_written_byte_for_byte(answer: RemotingCommand, header: bytes) -> None:
    assert answer.encode()[8:] == header


def test_a_header_object_without_fields_is_written_as_an_empty_object() -> None:
    assert b'"extFields":{},' in RemotingCommand(0, ext=HeartBeatResponseHeader()).encode()
    assert b"extFields" not in RemotingCommand(0).encode()


def test_an_answer_echoes_opaque_and_form_and_says_java() -> None:
    question = request(RequestCode.GET_MAX_OFFSET, serialize=SerializeType.ROCKETMQ)
    question.opaque = -7
    answer = response(question, ResponseCode.SYSTEM_ERROR, "no", body=b"x")
    assert answer == RemotingCommand(1, -7, 1, LanguageCode.JAVA, 409, "no", None, b"x", SerializeType.ROCKETMQ)
    assert answer.is_response
    assert not answer.is_oneway


def test_a_request_says_python_and_whether_it_waits() -> None:
    assert request(34).language is LanguageCode.PYTHON
    assert (request(34).flag, request(34, oneway=True).flag) == (0, 2)
    assert request(34, oneway=True).is_oneway
    assert not request(34).is_response


@pytest.mark.parametrize("serialize", SerializeType)
def test_answers_hold_numbers_as_strings(serialize: SerializeType) -> None:
    answer = response(request(30, serialize=serialize), header=GetMaxOffsetResponseHeader(offset=2**40))
    assert decode(answer.encode()[4:]).ext_fields == {"offset": str(2**40)}


def test_an_answers_json_is_strict_and_compact() -> None:
    remark = 'quote " backslash \\ control \x01 line \n 中文 \U0001f600 </script>'
    encoded = response(request(30), 1, remark, GetMaxOffsetResponseHeader(offset=1)).encode()[8:]
    parsed = json.loads(encoded)
    assert parsed["remark"] == remark
    assert json.dumps(parsed, separators=(",", ":"), ensure_ascii=False).encode() == encoded


# --- reading leniently -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b'{"code":34}', b'{"code":34,"extFields":null}', b'{"code":34,"extFields":{}}'])
def test_ext_fields_may_be_absent_null_or_empty(header: bytes) -> None:
    command = decode(frame(header))
    assert command.ext_fields == {}
    with pytest.raises(MalformedHeader):
        command.header(GetMaxOffsetRequestHeader)


def test_ext_values_become_text_whatever_they_were() -> None:
    ext = b'{"s":"x","i":-5,"f":1.50,"t":true,"n":null,"o":{"a": [1]},"\xc3\xa9":"\\u4e2d"}'
    command = decode(frame(b'{"code":1,"extFields":' + ext + b"}"))
    assert command.ext_fields == {"s": "x", "i": "-5", "f": "1.50", "t": "true", "o": '{"a": [1]}', "é": "中"}


def test_absent_members_have_their_defaults() -> None:
    assert decode(frame(b"{}")) == RemotingCommand(0, language=LanguageCode.JAVA, version=0)


def test_unknown_members_are_ignored_and_order_does_not_matter() -> None:
    command = decode(frame(b'{"version":1,"x":[1,{}],"opaque":9,"code":30}'))
    assert (command.code, command.opaque, command.version) == (30, 9, 1)


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" "])
def test_blanks_around_the_header_are_allowed(blank: bytes) -> None:
    assert decode(frame(blank + b'{"code":30}' + blank, b"body")).body == b"body"


@pytest.mark.parametrize(
    ("written", "language"),
    [
        ("JAVA", LanguageCode.JAVA),
        ("go", LanguageCode.GO),
        ("Cpp", LanguageCode.CPP),
        (9, LanguageCode.GO),
        ("RUST", LanguageCode.RUST),
        ("KLINGON", LanguageCode.OTHER),
        (99, LanguageCode.OTHER),
        (-1, LanguageCode.OTHER),
        (None, LanguageCode.OTHER),
    ],
)
def test_languages_are_read_by_name_in_any_case_or_by_number(written: object, language: LanguageCode) -> None:
    assert decode(json_frame(code=34, language=written)).language is language


def test_an_unknown_language_of_a_binary_header_is_other() -> None:
    changed = bytearray(HEARTBEAT_REQUEST[4:])
    changed[6] = 77
    assert decode(bytes(changed)).language is LanguageCode.OTHER


@pytest.mark.parametrize("opaque", [2**31 - 1, -(2**31), -1])
def test_an_opaque_may_be_any_signed_32_bit_number(opaque: int) -> None:
    assert decode(json_frame(code=34, opaque=opaque)).opaque == opaque


def test_a_header_that_was_decoded_typed_is_not_converted_again() -> None:
    command = RemotingCommand(30, ext=GetMaxOffsetRequestHeader(topic="t", queue_id=1))
    assert command.header(GetMaxOffsetRequestHeader) is command.ext


def test_a_typed_header_can_be_read_as_another() -> None:
    command = RemotingCommand(30, ext=GetMaxOffsetRequestHeader(topic="t", queue_id=1))
    assert command.header(GetRouteInfoByTopicRequestHeader).topic == "t"


# --- round trips -----------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
I16 = st.integers(-(2**15), 2**15 - 1)
COMMANDS = st.builds(
    RemotingCommand,
    code=I16,
    opaque=st.integers(-(2**31), 2**31 - 1),
    flag=st.integers(0, 3),
    language=st.sampled_from(LanguageCode),
    version=I16,
    remark=st.none() | TEXT.filter(bool),
    ext=st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=5),
    body=st.binary(max_size=100),
    serialize=st.sampled_from(SerializeType),
)


@given(COMMANDS)
def test_commands_survive_the_wire_in_both_forms(command: RemotingCommand) -> None:
    encoded = command.encode()
    assert int.from_bytes(encoded[:4], "big") == len(encoded) - 4
    assert decode(encoded[4:]) == command
    assert decode(encoded[4:], typed=False) == command


# --- our own mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        RemotingCommand(1, body=bytes(MAX_FRAME)),
        RemotingCommand(1, ext={"a": "x" * 2**24}),
        RemotingCommand(1, remark="\ud800"),
        RemotingCommand(1, ext={"a": "\ud800"}),
        RemotingCommand(1, ext={"a": "\ud800"}, serialize=SerializeType.ROCKETMQ),
        RemotingCommand(2**15, serialize=SerializeType.ROCKETMQ),
        RemotingCommand(1, opaque=2**31, serialize=SerializeType.ROCKETMQ),
        RemotingCommand(1, ext={"k" * 2**15: ""}, serialize=SerializeType.ROCKETMQ),
    ],
    ids=["frame", "header", "remark", "ext", "binary ext", "binary code", "binary opaque", "binary key"],
)
def test_what_no_frame_can_hold_is_a_local_protocol_error(command: RemotingCommand) -> None:
    with pytest.raises(LocalProtocolError):
        command.encode()


def test_the_largest_frame_that_can_be_written_is_the_largest_that_can_be_read() -> None:
    command = RemotingCommand(1)
    command.body = bytes(MAX_FRAME - len(command.encode()))
    assert len(FrameDecoder().feed(command.encode())) == 1
    command.body += b"x"
    with pytest.raises(LocalProtocolError, match="16777217 bytes"):
        command.encode()
