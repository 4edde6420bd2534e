"""What a broker holds, written and read with our client, to compare it before and after a change of brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from pyromq import Message, MessageExt, Producer
from pyromq.client.consume.start_from import plain_pull
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.messages.record import decode_messages

READER = "TOOLS_CONSUMER"  # a group that every broker has
_BATCH = 50
_LARGE_EVERY = 97  # a prime, so that large bodies reach every queue by every way of sending
_SINGLE_EVERY = 10  # batches; the other messages are sent one by one
_AT_ONCE = 1000


class QueueContents(NamedTuple):
    """One queue, byte for byte."""

    min_offset: int
    max_offset: int
    records: bytes

    def messages(self) -> list[MessageExt]:
        """Return the queue's messages, after checking each CRC."""
        return decode_messages(self.records)


Contents = dict[tuple[str, int], QueueContents]


def message(topic: str, number: int) -> Message:
    """Return the message of a number; every 97th is large enough to be compressed."""
    body = b"body %d" % number
    return Message(
        topic=topic,
        body=body * 1000 if number % _LARGE_EVERY == 0 else body,
        tags="odd" if number % 2 else "even",
        keys=[f"k-{number}"],
        properties={"number": str(number)},
    )


async def fill(namesrv: str, topic: str, numbers: range) -> None:
    """Send the messages of the numbers, in batches and one by one."""
    async with Producer("fillers", namesrv, send_timeout=20.0) as producer:
        waiting = []
        for position, batch in enumerate(_batches(topic, numbers)):
            if position % _SINGLE_EVERY:
                await producer.send_batch(batch)
            else:
                waiting += [producer.send(one) for one in batch]
            if len(waiting) > _AT_ONCE:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)


def _batches(topic: str, numbers: range) -> Iterator[list[Message]]:
    for start in range(0, len(numbers), _BATCH):
        yield [message(topic, number) for number in numbers[start : start + _BATCH]]


async def contents(namesrv: str, broker: str, *topics: str) -> Contents:
    """Read every queue of some topics completely."""
    found: Contents = {}
    async with await BrokerApi.connect(namesrv) as api:
        for topic in topics:
            route = await api.route(topic)
            for queue_id in range(max(data.read_queue_nums for data in route.queue_datas)):
                found[topic, queue_id] = await _queue(api, broker, topic, queue_id)
    return found


async def _queue(api: BrokerApi, broker: str, topic: str, queue_id: int) -> QueueContents:
    low = await api.min_offset(broker, topic, queue_id)
    high = await api.max_offset(broker, topic, queue_id)
    records = bytearray()
    offset = low
    while offset < high:
        answer = await api.pull(broker, plain_pull(READER, topic, queue_id, offset), timeout=10.0)
        assert answer.status is PullStatus.FOUND, (topic, queue_id, offset, answer)
        records += answer.body
        offset = answer.next_offset
    return QueueContents(low, high, bytes(records))


def numbers_in(found: Contents) -> list[int]:
    """Return the sorted numbers of all messages, after checking each body against its number."""
    numbers = []
    for queue in found.values():
        for one in queue.messages():
            number = int(one.properties["number"])
            expected = message(one.topic, number)
            assert one.body == expected.body
            assert (one.tags, list(one.keys)) == (expected.tags, list(expected.keys))
            numbers.append(number)
    return sorted(numbers)
