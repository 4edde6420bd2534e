"""How inputs are changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

LONGEST: Final = 20_000
NUMBERS: Final = [
    number.to_bytes(size, "big", signed=True)
    for size in (1, 2, 4, 8)
    for number in (0, -1, 1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))
]
TEXTS: Final = [
    b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u0000", b"\\ud800", b"$ref", b"null", b"-", b"1e999",
    b"\x00", b"\x01", b"\x02", b"\xff", b"\xed\xa0\x80", b"||", b"(", b")", b" AND ", b" NOT ", b"''", b"9" * 40, b"\n",
    b"\r\n", b"=", b"#", b"&a ", b"*a", b"!!python/object:os.system ", b"- ", b"%", b"  ",
]  # fmt: skip


def mutated(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    """Return an input with a few changes."""
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        data = _changed(data, chance, others)
    return data[:LONGEST]


def _changed(data: bytes, chance: random.Random, others: Sequence[bytes]) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = min(start + chance.choice((0, 1, 2, 4, 8, 50)), len(data))
    match chance.randrange(8):
        case 0:
            return data[:start] + bytes([chance.randrange(256)]) + data[start + 1 :]
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[:start] + data[start:end] * chance.choice((2, 3, 10, 100)) + data[end:]
        case 3:
            number = chance.choice(NUMBERS)
            return data[:start] + number + data[start + len(number) :]
        case 4:
            return data[:start] + chance.choice(TEXTS) * chance.choice((1, 1, 1, 2, 200)) + data[end:]
        case 5:
            other = chance.choice(others)
            return data[:start] + other[chance.randrange(len(other) + 1) :]
        case 6:
            return data[:start]
    position = chance.randrange(len(data)) if data else 0
    return (
        data[:position] + bytes([data[position] ^ (1 << chance.randrange(8))]) + data[position + 1 :] if data else b""
    )
