"""Calls: a message, or a batch, on its way through middlewares to its handler, and what the handler returned."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from pyromq.app.handlers import Handler, HandlerGroup, Publication
from pyromq.app.worker_processes import WorkerProcesses
from pyromq.client.background import log_failure
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.listener.outcomes import Ack, DeadLetter
from pyromq.client.send.producer import Producer
from pyromq.errors import PayloadError
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt

logger = logging.getLogger(__name__)


class HandlerCall(Struct, frozen=True):
    """A call of a handler, as middlewares see it."""

    handler: str
    """The function's name."""
    group: str
    topic: str
    messages: list[MessageExt]

    @property
    def message(self) -> MessageExt:
        """The message, the first of a batch."""
        return self.messages[0]


class Proceed(Protocol):
    """Calls the next middleware, at last the handler, and returns its outcome: `await proceed()`."""

    def __call__(self) -> Awaitable[object]: ...


Middleware = Callable[[HandlerCall, Proceed], Awaitable[object]]


class Calls:
    """Calls handlers, with all that they are given."""

    def __init__(
        self,
        values: Mapping[Any, Any],
        producer: Producer,
        publications: Mapping[Callable[..., Any], Publication],
        middlewares: Sequence[Middleware],
        processes: Mapping[Handler, WorkerProcesses],
        threads: ListenerThreads,
    ) -> None:
        self._values = values
        self._producer = producer
        self._publications = publications
        self._middlewares = middlewares
        self._processes = processes
        self._threads = threads

    async def call(self, handler: Handler, messages: list[MessageExt]) -> object:
        """Call a handler through the middlewares; return or raise its outcome."""
        proceed: Proceed = partial(self._handle, handler, messages)
        if self._middlewares:
            call = HandlerCall(handler.name, handler.group, handler.topic, messages)
            for middleware in reversed(self._middlewares):
                proceed = partial(middleware, call, proceed)
        return await proceed()

    async def _handle(self, handler: Handler, messages: list[MessageExt]) -> object:
        arguments = self._arguments(handler, messages)
        signature = handler.signature
        if handler.processes:
            returned = await self._processes[handler].call(signature.function, arguments)
        elif signature.is_async:
            returned = await signature.function(**arguments)
        else:
            returned = await self._threads.run(lambda given: signature.function(**given), arguments)
        if returned is None or isinstance(returned, Ack | TransactionState | BaseException):
            return returned
        return await self._publish(handler, messages, returned)

    def _arguments(self, handler: Handler, messages: list[MessageExt]) -> dict[str, Any]:
        signature = handler.signature
        arguments: dict[str, Any] = {name: self._values[kind] for name, kind in signature.values.items()}
        given = messages if signature.in_batches else messages[0]
        arguments |= dict.fromkeys(signature.messages, given)
        if signature.payload is not None and handler.decode is not None:
            arguments[signature.payload] = _decoded(handler, messages[0])
        return arguments

    async def _publish(self, handler: Handler, messages: list[MessageExt], returned: Any) -> object:
        """Send what a handler returned; the message is acknowledged only after that."""
        publication = self._publications.get(handler.signature.function)
        if isinstance(returned, Message):
            await self._producer.send(returned)
        elif isinstance(returned, list | tuple) and returned and all(isinstance(each, Message) for each in returned):
            for each in returned:
                await self._producer.send(each)
        elif publication is not None:
            await self._producer.send(
                publication.topic, returned, tags=publication.tags, keys=_keys(publication, messages, returned)
            )
        else:
            return returned
        return None


def _keys(publication: Publication, messages: Sequence[MessageExt], returned: Any) -> Sequence[str]:
    if publication.key is not None:
        return [publication.key(returned)]
    return messages[0].keys if len(messages) == 1 else ()


def describe(message: MessageExt) -> str:
    """Return which message it is, for errors: its id, topic and place."""
    place = f"{message.broker_name or '?'}:{message.queue_id}:{message.queue_offset}"
    return f"message {message.message_id} of {message.topic} at {place}"


def _decoded(handler: Handler, message: MessageExt) -> Any:
    assert handler.decode is not None
    try:
        return handler.decode(message.body)
    except PayloadError as error:
        named = error.about(describe(message))
        logger.warning("%s gets no payload, the message goes to the dead letters: %s", handler.name, named)
        raise DeadLetter(str(named)) from named


class GroupListener:
    """The listener of a group's consumer: finds the handler of each message."""

    def __init__(self, group: HandlerGroup, calls: Calls) -> None:
        self._group = group
        self._calls = calls

    @property
    def listener(self) -> Callable[..., Awaitable[object]]:
        """The function for the consumer."""
        return self.batch if self._group.in_batches else self.single

    async def single(self, message: MessageExt) -> object:
        """Handle a message."""
        return await self._calls.call(self._found(message), [message])

    async def batch(self, messages: list[MessageExt]) -> object:
        """Handle messages in their order: those of one handler together, if it takes batches."""
        done = 0
        for handler, some in self._runs(messages):
            try:
                outcome = await self._calls.call(handler, some)
            except Exception as error:
                if not done:
                    raise
                counts = done, len(messages)
                log_failure(
                    logger, logging.WARNING, "%s failed after %d of %d messages", handler.name, *counts, error=error
                )
                return Ack(first=done)
            acknowledged = min(outcome.first, len(some)) if isinstance(outcome, Ack) else len(some)
            if acknowledged < len(some) or isinstance(outcome, TransactionState | BaseException):
                return Ack(first=done + acknowledged) if done or isinstance(outcome, Ack) else outcome
            done += len(some)
        return None

    def _runs(self, messages: Iterable[MessageExt]) -> list[tuple[Handler, list[MessageExt]]]:
        runs: list[tuple[Handler, list[MessageExt]]] = []
        for message in messages:
            handler = self._found(message)
            if runs and runs[-1][0] is handler and handler.signature.in_batches:
                runs[-1][1].append(message)
            else:
                runs.append((handler, [message]))
        return runs

    def _found(self, message: MessageExt) -> Handler:
        handler = self._group.find(message)
        if handler is None:  # a retry of a message whose handler was removed since
            raise DeadLetter(f"no handler of group {self._group.name} takes {describe(message)}")
        return handler
