"""Answers to pulls that a stranger may send, and what is wrong with what the lane for consumers made of one."""

from __future__ import annotations

import random
import struct
from types import ModuleType

from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import Record, decode_messages, encode_host, encode_record, shared_topic
from tests.lane.places import BORN, HOST, NOW_MS

_V6 = encode_host("2001:db8::1", 10911)
_TOPICS = [b"orders", b"orders", b"%RETRY%g", "größe".encode(), b"\xff", b""]


def mangled_answer(chance: random.Random) -> bytes:
    """Return records that are right or nearly so: bytes changed, cut or added, and lengths that lie."""
    body = bytearray(b"".join(_record(chance) for _ in range(chance.choice((0, 1, 1, 2, 5)))))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        start = chance.randrange(len(body) + 1)
        stop = min(len(body), start + chance.choice((0, 1, 4, 30)))
        lies = struct.pack(">i", chance.choice((-1, 0, 2**31 - 1, -(2**31), len(body))))
        body[start:stop] = chance.choice((b"", lies, body[stop : stop + 9], chance.randbytes(2)))
    return bytes(body)


def _record(chance: random.Random) -> bytes:
    numbers = (0, 1, -1, 2**31 - 1, -(2**31))
    record = Record(
        topic="",
        body=chance.randbytes(chance.choice((0, 1, 63, 64, 65, chance.randrange(300)))),
        queue_id=chance.choice(numbers),
        flag=chance.choice(numbers),
        sys_flag=chance.choice((0, 1, 8)),
        born_timestamp_ms=NOW_MS - chance.randrange(3),
        born_host=chance.choice((BORN, BORN, HOST, _V6)) if chance.random() < 0.1 else BORN,
        store_host=HOST,
        reconsume_times=chance.choice(numbers),
    )
    record.properties = chance.choice((b"", b"TAGS\x01a", b"\xff\x00", b"x" * chance.choice((1, 300, 32_767))))
    return encode_record(record, chance.choice(_TOPICS), chance.choice((0, 7, 2**40)), chance.randrange(2**40), NOW_MS)


def difference(module: ModuleType, answer: bytes) -> str:
    """Say what is wrong with what the native lane made of an answer; it may leave any to the decoder in Python."""
    found = module.decode(answer, "broker-a", MessageExt, shared_topic)
    if found is None:
        return ""
    try:
        expected = decode_messages(answer, "broker-a")
    except PyroMQError as error:
        return f"decoded, where {error!r} is right"
    texts = [[repr(message) for message in messages] for messages in (found, expected)]
    return "" if texts[0] == texts[1] else f"{texts[0]} is not {texts[1]}"
