"""Pulls of known shapes: both lanes answer the same ones, with the same bytes, and ask and note the same."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane import native
from pyromq.lane.callers import Caller, signed_pull
from pyromq.lane.pull_answers import Owner, is_plain_record
from pyromq.lane.pull_serving import CHUNK_ENTRIES, NUMBERS, KnownPull, LogPlace, ServePulls, plain_serve, serve_pulls
from pyromq.lane.pull_shapes import plain_shape
from pyromq.protocol.command import decode
from pyromq.protocol.messages.record import Record, encode_record

from .places import BORN, HOST, KEY, LAST, NOW_MS, new_caller
from .pull_desk import (
    END,
    ENTRY,
    FILE,
    NUMBERING,
    START,
    Desk,
    OldDesk,
    Queue,
    difference,
    old_difference,
    pull_frame,
    signed_pull_frame,
    what_is_signed,
)

MODULE = native("pulls")
LANES: list[ServePulls] = [plain_serve] if MODULE is None else [plain_serve, MODULE.serve]
both = pytest.mark.parametrize("lane", LANES, ids=["plain", "native"][: len(LANES)])


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
@given(st.integers(0, 1 << 32))
def test_both_lanes_do_the_same(seed: int) -> None:
    assert MODULE is not None
    assert difference(seed, plain_serve, MODULE.serve) == ""


def test_pulls_at_random_are_answered_often_enough_to_tell() -> None:
    desks = [Desk(seed) for seed in range(1000)]
    found = [desk.serve(serve_pulls()) for desk in desks]
    for is_signed in (False, True):
        answered = [one[0] for one, desk in zip(found, desks, strict=True) if is_signed == (desk.caller is not None)]
        assert sum(count > 0 for count in answered) > 40
        assert max(answered) > 1
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
        queue.topic_name, queue.queue_id = b"orders", 0
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
        answered, answers, more = lane(frames, 0, most, self.known, None, self, memoryview(bytearray(room)), None, 0)
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
    good = (frames, 0, 32, world.known, place, world, scratch, None, 0)
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
        (*good[:6], memoryview(bytes(1000)), *good[7:]),
        (*good[:7], "text", 0),
        (*good[:8], "text"),
    ]:
        with pytest.raises((TypeError, OverflowError, ValueError, AttributeError, BufferError)):
            MODULE.serve(*arguments)


# --- signed pulls


class SignedWorld(World):
    """The same, but pulls have to be signed."""

    def __init__(self, more: dict[str, str] | None = None) -> None:
        super().__init__()
        self.more = NUMBERING if more is None else more
        self.caller = new_caller()
        ((_, known),) = self.known.items()
        shape = plain_shape(signed_pull_frame("orders", 0, 0, 0, self.more))
        assert shape is not None
        self.known = {shape.shape: known._replace(signed=what_is_signed(self.caller, "orders", self.more))}

    def take(self, lane: ServePulls, *frames: bytes, caller: Caller | None = None) -> int:
        """Return how many frames are answered."""
        given: list[bytes | memoryview] = [*frames]
        scratch = memoryview(bytearray(10_000))
        return lane(given, 0, 32, self.known, None, self, scratch, caller or self.caller, NOW_MS)[0]

    def frame(self, offset: int = 50, **more: str) -> bytes:
        return signed_pull_frame("orders", offset, offset, 7, self.more | more)


@both
def test_signed_pulls_are_answered_and_their_numbers_remembered(lane: ServePulls) -> None:
    world = SignedWorld()
    frames = [world.frame(offset, pyromqNonce=f"c0ffee.{LAST + number}") for number, offset in ((1, 50), (2, 53))]
    assert world.take(lane, *frames) == 2
    assert list(world.caller.numbers.items()) == [("another", 5), ("c0ffee", LAST + 2)]
    assert world.take(lane, frames[1]) == 0, "it was sent before"
    assert SignedWorld({}).take(lane, SignedWorld({}).frame()) == 1, "as Java's clients sign"


@both
def test_a_pull_that_was_changed_or_belongs_to_another_is_left_alone(lane: ServePulls) -> None:
    world = SignedWorld()
    good = world.frame()
    for changed in (
        good.replace(b'"queueOffset":"50"', b'"queueOffset":"51"'),
        good.replace(b'"commitOffset":"50"', b'"commitOffset":"51"'),
        good.replace(b"c0ffee.42", b"c0ffee.43"),
        good.replace(str(NOW_MS).encode(), str(NOW_MS + 1).encode()),
        good.replace(b'"Signature":"', b'"Signature":"A'),
        pull_frame("orders", 50, 50, 7),
        pull_frame("orders", 50, 50, 7, NUMBERING),
    ):
        assert changed != good
        assert world.take(lane, changed) == 0
    assert world.take(lane, good, caller=new_caller()) == 0, "accounts have changed since"
    assert world.notes == []
    assert world.take(lane, good) == 1


@both
def test_without_a_caller_no_signed_pull_is_known_and_with_one_no_other(lane: ServePulls) -> None:
    signed, unsigned, scratch = SignedWorld({}), World(), memoryview(bytearray(10_000))
    assert lane([signed.frame()], 0, 1, signed.known, None, signed, scratch, None, 0)[0] == 0
    plain = pull_frame("orders", 50, 50, 7)
    assert lane([plain], 0, 1, unsigned.known, None, unsigned, scratch, new_caller(), NOW_MS)[0] == 0


@both
def test_a_number_is_not_used_up_by_a_pull_that_is_left_alone(lane: ServePulls) -> None:
    world = SignedWorld()
    world.may_answer = False
    assert world.take(lane, world.frame()) == 0
    assert world.caller.numbers["c0ffee"] == LAST


@pytest.mark.parametrize(
    "more",
    [
        {"pyromqCode": "310", "pyromqNonce": "a.1", "pyromqTime": "1"},
        {"pyromqNonce": "a.1", "pyromqTime": "1"},
        {"pyromqCode": "11"},
        {"AccessKey": "other"},
    ],
)
def test_unusual_pulls_are_not_learned(more: dict[str, str]) -> None:
    fields = {"topic": "orders", "queueOffset": "0", "commitOffset": "0", "AccessKey": KEY, "Signature": "x"}
    assert signed_pull(new_caller(), fields) is not None
    assert signed_pull(new_caller(), fields | more) is None
    assert signed_pull(new_caller(), {name: fields[name] for name in fields if name != "Signature"}) is None


# --- records of an earlier life


def stored_records(count: int = 4) -> tuple[bytes, list[int]]:
    """Return records of queue 0 of `orders` side by side, from offset 50 on, and their sizes."""
    data, sizes = b"", []
    for number in range(count):
        record = Record(topic="", body=b"body %d" % number * 20, born_host=BORN, store_host=HOST)
        record.properties = b"TAGS\x01paid"
        one = encode_record(record, b"orders", 50 + number, START + len(data), NOW_MS)
        data += one
        sizes.append(len(one))
    return data, sizes


class OldWorld(World):
    """A queue whose records were all written before the last start."""

    def __init__(self, log: bytes, sizes: list[int]) -> None:
        super().__init__(most=len(sizes))
        starts = accumulate(sizes, initial=START)
        self.entries = b"".join(ENTRY.pack(start, size, 0) for start, size in zip(starts, sizes, strict=False))
        self.queue.max_offset = 50 + len(sizes)
        self.queue.checked_offset = 1 << 40
        self.log = log

    def place(self, first: int, last: int) -> LogPlace:
        return LogPlace(START, START, START + len(self.log), START, self.log)


@both
def test_records_of_an_earlier_life_are_answered_if_they_are_whole(lane: ServePulls) -> None:
    data, sizes = stored_records()
    assert OldWorld(data, sizes).serve(lane, 50, 52) == (["54", "54"], False)
    for queue_id, topic in ((1, b"orders"), (0, b"bills"), (0, b"order"), (0, b"orders2")):
        world = OldWorld(data, sizes)
        world.queue.queue_id, world.queue.topic_name = queue_id, topic
        assert world.serve(lane, 50) == ([], False), "they are of another queue"
    assert OldWorld(data, [sizes[0] - 1, *sizes[1:]]).serve(lane, 50) == ([], False)


@pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
@given(st.integers(0, 1 << 32))
def test_both_lanes_see_the_same_in_old_records(seed: int) -> None:
    assert MODULE is not None
    assert old_difference(seed, plain_serve, MODULE.serve) == ""


def test_old_records_at_random_are_answered_often_enough_to_tell() -> None:
    answered = [OldDesk(seed).serve(serve_pulls())[0] for seed in range(600)]
    assert 25 < sum(answered) < 575


@both
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_seen_as_the_store_sees_it(lane: ServePulls, at: int, bit: int) -> None:
    data, sizes = stored_records(2)
    damaged = bytearray(data)
    damaged[at % len(data)] ^= 1 << bit
    world = OldWorld(bytes(damaged), sizes)
    places = [(START, 0, 50), (START + sizes[0], sizes[0], 51)]
    expected = all(
        is_plain_record(bytes(damaged), start, size, position, Owner(b"orders", 0, offset))
        for (position, start, offset), size in zip(places, sizes, strict=True)
    )
    assert world.serve(lane, 50) == ((["52"] if expected else []), False)
    assert world.notes == ([(50, 52, 2, len(data))] if expected else [])
