"""Read a queue block by block, from its newest message to its oldest or the other way round."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.admin.messages.search import MessageSearch, TimeRange
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.consume.start_from import first_offset_since
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import AccessDenied, BrokerError, RemotingError
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP

_FIRST_BLOCK = 4  # messages: they may be 4 MiB each
_MOST_IN_A_BLOCK = 1000
_BLOCK_BYTES = 1024 * 1024


class QueueScan:
    """The messages of a queue from `low` to before `high`."""

    def __init__(self, reader: TopicReader, queue: MessageQueue, low: int, high: int, *, oldest_first: bool) -> None:
        self.broker_name = queue.broker_name
        self._reader = reader
        self._queue = queue
        self._low = low
        self._high = high
        self._oldest_first = oldest_first
        self._size = _FIRST_BLOCK

    async def next_block(self) -> Sequence[MessageExt]:
        """Return the next messages, none at the end."""
        while self._low < self._high:
            if self._oldest_first:
                start, stop = self._low, min(self._low + self._size, self._high)
                self._low = stop
            else:
                start, stop = max(self._low, self._high - self._size), self._high
                self._high = start
            if found := await self._read(start, stop):
                self._adapt(found)
                return found if self._oldest_first else found[::-1]
        return ()

    async def _read(self, offset: int, stop: int) -> list[MessageExt]:
        """Return the messages of a range; those that the log no longer has are missing."""
        found: list[MessageExt] = []
        while offset < stop:
            answer = await self._reader.pull(self._queue, offset, stop - offset)
            if answer.status is PullStatus.FOUND:
                messages = decode_messages(answer.body, self._queue.broker_name)
                found += [message for message in messages if message.queue_offset < stop]
            if answer.next_offset <= offset:  # the queue has become shorter: it was recreated
                break
            offset = answer.next_offset
        return found

    def _adapt(self, found: Sequence[MessageExt]) -> None:
        """Read as many messages at once as fit into a block, but grow by steps: the next ones may be larger."""
        mean = sum(message.store_size for message in found) // len(found) + 1
        self._size = max(1, min(self._size * 4, _BLOCK_BYTES // mean, _MOST_IN_A_BLOCK))


class QueueScans:
    """Opens the queues of a topic for a search."""

    def __init__(self, api: BrokerApi, reader: TopicReader, time: TimeRange, *, oldest_first: bool) -> None:
        self._api = api
        self._reader = reader
        self._time = time
        self._oldest_first = oldest_first

    async def open(self, queue: MessageQueue, search: MessageSearch) -> QueueScan | None:
        """Return the source of a queue; None, with a note in the search, if its broker does not answer."""
        try:
            low, high = await self._ends(queue)
        except AccessDenied:
            raise
        except (RemotingError, BrokerError) as error:
            search.silent_brokers[queue.broker_name] = str(error)
            return None
        return QueueScan(self._reader, queue, low, high, oldest_first=self._oldest_first)

    async def _ends(self, queue: MessageQueue) -> tuple[int, int]:
        low, high = await self._reader.ends(queue)
        if low < high and self._time.since is not None:
            low = await self._first_since(queue, self._time.since_ms)
        if low < high and self._time.until is not None:
            high = await self._first_since(queue, self._time.until_ms + 1)
        return low, high

    async def _first_since(self, queue: MessageQueue, timestamp_ms: int) -> int:
        address = self._reader.address(queue)
        return await first_offset_since(
            self._api, address, TOOLS_CONSUMER_GROUP, queue.topic, queue.queue_id, timestamp_ms
        )
