"""Java's String.hashCode of many texts at once: it decides to which queue an order key goes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyromq.protocol.tag_filter import java_hash
from pyromq.spark.arrow import Int64s

_FACTOR = np.uint32(31)


def java_hashes(texts: pa.Array) -> Int64s:
    """Return the hash of each text; there is no null among them."""
    texts = texts.cast(pa.binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    hashes = _weighted_sums(octets, offsets - offsets[0])
    if (octets > 127).any():  # not one unit of UTF-16 for each byte
        rows = np.unique(np.searchsorted(offsets - offsets[0], np.flatnonzero(octets > 127), side="right") - 1)
        hashes[rows] = [java_hash(texts[int(row)].as_py().decode()) for row in rows]
    return hashes


def _weighted_sums(octets: np.ndarray[tuple[int], np.dtype[np.uint8]], bounds: np.ndarray) -> Int64s:
    """Return the sum of octet times 31 to the power of how many follow, of each row, in 32 bits with a sign."""
    lengths = np.diff(bounds)
    sums = np.zeros(len(lengths), np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled):
        powers = np.full(int(lengths.max()), _FACTOR)
        powers[0] = 1
        powers = np.multiply.accumulate(powers, dtype=np.uint32)
        following = np.repeat(bounds[1:], lengths) - np.arange(len(octets)) - 1
        sums[filled] = np.add.reduceat(octets * powers[following], bounds[filled], dtype=np.uint32)
    return sums.view(np.int32).astype(np.int64)
