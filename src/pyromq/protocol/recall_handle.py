"""RocketMQ 5's name for a message that can be cancelled: `v1 topic broker time id`, in base64 as URLs have it."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from pyromq.errors import MalformedHeader

_VERSION = "v1"


class RecallHandle(NamedTuple):
    """Which message is meant: `due` is its time in ms as text, `message_id` its producer's id."""

    topic: str
    broker_name: str
    due: str
    message_id: str


def encode_handle(handle: RecallHandle) -> str:
    """Return the text that travels."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Read a handle; raises MalformedHeader."""
    try:
        version, *fields = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        if version == _VERSION:
            return RecallHandle(*fields)
    except (binascii.Error, ValueError, TypeError):
        pass
    raise MalformedHeader(f"not a recall handle: {text[:64]!r}")
