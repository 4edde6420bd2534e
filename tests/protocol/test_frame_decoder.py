"""FrameDecoder: every way of splitting the bytes gives the same frames."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import MAX_FRAME, FrameDecoder, RemotingCommand, SerializeType, decode, request
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from tests.protocol.framing import with_length

FRAMES = st.lists(st.binary(min_size=4, max_size=200), max_size=8)


@given(FRAMES, st.data())
def test_frames_come_out_whole_however_the_stream_is_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(with_length, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    decoder = FrameDecoder()
    received: list[bytes | memoryview] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[start:end])
    assert received == frames
    assert decoder.pending == 0


def test_commands_fed_one_byte_at_a_time_are_decoded() -> None:
    commands = [
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicRequestHeader(topic="orders")),
        request(RequestCode.HEART_BEAT, body=b"{}", serialize=SerializeType.ROCKETMQ),
        request(RequestCode.GET_BROKER_CLUSTER_INFO, body=b"x" * 300, oneway=True),
    ]
    decoder = FrameDecoder()
    received: list[RemotingCommand] = []
    for byte in b"".join(command.encode() for command in commands):
        received += map(decode, decoder.feed(bytes([byte])))
    assert [(command.code, command.flag, command.body) for command in received] == [
        (command.code, command.flag, command.body) for command in commands
    ]


def test_each_byte_is_counted_as_pending_until_its_frame_is_complete() -> None:
    decoder = FrameDecoder()
    pending = []
    for byte in with_length(b"abcd"):
        decoder.feed(bytes([byte]))
        pending.append(decoder.pending)
    assert pending == [1, 2, 3, 4, 5, 6, 7, 0]


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME - 3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("held", [0, 1, 3])
def test_an_impossible_length_is_refused(length: int, held: int) -> None:
    decoder = FrameDecoder()
    data = length.to_bytes(4, "big", signed=True)
    assert decoder.feed(data[:held]) == []
    with pytest.raises(RemoteProtocolError, match="frame length"):
        decoder.feed(data[held:])


def test_the_largest_frame_passes_in_small_pieces() -> None:
    # A decoder that copied what it holds at each read would move 137 GB here, and run into the time limit.
    payload = bytes(range(256)) * (MAX_FRAME // 256)
    stream = with_length(payload[: MAX_FRAME - 4]) + with_length(b"next")
    decoder = FrameDecoder()
    received: list[bytes | memoryview] = []
    for start in range(0, len(stream), 1000):
        received += decoder.feed(stream[start : start + 1000])
    assert received == [payload[: MAX_FRAME - 4], b"next"]


def test_memory_grows_with_what_arrives_not_with_what_is_announced() -> None:
    tracemalloc.start()
    try:
        decoders = [FrameDecoder() for _ in range(64)]
        for decoder in decoders:
            decoder.feed((MAX_FRAME - 4).to_bytes(4, "big") + b"x" * 100)
            decoder.feed(b"x" * 100)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(decoder.pending == 204 for decoder in decoders)
    assert peak < 1_000_000


def test_a_smaller_limit_can_be_set() -> None:
    decoder = FrameDecoder(max_frame=100)
    assert decoder.feed(with_length(b"x" * 96)) == [b"x" * 96]
    with pytest.raises(RemoteProtocolError):
        decoder.feed(with_length(b"x" * 97))


@given(st.binary(max_size=64))
def test_garbage_raises_only_a_protocol_error(data: bytes) -> None:
    decoder = FrameDecoder()
    try:
        frames = decoder.feed(data)
    except RemoteProtocolError:
        return
    assert sum(len(frame) + 4 for frame in frames) + decoder.pending == len(data)


def test_a_frame_of_many_reads_is_copied_once() -> None:
    """A copy of the largest frame takes some 8 ms; several may end in one pass of the loop."""
    stream = request(RequestCode.HEART_BEAT, body=bytes(8 << 20)).encode()
    decoder = FrameDecoder()
    decoder.feed(stream[: 4 << 20])
    tracemalloc.start()
    try:
        (frame,) = decoder.feed(stream[4 << 20 :])
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        command = decode(frame)
        copied = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert type(command.body) is bytes
    assert command.body == bytes(8 << 20)
    assert isinstance(frame, memoryview), "not copied yet"
    assert copied < 9 << 20
