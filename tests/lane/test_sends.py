"""The two lanes for sends: the same record, entry, keys and answer of whatever frame."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from pyromq.lane import native
from pyromq.lane.sends import native_lane
from pyromq.protocol.command import FrameDecoder, decode
from pyromq.protocol.messages.record import decode_messages
from tests.lane.places import Desk, difference, mangled_frame, plain_desk, read_difference, send_frame

MODULE = native("sends")
needs_native = pytest.mark.skipif(MODULE is None, reason="the native lane is not built")


def native_desk(**limits: Any) -> Desk:
    assert isinstance(MODULE, ModuleType)
    module = MODULE
    return Desk(lambda place: native_lane(module, place), **limits)


DESKS = [plain_desk, pytest.param(native_desk, marks=needs_native)]


@pytest.mark.parametrize("desk", DESKS)
def test_a_plain_message_becomes_a_record_an_entry_and_an_answer(desk: Any) -> None:
    count, answers, record, entries, firsts, keys, time_ms, counts, _ = desk().take(send_frame(b"body", opaque=9))
    (message,) = decode_messages(record)
    assert (count, message.body, message.topic, message.queue_id, message.tags) == (1, b"body", "orders", 1, "paid")
    assert "WAIT" not in message.properties
    assert message.properties["CLUSTER"] == "DefaultCluster"
    assert (message.queue_offset, message.physical_offset) == (7, 4096)
    (frame,) = FrameDecoder().feed(answers)
    answer = decode(frame)
    assert (answer.opaque, answer.code, answer.ext_fields["queueOffset"]) == (9, 0, "7")
    assert (len(entries), firsts, keys[0], keys[2:], time_ms) == (20, [7], "orders", [4096, time_ms], time_ms)
    assert counts == (4096 + len(record), 8, 1, len(record))


@pytest.mark.parametrize("desk", DESKS)
@pytest.mark.parametrize(
    "limits", [{"max_header": 100}, {"max_body": 4}, {"max_record": 150}, {"has_index": False}], ids=str
)
def test_limits_are_kept(desk: Any, limits: dict[str, Any]) -> None:
    count, _, record, _, _, keys, *_ = desk(**limits).take(send_frame(b"hello"))
    assert (count, bool(record), bool(keys)) == ((1, True, False) if "has_index" in limits else (0, False, False))


@pytest.mark.parametrize("desk", DESKS)
def test_the_first_message_that_is_not_plain_ends_it(desk: Any) -> None:
    frames = [send_frame(opaque=1), send_frame(opaque=2), send_frame(i="DELAY\x013"), send_frame(opaque=4)]
    assert desk().take(*frames)[0] == 2


@pytest.mark.parametrize("desk", DESKS)
def test_without_room_nothing_is_taken(desk: Any) -> None:
    size = len(desk().take(send_frame())[2])
    assert desk().take(send_frame(), log_end=4096 + size + 8, queue_end=8 * 20)[0] == 1
    assert desk().take(send_frame(), log_end=4096 + size + 7)[0] == 0
    assert desk().take(send_frame(), queue_end=8 * 20 - 1)[0] == 0


@pytest.mark.parametrize("desk", DESKS)
def test_a_one_way_message_has_no_answer(desk: Any) -> None:
    count, answers, record, *_ = desk().take(send_frame(flag=2), send_frame(b"2"), send_frame(b"3", flag=2))
    assert (count, len(FrameDecoder().feed(answers)), len(decode_messages(record))) == (3, 1, 3)
    assert desk().take(send_frame(flag=1))[0] == desk().take(send_frame(flag=3))[0] == 0


@needs_native
def test_the_native_lane_agrees_about_mangled_frames() -> None:
    chance, native_one, plain_one = random.Random(7), native_desk(), plain_desk()
    frames = [mangled_frame(chance) for _ in range(4000)]
    assert [text for frame in frames if (text := difference(native_one, plain_one, frame))] == []
    assert 200 < sum(bool(native_one.take(frame)[0]) for frame in frames) < 3800


@pytest.mark.parametrize("desk", DESKS)
def test_of_a_read_all_whole_frames_are_taken(desk: Any) -> None:
    chance, reader, taker = random.Random(9), desk(), desk()
    for _ in range(300):
        frames = [send_frame(chance.randbytes(chance.choice((0, 9, 300)))) for _ in range(chance.randint(0, 5))]
        if chance.random() < 0.3:
            frames.insert(chance.randint(0, len(frames)), mangled_frame(chance))
        if chance.random() < 0.1:
            frames.insert(chance.randint(0, len(frames)), send_frame(bytes(chance.choice((65_000, 70_000)))))
        whole = sum(4 + len(frame) for frame in frames)
        length = chance.choice((whole, whole, chance.randint(0, whole)))
        assert read_difference(reader, taker, frames, length) == ""


@pytest.mark.parametrize("desk", DESKS)
def test_of_a_read_no_more_are_taken_than_is_its_share(desk: Any) -> None:
    frame = send_frame()
    data = (len(frame).to_bytes(4) + frame) * 5
    one = desk()
    assert [one.take_read(data, most)[0] for most in (0, 2, 5, 9)] == [0, len(data) * 2 // 5, len(data), len(data)]
    assert one.take_read(b"\xff" * 9)[0] == one.take_read(bytes(9))[0] == one.take_read(data[:5])[0] == 0


@needs_native
def test_wrong_arguments_of_a_read_are_refused() -> None:
    lane: Any = native_desk().lane
    for wrong in [(), (b"", 1, b"", 1, None), ("", 1, b"", 1), (b"", "1", b"", 1), (b"", 1, "", 1), (b"", 1, b"", "1")]:
        with pytest.raises(TypeError):
            lane.take_read(*wrong)
    assert lane.take_read(send_frame(), 1, b"short", 1) == (0, b"")


@needs_native
def test_the_checksum_is_that_of_zlib() -> None:
    chance, native_one, plain_one = random.Random(8), native_desk(), plain_desk()
    for length in [*range(40), 1000, 4095, 70_000]:
        assert difference(native_one, plain_one, send_frame(chance.randbytes(length))) == ""
