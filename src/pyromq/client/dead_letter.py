"""One dead letter: what it was, why its group gave it up, and how it is sent again.

A resent message is a new one. It carries the user's own properties and, under names that begin with PYROMQ_, where it
came from; what brokers wrote into the old one stays behind: a copied TRAN_MSG would make a half message of it, a copied
DELAY a delayed one.
"""

from __future__ import annotations

from msgspec import Struct

from pyromq.errors import ClientError
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.names import DLQ_PREFIX

# Brokers and clients write these, though Java's clients would not refuse them to a user.
_WRITTEN_BY_THE_WAY = names.TIMER_NAMES | {
    names.TRANSACTION_PREPARED_QUEUE_OFFSET, names.TRANSACTION_CHECK_TIMES, names.CHECK_IMMUNITY_TIME_IN_SECONDS,
    names.INNER_MULTI_DISPATCH, names.TRANSACTION_ID, names.SHARDING_KEY,
}  # fmt: skip
_OURS = "PYROMQ_"


class Letter(Struct, frozen=True):
    """A message among a group's dead letters."""

    message: MessageExt

    @property
    def group(self) -> str:
        """The group that gave it up."""
        return self.message.topic.removeprefix(DLQ_PREFIX)

    @property
    def topic(self) -> str | None:
        """The topic it was sent to, None if nothing says so."""
        return self._kept(names.RETRY_TOPIC)

    @property
    def cause(self) -> str | None:
        """Why its listener did not take it, the last time; clients other than PyroMQ's do not tell."""
        return self._kept(names.CAUSE)

    @property
    def origin_id(self) -> str:
        """The id of the first message, however often it was sent again."""
        return self._kept(names.ORIGIN_ID) or self.message.message_id

    @property
    def ids(self) -> set[str]:
        """All ids that it is known by."""
        return {self.message.message_id, self.message.offset_message_id, self.origin_id}

    @property
    def resends(self) -> int:
        """How often it was sent again already."""
        text = self._kept(names.RESENDS) or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def order_key(self) -> str | None:
        """The key that chose its queue."""
        return self._kept(names.SHARDING_KEY)

    def _kept(self, name: str) -> str | None:
        return self.message.properties.get(name)

    def resent(self, to: str | None = None) -> Message:
        """Return the message to send, to its own topic or another; raises ClientError if its own is not known."""
        topic = to or self.topic
        if topic is None:
            raise ClientError(f"nothing says which topic the dead letter {self.message.message_id} was sent to")
        message = self.message
        own = {name: value for name, value in message.properties.items() if _is_users_own(name)}
        return Message(
            topic=topic,
            body=message.body,
            tags=message.tags,
            keys=message.keys,
            properties=own | self._history(topic),
            flag=message.flag,
        )

    def _history(self, topic: str) -> dict[str, str]:
        history = {
            names.ORIGIN_TOPIC: self._kept(names.ORIGIN_TOPIC) or self.topic or topic,
            names.ORIGIN_GROUP: self.group,
            names.ORIGIN_ID: self.origin_id,
            names.RESENDS: str(self.resends + 1),
        }
        return history | ({names.CAUSE: self.cause} if self.cause else {})


def _is_users_own(name: str) -> bool:
    return not (name in names.RESERVED_NAMES or name in _WRITTEN_BY_THE_WAY or name.startswith(_OURS))
