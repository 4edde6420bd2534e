"""Records, batches and ids, byte for byte as Java writes them."""

from __future__ import annotations

import struct

from pyromq.protocol.messages.batch import BatchElement, decode_batch, encode_batch
from pyromq.protocol.messages.hosts import encode_host
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import decode_offset_id, encode_offset_id
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import (
    Record,
    RecordStatus,
    blank_record,
    body_crc,
    check_record,
    decode_messages,
    encode_record,
    record_size,
)
from pyromq.protocol.tag_filter import java_hash, subscription_data, tag_code

WIRE_RECORD = bytes.fromhex(
    """
    000000B3 DAA320A7 3610A686 00000003 00000007 0000000000000005 0000000000001234 00000000
    0000017DD79E1000 0A0000090000C3CB 0000017DD79E1005 0A00000500002A9F 00000000 0000000000000000
    00000005 68656C6C6F 09 546F70696354657374 004A
    554E49515F4B455901 3041303030303039333033393138423441414332374631423243334430303030 02
    434C555354455201 44656661756C74436C7573746572 02 5441475301 54616741
    """
)
STORE_RECORD = bytes.fromhex(
    """
    00000087 daa320a7 3610a686 00000000 00000007 0000000000000000 0000000000000000 00000000
    00000000000003e8 7f0000010000162e 000001a1e059a121 7f00000100002a9f 00000002 0000000000000000
    00000005 68656c6c6f 06 546f70696341 0021
    554e49515f4b455901554b3102544147530154616741024b455953016b31206b32
    """
)
IPV6_RECORD = bytes.fromhex(
    """
    0000007b daa320a7 77065916 00000000 00000007 0000000000000001 0000000000000197 00000030
    00000000000003e8 000000000000000000000000000000010000162e 000001a1e059a14e
    0000000000000000000000000000000200002a9f 00000002 0000000000000000
    00000002 7636 06 546f70696341 0000
    """
)


def properties(**values: str) -> bytes:
    return encode_properties(values).encode()


def test_a_record_is_written_as_the_wire_sheet_shows_it() -> None:
    record = Record(
        topic="TopicTest",
        body=b"hello",
        properties=properties(UNIQ_KEY="0A000009303918B4AAC27F1B2C3D0000", CLUSTER="DefaultCluster", TAGS="TagA"),
        queue_id=3,
        flag=7,
        born_timestamp_ms=1640000000000,
        born_host=encode_host("10.0.0.9", 50123),
        store_host=encode_host("10.0.0.5", 10911),
    )

    assert encode_record(record, b"TopicTest", 5, 0x1234, 1640000000005) == WIRE_RECORD
    assert record_size(record, len("TopicTest")) == len(WIRE_RECORD) == 179


def test_a_record_is_written_as_the_store_sheet_shows_it() -> None:
    record = Record(
        topic="TopicA",
        body=b"hello",
        properties=properties(UNIQ_KEY="UK1", TAGS="TagA", KEYS="k1 k2"),
        flag=7,
        born_timestamp_ms=1000,
        born_host=encode_host("127.0.0.1", 5678),
        store_host=encode_host("127.0.0.1", 10911),
        reconsume_times=2,
    )

    assert encode_record(record, b"TopicA", 0, 0, 1794765332769) == STORE_RECORD
    assert record_size(record, len("TopicA")) == len(STORE_RECORD) == 135


def test_a_record_with_ipv6_hosts_sets_both_flags() -> None:
    record = Record(
        topic="TopicA",
        body=b"v6",
        flag=7,
        born_timestamp_ms=1000,
        born_host=encode_host("::1", 5678),
        store_host=encode_host("::2", 10911),
        reconsume_times=2,
    )

    assert encode_record(record, b"TopicA", 1, 407, 1794765332814) == IPV6_RECORD
    assert record_size(record, len("TopicA")) == len(IPV6_RECORD) == 123


def test_a_stored_record_reads_back_field_by_field() -> None:
    (message,) = decode_messages(WIRE_RECORD, "broker-a")

    assert isinstance(message, MessageExt)
    assert (message.topic, message.body, message.flag, message.sys_flag) == ("TopicTest", b"hello", 7, 0)
    assert message.queue == ("TopicTest", "broker-a", 3)
    assert (message.queue_offset, message.physical_offset, message.store_size) == (5, 0x1234, 179)
    assert (message.body_crc, message.reconsume_times, message.prepared_transaction_offset) == (907060870, 0, 0)
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (1640000000000, 1640000000005)
    assert (message.born_host, message.store_host) == ("10.0.0.9:50123", "10.0.0.5:10911")
    assert message.message_id == "0A000009303918B4AAC27F1B2C3D0000"
    assert message.offset_message_id == "0A00000500002A9F0000000000001234"
    assert message.tags == "TagA"
    assert message.properties == {
        "UNIQ_KEY": "0A000009303918B4AAC27F1B2C3D0000",
        "CLUSTER": "DefaultCluster",
        "TAGS": "TagA",
    }
    assert message.born_at.isoformat() == "2021-12-20T11:33:20+00:00"


def test_records_of_both_address_families_follow_each_other_in_one_body() -> None:
    first, second, third = decode_messages(STORE_RECORD + IPV6_RECORD + WIRE_RECORD)

    assert (first.keys, first.tags, first.message_id) == (("k1", "k2"), "TagA", "UK1")
    assert (second.born_host, second.store_host) == ("[::1]:5678", "[::2]:10911")
    assert second.message_id == second.offset_message_id == f"{2:032X}{10911:08X}{407:016X}"
    assert third.queue_offset == 5


def test_the_records_pass_the_recovery_check() -> None:
    for record in (WIRE_RECORD, STORE_RECORD, IPV6_RECORD):
        check = check_record(record, 0, len(record))
        assert (check.status, check.size) == (RecordStatus.MESSAGE, len(record))


def test_sizes_checksums_and_the_blank_record() -> None:
    assert len(encode_record(Record(topic="TopicA", body=b""), b"TopicA", 0, 0, 0)) == 97
    assert blank_record(178) == bytes.fromhex("000000b2 cbd43194")
    assert [body_crc(body) for body in (b"hello", b"123456789", b"")] == [907060870, 1274296614, 0]


def test_tags_hash_as_in_java() -> None:
    hashes = {"TagA": 2598919, "TagB": 2598920, "payment": -786681338, "订单": 1129459, "\U0001f600": 1772899}
    assert {tag: tag_code(tag) for tag in hashes} == hashes
    assert java_hash("polygenelubricants") == -2147483648
    keys = {"TopicA#UK1": 1129061738, "TopicA#k1": 1903240649, "TopicA#k2": 1903240648}
    assert {key: abs(java_hash(key)) for key in keys} == keys
    assert struct.pack(">qiq", 0, 135, tag_code("TagA")).hex() == "0000000000000000" + "00000087" + "000000000027a807"
    assert subscription_data("TopicTest", "TagA || TagB", 7).code_set == [2598919, 2598920]


def test_offset_message_ids() -> None:
    assert encode_offset_id(encode_host("10.0.0.5", 10911), 0x1234) == "0A00000500002A9F0000000000001234"
    assert encode_offset_id(encode_host("127.0.0.1", 10911), 627) == "7F00000100002A9F0000000000000273"
    assert decode_offset_id("7F00000100002A9F0000000000000273") == ("127.0.0.1:10911", 627)


def test_a_batch_is_written_as_the_wire_sheet_shows_it() -> None:
    expected = bytes.fromhex(
        """
        0000003F 00000000 00000000 00000003 00000002 6162 0027 4B455953014B31 02 554E49515F4B4559015531 02
        574149540174727565 02 544147530154616741
        """
    )
    element = BatchElement(3, b"ab", properties(KEYS="K1", UNIQ_KEY="U1", WAIT="true", TAGS="TagA"))

    assert encode_batch([element]) == expected
    assert decode_batch(expected * 2) == [element, element]
