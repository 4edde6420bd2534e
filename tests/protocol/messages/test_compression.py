from __future__ import annotations

import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.messages.compression import LZ4_TYPE, ZLIB_TYPE, ZSTD_TYPE, compress, decompress

PACKERS = {
    0x1: zlib.compress,
    ZLIB_TYPE | 0x1: zlib.compress,
    LZ4_TYPE | 0x1: lz4.frame.compress,
    ZSTD_TYPE | 0x1: zstandard.ZstdCompressor().compress,
}
FLAGS = st.sampled_from(sorted(PACKERS))


@given(st.binary(max_size=5000), st.integers(0, 9))
def test_what_we_compress_everybody_inflates(body: bytes, level: int) -> None:
    assert zlib.decompress(compress(body, level)) == body
    assert decompress(compress(body, level), 0x1) == body


def test_the_stream_begins_as_java_s_does() -> None:
    assert compress(b"x" * 5000)[:2] == b"\x78\x5e"


@given(st.binary(max_size=5000), FLAGS)
def test_each_type_is_inflated_up_to_its_limit(body: bytes, sys_flag: int) -> None:
    packed = PACKERS[sys_flag](body)
    assert decompress(packed, sys_flag) == body
    assert decompress(packed, sys_flag, len(body)) == body
    if body:
        with pytest.raises(MalformedHeader, match="more than"):
            decompress(packed, sys_flag, len(body) - 1)


@given(st.binary(min_size=1, max_size=2000), FLAGS, st.data())
def test_a_stream_cut_short_is_refused(body: bytes, sys_flag: int, data: st.DataObject) -> None:
    packed = PACKERS[sys_flag](body)
    with pytest.raises(MalformedHeader):
        decompress(packed[: data.draw(st.integers(0, len(packed) - 1))], sys_flag)


@given(st.binary(max_size=200), st.integers(0, 0x7FF))
def test_any_bytes_are_a_body_or_a_protocol_error(body: bytes, sys_flag: int) -> None:
    try:
        plain = decompress(body, sys_flag)
    except MalformedHeader:
        return
    assert plain == body or sys_flag & 1


def test_a_body_without_the_flag_stays_as_it_is() -> None:
    assert decompress(b"plain", ZSTD_TYPE) == b"plain"


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(MalformedHeader, match="compression type 7"):
        decompress(b"", 0x701)


def test_a_level_that_is_none_is_our_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="level"):
        compress(b"", 10)


def zstd_bomb(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


@pytest.mark.parametrize(
    ("sys_flag", "bomb"),
    [
        (ZLIB_TYPE | 1, zlib.compress(bytes(256 << 20), 1)),
        (LZ4_TYPE | 1, lz4.frame.compress(bytes(256 << 20))),
        (ZSTD_TYPE | 1, zstd_bomb(256 << 20)),
    ],
    ids=["zlib", "lz4", "zstd"],
)
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(sys_flag: int, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedHeader, match="more than"):
            decompress(bomb, sys_flag, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
