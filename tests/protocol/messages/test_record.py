from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord, LocalProtocolError, MalformedHeader, ProtocolError
from pyromq.protocol.messages.record import (
    BLANK_MAGIC,
    BORN_HOST_V6_FLAG,
    HEAD_SIZE,
    MAX_HEAD_SIZE,
    SMALLEST_RECORD,
    STORE_HOST_V6_FLAG,
    V6_FLAGS,
    Record,
    RecordStatus,
    blank_record,
    check_record,
    decode_messages,
    encode_record,
    read_head,
    read_tail,
    record_parts,
    record_size,
)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
RECORDS = st.builds(
    Record,
    topic=st.text("abcdefghijk_-%", min_size=1, max_size=127),
    body=st.binary(max_size=200),
    properties=st.binary(max_size=100),
    queue_id=I32,
    flag=I32,
    sys_flag=I32,
    born_timestamp_ms=I64,
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=I32,
    prepared_transaction_offset=I64,
)
SAMPLE = Record(topic="TopicTest", body=b"hello", properties=b"TAGS\x01TagA", queue_id=3, born_timestamp_ms=7)


def encoded(record: Record, queue_offset: int = 5, physical_offset: int = 0x1234, store_timestamp_ms: int = 8) -> bytes:
    return encode_record(record, record.topic.encode(), queue_offset, physical_offset, store_timestamp_ms)


@given(st.lists(st.tuples(RECORDS, I64, I64, I64), max_size=4))
def test_records_read_back_as_they_were_written(stored: list[tuple[Record, int, int, int]]) -> None:
    body = b"".join(encoded(*each) for each in stored)
    messages = decode_messages(body, "broker-a")

    assert len(messages) == len(stored)
    for message, (record, queue_offset, physical_offset, store_timestamp_ms) in zip(messages, stored, strict=True):
        assert (message.topic, message.stored_body, message.raw_properties) == (
            record.topic,
            record.body,
            record.properties,
        )
        assert (message.queue_id, message.flag, message.reconsume_times) == (
            record.queue_id,
            record.flag,
            record.reconsume_times,
        )
        assert (message.queue_offset, message.physical_offset) == (queue_offset, physical_offset)
        assert (message.born_timestamp_ms, message.store_timestamp_ms) == (record.born_timestamp_ms, store_timestamp_ms)
        assert (message.raw_born_host, message.raw_store_host) == (record.born_host, record.store_host)
        assert message.prepared_transaction_offset == record.prepared_transaction_offset
        assert message.store_size == record_size(record, len(record.topic))
        assert message.broker_name == "broker-a"


@given(RECORDS)
def test_the_address_bits_follow_the_hosts_whatever_the_sys_flag_says(record: Record) -> None:
    (message,) = decode_messages(encoded(record))
    bits = BORN_HOST_V6_FLAG * (len(record.born_host) == 20) | STORE_HOST_V6_FLAG * (len(record.store_host) == 20)
    assert message.sys_flag == record.sys_flag & ~0x30 | bits


@given(RECORDS, st.binary(max_size=20))
def test_head_and_tail_read_what_the_whole_record_says(record: Record, before: bytes) -> None:
    data = memoryview(before + encoded(record))
    head = read_head(data, len(before))
    (message,) = decode_messages(encoded(record))

    assert head.total_size == message.store_size
    assert (head.queue_id, head.queue_offset, head.physical_offset) == (record.queue_id, 5, 0x1234)
    assert (head.born_host, head.store_host, head.sys_flag) == (record.born_host, record.store_host, message.sys_flag)
    assert data[head.body_position : head.body_position + head.body_length] == record.body
    assert read_tail(data, head) == (record.topic.encode(), record.properties)


def test_the_parts_joined_are_the_record() -> None:
    assert b"".join(record_parts(SAMPLE, b"TopicTest", 5, 0x1234, 8)) == encoded(SAMPLE)


@pytest.mark.parametrize(
    "record",
    [
        Record(topic="t" * 128, body=b""),
        Record(topic="t", body=b"", properties=bytes(32768)),
        Record(topic="t", body=b"", queue_id=2**31),
        Record(topic="t", body=b"", born_host=bytes(9)),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_our_mistake(record: Record) -> None:
    with pytest.raises(LocalProtocolError):
        encoded(record)


@given(st.lists(RECORDS, min_size=1, max_size=2), st.data())
def test_a_body_cut_inside_a_record_is_refused(records: list[Record], data: st.DataObject) -> None:
    whole = [encoded(record) for record in records]
    ends = {0, len(whole[0]), len(b"".join(whole))}
    cut = data.draw(st.integers(1, max(ends) - 1).filter(lambda length: length not in ends))
    with pytest.raises(MalformedHeader):
        decode_messages(b"".join(whole)[:cut])


@given(st.binary(max_size=300) | RECORDS.map(encoded), st.data())
def test_damaged_bodies_raise_nothing_but_their_own_errors(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    for position, value in data.draw(st.dictionaries(st.integers(0, 120), st.integers(0, 255), max_size=4)).items():
        if position < len(damaged):
            damaged[position] = value
    try:
        messages = decode_messages(bytes(damaged), check_crc=data.draw(st.booleans()))
    except (ProtocolError, CorruptRecord):
        return
    for message in messages:
        repr(message), message.properties, message.born_host, message.store_host, message.message_id, message.keys
    assert sum(message.store_size for message in messages) == len(damaged)


def test_a_changed_body_fails_its_checksum_unless_nobody_asks() -> None:
    damaged = encoded(SAMPLE).replace(b"hello", b"jello")
    with pytest.raises(CorruptRecord, match="physical offset 4660"):
        decode_messages(damaged)
    assert decode_messages(damaged, check_crc=False)[0].body == b"jello"


def test_a_blank_record_in_a_body_is_refused() -> None:
    with pytest.raises(MalformedHeader):
        decode_messages(encoded(SAMPLE) + blank_record(200) + bytes(192))


def test_equal_topics_are_one_text() -> None:
    first, second = decode_messages(encoded(SAMPLE) * 2)
    assert first.topic is second.topic


def test_an_empty_body_holds_no_message() -> None:
    assert decode_messages(b"") == []


# --- check_record: what recovery asks of bytes that may be anything -------------------------------------------------


def test_the_check_finds_a_record_anywhere_in_a_log() -> None:
    data = bytes(100) + encoded(SAMPLE) + bytes(50)
    check = check_record(memoryview(data), 100, len(data))
    assert (check.status, check.size) == (RecordStatus.MESSAGE, len(encoded(SAMPLE)))
    assert check.head is not None
    assert read_tail(data, check.head) == (b"TopicTest", b"TAGS\x01TagA")


def test_the_check_tells_the_end_of_a_file_from_a_place_never_written() -> None:
    assert check_record(blank_record(178) + bytes(170), 0, 178) == (RecordStatus.BLANK, 178, None)
    assert check_record(bytes(178), 0, 178) == (RecordStatus.DAMAGED, -1, None)
    assert check_record(b"", 0, 0) == (RecordStatus.DAMAGED, -1, None)
    assert BLANK_MAGIC == 0xCBD43194


def test_the_check_looks_at_nothing_beyond_the_limit() -> None:
    data = encoded(SAMPLE)
    assert all(check_record(data, 0, limit).status is RecordStatus.DAMAGED for limit in range(len(data)))
    assert check_record(data, 0, len(data)).status is RecordStatus.MESSAGE


def test_the_check_finds_a_changed_body_only_if_asked_to() -> None:
    damaged = encoded(SAMPLE).replace(b"hello", b"jello")
    assert check_record(damaged, 0, len(damaged)) == (RecordStatus.DAMAGED, -1, None)
    assert check_record(damaged, 0, len(damaged), check_crc=False).status is RecordStatus.MESSAGE


def test_a_record_whose_lengths_do_not_add_up_says_how_far_it_goes() -> None:
    damaged = (999).to_bytes(4, "big") + encoded(SAMPLE)[4:]
    assert check_record(damaged, 0, len(damaged)) == (RecordStatus.DAMAGED, 999, None)
    negative = b"\xff\xff\xff\xff" + encoded(SAMPLE)[4:]
    assert check_record(negative, 0, len(negative)) == (RecordStatus.DAMAGED, -1, None)


@given(st.binary(max_size=200) | RECORDS.map(encoded), st.data())
def test_the_check_raises_on_no_bytes_and_agrees_with_the_decoder(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body)
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    check = check_record(bytes(damaged), 0, len(damaged))
    if check.status is RecordStatus.MESSAGE:
        (message,) = decode_messages(bytes(damaged[: check.size]))
        assert message.store_size == check.size


@pytest.mark.parametrize("length", [0, 30, 87])
def test_a_head_cut_short_is_malformed(length: int) -> None:
    with pytest.raises(MalformedHeader, match="cut short"):
        read_head(encoded(SAMPLE)[:length])


def test_the_sizes_that_readers_of_the_log_count_with() -> None:
    assert (HEAD_SIZE, MAX_HEAD_SIZE, SMALLEST_RECORD, V6_FLAGS) == (88, 112, 91, 0x30)
    assert record_size(Record(topic="", body=b""), 0) == SMALLEST_RECORD
