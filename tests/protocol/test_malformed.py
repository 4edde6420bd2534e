"""Frames that are not what they should be: one ProtocolError each, never another exception, never a loop."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.command import MAX_FRAME, MAX_HEADER, decode
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from tests.protocol.framing import frame, json_frame

HEARTBEAT_FIXED = bytes.fromhex("0022 00 018F 00000004 00000002")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x05{}",
        b"\x02\x00\x00\x02{}",
        b"\xff\x00\x00\x02{}",
        frame(b""),
        frame(b"{"),
        frame(b"{}{}"),
        frame(b"null"),
        frame(b"[]"),
        frame(b"105"),
        frame(b'{"code":'),
        frame(b'{"code":1.5}'),
        frame(b'{"code":"many"}'),
        frame(b'{"code":NaN}'),
        frame(b'{"code":' + b"9" * 100_000 + b"}"),
        frame(b'{"code":1,"opaque":2147483648}'),
        frame(b'{"code":1,"opaque":-2147483649}'),
        frame(b'{"code":1,"opaque":1e400}'),
        frame(b'{"code":1,"remark":"\xff"}'),
        frame(b'{"code":1,"remark":"\\ud800"}'),
        frame(b'{"code":1,"extFields":[]}'),
        frame(b'{"code":1,"extFields":"x"}'),
        frame(b'{"code":1,"extFields":{"a":{"b":"\xff"}}}'),
        frame(b'{"code":1,"extFields":{"\xff":1}}'),
        frame(b'{"code":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        frame(b'{"a":' * 40_000),
        frame(b'{"code":310,"extFields":{"a":' + b"[" * 100_000),
        frame(b'{"code":34,"extFields":{' + b",".join(b'"%d":"1"' % number for number in range(1001)) + b"}}"),
        frame(b'{"code":34,"extFields":{' + b",".join(b'"%d":1' % number for number in range(1001)) + b"}}"),
    ],
    ids=lambda data: repr(data[:24]),
)
def test_a_malformed_frame_is_a_remote_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data)


def _binary(
    remark: bytes = b"", ext: bytes = b"", remark_length: int | None = None, ext_length: int | None = None
) -> bytes:
    lengths = (len(remark) if remark_length is None else remark_length, len(ext) if ext_length is None else ext_length)
    first, second = (length.to_bytes(4, "big", signed=True) for length in lengths)
    return frame(HEARTBEAT_FIXED + first + remark + second + ext, serialize=1)


def test_a_binary_header_with_texts_is_read() -> None:
    command = decode(_binary("é".encode(), b"\x00\x01a\x00\x00\x00\x02bc" + b"\x00\x00\x00\x00\x00\x00"))
    assert (command.remark, command.ext_fields) == ("é", {"a": "bc", "": ""})


@pytest.mark.parametrize(
    "data",
    [
        frame(b"", serialize=1),
        frame(HEARTBEAT_FIXED + bytes(7), serialize=1),
        _binary(remark_length=-1),
        _binary(remark_length=2**31 - 1),
        _binary(b"\xff"),
        _binary(ext_length=-6),
        _binary(ext=b"\x00\x01a\x00\x00\x00\x01b", ext_length=9),
        _binary(ext=b"\x00"),
        _binary(ext=b"\xff\xff\x00\x00\x00\x00"),
        _binary(ext=b"\x00\x00\xff\xff\xff\xfa"),
        _binary(ext=b"\x80\x00\x00\x00\x00\x00"),
        _binary(ext=b"\x00\x01a\x00\x00\x00\x04\x00\x00\x00\x00\xff\xfa"),  # would lead back to where it stands
        _binary(ext=b"\x00\x02a\x00\x00\x00\x00"),
        _binary(ext=b"\x00\x01a\x7f\xff\xff\xff"),
        _binary(ext=b"\x00\x01\xff\x00\x00\x00\x00"),
        _binary(ext=bytes(6) * 1001),
    ],
    ids=lambda data: data.hex()[-24:],
)
def test_a_malformed_binary_header_is_a_remote_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(data)


def test_a_header_over_the_cap_is_refused_before_it_is_parsed() -> None:
    too_long = frame(b'{"code":1}'.ljust(MAX_HEADER + 1))
    with pytest.raises(RemoteProtocolError, match="limit 262144"):
        decode(too_long)
    assert decode(frame(b'{"code":1}'.ljust(MAX_HEADER))).code == 1
    assert decode(too_long, max_header=MAX_FRAME).code == 1


VALID_FRAMES = [
    json_frame(code=105, extFields={"topic": "TopicTest"}, flag=0, language="JAVA", opaque=0, version=399),
    _binary(),
    _binary(b"remark", b"\x00\x01a\x00\x00\x00\x02bc"),
    json_frame(b"body", code=310, extFields={"a": "g", "b": "t", "d": 4}, opaque=1, language="CPP"),
]


@given(st.sampled_from(VALID_FRAMES), st.data())
def test_a_damaged_frame_is_read_or_is_a_protocol_error(data: bytes, damage: st.DataObject) -> None:
    position = damage.draw(st.integers(0, len(data)))
    removed = damage.draw(st.integers(0, 8))
    changed = data[:position] + damage.draw(st.binary(max_size=8)) + data[position + removed :]
    with contextlib.suppress(RemoteProtocolError):  # nothing else may escape
        decode(changed).header(GetRouteInfoByTopicRequestHeader)


@given(st.binary(max_size=200), st.sampled_from([0, 1]))
def test_random_headers_are_read_or_are_protocol_errors(header: bytes, serialize: int) -> None:
    try:
        decode(frame(header, serialize=serialize))
    except RemoteProtocolError as error:
        message = str(error)
    else:
        message = ""
    assert len(message) < 300  # it goes into a log line
