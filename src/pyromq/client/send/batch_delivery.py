"""BatchDelivery: sends the batches that linger has gathered.

A batch that may go to any queue is written at once, without a task, if its connection is open: the broker stores it
while the next one is gathered. Every other batch, and every retry, is a task and takes the general path (Delivery).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct

from pyromq.client.net.calls.broker_api import read_sent, send_request
from pyromq.client.send.delivery import Delivery
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send_result import SendResult
from pyromq.errors import PyroMQError
from pyromq.lane.batches import Element, producer_lane
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.message_id import IdRun
from pyromq.remoting.connection import Connection
from pyromq.remoting.held_bytes import LARGE

Settle = Callable[[SendResult | BaseException], None]
"""Takes the outcome of a batch, once."""


class GatheredBatch(Struct, eq=False):
    """A batch, ready to be sent."""

    prepared: PreparedMessage
    """Without its body and its ids, until the general path needs them."""
    elements: list[Element]
    ids: IdRun
    queue: MessageQueue | None
    """Where it has to go; None if any queue will do."""

    def completed(self) -> PreparedMessage:
        """Return what the general path sends."""
        if not self.prepared.body:
            self.prepared.body = producer_lane().encode(self.elements, self.ids.stem, self.ids.first)
            self.prepared.message_id = ",".join(self.ids.texts())
        return self.prepared


class BatchDelivery:
    """Sends batches for one producer."""

    def __init__(self, delivery: Delivery, timeout: float) -> None:
        self._delivery = delivery
        self._timeout = timeout
        self._remoting = delivery.instance.api.remoting
        self._clock = delivery.instance.clock
        self._encode = producer_lane().encode
        self._tasks: set[asyncio.Task[SendResult]] = set()

    @property
    def is_watched(self) -> bool:
        """True if hooks want to see the messages of each batch."""
        return self._delivery.is_watched

    def send(self, batch: GatheredBatch, settle: Settle) -> None:
        """Send a batch and have `settle` called with the outcome; the ids of a result are those of the batch."""
        if batch.queue is not None:
            self._run(self._delivery.send_to(batch.queue, batch.completed(), self._timeout), settle)
        elif self._delivery.is_watched or not self._try_send(batch, settle):
            self._run(self._delivery.send_anywhere(batch.completed(), self._timeout), settle)

    def _try_send(self, batch: GatheredBatch, settle: Settle) -> bool:
        """Send a batch at once if its connection is open; return False if it was not sent."""
        ready = self._delivery.next_ready(batch.prepared.topic)
        if ready is None:
            return False
        queue, connection = ready
        answer = self._request(connection, batch, queue)
        if connection.queued >= LARGE:
            connection.flush()  # the broker stores it while the next one is gathered
        answer.add_done_callback(partial(self._answered, batch, settle, queue, self._clock.monotonic()))
        return True

    def _request(
        self, connection: Connection, batch: GatheredBatch, queue: MessageQueue
    ) -> asyncio.Future[RemotingCommand]:
        """Queue the request, whose body is encoded where it is sent from; a signature needs it before."""
        header = self._delivery.header(batch.prepared, queue)
        if self._remoting.credentials is not None:
            return connection.request_future(send_request(header, batch.completed().body), self._timeout)
        request = send_request(header, b"")
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        request.opaque = connection.open_request(answer, request.code, self._timeout)
        try:
            connection.send(self._encode(batch.elements, batch.ids.stem, batch.ids.first, request.encode()))
        except BaseException:
            answer.cancel()  # nobody will answer
            raise
        return answer

    def _answered(
        self,
        batch: GatheredBatch,
        settle: Settle,
        queue: MessageQueue,
        began: float,
        answer: asyncio.Future[RemotingCommand],
    ) -> None:
        """Pass the outcome on, or try again."""
        outcome: SendResult | PyroMQError
        try:
            outcome = self._delivery.result(queue, "", read_sent(answer.result()))
        except PyroMQError as error:
            outcome = error
        except Exception as error:  # nobody may wait for ever
            settle(error)
            return
        if isinstance(outcome, SendResult) and self._delivery.is_final(outcome):
            settle(outcome)
            return
        trying = self._delivery.send_anywhere(batch.completed(), self._timeout, (queue, outcome), began)
        self._run(trying, settle)

    def _run(self, sending: Coroutine[Any, Any, SendResult], settle: Settle) -> None:
        task = asyncio.ensure_future(sending)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, settle))

    def _ended(self, settle: Settle, task: asyncio.Task[SendResult]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            settle(asyncio.CancelledError())
        else:
            settle(task.exception() or task.result())
