"""Unpack compressed bodies, up to a limit: a few kilobytes may hold gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import lz4.frame
import zstandard

MOST_BYTES: Final = 1024 * 1024
"""Unpacked bytes that are looked at."""
MOST_LAYERS: Final = 3
"""How often something packed is unpacked again."""
_RAW: Final = -zlib.MAX_WBITS
_GZIP: Final = zlib.MAX_WBITS | 16


class Inflated(NamedTuple):
    """What was inside."""

    data: bytes
    is_whole: bool
    """False if there is more, or the end is damaged."""


class Unpacked(NamedTuple):
    """A body without its layers of compression."""

    data: bytes
    layers: tuple[str, ...]
    """The outermost first: gzip, zlib, lz4, zstd."""
    is_whole: bool


class CannotInflate(ValueError):
    """It only looked compressed."""


def unpack(body: bytes) -> Unpacked:
    """Remove the compressions that a body begins with; text that happens to look like one stays as it is."""
    layers: list[str] = []
    is_whole = True
    while len(layers) < MOST_LAYERS and is_whole:
        name = compression(body)
        if name is None:
            break
        try:
            body, is_whole = inflate(name, body)
        except CannotInflate:
            break
        layers.append(name)
    return Unpacked(body, tuple(layers), is_whole)


def compression(body: bytes) -> str | None:
    """Return the compression that a body's first bytes announce."""
    if body[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if body[:4] == b"\x28\xb5\x2f\xfd":
        return "zstd"
    if body[:4] == b"\x04\x22\x4d\x18":
        return "lz4"
    if len(body) > 6 and body[0] == 0x78 and int.from_bytes(body[:2], "big") % 31 == 0:
        return "zlib"
    return None


def inflate(name: str, data: bytes, limit: int = MOST_BYTES) -> Inflated:
    """Unpack at most `limit` bytes; raises CannotInflate if not even the beginning can be read."""
    try:
        return _INFLATERS[name](data, limit)
    except (zlib.error, RuntimeError, zstandard.ZstdError, EOFError, MemoryError) as error:
        raise CannotInflate(str(error)) from error


def _by_zlib(window: int) -> Callable[[bytes, int], Inflated]:
    def inflated(data: bytes, limit: int) -> Inflated:
        stream = zlib.decompressobj(window)
        found = stream.decompress(data, limit)
        return Inflated(found, stream.eof)

    return inflated


def _lz4(data: bytes, limit: int) -> Inflated:
    stream = lz4.frame.LZ4FrameDecompressor()
    found = stream.decompress(data, max_length=limit)
    return Inflated(found, stream.eof)


def _zstd(data: bytes, limit: int) -> Inflated:
    reader = zstandard.ZstdDecompressor(max_window_size=8 * MOST_BYTES).stream_reader(data)
    found = reader.read(limit)
    return Inflated(found, not reader.read(1))


_INFLATERS: Final[dict[str, Callable[[bytes, int], Inflated]]] = {
    "gzip": _by_zlib(_GZIP),
    "zlib": _by_zlib(zlib.MAX_WBITS),
    "deflate": _by_zlib(_RAW),
    "lz4": _lz4,
    "zstd": _zstd,
}
