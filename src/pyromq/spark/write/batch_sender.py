"""Sends the batches of one task: many at a time, one after another per queue, each until it is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from pyromq.client.config import ClientConfig
from pyromq.client.rate_limit import RateLimit
from pyromq.client.send.delivery import Delivery, DeliveryRules
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.clock import Clock, SystemClock
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.properties import WAIT, encode_properties
from pyromq.spark.options.write_options import WriteOptions
from pyromq.spark.write.batches import MessageBatch

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_BYTES_IN_FLIGHT = 64 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_PATIENCE_FOR_ROUTES = 15.0
"""Seconds to wait for an unknown topic: while a broker restarts, its topics disappear for at most that long."""
_BATCH_PROPERTIES = encode_properties({WAIT: "true"})


class BatchSender:
    """Sends for one task while it is open; the first batch that no broker accepts ends the task."""

    def __init__(self, options: WriteOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._window = InFlightLimit(options.in_flight, _MOST_BYTES_IN_FLIGHT)
        self._pace = RateLimit(options.rate_per_second, self._clock) if options.rate_per_second else None
        self._lanes: dict[MessageQueue, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: PyroMQError | None = None
        self._warned = False

    async def __aenter__(self) -> Self:
        config = ClientConfig(
            namesrv=self._options.namesrv, credentials=self._options.credentials, tls=self._options.tls
        )
        rules = DeliveryRules(
            group=self._options.producer_group,
            namespace=None,
            topic_queues=config.topic_queues,
            retries=2,
            retry_not_stored=False,
        )
        self._delivery = Delivery(config, rules, self._clock)
        await self._delivery.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._delivery.close()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues that messages of a topic go to."""
        patience = min(_PATIENCE_FOR_ROUTES, self._options.retry_timeout)
        return await self._persist(lambda: self._delivery.queues(topic), patience, f"topic {topic}")

    async def put(self, batches: Sequence[MessageBatch]) -> None:
        """Start sending batches as there is room; raises the error of an earlier batch."""
        for batch in batches:
            await self._put(batch)

    async def _put(self, batch: MessageBatch) -> None:
        if self._pace is not None:
            await self._pace.wait()
            self._pace.count(batch.count)
        await self._window.enter(len(batch.body))
        if self._failure is not None:
            self._window.leave(len(batch.body))
            raise self._failure
        task = asyncio.create_task(self._send(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Return when every batch is acknowledged; raises the error of a failed one."""
        await self._window.idle()
        if self._failure is not None:
            raise self._failure

    async def _send(self, batch: MessageBatch) -> None:
        try:
            if batch.queue is None:
                await self._deliver(batch)
            else:
                # One after another: a later batch must not overtake one that is being retried.
                async with self._lanes.setdefault(batch.queue, asyncio.Lock()):
                    await self._deliver(batch)
        except PyroMQError as error:
            self._failure = self._failure or error
        finally:
            self._window.leave(len(batch.body))

    async def _deliver(self, batch: MessageBatch) -> None:
        if self._failure is not None:
            return
        outgoing = self._outgoing(batch)

        def attempt() -> Awaitable[SendResult]:
            timeout = self._options.send_timeout
            if batch.queue is None:
                return self._delivery.send_anywhere(outgoing, timeout)
            return self._delivery.send_to(batch.queue, outgoing, timeout)

        name = f"{batch.count} messages to topic {batch.topic}"
        self._note(await self._persist(attempt, self._options.retry_timeout, name))

    async def _persist(self, attempt: Callable[[], Awaitable[T]], patience: float, name: str) -> T:
        """Retry until it works or `patience` seconds have passed; messages sent twice have the same ids."""
        deadline, pause = self._clock.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except PyroMQError as error:
                if not error.retriable or self._failure is not None or self._clock.monotonic() + pause >= deadline:
                    raise
                if pause == _FIRST_PAUSE:  # logged once per problem
                    logger.warning("%s, retrying for at most %.0f s: %s", name, patience, error)
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _outgoing(self, batch: MessageBatch) -> PreparedMessage:
        return PreparedMessage(
            source=Message(topic=batch.topic, body=batch.body),
            topic=batch.topic,
            body=batch.body,
            properties=_BATCH_PROPERTIES if batch.properties is None else batch.properties,
            message_id="",
            born_timestamp_ms=self._clock.now_ms(),
            flag=batch.flag,
            batch=batch.properties is None,
            timed=batch.timed,
        )

    def _note(self, result: SendResult) -> None:
        if result.status is not SendStatus.SEND_OK and not self._warned:
            self._warned = True
            logger.warning("broker %s stored messages but answered %s", result.queue.broker_name, result.status.name)
