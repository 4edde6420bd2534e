"""The fast decoder of hot requests against its oracle, the plain one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import MalformedHeader, RemoteProtocolError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, SerializeType, decode, request, response
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from tests.protocol.framing import frame, json_frame

HOT: dict[int, type[Header]] = {
    RequestCode.SEND_MESSAGE: SendMessageRequestHeader,
    RequestCode.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    RequestCode.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    RequestCode.PULL_MESSAGE: PullMessageRequestHeader,
}
SEND = SendMessageRequestHeaderV2(
    producer_group="group",
    topic="orders",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="TAGS\x01a\x02",
    reconsume_times=0,
)

# Values as found in the wild, and worse: JSON text, not Python values, so that spelling counts.
VALUES = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.integers(-(2**33), 2**33).map(lambda number: f'"{number}"'),
    st.sampled_from(["0", "1", "2", "-0", "1.0", "0.5", "1e2", "1e400", "true", "false", "null", "[]", '{"a":1}']),
    st.sampled_from(["", "0", "1", "2", "-0", "1.0", "1e2", "+1", "01", " 1", "true", "FALSE", "yes", "null"]).map(
        json.dumps
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(json.dumps),
)


@st.composite
def hot_frames(draw: st.DrawFn) -> bytes:
    """A hot request of an odd client: members in any order, ext fields missing, repeated or of any type."""
    code = draw(st.sampled_from(sorted(HOT)))
    good = {name: draw(st.sampled_from(['"7"', "7"])) for name in HOT[code].__struct_encode_fields__}
    changes = draw(st.lists(st.tuples(st.sampled_from([*good, "AccessKey"]), st.none() | VALUES), max_size=4))
    dropped = {name for name, value in changes if value is None}
    members = [(name, value) for name, value in good.items() if name not in dropped]
    members += [(name, value) for name, value in changes if value is not None]
    ext = ",".join(f"{json.dumps(name)}:{value}" for name, value in draw(st.permutations(members)))
    head = [f'"code":{code}', f'"extFields":{{{ext}}}', '"opaque":3', '"language":"CPP"', '"version":63']
    return frame(("{" + ",".join(draw(st.permutations(head))) + "}\n").encode(), b"body")


def _outcome(data: bytes, *, typed: bool) -> tuple[object, ...]:
    try:
        command = decode(data, typed=typed)
    except RemoteProtocolError as error:
        return (type(error),)
    rest = (command.code, command.opaque, command.flag, command.language, command.version, command.remark, command.body)
    try:
        return (*rest, command.header(HOT[command.code]))
    except MalformedHeader as error:
        return (*rest, str(error))


@given(hot_frames())
def test_the_typed_and_the_plain_decoder_agree(data: bytes) -> None:
    assert _outcome(data, typed=True) == _outcome(data, typed=False)


@pytest.mark.parametrize("code", [310, 320])
def test_a_hot_request_has_its_header_at_once(code: int) -> None:
    command = decode(request(code, SEND, b"body").encode()[4:])
    assert command.ext == SEND
    assert command.header(SendMessageRequestHeaderV2) is command.ext
    assert isinstance(command.header(SendMessageRequestHeader), SendMessageRequestHeaderV2)


def test_an_untyped_decode_keeps_fields_that_we_do_not_know() -> None:
    command = request(RequestCode.SEND_MESSAGE_V2, SEND)
    ext = command.ext_fields | {"AccessKey": "", "Signature": "abc"}
    data = json_frame(code=310, extFields=ext)
    assert decode(data, typed=False).ext_fields == ext
    assert decode(data).ext_fields == command.ext_fields


def test_a_hot_request_that_lacks_a_field_is_a_malformed_header_not_a_malformed_frame() -> None:
    ext = request(310, SEND).ext_fields
    del ext["b"]
    command = decode(json_frame(code=310, extFields=ext))
    with pytest.raises(MalformedHeader, match="`b`"):
        command.header(SendMessageRequestHeaderV2)


@pytest.mark.parametrize("code", [10, 11])
def test_an_answer_is_not_taken_for_the_request_with_its_code(code: int) -> None:
    header = SendMessageResponseHeader(msg_id="00", queue_id=1, queue_offset=5)
    answer = decode(response(request(310), code, header=header).encode()[4:])
    assert answer.is_response
    assert answer.header(SendMessageResponseHeader) == header


def test_a_binary_hot_request_gives_the_same_header() -> None:
    command = decode(request(310, SEND, serialize=SerializeType.ROCKETMQ).encode()[4:])
    assert command.serialize is SerializeType.ROCKETMQ
    assert command.header(SendMessageRequestHeaderV2) == SEND


def test_a_code_written_twice_counts_as_the_last() -> None:
    ext = json.dumps(request(310, SEND).ext_fields)
    command = decode(frame(f'{{"code":310,"extFields":{ext},"code":30}}'.encode()))
    assert command == RemotingCommand(30, language=command.language, version=0, ext=command.ext_fields)
