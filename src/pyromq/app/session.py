"""AppSession: the parts of an App while it is open."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from pyromq.app.calls import Calls, GroupListener, Middleware
from pyromq.app.handlers import Handler, HandlerGroup, Publication
from pyromq.app.providers import Providers
from pyromq.app.signature import Signature
from pyromq.app.worker_processes import WorkerProcesses
from pyromq.client.background import log_failure
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer

logger = logging.getLogger(__name__)


class AppParts(Struct, frozen=True):
    """What an App consists of, as its decorators have collected it."""

    groups: Mapping[str, HandlerGroup]
    publications: Mapping[Callable[..., Any], Publication]
    middlewares: Sequence[Middleware]
    providers: Providers
    startup: Sequence[Signature]
    shutdown: Sequence[Signature]


class AppSession:
    """An App from its start to its end.

    `new_consumer` makes the consumer of a group; it is None in tests without a network, which may also replace values.
    """

    def __init__(
        self,
        parts: AppParts,
        producer: Producer,
        built_in: Callable[[], Mapping[Any, Any]],
        new_consumer: Callable[[HandlerGroup, GroupListener], PushConsumer] | None,
        replaced: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        self.parts = parts
        self.producer = producer
        self.closing = asyncio.Event()
        self.consumers: list[PushConsumer] = []
        self.listeners: dict[str, GroupListener] = {}
        self._built_in = built_in
        self._new_consumer = new_consumer
        self._replaced = replaced
        self._stack = AsyncExitStack()
        self._threads = ListenerThreads()

    async def start(self) -> None:
        """Open the producer, the resources and the consumers, with the hooks in between."""
        stack = self._stack
        stack.callback(self._threads.close)
        await self.producer.start()
        stack.push_async_callback(self.producer.close)
        processes = {handler: self._processes(handler) for handler in self._handlers() if handler.processes}
        values = await self.parts.providers.open(self._built_in(), self._replaced, stack)
        calls = Calls(values, self.producer, self.parts.publications, self.parts.middlewares, processes, self._threads)
        self.listeners = {name: GroupListener(group, calls) for name, group in self.parts.groups.items()}
        for hook in reversed(self.parts.shutdown):
            stack.push_async_callback(self._run_hook, hook, values)
        for hook in self.parts.startup:
            await self._run_hook(hook, values)
        stack.push_async_callback(self._close_consumers)
        await self._start_consumers()

    def _handlers(self) -> list[Handler]:
        return [handler for group in self.parts.groups.values() for handler in group.handlers]

    def _processes(self, handler: Handler) -> WorkerProcesses:
        processes = WorkerProcesses(handler.processes, self._threads)
        self._stack.callback(processes.close)
        return processes

    async def _run_hook(self, hook: Signature, values: Mapping[Any, Any]) -> None:
        arguments = {name: values[kind] for name, kind in hook.values.items()}
        if hook.is_async:
            await hook.function(**arguments)
        else:
            await self._threads.run(lambda given: hook.function(**given), arguments)

    async def _start_consumers(self) -> None:
        if self._new_consumer is None:
            return
        for name, group in self.parts.groups.items():
            consumer = self._new_consumer(group, self.listeners[name])
            self.consumers.append(consumer)
            await consumer.start()

    async def _close_consumers(self) -> None:
        """Close all at once: each waits for its own handlers."""
        found = await asyncio.gather(*(consumer.close() for consumer in self.consumers), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                log_failure(logger, logging.ERROR, "closing a consumer failed", error=error)

    async def close(self, *, failed: bool = False) -> None:
        """Finish what is in hand, commit and leave; then run the hooks and close what was opened, in reverse."""
        self.closing.set()
        await self._stack.aclose()
