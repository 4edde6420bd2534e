"""Pulls of known shapes: both lanes answer the same ones, with the same bytes, and ask and note the same."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane import native
from pyromq.lane.pull_serving import CHUNK_ENTRIES, NUMBERS, KnownPull, LogPlace, ServePulls, plain_serve, serve_pulls
from pyromq.lane.pull_shapes import plain_shape
from pyromq.protocol.command import decode

from .pull_desk import END, ENTRY, FILE, START, Desk, Queue, difference, pull_frame

MODULE = native("pulls")
LANES: list[ServePulls] = [plain_serve] if MODULE is None else [plain_serve, MODULE.serve]
both = pytest.mark.parametrize("lane", LANES, ids=["plain", "native"][: len(LANES)])


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
@given(st.integers(0, 1 << 32))
def test_both_lanes_do_the_same(seed: int) -> None:
    assert MODULE is not None
    assert difference(seed, plain_serve, MODULE.serve) == ""


def test_pulls_at_random_are_answered_often_enough_to_tell() -> None:
    found = [Desk(seed).serve(serve_pulls()) for seed in range(300)]
    assert sum(answered > 0 for answered, _, _ in found) > 50
    assert any(more for _, _, more in found)


class World:
    """A queue of ten records of 100 bytes from offset 50 on, and one shape that is known."""

    def __init__(self, most: int = 3, per_file: int = 1000) -> None:
        self.entries = b"".join(ENTRY.pack(START + index * 100, 100, 0) for index in range(10))
        self.reads: list[int] = []
        self.notes: list[tuple[int, ...]] = []
        self.may_answer = True
        shape = plain_shape(pull_frame("orders", 0, 0, 0))
        assert shape is not None
        numbers = NUMBERS.pack(most, 1 << 20, most, most, 0, per_file)
        self.known = {shape[0]: KnownPull(self.as_queue(), None, numbers, self.note)}

    def as_queue(self) -> Any:
        queue = Queue.__new__(Queue)
        queue.min_offset, queue.max_offset, queue.checked_offset = 50, 60, 0
        queue.is_removed, queue.chunks = False, None
        self.queue = queue
        return queue

    def note(self, *numbers: int) -> bool:
        self.notes.append(numbers)
        return self.may_answer

    def chunk(self, queue: Any, offset: int, count: int) -> tuple[int, bytes]:
        self.reads.append(offset)
        chunk = offset, self.entries[(offset - 50) * 20 : (offset - 50 + 6) * 20]
        queue.chunks = {offset // CHUNK_ENTRIES: chunk}
        return chunk

    def place(self, first: int, last: int) -> LogPlace:
        return LogPlace(START, START, END, START, FILE)

    def serve(self, lane: ServePulls, *offsets: int, most: int = 32, room: int = 10_000) -> tuple[list[str], bool]:
        """Pull from these offsets; return where each answer says to go on, and whether there may be more."""
        frames: list[bytes | memoryview] = [pull_frame("orders", offset, offset, 7) for offset in offsets]
        answered, answers, more = lane(frames, 0, most, self.known, None, self, memoryview(bytearray(room)))
        found, rest = [], bytes(answers)
        while rest:
            length = int.from_bytes(rest[:4])
            found.append(decode(rest[4 : 4 + length]).ext_fields["nextBeginOffset"])
            rest = rest[4 + length :]
        assert len(found) == answered
        return found, more


@both
def test_consecutive_pulls_share_what_was_read(lane: ServePulls) -> None:
    world = World()
    assert world.serve(lane, 50, 53, 56, 59) == (["53", "56", "59", "60"], False)
    assert world.reads == [50, 56]
    assert world.notes == [(50, 60, 3, 300), (53, 60, 3, 300), (56, 60, 3, 300), (59, 60, 1, 100)]


@both
def test_the_first_that_is_not_plain_ends_it(lane: ServePulls) -> None:
    assert World().serve(lane, 50, 60, 53) == (["53"], False)
    assert World().serve(lane, 49) == ([], False)
    removed = World()
    removed.queue.is_removed = True
    assert removed.serve(lane, 50) == ([], False)
    refused = World()
    refused.may_answer = False
    assert refused.serve(lane, 50, 53) == ([], False)


@both
def test_there_may_be_more_where_room_or_share_ends(lane: ServePulls) -> None:
    assert World().serve(lane, 50, 53, 56, most=2) == (["53", "56"], True)
    assert World().serve(lane, 50, 53, most=2) == (["53", "56"], False)
    assert World().serve(lane, 50, 53, room=700) == (["53"], True)
    assert World().serve(lane, 50, 53, room=300) == ([], True)


@both
def test_a_read_ends_with_the_file_of_the_queue(lane: ServePulls) -> None:
    world = World(most=8, per_file=56)
    assert world.serve(lane, 50) == (["56"], False)
    assert World(most=8).serve(lane, 50) == ([], False), "less was read than the queue has"


@both
def test_errors_of_those_who_are_asked_are_passed_on(lane: ServePulls) -> None:
    world = World()

    def fail(*numbers: int) -> bool:
        raise ZeroDivisionError

    world.known = {shape: known._replace(note=fail) for shape, known in world.known.items()}
    with pytest.raises(ZeroDivisionError):
        world.serve(lane, 50)


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
def test_wrong_arguments_are_refused() -> None:
    assert MODULE is not None
    world, scratch = World(), memoryview(bytearray(1000))
    frames = [pull_frame("orders", 50, 50, 7)]
    ((shape, known),) = world.known.items()
    place = LogPlace(START, START, END, START, FILE)
    good = (frames, 0, 32, world.known, place, world, scratch)
    assert MODULE.serve(*good)[0] == 1
    for arguments in [
        (),
        good[:-1],
        ((), *good[1:]),
        (["text"], *good[1:]),
        (frames, "0", *good[2:]),
        (frames, 0, 1 << 70, *good[3:]),
        (*good[:3], [], *good[4:]),
        (*good[:3], {shape: known[:3]}, *good[4:]),
        (*good[:3], {shape: known._replace(queue=cast(Any, None))}, *good[4:]),
        (*good[:3], {shape: known._replace(numbers=b"short")}, *good[4:]),
        (*good[:3], {shape: known._replace(numbers=bytes(48))}, *good[4:]),
        (*good[:3], {shape: known._replace(codes=bytes(4 * 17))}, *good[4:]),
        (*good[:3], {shape: known._replace(codes=cast(Any, "text"))}, *good[4:]),
        (*good[:4], place[:3], *good[5:]),
        (*good[:4], place._replace(start=cast(Any, "text")), *good[5:]),
        (*good[:6], memoryview(bytes(1000))),
    ]:
        with pytest.raises((TypeError, OverflowError, ValueError, AttributeError, BufferError)):
            MODULE.serve(*arguments)
