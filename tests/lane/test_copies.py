"""Runs of a master's log: both lanes read the same of whatever bytes, and stop before whatever is not plain."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.lane import copies, native
from pyromq.protocol.messages.record import Record, blank_record, encode_host, encode_record
from pyromq.protocol.tag_filter import java_hash
from tests.lane.log_pieces import START, difference, log_piece
from tests.lane.places import BORN, HOST, NOW_MS

MODULE = native("copies")
needs_native = pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
both_lanes = pytest.mark.parametrize(
    "lane", [copies, pytest.param(MODULE, marks=needs_native)], ids=["plain", "native"]
)
TAGGED = b"KEYS\x01k\x02TAGS\x01paid"


def record(
    position: int, offset: int, *, topic: bytes = b"orders", queue_id: int = 3, sys_flag: int = 0,
    properties: bytes = TAGGED, born_host: bytes = BORN,
) -> bytes:  # fmt: skip
    made = Record(topic="", body=b"body", queue_id=queue_id, sys_flag=sys_flag, born_host=born_host, store_host=HOST)
    made.properties = properties
    return encode_record(made, topic, offset, position, NOW_MS + offset)


def entry(position: int, size: int, tag: str = "paid") -> bytes:
    return copies._ENTRY.pack(position, size, java_hash(tag))


@both_lanes
def test_records_side_by_side_become_entries_by_queue_and_keys_in_their_order(lane: Any) -> None:
    first = record(START, 7)
    second = record(START + len(first), 2, topic=b"bills", properties=b"")
    third = record(START + len(first) + len(second), 8)
    size = len(first)
    bills, last = START + size, START + size + len(second)
    data = b"before" + first + second + third + b"behind"
    end = len(data) - 6
    queues = [
        ("orders", 3, 7, [entry(START, size), entry(last, size)]),
        ("bills", 3, 2, [entry(bills, len(second), "")]),
    ]
    keys = ["orders", TAGGED, START, NOW_MS + 7, "bills", b"", bills, NOW_MS + 2, "orders", TAGGED, last, NOW_MS + 8]
    assert lane.read_run(data, 6, len(data), START, True) == (end, NOW_MS + 8, queues, keys)
    assert lane.read_run(data, 6, end, START, False) == (end, NOW_MS + 8, queues, [])
    assert lane.read_run(data, 6, end - 1, START, False)[0] == end - size


SIZE = len(record(START, 0))


@both_lanes
@pytest.mark.parametrize(
    "behind",
    [
        b"",
        record(START + SIZE, 1)[:-1],
        record(START + SIZE + 1, 1),
        record(START + SIZE, 1).replace(b"body", b"bodY"),
        record(START + SIZE, 2),
        record(START + SIZE, 0),
        record(START + SIZE, 1, sys_flag=4),
        record(START + SIZE, 1, sys_flag=12),
        record(START + SIZE, 1, born_host=encode_host("2001:db8::1", 10911)),
        record(START + SIZE, 1, topic=b"SCHEDULE_TOPIC_XXXX"),
        record(START + SIZE, 1, topic="größe".encode()),
        record(START + SIZE, 1, queue_id=-1),
        record(START + SIZE, 1, properties="TAGS\x01größe".encode()),
        record(START + SIZE, 1, properties=b"TAGS\x01"),
        blank_record(4096) + bytes(4088),
        bytes(500),
    ],
    ids=[
        "nothing", "cut", "another place", "a wrong checksum", "a gap in its queue", "an offset again", "half message",
        "rollback", "IPv6", "delayed", "odd topic", "odd queue", "odd tag", "empty tag", "the end of a file", "zeros",
    ],
)  # fmt: skip
def test_a_run_ends_before_what_is_not_plain(lane: Any, behind: bytes) -> None:
    data = record(START, 0) + behind
    expected: copies.Run = (SIZE, NOW_MS, [("orders", 3, 0, [entry(START, SIZE)])], [])
    assert lane.read_run(data, 0, len(data), START, False) == expected


@both_lanes
def test_a_run_has_a_limited_number_of_queues(lane: Any) -> None:
    data = b"".join(record(START + number * SIZE, 0, queue_id=number) for number in range(300))
    end, _, queues, _ = lane.read_run(data, 0, len(data), START, False)
    assert [queue_id for _, queue_id, _, _ in queues] == list(range(256))
    assert lane.read_run(data, end, len(data), START + end, False)[0] == len(data)


@needs_native
def test_the_native_lane_refuses_places_outside_of_its_bytes() -> None:
    assert isinstance(MODULE, ModuleType)
    for start, stop, position in ((-1, 5, 0), (0, 11, 0), (6, 5, 0), (0, 10, -1), (0, 10, 2**63 - 1)):
        with pytest.raises(ValueError, match="within its bytes"):
            MODULE.read_run(bytes(10), start, stop, position, False)


@needs_native
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**40), st.data())
def test_both_lanes_read_the_same_of_bytes_cut_and_damaged_anywhere(seed: int, data: st.DataObject) -> None:
    assert isinstance(MODULE, ModuleType)
    piece = log_piece(random.Random(seed))
    start = data.draw(st.sampled_from([0, 0, 0, len(piece) // 2]))
    stop = data.draw(st.sampled_from([len(piece), len(piece), max(len(piece) - 9, start)]))
    position = data.draw(st.sampled_from([START + start, START + start, START]))
    assert difference(MODULE.read_run, piece, start, stop, position, data.draw(st.booleans())) == ""


@needs_native
def test_most_of_a_log_is_plain_and_some_of_it_is_not() -> None:
    assert isinstance(MODULE, ModuleType)
    chance = random.Random(7)
    pieces = [piece for piece in (log_piece(chance) for _ in range(2000)) if piece]
    runs = [MODULE.read_run(piece, 0, len(piece), START, True) for piece in pieces]
    whole = sum(run is not None and run[0] == len(piece) for run, piece in zip(runs, pieces, strict=True))
    assert all(difference(MODULE.read_run, piece, 0, len(piece), START, True) == "" for piece in pieces)
    assert 300 < whole < sum(run is not None for run in runs) < len(runs)
