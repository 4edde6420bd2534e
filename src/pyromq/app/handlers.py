"""Handlers: which function gets which messages. Mistakes are refused when a handler is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, TypedDict

from msgspec import Struct

from pyromq.app.signature import Signature
from pyromq.client.config import FlowControl
from pyromq.client.consume.start_from import StartFrom
from pyromq.client.consume.subscriptions import Expression, Function, Sql
from pyromq.client.group.allocation import Allocate
from pyromq.codecs.codec import Codec, Decode
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.tag_filter import EVERYTHING


class HandlerOptions(TypedDict, total=False):
    """The options of a group's consumer that `@app.on` takes; those of PushConsumer."""

    orderly: bool
    broadcasting: bool
    start_from: StartFrom
    concurrency: int
    batch_size: int
    pull_batch: int
    pull_interval: float
    rate: float | None
    max_reconsume: int | None
    consume_timeout: timedelta | float
    flow_control: FlowControl | None
    allocate: Allocate
    close_timeout: float


class Publication(Struct, frozen=True):
    """Where the value goes that a handler returns."""

    topic: str
    tags: str | None = None
    key: Callable[[Any], str] | None = None
    """Returns the key of a value; by default the message keeps the keys of the one that was handled."""


class Handler(Struct, frozen=True, eq=False):
    """A function and the messages that it gets."""

    topic: str
    group: str
    expression: Expression
    signature: Signature
    codec: Codec
    decode: Decode | None
    tags: tuple[str, ...] = ()
    """The tags that it gets; empty for all."""
    processes: int = 0
    """How many processes run it; 0 if it runs in this one."""

    @property
    def name(self) -> str:
        """The function's name."""
        return self.signature.name


class HandlerGroup:
    """The handlers of one consumer group, and the options of its consumer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handlers: list[Handler] = []
        self.options: HandlerOptions = {}

    def check(self, handler: Handler, options: HandlerOptions) -> None:
        """Raise ClientError if a handler does not go together with the others of the group."""
        self._check_options(options)
        others = [other for other in self.handlers if other.topic == handler.topic]
        for other in others:
            self._check_tags(handler, other)

    def add(self, handler: Handler, options: HandlerOptions) -> None:
        """Add a handler that was checked."""
        self.handlers.append(handler)
        self.options = {**self.options, **options}

    def _check_options(self, options: Mapping[str, Any]) -> None:
        known = HandlerOptions.__annotations__
        for name, value in options.items():
            if name not in known:
                near = get_close_matches(name, known, n=1)
                raise ClientError(
                    f"@app.on has no option {name!r}"
                    + (f"; did you mean {near[0]!r}?" if near else f": {', '.join(known)}")
                )
            before = self.options.get(name, value)
            if self.handlers and (name not in self.options or before != value):
                first = self.handlers[0].name
                raise ClientError(
                    f"the group {self.name!r} has one consumer: give {name}= with its first handler, {first}, "
                    "or choose another group"
                )

    def _check_tags(self, handler: Handler, other: Handler) -> None:
        both = f"{other.name} and {handler.name} of group {self.name!r} on topic {handler.topic!r}"
        if not isinstance(handler.expression, str) or not isinstance(other.expression, str):
            raise ClientError(f"{both}: only tags tell them apart, not sql= or function=; use another group")
        if not handler.tags or not other.tags:
            raise ClientError(
                f"{both}: one of them takes all tags; write tags='a || b' with both, or use another group"
            )
        if shared := set(handler.tags) & set(other.tags):
            raise ClientError(f"{both}: both want the tag {min(shared)!r}; a message goes to one of them")

    @property
    def subscriptions(self) -> dict[str, Expression]:
        """What the group's consumer subscribes to."""
        found: dict[str, Expression] = {}
        for handler in self.handlers:
            before = found.get(handler.topic)
            expression = handler.expression
            found[handler.topic] = f"{before} || {expression}" if isinstance(before, str) else expression
        return found

    @property
    def in_batches(self) -> bool:
        """True if one of the handlers takes batches."""
        return any(handler.signature.in_batches for handler in self.handlers)

    def find(self, message: MessageExt) -> Handler | None:
        """Return the handler of a message that the consumer got."""
        for handler in self.handlers:
            if handler.topic == message.topic and (not handler.tags or message.tags in handler.tags):
                return handler
        return None


def expression_of(topic: str, tags: str | None, sql: str | Sql | None, function: str | Function | None) -> Expression:
    """Return what the arguments of `@app.on` stand for."""
    if sum(each is not None for each in (tags, sql, function)) > 1:
        raise ClientError(f"@app.on({topic!r}): give one of tags=, sql= and function=")
    if sql is not None:
        return Sql(sql) if isinstance(sql, str) else sql
    if function is not None:
        return Function(function) if isinstance(function, str) else function
    return EVERYTHING if tags is None else tags
