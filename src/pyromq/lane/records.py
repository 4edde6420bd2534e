"""The lane for consumers: from the answer to a pull to its messages.

`decode_messages` of `protocol/messages/record.py` says what is right. `c/_records.c` does the same in C, and leaves
whatever is unusual to it: IPv6 hosts, damage, bytes that are no records.
"""

from __future__ import annotations

from pyromq.lane import native
from pyromq.protocol.messages import record
from pyromq.protocol.messages.message import MessageExt

_NATIVE = native("records")


def decode_messages(body: bytes, broker_name: str | None) -> list[MessageExt]:
    """Read all records of an answer and compare their checksums; raises MalformedHeader or CorruptRecord."""
    if _NATIVE is not None:
        found: list[MessageExt] | None = _NATIVE.decode(body, broker_name, MessageExt, record.shared_topic)
        if found is not None:
            return found
    return record.decode_messages(body, broker_name)
