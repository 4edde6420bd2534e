"""The work of `pyromq bench end-to-end`: send at a fixed rate, and measure the time until a consumer has each message.

The time counts from when a message should have been sent, so that a stalled broker cannot hide behind fewer requests.
Sender and consumer are in this process and share its clock.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from pyromq.cli.bench.load_generator import LoadCounts
from pyromq.client.environment import environment_credentials
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import Message
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP

_DUE = struct.Struct(">d")
_PATIENCE = 5.0  # seconds for the last messages to arrive


class EndToEnd:
    """Sends and receives on one topic until the budget is spent; moves no group's offsets."""

    def __init__(self, namesrv: str, topic: str, size: int, rate: float, counts: LoadCounts) -> None:
        self._namesrv = namesrv
        self._topic = topic
        self._padding = b"x" * max(size - _DUE.size, 0)
        self._interval = 1 / rate
        self._counts = counts
        self._tag = f"bench-{secrets.token_hex(8)}"  # identifies the messages of this run
        self._in_flight = 0
        self._arrival = asyncio.Event()

    async def run(self, budget: Callable[[], bool]) -> None:
        """Measure. Messages that have not arrived 5 s after the last send count as lost."""
        account = environment_credentials()
        async with (
            Producer("pyromq-bench", self._namesrv, credentials=account) as producer,
            LitePullConsumer(TOOLS_CONSUMER_GROUP, self._namesrv, auto_commit=False, credentials=account) as consumer,
        ):
            await producer.send(Message(topic=self._topic, body=b"-"))  # creates the topic
            queues = await consumer.queues(self._topic)
            await consumer.assign(queues, self._tag)
            for queue in queues:
                await consumer.seek_to_end(queue)
            receiving = asyncio.create_task(self._receive(consumer))
            try:
                await self._send_all(producer, budget)
                await self._wait_for_last()
            finally:
                receiving.cancel()
            with suppress(asyncio.CancelledError):
                await receiving
        self._counts.lost += self._in_flight

    async def _send_all(self, producer: Producer, budget: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as group:
            due = time.perf_counter()
            while budget():
                group.create_task(self._send(producer, due))
                due += self._interval
                await asyncio.sleep(due - time.perf_counter())

    async def _send(self, producer: Producer, due: float) -> None:
        self._in_flight += 1
        try:
            await producer.send(Message(topic=self._topic, body=_DUE.pack(due) + self._padding, tags=self._tag))
        except PyroMQError as error:
            self._in_flight -= 1
            self._counts.errors += 1
            self._counts.first_error = self._counts.first_error or str(error)

    async def _receive(self, consumer: LitePullConsumer) -> None:
        async for message in consumer:
            took = time.perf_counter() - _DUE.unpack_from(message.body)[0]
            self._in_flight -= 1
            self._counts.messages += 1
            self._counts.latencies_us.append(max(int(took * 1e6), 0))  # a timer may wake us a little early
            self._arrival.set()

    async def _wait_for_last(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while self._in_flight > 0:
                    self._arrival.clear()
                    await self._arrival.wait()
