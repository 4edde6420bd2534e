"""Letter: a message among a group's dead letters, and how it is sent again. Wanted: a selection of them.

A message that is sent again is a new one. It carries the user's own properties and, under names that begin with
PYROMQ_, where it came from. Properties that brokers wrote into the old one are left out: a copied TRAN_MSG would make
it a half message, a copied DELAY a delayed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct

from pyromq.errors import ClientError
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.names import DLQ_PREFIX
from pyromq.protocol.sql92.conditions import MessageCondition

# Brokers and clients write these, although Java's clients let users set them.
_WRITTEN_BY_SYSTEM = names.TIMER_NAMES | {
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
        """The topic it was sent to, None if it is unknown; of a message that is no dead letter its own."""
        return self._property(names.RETRY_TOPIC) or (None if self._is_dead else self.message.topic)

    @property
    def _is_dead(self) -> bool:
        return self.message.topic.startswith(DLQ_PREFIX)

    @property
    def cause(self) -> str | None:
        """Why its listener failed the last time; only PyroMQ's clients record it."""
        return self._property(names.CAUSE)

    @property
    def origin_id(self) -> str:
        """The id of the original message, however often it was sent again."""
        return self._property(names.ORIGIN_ID) or self.message.message_id

    @property
    def ids(self) -> set[str]:
        """All of its ids."""
        return {self.message.message_id, self.message.offset_message_id, self.origin_id}

    @property
    def resends(self) -> int:
        """How often it was sent again."""
        text = self._property(names.RESENDS) or ""
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def order_key(self) -> str | None:
        """The key that selected its queue."""
        return self._property(names.SHARDING_KEY)

    def _property(self, name: str) -> str | None:
        return self.message.properties.get(name)

    def resent(self, to: str | None = None) -> Message:
        """Return the message to send again, to its original topic or another; raises ClientError if that is unknown."""
        topic = to or self.topic
        if topic is None:
            raise ClientError(f"it is unknown which topic the dead letter {self.message.message_id} was sent to")
        message = self.message
        own = {name: value for name, value in message.properties.items() if _is_users_own(name)}
        again = Message(
            topic=topic,
            body=message.body,
            keys=message.keys,
            properties=own | self._history(topic),
            flag=message.flag,
        )
        again.tags = message.tags  # as they are: other clients may have sent tags that ours refuse
        return again

    def _history(self, topic: str) -> dict[str, str]:
        history = {
            names.ORIGIN_TOPIC: self._property(names.ORIGIN_TOPIC) or self.topic or topic,
            **({names.ORIGIN_GROUP: self.group} if self._is_dead else {}),
            names.ORIGIN_ID: self.origin_id,
            names.RESENDS: str(self.resends + 1),
        }
        return history | ({names.CAUSE: self.cause} if self.cause else {})


def _is_users_own(name: str) -> bool:
    return not (name in names.RESERVED_NAMES or name in _WRITTEN_BY_SYSTEM or name.startswith(_OURS))


class Wanted(Struct, frozen=True, kw_only=True):
    """A selection of dead letters; None does not restrict it."""

    where: str | None = None
    """A SQL92 condition on their properties and, as `body.field`, on their JSON bodies."""
    cause: str | None = None
    """A part of the cause of their failure."""
    ids: Collection[str] | None = None
    """Their own ids, or those of the original messages."""

    def prepare(self) -> Callable[[Letter], bool]:
        """Return a function that selects them; raises LocalProtocolError for a wrong condition."""
        accepts = None if self.where is None else MessageCondition(self.where).matches

        def selects(letter: Letter) -> bool:
            if self.ids is not None and letter.ids.isdisjoint(self.ids):
                return False
            if self.cause is not None and self.cause not in (letter.cause or ""):
                return False
            return accepts is None or accepts(letter.message)

        return selects


EVERY = Wanted()
