"""What the index knows a message by: the hash of `topic#key`, for its unique key and each of its keys.

This is the plain version: one key at a time, for queries and as the measure of the fast one in key_batch.py.
"""

from __future__ import annotations

from pyromq.protocol.messages.properties import KEYS, UNIQ_KEY, find_property
from pyromq.protocol.tag_filter import java_hash

KEY_SEPARATOR = " "

StoredKeys = list[str | bytes | int]
"""What the index needs of messages: for each its topic, properties, physical offset and store time in ms, end to end.

One list and no value for each: this is filled by every send, and read by columns.
"""
COLUMNS = 4


def prefix(topic: str) -> str:
    """Return what stands before each key of a topic."""
    return f"{topic}#"


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic, never negative: RocketMQ takes 0 where Java's abs() leaves it so."""
    value = abs(java_hash(prefix(topic) + key))
    return value if value < 1 << 31 else 0


def keys_of(properties: bytes) -> list[str]:
    """Return the keys that a message is found by: the unique one first, then the others in their order."""
    unique = find_property(properties, UNIQ_KEY)
    others = (find_property(properties, KEYS) or "").split(KEY_SEPARATOR)
    return ([unique] if unique else []) + [key for key in others if key]
