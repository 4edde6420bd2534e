"""What the index knows a message by: the hash of `topic#key`, for its unique key and each of its keys.

This is the plain version: one key at a time, for queries and as the measure of the fast one in key_batch.py.
"""

from __future__ import annotations

from pyromq.protocol.filter import java_hash
from pyromq.protocol.properties import KEYS, UNIQ_KEY, find_property

KEY_SEPARATOR = " "

StoredKeys = tuple[str, bytes, int, int]
"""What the index needs of a message: topic, properties, physical offset, store time in ms. Plain: one for each send."""


def prefix(topic: str) -> str:
    """Return what stands before each key of a topic."""
    return f"{topic}#"


def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key of a topic, 0 or more: Java's abs() leaves its smallest number negative, so 0 for that."""
    value = abs(java_hash(prefix(topic) + key))
    return value if value < 1 << 31 else 0


def keys_of(properties: bytes) -> list[str]:
    """Return the keys that a message is found by: the unique one first, then the others in their order."""
    unique = find_property(properties, UNIQ_KEY)
    others = (find_property(properties, KEYS) or "").split(KEY_SEPARATOR)
    return ([unique] if unique else []) + [key for key in others if key]
