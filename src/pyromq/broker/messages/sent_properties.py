"""What becomes of a sent message's properties before they are stored.

CLUSTER is added, WAIT goes, and the tag's hash is found for the consume queue. Where nothing rare is in it, the text is
not taken apart (`lane/sends.py`).
"""

from __future__ import annotations

from pyromq.broker.messages.deferred_messages import has_level, is_prepared, is_timed
from pyromq.errors import MessageIllegal
from pyromq.lane.sends import plain_properties
from pyromq.protocol.messages.properties import (
    CLUSTER,
    TAGS,
    WAIT,
    decode_properties,
    encode_properties,
    find_property,
    join_properties,
)
from pyromq.protocol.tag_filter import tag_code

StoredProperties = tuple[bytes, int, dict[str, str] | None]
"""The text to store, the hash of the tag, and the properties one by one where the message may be a special one."""


class PropertyWriter:
    """Turns property texts as sent into property texts as stored."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._alone = f"{CLUSTER}\x01{cluster}"
        self._suffix = f"\x02{self._alone}"

    def stored(self, sent: str | None) -> StoredProperties:
        """Return what becomes of a property text."""
        if not sent:
            return self._alone.encode(), 0, None
        plain = plain_properties(sent, self._suffix)
        return self._stored_after_parsing(sent) if plain is None else (*plain, None)

    def batch_suffix(self, sent: str | None) -> bytes:
        """Return what RocketMQ appends to the properties of every message of a batch."""
        properties = decode_properties(sent or "")
        _refuse_special(properties)
        return encode_properties({**properties, CLUSTER: self._cluster}).encode()

    def _stored_after_parsing(self, sent: str) -> StoredProperties:
        # Whoever writes the text anew keeps WAIT, as RocketMQ does in delayed messages and halves of transactions.
        properties = decode_properties(sent) | {CLUSTER: self._cluster}
        stored = {name: value for name, value in properties.items() if name != WAIT}
        return encode_properties(stored).encode(), tag_code(properties.get(TAGS)), properties


def waits_for_flush(sent: str | None) -> bool:
    """Tell whether a sender wants to hear only of what is durable: it does unless WAIT says otherwise."""
    if not sent or "WAIT\x01" not in sent:
        return True
    return decode_properties(sent).get(WAIT, "true").lower() == "true"


def stored_in_batch(properties: bytes, suffix: bytes) -> tuple[bytes, int]:
    """Return the text to store for one message of a batch, and the hash of its tag."""
    if b"DEL" in properties or b"TRAN_MSG" in properties:
        _refuse_special(decode_properties(properties))
    return join_properties(properties, suffix), tag_code(find_property(properties, TAGS))


def _refuse_special(properties: dict[str, str]) -> None:
    """Raise for messages that may not become visible now: stored in a batch they would be delivered too early."""
    if is_prepared(properties) or has_level(properties) or is_timed(properties):
        raise MessageIllegal("a batch cannot hold transactional or delayed messages")
