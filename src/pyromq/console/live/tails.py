"""Tails: browsers that follow a topic. Those with the same topic, filter and rights share one reading.

A broker is asked once a second where the queues end, and only for the messages that are new. Where more arrive than
people can read, the newest are shown and the others counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple

from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.clock import Clock
from pyromq.console.live.events import Stream, event
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages

logger = logging.getLogger(__name__)

PERIOD: Final = 1.0
MOST_A_TURN: Final = 50
"""Rows that a browser gets at once; of others only their number."""
MOST_A_QUEUE: Final = 200
"""Messages of a queue that a filter looks at in one turn."""
MOST_TAILS: Final = 50
_ROOM: Final = 8


class Filter(NamedTuple):
    """Which messages are shown, and how."""

    key: Hashable
    """Those with the same key show the same."""
    selects: Callable[[MessageExt], bool]
    render: Callable[[Sequence[MessageExt]], str]
    status: Callable[[int, int], str]
    """Returns the line about how many were looked at, and skipped."""


class Tail:
    """One reading of a topic."""

    def __init__(self, api: BrokerApi, topic: str, wanted: Filter, clock: Clock) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)
        self._topic = topic
        self._wanted = wanted
        self._clock = clock
        self._positions: dict[MessageQueue, int] = {}
        self.streams: set[Stream] = set()
        self.seen = self.skipped = 0

    async def run(self) -> None:
        """Read until nobody follows."""
        try:
            reader = await TopicReader.open(self._api, self._topic)
            self._positions = await self._ends(reader)
            while self.streams:
                await self._clock.sleep(PERIOD)
                found = await self._new(reader)
                if found:
                    self._send("rows", self._wanted.render(found))
                self._send("status", self._wanted.status(self.seen, self.skipped))
        except PyroMQError as error:
            self._send("end", str(error))
            for stream in self.streams:
                stream.close()

    def _send(self, name: str, data: str) -> None:
        for stream in self.streams:
            stream.send(event(name, data))

    async def _ends(self, reader: TopicReader) -> dict[MessageQueue, int]:
        addresses = {reader.address(queue) for queue in reader.queues}
        tables = await asyncio.gather(*(self._calls.topic_ends(address, self._topic) for address in sorted(addresses)))
        ends: Mapping[MessageQueue, int] = {
            queue: row.max_offset for table in tables if table is not None for queue, row in table.items()
        }
        return {queue: ends.get(queue, 0) for queue in reader.queues}

    async def _new(self, reader: TopicReader) -> list[MessageExt]:
        """Return the newest of the messages that came since, the last first."""
        ends = await self._ends(reader)
        found: list[MessageExt] = []
        for queue, end in ends.items():
            start = min(self._positions.get(queue, end), end)
            if end - start > MOST_A_QUEUE:
                self.skipped += end - start - MOST_A_QUEUE
                start = end - MOST_A_QUEUE
            found += await self._read(reader, queue, start, end)
            self._positions[queue] = end
        self.seen += len(found)
        chosen = [message for message in found if self._wanted.selects(message)]
        chosen.sort(key=lambda message: (message.store_timestamp_ms, message.queue_offset), reverse=True)
        self.skipped += max(len(chosen) - MOST_A_TURN, 0)
        return chosen[:MOST_A_TURN]

    async def _read(self, reader: TopicReader, queue: MessageQueue, start: int, end: int) -> list[MessageExt]:
        found: list[MessageExt] = []
        while start < end:
            answer = await reader.pull(queue, start, end - start)
            if answer.status is PullStatus.FOUND:
                messages = decode_messages(answer.body, queue.broker_name)
                found += [message for message in messages if message.queue_offset < end]
            if answer.next_offset <= start:
                break
            start = answer.next_offset
        return found


class Tails:
    """All tails of a console."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tails: dict[Hashable, tuple[Tail, asyncio.Task[None]]] = {}

    @property
    def count(self) -> int:
        """How many different tails there are."""
        return len(self._tails)

    async def follow(
        self,
        api: BrokerApi,
        topic: str,
        wanted: Filter,
        pass_on: Callable[[Stream], AsyncIterator[bytes]],
    ) -> AsyncIterator[bytes]:
        """Yield the events of a tail while a browser follows it."""
        key = (topic, wanted.key)
        known = self._tails.get(key)
        if known is None or known[1].done():
            tail = Tail(api, topic, wanted, self._clock)
            known = self._tails[key] = tail, asyncio.create_task(self._run(key, tail))
        stream = Stream(_ROOM)
        known[0].streams.add(stream)
        try:
            async for data in pass_on(stream):
                yield data
        finally:
            known[0].streams.discard(stream)

    async def close(self) -> None:
        """End all."""
        for _, task in self._tails.values():
            task.cancel()
        await asyncio.gather(*(task for _, task in self._tails.values()), return_exceptions=True)

    async def _run(self, key: Hashable, tail: Tail) -> None:
        try:
            await tail.run()
        finally:
            if self._tails.get(key, (None,))[0] is tail:
                del self._tails[key]
