"""FastStream's message around a MessageExt, and what becomes of it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, Any, Final

from faststream import Context
from faststream._internal.basic_types import DecodedMessage
from faststream.message import StreamMessage, decode_message

from pyromq.client.listener.outcomes import DeadLetter, RetryLater
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt

CONTENT_TYPE: Final = "content-type"
CORRELATION_ID: Final = "correlation_id"


class HandlerOutcome:
    """How a handler ended: acknowledged, or the exception that a listener raises."""

    def __init__(self) -> None:
        self.is_settled = False
        self.failure: RetryLater | DeadLetter | None = None

    def settle(self, failure: RetryLater | DeadLetter | None = None) -> None:
        """Note the first answer; later ones do not count."""
        if not self.is_settled:
            self.is_settled, self.failure = True, failure


outcome_of_handler: Final[ContextVar[HandlerOutcome | None]] = ContextVar("outcome_of_handler", default=None)
"""Set by the listener around each call of a handler."""


class StreamedMessage(StreamMessage[MessageExt]):
    """A message in a handler; `raw_message` is the MessageExt.

    `nack(delay=60)` has it redelivered, after so many seconds or RocketMQ's usual delay. `reject("why")` makes it a
    dead letter. `raise NackMessage(delay=60)` and `raise RejectMessage(reason="why")` do the same.
    """

    async def ack(self) -> None:
        _settle()
        await super().ack()

    async def nack(self, delay: float | None = None) -> None:
        _settle(RetryLater() if delay is None else RetryLater(delay=delay))
        await super().nack()

    async def reject(self, reason: str = "rejected by the handler") -> None:
        _settle(DeadLetter(reason))
        await super().reject()


PyroMQMessage = Annotated[StreamedMessage, Context("message")]
"""The message, as a parameter of a handler."""


async def parse_message(message: MessageExt) -> StreamedMessage:
    """Return a received message as FastStream's."""
    properties: dict[str, Any] = {
        name: value for name, value in message.properties.items() if name not in names.RESERVED_NAMES
    }
    return StreamedMessage(
        raw_message=message,
        body=message.body,
        headers=properties,
        reply_to=message.properties.get(names.REPLY_TO_CLIENT, ""),
        content_type=properties.pop(CONTENT_TYPE, None),
        correlation_id=properties.pop(CORRELATION_ID, None),
        message_id=message.message_id,
    )


async def decode_body(message: StreamMessage[Any]) -> DecodedMessage:
    """Return the body as JSON, text or bytes, by its content type."""
    return decode_message(message)


def _settle(failure: RetryLater | DeadLetter | None = None) -> None:
    outcome = outcome_of_handler.get()
    if outcome is not None:
        outcome.settle(failure)
