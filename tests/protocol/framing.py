"""Frames made by hand, as strangers would make them."""

from __future__ import annotations

import json


def frame(header: bytes, body: bytes = b"", serialize: int = 0) -> bytes:
    """Return what decode() takes: everything behind the length of the frame."""
    return bytes([serialize]) + len(header).to_bytes(3, "big") + header + body


def json_frame(body: bytes = b"", **header: object) -> bytes:
    """Return a frame with a JSON header of these members."""
    return frame(json.dumps(header).encode(), body)


def with_length(data: bytes) -> bytes:
    """Return the frame as it travels."""
    return len(data).to_bytes(4, "big") + data
