"""Hooks: code that sees every send, or every message that a listener gets; derive from one of the two classes.

A hook runs on the event loop and must be quick. What it raises is logged and otherwise ignored, except in
`SendHook.check`, which may refuse a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from pyromq.client.results import SendResult
from pyromq.protocol.message import Message, MessageExt, MessageQueue

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
    result: SendResult | None = None
    error: BaseException | None = None
    notes: dict[str, object] = field(default_factory=dict)
    """For the hook's own use, from `before` to `after`."""


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
