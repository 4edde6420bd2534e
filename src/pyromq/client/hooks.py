"""Hooks: code that sees every send, or every message that a listener gets; derive from one of the two classes.

A hook runs on the event loop and must be quick. What it raises is logged and otherwise ignored, except in
`SendHook.check`, which may refuse a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from pyromq.client.send_result import SendResult
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SendContext(Struct, eq=False, kw_only=True):
    """One attempt to send; `result` or `error` is set once it is over."""

    group: str
    message: Message
    message_id: str
    queue: MessageQueue
    address: str
    oneway: bool = False
    messages: Sequence[Message] = ()
    """All messages of a batch, of which `message` is the first and `message_id` has all ids, joined by commas."""
    body_size: int = 0
    """Bytes that travel: of a compressed body fewer than it has."""
    delayed: bool = False
    half: bool = False
    """The first half of a transaction."""
    result: SendResult | None = None
    region: str = ""
    """The broker's region, with a result."""
    trace_on: bool = True
    """Whether the broker lets its clients write traces, with a result."""
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For the hook's own use, from `before` to `after`."""


class EndContext(Struct, frozen=True, kw_only=True):
    """The end of a transaction, as the broker is about to be told."""

    group: str
    message: Message | MessageExt
    message_id: str
    address: str
    state: TransactionState
    from_check: bool
    """Whether the broker had asked."""


class ConsumeContext(Struct, eq=False, kw_only=True):
    """One call of a listener; `status` is set once it is over."""

    group: str
    queue: MessageQueue
    messages: list[MessageExt]
    status: str = ""
    """SUCCESS, FAILED (it asked for the messages again), EXCEPTION or TIME_OUT."""
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For the hook's own use, from `before` to `after`."""

    @property
    def success(self) -> bool:
        """Whether the listener took all messages."""
        return self.status == "SUCCESS"


class SendHook:
    """Sees every attempt to send."""

    def check(self, context: SendContext) -> None:
        """Refuse the message by raising: the exception goes to the sender."""

    def before(self, context: SendContext) -> None:
        """Called before the attempt."""

    def after(self, context: SendContext) -> None:
        """Called after it, with its result or error."""

    def end(self, context: EndContext) -> None:
        """Called before a broker is told how a transaction ended."""


class ConsumeHook:
    """Sees every message that was pulled and every call of the listener."""

    def accept(self, message: MessageExt) -> bool:
        """Tell whether the listener shall get this message; one that is not accepted counts as consumed."""
        return True

    def before(self, context: ConsumeContext) -> None:
        """Called before the listener."""

    def after(self, context: ConsumeContext) -> None:
        """Called after it."""


def accepted_by(hooks: Sequence[ConsumeHook]) -> Callable[[MessageExt], bool] | None:
    """Return what every hook must agree to; None where no hook has a say."""
    deciding = [hook.accept for hook in hooks if type(hook).accept is not ConsumeHook.accept]
    return (lambda message: all(accept(message) for accept in deciding)) if deciding else None


def run_hooks(calls: Sequence[Callable[[T], None]], context: T) -> None:
    """Call hooks one after the other; none keeps the others, or the message, from going on."""
    for call in calls:
        try:
            call(context)
        except Exception:
            logger.exception("the hook %s failed and is passed over", getattr(call, "__qualname__", call))
