"""Answers to plain pulls: both lanes give the same bytes, whatever the entries of a queue say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane import native
from pyromq.lane.pull_answers import AnswerPull, packed_codes, plain_answer
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, decode
from pyromq.protocol.frame_templates import pull_answer_head
from pyromq.protocol.messages.record import SMALLEST_RECORD

ENTRY = struct.Struct(">qiq")
START = 4096
FILE = bytes(range(256)) * 16
END = START + len(FILE)

MODULE = native("pulls")
LANES: list[AnswerPull] = [plain_answer] if MODULE is None else [plain_answer, MODULE.answer]
both = pytest.mark.parametrize("answer", LANES, ids=["plain", "native"][: len(LANES)])

near_edges = st.sampled_from([-1, 0, 1, SMALLEST_RECORD - 1, SMALLEST_RECORD, SMALLEST_RECORD + 1])
positions = st.one_of(
    st.integers(START, END - SMALLEST_RECORD),
    st.builds(lambda base, by: base + by, st.sampled_from([START, END, END - SMALLEST_RECORD]), near_edges),
    st.sampled_from([-(1 << 63), -1, 0, (1 << 63) - 1]),
)
sizes = st.one_of(
    st.integers(SMALLEST_RECORD, 300), near_edges, st.sampled_from([-(1 << 31), (1 << 31) - 1, len(FILE)])
)
tags = st.sampled_from([0, 7, -7, 1 << 31, -(1 << 31), -(1 << 33), 7 + (1 << 32), (1 << 63) - 1])
entry = st.builds(ENTRY.pack, positions, sizes, tags)
good_entry = st.builds(
    lambda at, size, tag: ENTRY.pack(at, min(size, END - at), tag),
    st.integers(START, END - SMALLEST_RECORD),
    st.integers(SMALLEST_RECORD, 300),
    tags,
)
neighbours = st.integers(1, 30).map(
    lambda count: b"".join(ENTRY.pack(START + index * 100, 100, 7) for index in range(count))
)
entries = st.one_of(
    st.lists(good_entry, max_size=40).map(b"".join),
    st.lists(st.one_of(good_entry, good_entry, good_entry, entry), max_size=40).map(b"".join),
    neighbours,
    st.binary(max_size=200),
)
codes = st.one_of(st.none(), st.frozensets(st.sampled_from([0, 7, -7, 12345]), max_size=4).map(packed_codes))
bounds = st.tuples(
    st.one_of(st.just(START), st.integers(0, END)), st.one_of(st.just(END), st.integers(START, END + 5000))
)


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
@given(
    entries,
    codes,
    bounds,
    st.integers(1, 40),
    st.one_of(st.just(1 << 18), st.integers(0, 3000)),
    st.booleans(),
    st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 62), st.integers(0, 9)),
    st.integers(0, (1 << 31) - 1),
)
def test_both_lanes_give_the_same(
    entries: bytes,
    codes: bytes | None,
    bounds: tuple[int, int],
    most: int,
    most_bytes: int,
    must_fill: bool,
    offsets: tuple[int, int, int, int],
    opaque: int,
) -> None:
    arguments = (entries, codes, FILE, START, *bounds, most, most_bytes, must_fill, *offsets, opaque)
    assert MODULE is not None
    assert MODULE.answer(*arguments) == plain_answer(*arguments)


@both
@given(st.lists(good_entry, min_size=1, max_size=32), st.integers(0, 1 << 60), st.integers(0, (1 << 31) - 1))
def test_an_answer_is_that_of_the_general_encoder(
    answer: AnswerPull, parts: list[bytes], offset: int, opaque: int
) -> None:
    found = answer(b"".join(parts), None, FILE, START, START, END, 32, 1 << 20, False, offset, 3, 9, 1, opaque)
    places = [ENTRY.unpack(part)[:2] for part in parts]
    body = b"".join(FILE[at - START : at - START + size] for at, size in places)
    request = RemotingCommand(11, opaque)
    head = pull_answer_head(request, ResponseCode.SUCCESS, "FOUND", 1, offset + len(parts), 3, 9, len(body))
    assert found == (head + body, len(parts), len(body))
    assert decode(found[0][4:]).body == body


@both
def test_an_answer_ends_with_the_last_message_that_fits(answer: AnswerPull) -> None:
    entries = b"".join(ENTRY.pack(START + index * 100, 100, index % 2) for index in range(10))

    def ask(most: int, most_bytes: int, codes: frozenset[int] | None = None, must_fill: bool = False) -> object:
        packed = None if codes is None else packed_codes(codes)
        found = answer(entries, packed, FILE, START, START, END, most, most_bytes, must_fill, 50, 0, 60, 0, 1)
        return None if found is None else (*found[1:], decode(found[0][4:]).ext_fields["nextBeginOffset"])

    assert ask(3, 10_000) == (3, 300, "53")
    assert ask(32, 450) == (4, 400, "54")
    assert ask(32, 10) == (1, 100, "51")  # one always fits
    assert ask(2, 10_000, frozenset({1})) == (2, 200, "54")
    assert ask(32, 10_000, frozenset({1})) == (5, 500, "60")
    assert ask(32, 10_000, frozenset({1}), must_fill=True) is None
    assert ask(5, 10_000, frozenset({1}), must_fill=True) == (5, 500, "60")
    assert ask(32, 10_000, frozenset({9})) is None


def test_tags_of_which_there_are_too_many_are_not_plain() -> None:
    assert packed_codes(frozenset(range(16))) is not None
    assert packed_codes(frozenset(range(17))) is None
    assert packed_codes(frozenset({1 << 31})) is None


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
def test_wrong_arguments_are_refused() -> None:
    assert MODULE is not None
    good = (b"", None, FILE, START, START, END, 32, 1 << 20, False, 0, 0, 9, 0, 1)
    for arguments in [
        (),
        good[:-1],
        ("text", *good[1:]),
        (*good[:3], "text", *good[4:]),
        (*good[:3], 1 << 70, *good[4:]),
    ]:
        with pytest.raises((TypeError, OverflowError)):
            MODULE.answer(*arguments)
    assert MODULE.answer(*good) is None
    assert MODULE.answer(ENTRY.pack(1, 100, 0), bytes(4 * 17), *good[2:]) is None
