"""The topic that decides who may read a stored message."""

from __future__ import annotations

from pyromq.protocol.messages.properties import REAL_TOPIC, find_property
from pyromq.protocol.messages.record import read_head, read_tail
from pyromq.protocol.names import NO_SEND_TOPICS


def message_topic(record: bytes) -> str:
    """Return the topic that a message is for: where it lies, unless it lies in a topic of the broker and waits there.

    Messages in those have the property REAL_TOPIC, which the broker sets; elsewhere a client may have set it.
    """
    raw_topic, properties = read_tail(record, read_head(record))
    topic = raw_topic.decode(errors="replace")
    if topic not in NO_SEND_TOPICS:
        return topic
    return find_property(properties, REAL_TOPIC) or topic


def stored_topic(record: bytes) -> str:
    """Return the topic in which a message lies."""
    return read_tail(record, read_head(record))[0].decode(errors="replace")
