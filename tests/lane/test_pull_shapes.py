"""The shape of a pull: requests of one shape mean the same but for three numbers, and both lanes find the same."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.lane import native, pull_shapes
from pyromq.lane.pull_shapes import PullShape, plain_shape
from pyromq.protocol.command import RemotingCommand, decode, request
from pyromq.protocol.headers.pull import PullMessageRequestHeader

MODULE = native("pulls")

FIELDS = {
    "consumerGroup": "billing",
    "topic": "orders",
    "queueId": "3",
    "maxMsgNums": "32",
    "sysFlag": "5",
    "suspendTimeoutMillis": "15000",
    "subscription": "*",
    "subVersion": "0",
}
numbers = st.integers(-(10**18) + 1, 10**18 - 1)
opaques = st.integers(0, (1 << 31) - 1)
texts = st.text(max_size=12)


def shape(frame: bytes | memoryview) -> PullShape | None:
    """Return what both lanes find."""
    found = plain_shape(frame)
    if MODULE is not None:
        assert MODULE.shape(frame) == found
    return found


def frame_of(header: bytes) -> bytes:
    return struct.pack(">I", len(header)) + header


def pull(offset: object, commit: object, opaque: object, order: list[str] | None = None, **others: Any) -> bytes:
    """Return a pull whose ext fields stand in the given order."""
    fields = FIELDS | {"queueOffset": offset, "commitOffset": commit} | others
    fields = {name: fields[name] for name in order} if order else fields
    command = {"code": 11, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 401}
    return frame_of(json.dumps(command, separators=(",", ":"), ensure_ascii=False).encode())


def meaning(frame: bytes) -> object:
    """Return what a frame says, without the three numbers; None if it says nothing."""
    try:
        command = decode(frame)
    except RemoteProtocolError:
        return None
    fields = {name: text for name, text in command.ext_fields.items() if name not in ("queueOffset", "commitOffset")}
    return command.code, command.flag, command.language, command.version, command.remark, fields, type(command.ext)


@given(numbers, numbers, opaques, st.permutations([*FIELDS, "queueOffset", "commitOffset"]))
def test_the_three_numbers_are_those_of_the_decoder(offset: int, commit: int, opaque: int, order: list[str]) -> None:
    frame = pull(str(offset), str(commit), opaque, order)
    found = shape(frame)
    assert found is not None
    command = decode(frame)
    header = command.header(PullMessageRequestHeader)
    assert found[1:4] == (offset, commit, opaque) == (header.queue_offset, header.commit_offset, command.opaque)
    other = shape(pull("7", "8", 9, order))
    assert other == PullShape(found.shape, 7, 8, 9, b"", b"", b"")


@given(texts, texts)
def test_whatever_else_differs_is_another_shape(group: str, subscription: str) -> None:
    found = shape(pull("1", "2", 3, consumerGroup=group, subscription=subscription))
    usual = shape(pull("1", "2", 3))
    assert usual is not None
    if found is not None:
        assert (found[0] == usual[0]) == ((group, subscription) == ("billing", "*"))


def test_our_own_clients_pulls_have_shapes() -> None:
    header = decode(pull("5", "-1", 6)).header(PullMessageRequestHeader)
    command: RemotingCommand = request(11, header)
    command.opaque = 12
    found = shape(command.encode()[4:])
    assert found is not None
    assert found[1:4] == (5, -1, 12)


SIGNING = {"Signature": "c2ln", "pyromqNonce": "a.1", "pyromqTime": "17"}


@given(st.sets(st.sampled_from([*SIGNING])), st.randoms())
def test_what_signs_a_pull_is_cut_out_too(names: set[str], chance: Random) -> None:
    signing = {name: SIGNING[name] for name in names}
    order = [*FIELDS, "queueOffset", "commitOffset", *names]
    chance.shuffle(order)
    found = shape(pull("1", "2", 3, order, **signing))
    assert found is not None
    assert found[4:] == tuple(signing.get(name, "").encode() for name in SIGNING)
    other = shape(pull("1", "2", 3, order, **dict.fromkeys(names, "")))
    assert other is not None
    assert other.shape == found.shape


@pytest.mark.parametrize(
    "frame",
    [
        pull("1", "2", 3, Signature=5),
        pull("1", "2", 3, Signature="a\\"),
        frame_of(pull("1", "2", 3, Signature="a")[4:].replace(b'"flag":0', b'"flag":{"Signature":"b"}')),
        b"",
        b"\0\0\0",
        b"\0\0\0\0",
        b"\0\0\0\x02{}",
        pull("1", "2", 3) + b"a body",
        pull("1", "2", 3)[:-1],
        b"\1" + pull("1", "2", 3)[1:],
        pull("01", "2", 3),
        pull("-0", "2", 3),
        pull("+1", "2", 3),
        pull("1.0", "2", 3),
        pull("", "2", 3),
        pull("1" * 19, "2", 3),
        pull("1", "2x", 3),
        pull(1, "2", 3),
        pull("1", "2", "3"),
        pull("1", "2", 3.5),
        pull("1", "2", -3),
        pull("1", "2", 1 << 31),
        pull("1", "2", 3, subscription='"queueOffset":"5"'),
        pull("1", "2", 3, subscription="\\"),
        pull("1", "2", 3, order=["queueOffset"]),
        pull("1", "2", 3, order=["commitOffset", "topic"]),
        frame_of(pull("1", "2", 3)[4:].replace(b'"flag":0', b'"flag":0,"opaque":5')),
        frame_of(pull("1", "2", 3)[4:].replace(b'"flag":0', b'"flag":{"queueOffset":"5"}')),
        frame_of(pull("1", "2", 3)[4:].replace(b'"opaque":3', b'"opaque": 3')),
        pull("1", "2", 3, subscription="x" * 3000),
    ],
)
def test_unusual_frames_have_none(frame: bytes) -> None:
    assert shape(frame) is None


@given(st.data())
def test_frames_of_one_shape_mean_the_same(data: st.DataObject) -> None:
    """Whatever is done to a pull: if another set of numbers gives the same shape, only they differ in its meaning."""
    frame = bytearray(pull("123", "45", 678)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame)))
        piece = data.draw(
            st.sampled_from(
                [
                    b'"',
                    b",",
                    b":",
                    b"{",
                    b"}",
                    b"\\",
                    b"0",
                    b"-",
                    b'"queueOffset":"9"',
                    b'"opaque":1,',
                    b'"opaque":',
                    b" ",
                ]
            )
        )
        frame[at : at + data.draw(st.integers(0, 3))] = piece
    one = frame_of(bytes(frame))
    found = shape(one)
    if found is None or found[1:4] != (123, 45, 678):
        return
    other = frame_of(bytes(frame).replace(b"123", b"9", 1).replace(b"45", b"-77", 1).replace(b"678", b"10", 1))
    again = shape(other)
    if again is not None and again[0] == found[0]:
        assert meaning(one) == meaning(other)


@given(st.binary(max_size=80), st.booleans())
def test_no_bytes_do_harm(data: bytes, with_length: bool) -> None:
    shape(frame_of(data) if with_length else data)
    shape(memoryview(bytearray(data)))


ORDERS = [
    ["commitOffset", "consumerGroup", "queueOffset", "topic"],
    ["commitOffset", "queueOffset", "topic"],
    ["queueOffset", "commitOffset"],
]
ODD_PIECES = [
    b'"', b"\\", b",", b"}", b"0", b"7", b"-", b" ", b"12345678901", b'"opaque":1,', b'"queueOffset":"5",',
    b'"commitOffset":"', b'"queueOffset":"',
]  # fmt: skip


def test_a_shape_that_was_seen_is_found_as_carefully_as_the_first_one() -> None:
    chance, seen = Random(11), 0
    for _ in range(20_000):
        order = chance.choice(ORDERS)
        topic = chance.choice(("orders", 'a"commitOffset":"1', "queueOffset", "x,y"))
        known = pull(str(chance.randint(0, 10**6)), str(chance.randint(0, 99)), 7, order, topic=topic)
        header = bytearray(pull(str(chance.randint(0, 10**18)), "5", chance.getrandbits(32), order, topic=topic)[4:])
        for _ in range(chance.choice((0, 0, 1, 2))):
            at = chance.randrange(len(header))
            header[at : at + chance.choice((0, 0, 1, 5))] = chance.choice(ODD_PIECES)
        frame = frame_of(bytes(header))
        pull_shapes._cuts.clear()
        careful = plain_shape(frame)
        pull_shapes._cuts.clear()
        plain_shape(known)
        seen += pull_shapes._seen_shape(bytes(header)) is not None
        assert shape(frame) == careful
    assert 1000 < seen < 19_000


def test_shapes_that_were_seen_are_forgotten_when_they_are_many() -> None:
    for number in range(2 * pull_shapes._MOST_CUTS):
        plain_shape(pull("1", "1", 1, ORDERS[0], consumerGroup=f"g{number}"))
    assert 0 < len(pull_shapes._cuts) <= pull_shapes._MOST_CUTS
    pull_shapes._cuts.clear()
