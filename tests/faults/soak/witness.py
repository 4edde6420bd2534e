"""A slow sender and two groups, concurrent and orderly, that write down everything for the history checker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from pyromq import Message, MessageExt, Producer, PushConsumer, PyroMQError
from pyromq.admin import AdminClient
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import RETRY_TOPIC
from pyromq.protocol.names import retry_topic
from tests.faults.history import Finding, check
from tests.faults.journal import (
    RAISED,
    SEND_OK,
    Answered,
    AnyEvent,
    Attempted,
    Delivered,
    Drained,
    Finished,
    Formed,
    Journal,
    Restarted,
    Stored,
    read_journals,
)

TOPIC = "witness"
BROKER = "broker-a"
PACE = 0.05
GROUPS = ("watching", "ordered")
DRAINED_WITHIN = 90


class Witness:
    """Sends one message after another, and notes what both groups get."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self._namesrv = namesrv
        self._directory = directory
        self._journal = Journal(directory / "witness.jsonl", "witness")
        self._acknowledged: set[str] = set()
        self._seen: dict[str, set[str]] = {group: set() for group in GROUPS}
        self._over = asyncio.Event()

    def restarted(self) -> None:
        """Note that the broker was killed and has started again."""
        self._journal.write(Restarted, saved=False)

    def stop(self) -> None:
        """Send nothing more."""
        self._over.set()

    async def run(self) -> None:
        """Send until `stop`, then wait until both groups have everything."""
        async with AsyncExitStack() as stack:
            for group in GROUPS:
                orderly = group == "ordered"
                self._journal.write(Formed, group=group, topics=[TOPIC], orderly=orderly)
                consumer = PushConsumer(
                    group, self._namesrv, {TOPIC: "*"}, self._listener(group), orderly=orderly, start_from="earliest"
                )
                await stack.enter_async_context(consumer)
            producer = Producer(group="witness", namesrv=self._namesrv, send_timeout=3.0, retries=0)
            await stack.enter_async_context(producer)
            number = 0
            while not self._over.is_set():
                await self._send(producer, f"v{number}")
                number += 1
                await asyncio.sleep(PACE)
            await self._drain()

    async def _send(self, producer: Producer, value: str) -> None:
        self._journal.write(Attempted, value=value, topic=TOPIC)
        try:
            result = await producer.send(Message(topic=TOPIC, body=value.encode()))
        except PyroMQError as error:
            self._journal.write(Answered, value=value, status=RAISED, error=str(error)[:200])
            await asyncio.sleep(0.2)
            return
        queue = MessageQueue(TOPIC, BROKER, result.queue.queue_id)
        self._journal.write(Answered, value=value, status=result.status.name, queue=queue, offset=result.queue_offset)
        if result.status.name == SEND_OK:
            self._acknowledged.add(value)

    def _listener(self, group: str) -> Callable[[MessageExt], Awaitable[None]]:
        async def listen(message: MessageExt) -> None:
            topic = retry_topic(group) if RETRY_TOPIC in message.properties else message.topic
            fields = {
                "group": group,
                "queue": MessageQueue(topic, BROKER, message.queue_id),
                "offset": message.queue_offset,
                "value": message.body.decode(),
                "times": message.reconsume_times,
            }
            self._journal.write(Delivered, **fields)
            self._journal.write(Finished, **fields)
            self._seen[group].add(message.body.decode())

        return listen

    async def _drain(self) -> None:
        for _ in range(2 * DRAINED_WITHIN):
            if not any(self._acknowledged - seen for seen in self._seen.values()):
                break
            await asyncio.sleep(0.5)
        for group in GROUPS:
            self._journal.write(Drained, group=group)

    async def judge(self) -> tuple[int, list[Finding]]:
        """Return how much was acknowledged, and what the history checker finds."""
        contents: list[AnyEvent] = []
        now = time.monotonic()
        async with AdminClient(self._namesrv) as admin:
            async for message in admin.read(TOPIC):
                queue = MessageQueue(TOPIC, BROKER, message.queue_id)
                contents.append(Stored(at=now, queue=queue, offset=message.queue_offset, value=message.body.decode()))
        self._journal.close()
        return len(self._acknowledged), check([*read_journals(self._directory), *contents])
