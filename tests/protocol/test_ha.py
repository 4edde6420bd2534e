from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.protocol.ha import (
    MAX_BODY,
    MAX_NOTE,
    NOTE,
    ReportDecoder,
    Transfer,
    TransferDecoder,
    encode_note,
    encode_report,
    encode_transfer,
)

OFFSETS = st.integers(0, 2**63 - 1)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def test_the_frames_are_bare_numbers() -> None:
    assert encode_report(0x1234).hex() == "0000000000001234"
    assert encode_transfer(0x3000, b"ab").hex() == "0000000000003000" + "00000002" + "6162"
    assert encode_transfer(0x3000).hex() == "0000000000003000" + "00000000"


@given(st.lists(st.builds(Transfer, OFFSETS, st.binary(max_size=40)), max_size=5), st.lists(st.integers(0)))
def test_transfers_arrive_whole_however_the_stream_is_cut(transfers: list[Transfer], cuts: list[int]) -> None:
    decoder = TransferDecoder()
    stream = b"".join(encode_transfer(*transfer) for transfer in transfers)
    received = [transfer for piece in pieces(stream, cuts) for transfer in decoder.feed(piece)]
    assert received == transfers


@given(st.lists(OFFSETS, min_size=1, max_size=5), st.lists(st.integers(0)))
def test_the_last_whole_report_counts_however_the_stream_is_cut(reports: list[int], cuts: list[int]) -> None:
    decoder = ReportDecoder()
    seen = [decoder.feed(piece) for piece in pieces(b"".join(map(encode_report, reports)), cuts)]
    assert [report for found in seen for report in found][-1] == reports[-1]
    assert {report for found in seen for report in found} <= set(reports)
    assert all(len(found) <= 1 for found in seen)


def test_of_coalesced_reports_only_the_last_is_told() -> None:
    assert ReportDecoder().feed(encode_report(1) + encode_report(2) + b"\x00") == [2]


@given(st.lists(st.binary(max_size=40), max_size=3), OFFSETS, st.lists(st.integers(0)))
def test_notes_arrive_before_the_reports_however_the_stream_is_cut(
    notes: list[bytes], report: int, cuts: list[int]
) -> None:
    decoder = ReportDecoder()
    stream = b"".join(map(encode_note, notes)) + encode_report(report)
    assert [found for piece in pieces(stream, cuts) for found in decoder.feed(piece)] == [*notes, report]


def test_a_note_of_a_master_is_a_transfer_of_its_own() -> None:
    assert TransferDecoder().feed(encode_note(b"{}")) == [Transfer(NOTE, b"{}")]


def test_a_note_too_long_to_be_believed_ends_the_connection() -> None:
    with pytest.raises(RemoteProtocolError):
        ReportDecoder().feed(encode_note(bytes(MAX_NOTE + 1))[:12])


@pytest.mark.parametrize("head", ["ffffffffffffffff00000000", "0000000000000000ffffffff", "00000000000000007fffffff"])
def test_impossible_numbers_of_a_master_end_the_connection(head: str) -> None:
    with pytest.raises(RemoteProtocolError):
        TransferDecoder().feed(bytes.fromhex(head))


def test_a_negative_report_ends_the_connection() -> None:
    with pytest.raises(RemoteProtocolError):
        ReportDecoder().feed(b"\xff" * 8)


@given(st.binary(max_size=60))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    for decoder in (TransferDecoder(), ReportDecoder()):
        try:
            decoder.feed(data)
        except RemoteProtocolError:
            continue


@pytest.mark.parametrize("offset", [-1, 2**63])
def test_an_offset_that_is_none_is_our_mistake(offset: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_report(offset)
    with pytest.raises(LocalProtocolError):
        encode_transfer(offset)


def test_a_transfer_too_large_to_be_believed_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError):
        encode_transfer(0, bytes(MAX_BODY + 1))
