"""The table of decoders: each with what it may raise and with inputs to begin with."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.access.account_file import parse_accounts
from pyromq.broker.config.broker_config import broker_config
from pyromq.errors import ConfigError, CorruptRecord, ProtocolError, PyroMQError
from pyromq.namesrv.config import namesrv_config
from pyromq.protocol import bodies
from pyromq.protocol.bodies.fastjson import loads
from pyromq.protocol.bodies.register_broker import decode_register_body
from pyromq.protocol.command import FrameDecoder, decode
from pyromq.protocol.ha import ReportDecoder, TransferDecoder, encode_note, encode_report, encode_transfer
from pyromq.protocol.messages.batch import decode_batch
from pyromq.protocol.messages.compression import decompress
from pyromq.protocol.messages.message_id import decode_handle, decode_offset_id
from pyromq.protocol.messages.properties import decode_properties, find_property
from pyromq.protocol.messages.record import check_record, decode_messages
from pyromq.protocol.sql92.sql_filter import SqlFilter
from pyromq.protocol.tag_filter import parse_tags
from pyromq.protocol.trace_records import decode_trace_records
from pyromq.settings.properties_file import parse_properties
from pyromq.store.small_files.table_formats import GROUPS, OFFSETS, TOPICS
from pyromq.store.small_files.table_journal import read_journal, unmarked
from tests.faults.hostile_frames import batch, binary_frame, frame, heartbeat, registration

Inputs = Callable[[], Iterator[bytes]]


class Decoder(NamedTuple):
    """One row."""

    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    inputs: Inputs
    most_memory: int = 0
    """Bytes that it may take beyond twice its input: what it inflates, for example."""


# --- the decoders -----------------------------------------------------------------------------------------------------


def _frames(data: bytes) -> None:
    """Split the stream at a place that the input decides, and decode every frame both ways."""
    cut = data[0] if data else 0
    decoder = FrameDecoder()
    for part in (data[:cut], data[cut:]):
        for found in decoder.feed(part):
            for typed in (True, False):
                with suppress(ProtocolError):
                    decode(found, typed=typed)


def _records(data: bytes) -> None:
    with suppress(ProtocolError, CorruptRecord):
        decode_messages(data)
    for position in range(0, min(len(data), 200), 17):
        check_record(data, position, len(data))


def _bodies(data: bytes) -> None:
    for kind in (bodies.HeartbeatData, bodies.LockBatchRequestBody, bodies.CheckClientRequestBody, bodies.DataVersion):
        with suppress(ProtocolError):
            bodies.decode(kind, data)


def _transfers(data: bytes) -> None:
    for decoder in (TransferDecoder(), ReportDecoder()):
        with suppress(ProtocolError):
            for start in range(0, len(data), 7):
                decoder.feed(data[start : start + 7])


def _sql92(data: bytes) -> None:
    found = SqlFilter(data.decode("utf-8", "replace"))
    for properties in ({}, {"a": "1", "b": "x"}, {"a": "9" * 50, "b": "x" * 5000}):
        found.matches(properties)


def _properties(data: bytes) -> None:
    decode_properties(data)
    find_property(data, "KEYS")
    text = data.decode("utf-8", "replace")
    decode_properties(text)
    find_property(text, "TAGS")


def _settings(data: bytes) -> None:
    values = parse_properties(data.decode("utf-8", "replace"))
    for read in (broker_config, namesrv_config):
        with suppress(ConfigError):
            read(values, lenient=True)


def _ids(data: bytes) -> None:
    text = data.decode("latin-1")
    for read in (decode_offset_id, decode_handle):
        with suppress(PyroMQError):
            read(text)


def _tables(data: bytes) -> None:
    for table in (TOPICS, GROUPS, OFFSETS):
        with suppress(ProtocolError, ConfigError):
            table.decode(data)
        with suppress(ProtocolError, ValueError):  # then the record counts as damaged
            table.decode_record(data)


def _journals(data: bytes) -> None:
    unmarked(data)
    read_journal(data, "x")


def _inflated(data: bytes) -> None:
    for flag in (0x1, 0x101, 0x201, 0x301):
        with suppress(ProtocolError):
            decompress(data, flag, 1 << 20)


# --- inputs -----------------------------------------------------------------------------------------------------------

RECORD: Final = struct.pack(">iiiiiqqiq", 110, -626843481, 0, 0, 0, 0, 0, 0, 0) + bytes(50)


def _some_frames() -> Iterator[bytes]:
    yield b"\x08" + frame("x", 310, {"a": "p", "b": "t", "e": "0", "i": "K\x01v\x02"}, b"body").data
    yield b"\x03" + binary_frame("x", 11, struct.pack(">h5si1s", 5, b"topic", 1, b"t")).data
    yield b"\x00" + frame("x", 34, {}, heartbeat()).data


def _some_json() -> Iterator[bytes]:
    yield heartbeat(2, 2, producers=2)
    yield b'{clientID:\'c\',"consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"$ref":"$"}],}]}'
    yield b'{"a":{"b":[1,2.5,-3e4,null,true]},"c":{"$ref":"$.a"},0:{"x":1}}'
    yield b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"t","brokerName":"b","queueId":0}]}'
    yield b'{"offsetTable":{"t@g":{0:5,1:6}}}'


def _some_sql() -> Iterator[bytes]:
    for text in ("a > 1 AND b = 'x'", "a BETWEEN 1 AND 2 OR b IN ('x','y')", "NOT (a IS NULL)", "a CONTAINS 'x'"):
        yield text.encode()


DECODERS: Final[dict[str, Decoder]] = {
    "frames": Decoder(_frames, (ProtocolError,), _some_frames),
    "bodies": Decoder(_bodies, (), _some_json),
    "fastjson": Decoder(loads, (ProtocolError,), _some_json),
    "registrations": Decoder(
        lambda data: decode_register_body(data, compressed=bool(data) and data[0] == 0x78),
        (ProtocolError,),
        lambda: iter([registration(3), b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"perm":6}}}}']),
        64 << 20,
    ),
    "records": Decoder(_records, (), lambda: iter([RECORD, RECORD * 2])),
    "batches": Decoder(decode_batch, (ProtocolError,), lambda: iter([batch(3), batch(1, b"x" * 50, b"a\x01b\x02")])),
    "properties": Decoder(_properties, (), lambda: iter([b"KEYS\x01a b\x02TAGS\x01t\x02", b"\x01\x02\x01\x02x"])),
    "replication": Decoder(
        _transfers, (), lambda: iter([encode_report(5), encode_transfer(7, b"log"), encode_note(b'{"a":1}')])
    ),
    "sql92": Decoder(_sql92, (PyroMQError,), _some_sql),
    "tags": Decoder(
        lambda data: parse_tags(data.decode("utf-8", "replace")),
        (ProtocolError,),
        lambda: iter([b"a || b||c", b"*", b"||", b" "]),
    ),
    "settings": Decoder(
        _settings, (), lambda: iter([b"brokerName=a\nlistenPort = 10911\n# x\nfileReservedTime:\\\n 72", b"a=\\u0041"])
    ),
    "accounts": Decoder(
        parse_accounts,
        (ValueError,),  # it becomes a ConfigError with the name of the file
        lambda: iter([b"accounts:\n- accessKey: shop-app\n  secretKey: 0123456789abcdef\n  topicPerms: [a=PUB|SUB]\n"]),
        1 << 20,
    ),
    "traces": Decoder(
        lambda data: list(decode_trace_records(data)),
        (ProtocolError,),
        lambda: iter(
            [b"Pub\x011\x01r\x01g\x01t\x01id\x01tag\x01k\x01h\x015\x016\x010\x01o\x01true\x02SubBefore\x011\x02"]
        ),
    ),
    "ids": Decoder(_ids, (), lambda: iter([b"7F00000100002A9F0000000000000001", b"djEgYnJva2VyLWEgdCAwIDUgeA=="])),
    "tables": Decoder(_tables, (), _some_json),
    "journals": Decoder(_journals, (PyroMQError,), lambda: iter([b'{"journal":"x"}\n', b"x 1 2 3\n" * 3])),
    "inflated": Decoder(_inflated, (), lambda: iter([zlib.compress(b"abc" * 100)]), 8 << 20),
}
