"""Looking at one stored message."""

from __future__ import annotations

from typing import Final

from pyromq.protocol.messages.record import read_head
from pyromq.store.read.readable import ReadableStore

NEVER: Final = -1


def stored_at(store: ReadableStore, topic: str, queue_id: int, offset: int) -> int:
    """Return when the message at a queue offset was stored, ms since the epoch; NEVER if it is not there."""
    if offset < 0:
        return NEVER
    views = store.get(topic, queue_id, offset, 1).views
    return read_head(bytes(views[0])).store_timestamp_ms if views else NEVER
