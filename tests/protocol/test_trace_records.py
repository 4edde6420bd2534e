"""Records of message traces, written and read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.trace_records import (
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceRecord,
    decode_trace_records,
    encode_trace_record,
    record_keys,
)

HOST = "10.0.0.1:10911"


def text(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


# As Apache's client 4.9.8 writes them.
PUB = text("Pub", 7, "DefaultRegion", "shop", "orders", "0A", "created", "o-1 o-2", HOST, 8, 3, 0, "0B", "true")
BARE = text("Pub", 7, "DefaultRegion", "shop", "orders", "0A", "null", "null", HOST, 8, 3, 3, "0B", "true")
BEFORE = text("SubBefore", 8, "null", "billing", "0C", "0A", 1, "o-1 o-2")
AFTER = text("SubAfter", "0C", "0A", 5, "false", "o-1 o-2", 4, 13, "billing")
END = text("EndTransaction", 9, "DefaultRegion", "shop", "orders", "0A", "null", "k", HOST, 2, "0A", "UNKNOW", "true")

RECORDS: list[TraceRecord] = [
    Pub(7, "DefaultRegion", "shop", "orders", "0A", "created", "o-1 o-2", HOST, 8, 3, 0, "0B", True),
    Pub(7, "DefaultRegion", "shop", "orders", "0A", None, None, HOST, 8, 3, 3, "0B", True),
    SubBefore(8, None, "billing", "0C", "0A", 1, "o-1 o-2"),
    SubAfter("0C", "0A", 5, False, "o-1 o-2", 4, 13, "billing"),
    EndTransaction(9, "DefaultRegion", "shop", "orders", "0A", None, "k", HOST, 2, "0A", "UNKNOW", True),
]

characters = st.characters(exclude_characters="\x01\x02", codec="utf-8")
texts = st.text(characters, min_size=1, max_size=9).filter(lambda text: text != "null")
missing = st.none() | texts
numbers = st.integers(0, 2**53)
place = (numbers, missing, missing, missing, texts, missing, missing, missing)
records = (
    st.builds(Pub, *place, numbers, numbers, numbers, missing, st.booleans())
    | st.builds(SubBefore, numbers, missing, missing, texts, texts, numbers, missing)
    | st.builds(SubAfter, texts, texts, numbers, st.booleans(), missing, numbers, numbers, missing)
    | st.builds(EndTransaction, *place, numbers, missing, texts, st.booleans())
)


def test_records_are_written_as_apaches_client_writes_them() -> None:
    assert "".join(map(encode_trace_record, RECORDS)) == PUB + BARE + BEFORE + AFTER + END


def test_records_of_apaches_client_are_read() -> None:
    assert list(decode_trace_records((PUB + BARE + BEFORE + AFTER + END).encode())) == RECORDS


@given(st.lists(records, max_size=4))
def test_what_is_written_is_read_back(written: list[TraceRecord]) -> None:
    assert list(decode_trace_records("".join(map(encode_trace_record, written)).encode())) == written


def test_older_and_newer_forms_are_read() -> None:
    without_place = PUB.replace("\x010B\x01true", "\x01true")
    with_client = PUB.replace("\x02", "\x0110.0.0.9\x02")
    short = text("SubAfter", "0C", "0A", 5, "true", "null")
    first, second, third = decode_trace_records((without_place + with_client + short).encode())
    assert isinstance(first, Pub)
    assert (first.offset_message_id, first.success) == (None, True)
    assert second == RECORDS[0]
    assert third == SubAfter("0C", "0A", 5, True, None)


@given(st.binary(max_size=200))
def test_what_is_no_record_is_passed_over(junk: bytes) -> None:
    assert RECORDS[2] in decode_trace_records(junk + b"\x02" + BEFORE.encode())


def test_a_damaged_record_does_not_hide_the_others() -> None:
    damaged = PUB.replace("Pub\x017", "Pub\x01yesterday") + "Pub\x01\x02Later\x011\x02"
    assert list(decode_trace_records((damaged + BEFORE).encode())) == [RECORDS[2]]


def test_a_trace_message_is_found_by_the_ids_and_keys_of_its_records() -> None:
    assert record_keys(RECORDS[0]) == ["0A", "o-1", "o-2"]
    assert record_keys(RECORDS[1]) == ["0A"]
