"""Batches that a stranger may send, and what is wrong with what a lane made of one."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from types import ModuleType

from pyromq.lane import batches
from pyromq.protocol.messages.batch import BatchElement, decode_batch, encode_batch
from tests.lane.places import BORN, HOST, NOW_MS

NAME = b"orders"
SUFFIX = b"WAIT\x01true\x02CLUSTER\x01DefaultCluster"
MAX_RECORD = 40_000
MOST = 20
HEAD = batches.shared_head(1, 0, NOW_MS - 5, BORN, NOW_MS, HOST, 2)

_TEXTS = [
    b"",
    b"TAGS\x01a",
    b"TAGS\x01",
    b"TAGS\x01\xc3\xa9",
    b"TAGS\x01a\x02",
    b"\x02TAGS\x01a\x02\x02TAGS\x01b c",
    b"MYTAGS\x01x",
    b"KEYS\x01k1  k2 \x02UNIQ_KEY\x017F",
    b"DELAY\x013",
    b"DE",
    b"TRAN_MSG\x01true",
    b"TRAN_MS",
    b"\x01\x02\x00\xff",
    b"x\x01" + b"y" * 32_000,
]


def mangled_batch(chance: random.Random) -> bytes:
    """Return a batch that is right or nearly so: bytes changed, cut or added, and lengths that lie."""
    count = chance.choice((0, 1, 1, 2, 3, MOST, MOST + 1))
    elements = [
        BatchElement(
            chance.choice((0, 3, -1)),
            chance.randbytes(chance.choice((0, 1, 63, 64, 65, chance.randrange(300)))),
            _text(chance),
        )
        for _ in range(count)
    ]
    body = bytearray(encode_batch(elements))
    for _ in range(chance.choice((0, 0, 1, 1, 3))):
        start = chance.randrange(len(body) + 1)
        stop = min(len(body), start + chance.choice((0, 1, 2, 4, 30)))
        lies = struct.pack(">i", chance.choice((-1, 0, 2**31 - 1, -(2**31), len(body))))
        body[start:stop] = chance.choice((b"", lies, body[stop : stop + 9], chance.randbytes(2)))
    return bytes(body)


def _text(chance: random.Random) -> bytes:
    chosen = chance.choices(_TEXTS[:-1], k=chance.randrange(3))
    return _TEXTS[-1] if chance.random() < 0.01 else b"\x02".join(chosen)


def difference(module: ModuleType, batch: bytes, suffix: bytes = SUFFIX, *, indexed: bool = True) -> str:
    """Say what is wrong with what the native lane made of a batch; it may leave any to the ordinary path."""
    found = module.measure(batch, NAME, suffix, MAX_RECORD, MOST)
    expected = batches.measure(batch, NAME, suffix, MAX_RECORD, MOST)
    if found is None:
        return ""
    if found != expected:
        return f"measured {found}, not {expected}"
    elements = [(flag, body, properties) for flag, body, properties in decode_batch(batch)]
    if module.encode(elements, "AA", 7) != batches.encode(elements, "AA", 7):
        return "encoded it in another way"
    given = batch, HEAD, NAME, suffix, b"7F0000010000", "orders" if indexed else None, 4096, 7, NOW_MS
    made, right = module.lay_out(*given), batches.lay_out(*given)
    if made != right:
        return f"{made} is not {right}"
    return "" if (len(made[1]), len(made[0])) == found else f"{found} was measured, but made {made}"


def lay_out_alone(module: ModuleType, batch: bytes) -> None:
    """Have the native lane make records of a batch that nobody has measured: it may refuse, but no more."""
    with suppress(ValueError):
        module.lay_out(batch, HEAD, NAME, SUFFIX, b"", None, 4096, 7, NOW_MS)
