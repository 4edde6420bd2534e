"""What the newest messages of a topic have in common: keys, tags, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pyromq.protocol.messages.message import MessageExt

SHOWN: Final = 8


class TopicSample(Struct, frozen=True):
    """Some messages, counted."""

    messages: int
    keys: tuple[tuple[str, float], ...]
    """The commonest keys and their shares."""
    tags: tuple[tuple[str, float], ...]
    distinct_keys: int
    mean_bytes: float
    largest: int


def sample_of(messages: Sequence[MessageExt]) -> TopicSample:
    """Count keys, tags and sizes."""
    keys = Counter(key for message in messages for key in message.keys)
    tags = Counter(message.tags or "" for message in messages)
    sizes = [len(message.stored_body) for message in messages]
    return TopicSample(
        messages=len(messages),
        keys=_shares(keys, len(messages)),
        tags=_shares(tags, len(messages)),
        distinct_keys=len(keys),
        mean_bytes=sum(sizes) / len(sizes) if sizes else 0.0,
        largest=max(sizes, default=0),
    )


def _shares(counts: Counter[str], total: int) -> tuple[tuple[str, float], ...]:
    return tuple((name, count / total) for name, count in counts.most_common(SHOWN))
