"""The bits that Apache's broker gives a group and topic in its maps of who wants a message.

This broker keeps no such maps, but it writes the bits into consumerFilter.json: Apache's ignores a file without them.
"""

from __future__ import annotations

from typing import Final

BIT_COUNT: Final = 112  # for 32 groups and an error rate of 20 %, Apache's defaults
BITS_EACH: Final = 3

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def bit_positions(group: str, topic: str) -> list[int]:
    """Return the positions of a group and topic."""
    value = murmur3(f"{group}#{topic}".encode())
    low, high = value & 0xFFFFFFFF, value >> 32
    return [_non_negative(low + number * high) % BIT_COUNT for number in range(1, BITS_EACH + 1)]


def _non_negative(value: int) -> int:
    value &= 0xFFFFFFFF
    return value if value < 1 << 31 else value ^ 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3 (x64, 128 bits, seed 0)."""
    first = second = 0
    for start in range(0, len(data), 16):
        block = data[start : start + 16]
        is_whole = len(block) == 16
        low = int.from_bytes(block[:8], "little")
        high = int.from_bytes(block[8:], "little")
        first ^= _mixed(low, _C1, 31, _C2)
        if is_whole:
            first = (_rotated(first, 27) + second) * 5 + 0x52DCE729 & _MASK
        second ^= _mixed(high, _C2, 33, _C1)
        if is_whole:
            second = (_rotated(second, 31) + first) * 5 + 0x38495AB5 & _MASK
    first, second = first ^ len(data), second ^ len(data)
    first = first + second & _MASK
    second = second + first & _MASK
    return _finished(first) + _finished(second) & _MASK


def _mixed(value: int, before: int, bits: int, after: int) -> int:
    return _rotated(value * before & _MASK, bits) * after & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _finished(value: int) -> int:
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return value ^ value >> 33
