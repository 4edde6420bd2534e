"""The two lanes for batches: the same records, entries, keys and ids of whatever batch."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.send_result import SendResult, SendStatus
from pyromq.lane import batches, native
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.messages.batch import BatchElement, encode_batch
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.tag_filter import java_hash
from tests.lane.batch_bodies import HEAD, MAX_RECORD, MOST, NAME, SUFFIX, difference, lay_out_alone, mangled_batch
from tests.lane.places import NOW_MS

MODULE = native("batches")
needs_native = pytest.mark.skipif(MODULE is None, reason="the native lane is not built")
LANES = [batches, pytest.param(MODULE, marks=needs_native)]
TWO = encode_batch([BatchElement(3, b"first", b"KEYS\x01k\x02TAGS\x01paid"), BatchElement(0, b"", b"")])


@pytest.mark.parametrize("lane", LANES, ids=["plain", "native"])
def test_a_batch_becomes_records_entries_keys_and_ids(lane: Any) -> None:
    count, size = lane.measure(TWO, NAME, SUFFIX, MAX_RECORD, MOST)
    records, entries, keys, ids = lane.lay_out(TWO, HEAD, NAME, SUFFIX, b"AA", "orders", 4096, 7, NOW_MS)
    first, second = decode_messages(records)
    assert (count, size) == (2, len(records))
    assert (first.body, first.flag, first.topic, first.queue_id, first.tags) == (b"first", 3, "orders", 1, "paid")
    assert (second.body, second.queue_offset, first.properties["CLUSTER"]) == (b"", 8, "DefaultCluster")
    second_at = second.physical_offset
    assert [batches._ENTRY.unpack(entry)[::2] for entry in entries] == [(4096, java_hash("paid")), (second_at, 0)]
    assert keys == [
        "orders",
        b"KEYS\x01k\x02TAGS\x01paid\x02" + SUFFIX,
        4096,
        NOW_MS,
        "orders",
        SUFFIX,
        second_at,
        NOW_MS,
    ]
    assert ids == f"AA{4096:016X},AA{second_at:016X}"


@pytest.mark.parametrize("lane", LANES, ids=["plain", "native"])
@pytest.mark.parametrize(
    "batch",
    [
        b"",
        TWO[:-1],
        TWO + b"\0",
        encode_batch([BatchElement(0, b"x")] * (MOST + 1)),
        encode_batch([BatchElement(0, b"x" * MAX_RECORD)]),
        encode_batch([BatchElement(0, b"x", b"a\x01" + b"b" * 32_740)]),
        encode_batch([BatchElement(0, b"x", b"DELAY\x011")]),
        encode_batch([BatchElement(0, b"x", b"TRAN_MSG\x01true")]),
    ],
    ids=["empty", "cut", "a byte too many", "many", "large", "long properties", "delayed", "prepared"],
)
def test_what_is_not_plain_is_left_alone(lane: Any, batch: bytes) -> None:
    assert lane.measure(batch, NAME, SUFFIX, MAX_RECORD, MOST) is None


@pytest.mark.parametrize("lane", LANES, ids=["plain", "native"])
def test_limits_are_met_exactly(lane: Any) -> None:
    size = lane.measure(encode_batch([BatchElement(0, b"x")]), NAME, SUFFIX, MAX_RECORD, MOST)[1]
    longest = 32_767 - len(SUFFIX) - 1
    fits = [
        encode_batch([BatchElement(0, b"x" * (MAX_RECORD - size + 1))]),
        encode_batch([BatchElement(0, b"x", b"a\x01" + b"b" * (longest - 2))]),
        encode_batch([BatchElement(0, b"x")] * MOST),
    ]
    assert None not in [lane.measure(batch, NAME, SUFFIX, MAX_RECORD, MOST) for batch in fits]


@needs_native
@pytest.mark.parametrize("suffix", [SUFFIX, b""], ids=["suffix", "no suffix"])
def test_the_native_lane_agrees_about_mangled_batches(suffix: bytes) -> None:
    assert isinstance(MODULE, ModuleType)
    chance = random.Random(9)
    found = [mangled_batch(chance) for _ in range(2000)]
    assert [text for one in found if (text := difference(MODULE, one, suffix, indexed=len(one) % 3 > 0))] == []
    assert 200 < sum(MODULE.measure(one, NAME, suffix, MAX_RECORD, MOST) is not None for one in found) < 1800
    for one in found:
        lay_out_alone(MODULE, one)


@needs_native
def test_the_checksum_is_that_of_zlib() -> None:
    assert isinstance(MODULE, ModuleType)
    chance = random.Random(8)
    for length in [*range(300), 1000, 4095, 30_000]:
        assert difference(MODULE, encode_batch([BatchElement(0, chance.randbytes(length))] * 2)) == ""


@needs_native
@pytest.mark.parametrize(
    "element",
    [(1 << 31, b"", b""), (0, b"", b"x" * 32_768), ("0", b"", b""), (0, bytearray(), b""), (0, b""), [0, b"", b""]],
    ids=["flag", "properties", "no number", "no bytes", "two", "a list"],
)
def test_what_does_not_fit_a_batch_is_refused(element: Any) -> None:
    assert isinstance(MODULE, ModuleType)
    longest = b"y" * (32_767 - 6)
    assert MODULE.encode([(-1, b"x", longest)], "AA", 0xABC) == encode_batch([(-1, b"x", longest + b"AA0ABC")])
    for wrong in (element, (0, b"x", longest + b"y")):
        with pytest.raises(ValueError, match="does not fit"):
            MODULE.encode([(0, b"x", b""), wrong], "AA", 0)


@needs_native
def test_a_batch_cannot_become_the_body_of_what_is_no_frame() -> None:
    assert isinstance(MODULE, ModuleType)
    with pytest.raises(ValueError, match="no frame"):
        MODULE.encode([(0, b"", b"")], "AA", 0, b"123")


@needs_native
def test_ids_end_with_their_series() -> None:
    assert isinstance(MODULE, ModuleType)
    place = "", None, 0, "AA"
    assert MODULE.encode([(0, b"", b"")], "AA", 0xFFFF).endswith(b"AAFFFF")
    assert MODULE.spread(lambda *fields: fields, 0, *place, 0xFFFF, 1) == [(0, "AAFFFF", "", None, 0)]
    for first, count in ((0xFFFF, 2), (0x10000, 1), (0, -1), (0, 0x10001)):
        with pytest.raises(ValueError, match="too many"):
            MODULE.spread(lambda *fields: fields, 0, *place, first, count)
    with pytest.raises(ValueError, match="too many"):
        MODULE.encode([(0, b"", b"")] * 2, "AA", 0xFFFF)


@needs_native
@given(
    elements=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40), st.binary(max_size=40))),
    stem=st.text(max_size=30),
    first=st.integers(0, 0xFF00),
    places=st.one_of(st.text(",AB", max_size=30), st.text(max_size=30)),
    offset=st.integers(0, 2**62),
)
def test_both_lanes_write_the_same_batch_and_make_the_same_results(
    elements: list[batches.Element], stem: str, first: int, places: str, offset: int
) -> None:
    assert isinstance(MODULE, ModuleType)
    body = MODULE.encode(elements, stem, first)
    assert body == batches.encode(elements, stem, first)
    frame = request(RequestCode.SEND_BATCH_MESSAGE, {"a": stem}).encode()
    whole = request(RequestCode.SEND_BATCH_MESSAGE, {"a": stem}, body).encode()
    assert MODULE.encode(elements, stem, first, frame) == batches.encode(elements, stem, first, frame) == whole
    stored = SendStatus.SEND_OK, places, MessageQueue("t", "b", 1), offset, stem, first, len(elements)
    assert MODULE.spread(SendResult, *stored) == batches.spread(SendResult, *stored)


@pytest.mark.parametrize("lane", LANES, ids=["plain", "native"])
def test_what_makes_results_may_raise(lane: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        lane.spread(lambda *fields: 1 // (fields[-1] - 8), 0, "", None, 7, "AA", 0, 3)
