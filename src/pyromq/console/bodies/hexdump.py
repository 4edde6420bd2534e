"""Bytes as rows of offset, hexadecimal numbers and characters."""

from __future__ import annotations

from typing import Final, NamedTuple

ROW: Final = 16
MOST_SHOWN: Final = 4096


class HexRow(NamedTuple):
    """One row."""

    offset: str
    numbers: str
    characters: str


def hex_rows(data: bytes, most: int = MOST_SHOWN) -> tuple[HexRow, ...]:
    """Return the rows of the first `most` bytes."""
    shown = data[:most]
    return tuple(_row(start, shown[start : start + ROW]) for start in range(0, len(shown), ROW))


def _row(start: int, part: bytes) -> HexRow:
    half = ROW // 2
    numbers = f"{part[:half].hex(' ')}  {part[half:].hex(' ')}".rstrip()
    characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in part)
    return HexRow(f"{start:06x}", numbers.ljust(3 * ROW), characters)
