"""ProducerSession: what a Producer has while it is open, and which way its messages take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from pyromq.client.background import run_all
from pyromq.client.config import ClientConfig
from pyromq.client.send.batch_delivery import BatchDelivery
from pyromq.client.send.delivery import Delivery, DeliveryRules
from pyromq.client.send.fast_send import FastSend
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.linger import Linger
from pyromq.client.send.prepare import MessagePreparer, PreparedMessage
from pyromq.client.send_result import PendingResult, Promise, SendResult
from pyromq.client.trace.tracing import Tracing
from pyromq.clock import Clock, wait_for
from pyromq.protocol.messages.message import Message, MessageQueue

if TYPE_CHECKING:
    from pyromq.client.trace.spans import SendSpans


class ProducerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a Producer, checked."""

    client: ClientConfig
    rules: DeliveryRules
    send_timeout: float
    linger: float | None
    compress_over: int
    max_message_size: int


class ProducerSession:
    """One stay of a Producer in its group."""

    def __init__(
        self,
        settings: ProducerSettings,
        preparer: MessagePreparer,
        in_flight: InFlightLimit,
        clock: Clock,
        tracing: Tracing | None,
        spans: SendSpans | None,
    ) -> None:
        self._settings = settings
        self._in_flight = in_flight
        self._clock = clock
        self._tracing = tracing
        self._spans = spans
        delivery = self.delivery = Delivery(settings.client, settings.rules, clock)
        self.instance = delivery.instance
        self.linger: Linger | None = None
        """Gathers small messages into batches, if the producer has `linger`."""
        self.join: Callable[[Message, Promise | None], PendingResult | None] | None = None
        """Lets a plain message travel with others, if nobody watches single sends."""
        self.fast_send: FastSend | None = None
        """The short way for plain messages, if nobody watches single sends."""
        self.started: set[asyncio.Task[SendResult]] = set()
        """Sends that nobody waits for."""
        largest = min(settings.compress_over - 1, settings.max_message_size)
        if settings.linger is not None:
            batches = BatchDelivery(delivery, settings.send_timeout)
            guard = self.instance.guard
            self.linger = Linger(settings.linger, preparer, in_flight, clock, guard, batches, largest)
            self.join = self.linger.join if spans is None else None
        elif not delivery.is_watched and spans is None:
            self.fast_send = FastSend(
                delivery, preparer, in_flight, clock, timeout=settings.send_timeout, largest=largest
            )

    async def start(self) -> None:
        """Join the group; no broker is asked before the first send."""
        await self.delivery.start()
        if self._tracing is not None:
            await self._tracing.open()
        if self._spans is not None:
            self._spans.opened(self.instance.client_id, self.instance.routes.master)

    async def flush(self) -> None:
        """Send what is gathered, and wait until nothing is in flight."""
        if self.linger is not None:
            self.linger.flush()
        await self._in_flight.idle()
        if self.started:
            await asyncio.wait(self.started)  # they have their answers

    async def close(self, *, failed: bool) -> None:
        """Wait for the sends that are under way, write their traces, and leave the group."""
        await run_all(self._wait_for_sends, self._close_tracing, self.delivery.close)

    async def _wait_for_sends(self) -> None:
        with suppress(TimeoutError):  # what takes longer ends with ConnectionLost
            await wait_for(self._clock, self.flush(), self._settings.send_timeout)

    async def _close_tracing(self) -> None:
        if self._tracing is not None:
            await self._tracing.close()


async def send_batch(
    delivery: Delivery, timeout: float, prepared: PreparedMessage, queue: MessageQueue | None
) -> SendResult:
    """Send a batch to a queue, or to any if there is none."""
    if queue is None:
        return await delivery.send_anywhere(prepared, timeout)
    return await delivery.send_to(queue, prepared, timeout)
