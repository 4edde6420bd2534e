"""Numbers out of a buffer of records: many at once, without a Python object for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview


def gather(data: Buffer, positions: NDArray[np.int64], kind: str, offset: int = 0) -> NDArray[Any]:
    """Return the big-endian numbers (`i2`, `i4`, `i8`) at an offset from each position."""
    if not len(positions):
        return np.empty(0, kind)
    # An overlapping view of stride 1 is faster here than a structured type.
    length = len(data) - int(kind[1]) + 1 - offset
    view: NDArray[Any] = np.ndarray((length,), ">" + kind, data, offset, (1,))
    return view[positions].astype(kind)


def is_text(data: Buffer, positions: NDArray[np.int64], text: bytes) -> NDArray[np.bool_]:
    """Tell at which positions a text stands."""
    if not text or text.endswith(b"\0"):  # numpy takes zeros at the end for none
        octets = np.frombuffer(data, np.uint8)[positions[:, None] + np.arange(len(text))]
        same: NDArray[np.bool_] = (octets == np.frombuffer(text, np.uint8)).all(axis=1)
        return same
    # Texts of this length at every byte: comparing them is five times faster than comparing matrices of bytes.
    view: NDArray[np.bytes_] = np.ndarray((len(data) - len(text) + 1,), f"S{len(text)}", data, 0, (1,))
    found: NDArray[np.bool_] = view[positions] == text
    return found
