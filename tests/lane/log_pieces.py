"""Bytes of a log as a slave may get them: records of all kinds in a row, cut and damaged anywhere."""

from __future__ import annotations

import random
import struct
from collections import Counter

from pyromq.lane.copies import ReadRun, read_run
from pyromq.protocol.messages.record import Record, encode_host, encode_record
from tests.lane.places import BORN, HOST, NOW_MS

START = 1 << 33
"""Where the bytes stand in the log."""

_V6 = encode_host("2001:db8::1", 10911)
_TOPICS = [b"orders"] * 6 + [b"%RETRY%g", b"bills"] * 2 + ["größe".encode(), b"\xff", b"", b"SCHEDULE_TOPIC_XXXX"]
_PROPERTIES = [
    b"", b"TAGS\x01paid", b"KEYS\x01a b\x02TAGS\x01paid\x02UNIQ_KEY\x017F00", b"TAGS\x01a\x02TAGS\x01b\x02",
    b"\xff\x00", b"MYTAGS\x01a", b"TAGS\x01", b"TAGS\x01a\x02TAGS\x01\x02x\x01y", "TAGS\x01größe".encode(),
    b"x" * 300, b"x" * 32_767,
]  # fmt: skip


def log_piece(chance: random.Random) -> bytes:
    """Return records side by side from START on; now and then with something wrong in or behind them."""
    offsets: Counter[tuple[bytes, int]] = Counter()
    data = b""
    for _ in range(chance.choice((0, 1, 2, 5, 20))):
        data += _record(chance, offsets, START + len(data))
    damaged = bytearray(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.3 else data)
    for _ in range(chance.choice((0, 0, 1, 2))):
        start = chance.randrange(len(damaged) + 1)
        stop = min(len(damaged), start + chance.choice((0, 1, 4, 30)))
        lies = struct.pack(">i", chance.choice((-1, 0, 2**31 - 1, -(2**31), len(damaged))))
        damaged[start:stop] = chance.choice((b"", lies, damaged[stop : stop + 9], chance.randbytes(2)))
    return bytes(damaged)


def _record(chance: random.Random, offsets: Counter[tuple[bytes, int]], position: int) -> bytes:
    rare = chance.random() < 0.1
    topic, queue_id = chance.choice(_TOPICS if rare else _TOPICS[:10]), chance.choice((0, 1, 2, 7))
    record = Record(
        topic="",
        body=chance.randbytes(chance.choice((0, 1, 63, 64, 65, chance.randrange(300)))),
        queue_id=chance.choice((-1, 2**31 - 1)) if rare else queue_id,
        sys_flag=chance.choice((0, 1, 4, 8, 12)) if rare else chance.choice((0, 0, 8)),
        born_host=chance.choice((BORN, _V6)) if rare else BORN,
        store_host=chance.choice((HOST, _V6)) if rare else HOST,
    )
    record.properties = chance.choice(_PROPERTIES if rare else _PROPERTIES[:4])
    offset = offsets[topic, queue_id]
    offsets[topic, queue_id] += 1
    if chance.random() < 0.02:
        offset = chance.choice((0, -1, 2**63 - 1, offset + 1))
    return encode_record(record, topic, offset, position, NOW_MS + chance.randrange(3))


def difference(native: ReadRun, data: bytes, start: int, stop: int, position: int, with_keys: bool) -> str:
    """Say in what the native lane differs from the plain one over some bytes; empty if in nothing."""
    found, expected = (lane(data, start, stop, position, with_keys) for lane in (native, read_run))
    return "" if found == expected else f"{found} is not {expected}"
