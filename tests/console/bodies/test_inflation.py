import contextlib
import gzip
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.bodies.inflation import MOST_BYTES, CannotInflate, inflate, unpack

PACKERS = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", PACKERS)
@given(body=st.binary(min_size=20, max_size=200))
def test_packed_bodies_are_unpacked(name: str, body: bytes) -> None:
    body = b"{" + body  # not itself something that looks compressed
    assert unpack(PACKERS[name](body)) == (body, (name,), True)


@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_is_cut_at_the_limit(name: str) -> None:
    found = unpack(PACKERS[name](bytes(50 * MOST_BYTES)))
    assert len(found.data) == MOST_BYTES
    assert not found.is_whole


def test_layers_are_unpacked_one_after_the_other_and_not_for_ever() -> None:
    body = b'{"a": 1}'
    assert unpack(gzip.compress(zlib.compress(body))).layers == ("gzip", "zlib")
    for _ in range(6):
        body = gzip.compress(body)
    assert unpack(body).layers == ("gzip",) * 3


@given(st.binary(max_size=300))
def test_no_bytes_raise(body: bytes) -> None:
    found = unpack(body)
    if not found.layers:
        assert found.data == body


@pytest.mark.parametrize("name", [*PACKERS, "deflate"])
@given(body=st.binary(max_size=300))
def test_damaged_streams_raise_one_error(name: str, body: bytes) -> None:
    with contextlib.suppress(CannotInflate):
        inflate(name, body)


def test_a_cut_off_stream_shows_its_beginning() -> None:
    packed = gzip.compress(b"hello " * 5000)
    found = unpack(packed[:-12])
    assert found.data.startswith(b"hello hello")
    assert not found.is_whole
