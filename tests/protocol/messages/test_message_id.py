from __future__ import annotations

import itertools
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader, ProtocolError
from pyromq.protocol.messages.hosts import decode_host, encode_host
from pyromq.protocol.messages.message_id import (
    RecallHandle,
    UniqueIds,
    decode_handle,
    decode_offset_id,
    encode_handle,
    encode_offset_id,
    series_prefix,
)


def local_ms(*moment: int) -> int:
    return int(datetime(*moment).timestamp() * 1000)  # type: ignore[arg-type]


def ids_of(address: str, pid: int, number: int) -> UniqueIds:
    """Return a generator whose series count up from a number."""
    numbers = itertools.count(number)
    return UniqueIds(lambda: series_prefix(address, pid, next(numbers)))


def test_a_client_id_has_address_process_time_and_counter() -> None:
    ids = ids_of("10.0.0.9", 0x13039, 0x18B4AAC2)
    now_ms = local_ms(2021, 12, 20, 11, 33, 20)
    since = now_ms - local_ms(2021, 12, 1)

    assert ids.next(now_ms) == f"0A000009303918B4AAC2{since:08X}0000"
    assert ids.next(now_ms) == f"0A000009303918B4AAC2{since:08X}0001"


def test_the_time_starts_again_with_each_month() -> None:
    ids = ids_of("10.0.0.9", 1, 2)

    assert ids.next(local_ms(2021, 12, 31, 23, 59, 59) + 999)[20:28] == f"{31 * 86_400_000 - 1:08X}"
    assert ids.next(local_ms(2022, 1, 1))[20:28] == "00000000"
    assert ids.next(local_ms(2021, 12, 31))[20:28] == f"{30 * 86_400_000:08X}"  # a clock that was set back


def test_a_series_ends_with_its_counter() -> None:
    ids = ids_of("::1", 1, 2)
    now_ms = local_ms(2024, 2, 29)
    made = [ids.next(now_ms) for _ in range(3 * 65_536)]

    assert {len(made_id) for made_id in made} == {56}
    assert len(set(made)) == len(made)
    assert [made[65_536 * number][36:44] for number in range(3)] == ["00000002", "00000003", "00000004"]


def test_ids_differ_when_the_clock_is_set_back_again_and_again() -> None:
    ids = ids_of("10.0.0.9", 1, 2)
    now_ms = local_ms(2024, 2, 29)
    made = [ids.next(now_ms + number % 1000) for number in range(200_000)]
    assert len(set(made)) == len(made)


def test_a_series_can_be_begun_early() -> None:
    ids = ids_of("10.0.0.9", 1, 2)
    now_ms = local_ms(2024, 2, 29)
    first = ids.next(now_ms)
    ids.begin_series()
    assert (first[12:20], ids.next(now_ms)[12:20]) == ("00000002", "00000003")


@given(st.ip_addresses(), st.integers(0, 65535), st.integers(0, 2**63 - 1))
def test_an_offset_id_reads_back(address: object, port: int, physical_offset: int) -> None:
    host = encode_host(str(address), port)
    assert decode_offset_id(encode_offset_id(host, physical_offset)) == (decode_host(host), physical_offset)


@given(st.text(max_size=60) | st.text("0123456789ABCDEF ", min_size=30, max_size=60))
def test_any_text_is_an_offset_id_or_a_protocol_error(text: str) -> None:
    try:
        address, _ = decode_offset_id(text)
    except ProtocolError:
        return
    assert ":" in address


@pytest.mark.parametrize("text", ["", "0", "zz" * 16, "00" * 15, "00" * 17, "0A 00 00 05 00002A9F00000000000012"])
def test_what_is_no_offset_id_says_so(text: str) -> None:
    with pytest.raises(MalformedHeader, match="not an offset message id"):
        decode_offset_id(text)


def test_an_offset_that_does_not_fit_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="not an offset"):
        encode_offset_id(bytes(8), 2**63)


words = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]))


def test_a_handle_is_written_as_rocketmq_5_does() -> None:
    handle = RecallHandle("topic", "broker-0", "1707111111111", "messageId")
    assert encode_handle(handle) == "djEgdG9waWMgYnJva2VyLTAgMTcwNzExMTExMTExMSBtZXNzYWdlSWQ="


@given(st.builds(RecallHandle, words, words, words, words))
def test_every_handle_is_read_back(handle: RecallHandle) -> None:
    assert decode_handle(encode_handle(handle)) == handle


@pytest.mark.parametrize("text", ["", "?", "djEg", "djIgYSBiIGMgZA==", "é", "AAAA"])
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(MalformedHeader):
        decode_handle(text)


def test_ids_made_together_and_one_by_one_are_all_different() -> None:
    ids = ids_of("10.0.0.9", 1, 2)
    now_ms = local_ms(2021, 12, 20)
    found = [ids.next(now_ms)]
    for number in range(200):
        run = ids.run(999, now_ms + number // 50)
        assert run.texts()[0][:-4] == run.stem
        found += run.texts()
        found.append(ids.next(now_ms + number // 50))
    assert len(set(found)) == len(found) == 1 + 200 * 1000
    assert {len(one) for one in found} == {32}
    ids.begin_series()
    assert len(set(ids.run(1 << 16, now_ms).texts())) == 1 << 16
    assert ids.run(1, now_ms).first == 0
