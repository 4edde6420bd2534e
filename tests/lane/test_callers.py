"""Signed sends in the lane: what access control would let in, and nothing else, the same in both lanes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane.callers import Caller
from tests.lane.places import (
    LAST,
    NOW_MS,
    SECRET,
    Desk,
    difference,
    mangled_signed_frame,
    plain_desk,
    send_frame,
    signed_frame,
)
from tests.lane.test_sends import DESKS, native_desk, needs_native

NEXT = f"c0ffee.{LAST + 1}"
WESTERN = st.characters(min_codepoint=1, max_codepoint=0xFF)
TEXTS = st.text(WESTERN, max_size=12)


def taken(desk: Desk, *frames: bytes) -> int:
    count: int = desk.take(*frames)[0]
    return count


@pytest.mark.parametrize("desk", DESKS)
def test_a_signed_send_is_let_in(desk: Any) -> None:
    one = desk().guard()
    more = signed_frame(l="16", n="broker-a", SecurityToken="token")
    assert taken(one, signed_frame(), signed_frame(b"", 8), signed_frame(bytes(5000)), more) == 4
    assert one.take(signed_frame(b"same"))[:8] == desk().take(send_frame(b"same"))[:8]


@pytest.mark.parametrize("desk", DESKS)
def test_what_is_not_signed_as_it_should_be_is_left_alone(desk: Any) -> None:
    one, frame = desk().guard(), signed_frame()
    assert taken(one, send_frame()) == 0
    assert taken(one, signed_frame(secret="another one")) == 0
    assert taken(one, signed_frame(AccessKey="somebody")) == 0
    assert taken(one, frame[:-1] + b"!") == 0
    assert taken(one, frame.replace(b'"e":"1"', b'"e":"0"')) == 0
    assert taken(one, signed_frame(bytes(64 * 1024 + 1))) == 0
    assert taken(desk().guard(topics=("other",)), frame) == 0
    assert taken(one, signed_frame(b"1"), frame[:-1] + b"!", signed_frame(b"3")) == 1


@pytest.mark.parametrize("desk", DESKS)
def test_every_byte_of_a_signed_send_counts(desk: Any) -> None:
    one, frame = desk().guard(), signed_frame(pyromqNonce=NEXT)
    length = 4 + int.from_bytes(frame[:4], "big")
    start = frame.index(b'"extFields":{') + 13
    unnoticed = [at for at in range(start, length) if taken(one, frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :])]
    behind_fields = frame.index(b"}", start)
    assert [at for at in unnoticed if at < behind_fields] == []
    assert [at for at in range(length, len(frame)) if taken(one, frame[:at] + b"?" + frame[at + 1 :])] == []


@pytest.mark.parametrize("desk", DESKS)
@pytest.mark.parametrize(
    ("fields", "is_taken"),
    [
        ({"pyromqNonce": NEXT}, True),
        ({"pyromqNonce": f"c0ffee.{10**17}"}, True),
        ({"pyromqNonce": NEXT, "pyromqTime": str(NOW_MS - 300_000)}, True),
        ({"pyromqNonce": f"c0ffee.{LAST}"}, False),
        ({"pyromqNonce": "c0ffee.0"}, False),
        ({"pyromqNonce": f"c0ffee.{10**18}"}, False),
        ({"pyromqNonce": "unknown.1"}, False),
        ({"pyromqNonce": "c0ffee"}, False),
        ({"pyromqNonce": ""}, False),
        ({"pyromqNonce": NEXT, "pyromqTime": str(NOW_MS - 300_001)}, False),
        ({"pyromqNonce": NEXT, "pyromqTime": str(NOW_MS + 300_001)}, False),
        ({"pyromqNonce": NEXT, "pyromqTime": "now"}, False),
        ({"pyromqNonce": NEXT, "pyromqCode": "320"}, False),
        ({"pyromqTime": str(NOW_MS)}, False),
        ({"pyromqCode": "310"}, False),
    ],
    ids=str,
)
def test_numbers_only_grow_and_times_are_near(desk: Any, fields: dict[str, str], is_taken: bool) -> None:
    one = desk().guard()
    numbers = one.take(signed_frame(b"hello", 7, SECRET, **fields))[8]
    expected = int(fields.get("pyromqNonce", "").partition(".")[2] or 0) if is_taken else LAST
    assert dict(numbers) == {"c0ffee": expected, "another": 5}
    assert (numbers[-1][0] == "c0ffee") == is_taken  # it was heard of last


@pytest.mark.parametrize("desk", DESKS)
def test_a_send_again_is_left_alone_in_the_same_read(desk: Any) -> None:
    first, second = signed_frame(pyromqNonce=NEXT), signed_frame(pyromqNonce=f"c0ffee.{LAST + 2}")
    one = desk().guard()
    assert taken(one, first, second, first) == 2
    assert taken(one, second, first) == 1


@pytest.mark.parametrize("desk", DESKS)
def test_a_send_that_finds_no_room_keeps_its_number(desk: Any) -> None:
    one = desk().guard()
    assert dict(one.take(signed_frame(pyromqNonce=NEXT), log_end=4200)[8])["c0ffee"] == LAST


def test_a_caller_does_not_show_its_secret() -> None:
    caller = plain_desk().guard().caller
    assert isinstance(caller, Caller)
    assert "secret" not in f"{caller} {caller!r}"


@needs_native
def test_a_caller_that_is_none_is_refused() -> None:
    one = native_desk().guard()
    assert one.caller is not None
    for wrong in (one.caller[:3], one.caller._replace(secret=b"short"), one.caller._replace(topics=[]), 7):  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            one.lane.take([signed_frame()], 0, 1, bytes(8), NOW_MS, wrong)  # type: ignore[arg-type]


@needs_native
def test_the_native_lane_agrees_about_mangled_signed_frames() -> None:
    chance, native_one, plain_one = random.Random(9), native_desk().guard(), plain_desk().guard()
    frames = [mangled_signed_frame(chance) for _ in range(3000)]
    assert [text for frame in frames if (text := difference(native_one, plain_one, frame))] == []
    assert 300 < sum(bool(native_one.take(frame)[0]) for frame in frames) < 2700


@needs_native
@given(group=TEXTS, keys=TEXTS, body=st.binary(max_size=300), secret=st.text(WESTERN, min_size=1, max_size=80))
def test_the_native_lane_agrees_about_whatever_is_signed(group: str, keys: str, body: bytes, secret: str) -> None:
    native_one, plain_one = native_desk().guard(secret), plain_desk().guard(secret)
    frame = signed_frame(body, secret=secret, a=group, i=f"KEYS\x01{keys}")
    assert difference(native_one, plain_one, frame) == ""
