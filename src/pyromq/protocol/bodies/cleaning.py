"""What a broker would delete (PREVIEW_CLEANING)."""

from __future__ import annotations

from typing import Final

from msgspec import field

from pyromq.protocol.bodies.codec import Body

MOST_NAMED: Final = 1_000


class CleaningPreview(Body):
    """What could be deleted at a broker now."""

    expired_files: int = 0
    """Files of the log that are older than fileReservedTime, and that nobody needs."""
    expired_bytes: int = 0
    expired_queues: list[tuple[str, int]] = field(default_factory=list)
    """Queues that their topics no longer have and in which nothing is left: topic and id, at most MOST_NAMED."""
    expired_queue_count: int = 0
    unused_topics: list[str] = field(default_factory=list)
    """Topics that have queues and no settings, at most MOST_NAMED."""
    unused_topic_count: int = 0
