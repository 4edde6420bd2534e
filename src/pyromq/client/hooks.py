"""Hooks: code that sees every send, or every message that a listener gets. Subclass SendHook or ConsumeHook.

A hook runs on the event loop and must be quick. What it raises is logged and otherwise ignored, except in
`SendHook.check`, which may refuse a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from pyromq.client.background import log_failure
from pyromq.client.send_result import SendResult
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FAILURES = (Exception, SystemExit)  # sys.exit() would end the loop of all clients


class SendContext(Struct, eq=False, kw_only=True):
    """One attempt to send; `result` or `error` is set when it is over."""

    group: str
    message: Message
    message_id: str
    queue: MessageQueue
    address: str
    oneway: bool = False
    messages: Sequence[Message] = ()
    """All messages of a batch; `message` is the first, and `message_id` has all ids, joined by commas."""
    body_size: int = 0
    """Size of the body as it is sent, which may be compressed."""
    delayed: bool = False
    half: bool = False
    """True for the half message of a transaction."""
    result: SendResult | None = None
    region: str = ""
    """The broker's region; set with `result`."""
    trace_on: bool = True
    """True if the broker lets its clients write traces; set with `result`."""
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For the hook's own use, from `before` to `after`."""


class EndContext(Struct, frozen=True, kw_only=True):
    """The end of a transaction, before it is sent to the broker."""

    group: str
    message: Message | MessageExt
    message_id: str
    address: str
    state: TransactionState
    from_check: bool
    """True if the broker asked for it."""


class ConsumeContext(Struct, eq=False, kw_only=True):
    """One call of a listener; `status` is set when it is over."""

    group: str
    queue: MessageQueue
    messages: list[MessageExt]
    status: str = ""
    """SUCCESS, FAILED (the listener asked for redelivery), EXCEPTION or TIME_OUT."""
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For the hook's own use, from `before` to `after`."""

    @property
    def success(self) -> bool:
        """True if the listener accepted all messages."""
        return self.status == "SUCCESS"


class SendHook:
    """Sees every attempt to send."""

    def check(self, context: SendContext) -> None:
        """Refuse the message by raising: the exception goes to the sender."""

    def before(self, context: SendContext) -> None:
        """Called before the attempt."""

    def after(self, context: SendContext) -> None:
        """Called after the attempt, with its result or error."""

    def end(self, context: EndContext) -> None:
        """Called before the end of a transaction is sent to the broker."""


class ConsumeHook:
    """Sees every message that was pulled and every call of the listener."""

    def accept(self, message: MessageExt) -> bool:
        """Return True if the listener should get this message; otherwise it counts as consumed.

        If this raises, the listener gets the message.
        """
        return True

    def before(self, context: ConsumeContext) -> None:
        """Called before the listener."""

    def after(self, context: ConsumeContext) -> None:
        """Called after the listener."""


def accepted_by(hooks: Sequence[ConsumeHook]) -> Callable[[MessageExt], bool] | None:
    """Return a function that asks every hook's `accept`; None if no hook overrides it."""
    deciding = [hook.accept for hook in hooks if type(hook).accept is not ConsumeHook.accept]
    return (lambda message: all(_accepts(accept, message) for accept in deciding)) if deciding else None


def _accepts(accept: Callable[[MessageExt], bool], message: MessageExt) -> bool:
    try:
        return bool(accept(message))
    except _FAILURES as error:  # no message may be lost because of it, nor its queue stop
        _ignore(accept, error)
        return True


def run_hooks(calls: Sequence[Callable[[T], None]], context: T) -> None:
    """Call hooks one after the other; log what they raise, and continue."""
    for call in calls:
        try:
            call(context)
        except _FAILURES as error:
            _ignore(call, error)


def _ignore(call: Callable[[T], object], error: BaseException) -> None:
    name = getattr(call, "__qualname__", call)
    log_failure(logger, logging.ERROR, "the hook %s failed and is ignored", name, error=error)
