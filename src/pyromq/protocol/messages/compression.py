"""Compressed message bodies: zlib, which all 4.x clients write; lz4 and zstd, known since 4.9.4, are only read.

Decompression stops at a limit, because a megabyte of zlib can stand for a gigabyte of zeros.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, cast

from pyromq.errors import LocalProtocolError, MalformedHeader

COMPRESSED_FLAG: Final = 0x1
COMPRESSION_TYPE_MASK: Final = 0x700
LZ4_TYPE: Final = 0x100
ZSTD_TYPE: Final = 0x200
ZLIB_TYPE: Final = 0x300

DEFAULT_LEVEL: Final = 5
MAX_DECOMPRESSED: Final = 16 * 1024 * 1024
"""Four times the largest message that a broker with default settings accepts."""

_MAX_ZSTD_WINDOW: Final = 32 * 1024 * 1024  # a frame may demand a window far larger than its content


def compress(body: bytes, level: int = DEFAULT_LEVEL) -> bytes:
    """Return the body as a zlib stream, the only form that every consumer reads."""
    if not 0 <= level <= 9:
        raise LocalProtocolError(f"a compression level is 0 to 9, not {level}")
    return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int, limit: int = MAX_DECOMPRESSED) -> bytes:
    """Return the producer's body; raise MalformedHeader if it is damaged or larger than the limit.

    A body without the compression bit in `sys_flag` is returned unchanged.
    """
    if not sys_flag & COMPRESSED_FLAG:
        return body
    kind = sys_flag & COMPRESSION_TYPE_MASK
    inflate = _INFLATERS.get(kind)
    if inflate is None:
        raise MalformedHeader(f"unknown compression type {kind >> 8}")
    try:
        plain = inflate(body, limit)
    except (zlib.error, RuntimeError, EOFError, ValueError, MemoryError) as error:
        raise MalformedHeader(f"damaged compressed body of {len(body)} bytes: {error}") from None
    if len(plain) > limit:
        raise MalformedHeader(f"a compressed body of {len(body)} bytes holds more than {limit}")
    return plain


# Each asks for one byte more than the limit, to distinguish a body of exactly the limit from a longer one. lz4 and
# zstandard are imported on first use: few bodies need them, and they would take a third of a client's start-up time.


def _inflate_zlib(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(body, limit + 1)
    if not inflater.eof and len(plain) <= limit:
        raise EOFError("the stream is cut short")
    return plain


def _inflate_lz4(body: bytes, limit: int) -> bytes:
    import lz4.frame

    inflater = lz4.frame.LZ4FrameDecompressor()
    plain = cast(bytes, inflater.decompress(body, max_length=limit + 1))
    if not inflater.eof and len(plain) <= limit:
        raise EOFError("the frame is cut short")
    return plain


def _inflate_zstd(body: bytes, limit: int) -> bytes:
    import zstandard

    # This API has no limit per call, so it is fed little at a time: 512 bytes expand to 22 MB at worst.
    inflater = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).decompressobj()
    parts: list[bytes] = []
    length = 0
    try:
        for start in range(0, len(body), 512):
            parts.append(inflater.decompress(body[start : start + 512]))
            length += len(parts[-1])
            if inflater.eof or length > limit:
                return b"".join(parts)
    except zstandard.ZstdError as error:
        raise ValueError(error) from None
    raise EOFError("the frame is cut short")


_INFLATERS: dict[int, Callable[[bytes, int], bytes]] = {
    0: _inflate_zlib,  # clients before 4.9.4 set no type
    LZ4_TYPE: _inflate_lz4,
    ZSTD_TYPE: _inflate_zstd,
    ZLIB_TYPE: _inflate_zlib,
}
