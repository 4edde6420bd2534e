"""TestCluster: what tests ask of any cluster, local or real: which messages a topic has, and waiting for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import ClassVar, Final

from pyromq.admin.admin_client import AdminClient
from pyromq.admin.topic_reader import TopicReader
from pyromq.clock import Clock
from pyromq.errors import NoRoute, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages

PATIENCE: Final = 30.0  # seconds; only a test that fails waits that long
_PAUSE: Final = 0.02  # seconds between two looks
_MOST_SHOWN: Final = 10  # messages in the text of a failure
_MOST_BODY: Final = 60  # characters of a body


class TestCluster:
    """A cluster under test: `LocalCluster`, or `RemoteCluster` for one that runs elsewhere.

    >>> await app.producer.send("orders", {"id": "o-1"}, tags="created")
    >>> (paid,) = await cluster.expect("paid", keys="o-1")
    """

    __test__: ClassVar = False  # not a test, despite its name

    namesrv: str
    """The address for clients."""

    def __init__(self, clock: Clock, credentials: Credentials | None = None) -> None:
        self._clock = clock
        self._credentials = credentials
        self._begun: Mapping[str, int] = {}
        """Where the log of each broker ended when the test began."""

    async def messages(self, topic: str) -> list[MessageExt]:
        """Return what a topic has received in this test, in the order in which it was stored; [] if it is unknown."""
        async with AdminClient(self.namesrv, credentials=self._credentials, clock=self._clock) as admin:
            return await self._messages(admin, topic)

    def messages_blocking(self, topic: str) -> list[MessageExt]:
        """Return the same as `messages`, for tests without an event loop."""
        return asyncio.run(self.messages(topic))

    async def expect(
        self,
        topic: str,
        count: int = 1,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        where: Callable[[MessageExt], object] | None = None,
        seconds: float = PATIENCE,
    ) -> list[MessageExt]:
        """Wait until a topic has `count` messages that fit; return them in the order in which they were stored.

        A message fits if it has the tag and all the keys, and if `where(message)` is true. Raises AssertionError, which
        lists the messages of the topic, after `seconds`, or at once if there are more than `count`. With `count=0` it
        looks once.
        """
        wanted = (keys,) if isinstance(keys, str) else tuple(keys)

        def fits(message: MessageExt) -> bool:
            has_tag = tags is None or message.tags == tags
            return has_tag and set(wanted) <= set(message.keys) and (where is None or bool(where(message)))

        look = await self._look_until(topic, lambda found: len(list(filter(fits, found))) >= count, seconds)
        fitting = look.fitting(fits)
        if look.trouble or len(fitting) < count:
            raise AssertionError(look.failure(topic, count, fits, f"within {seconds:g} s"))
        if len(fitting) > count:
            raise AssertionError(look.failure(topic, count, fits, "and no more"))
        return fitting

    def expect_blocking(
        self,
        topic: str,
        count: int = 1,
        *,
        tags: str | None = None,
        keys: str | Sequence[str] = (),
        where: Callable[[MessageExt], object] | None = None,
        seconds: float = PATIENCE,
    ) -> list[MessageExt]:
        """Wait like `expect`, but block the calling thread, for tests without an event loop."""
        return asyncio.run(self.expect(topic, count, tags=tags, keys=keys, where=where, seconds=seconds))

    async def _look_until(self, topic: str, is_enough: Callable[[list[MessageExt]], bool], seconds: float) -> _Look:
        """Look at a topic until it has enough, or so many seconds have passed; once at least. Return the last look."""
        look = _Look()
        deadline = time.monotonic() + seconds
        async with AdminClient(self.namesrv, credentials=self._credentials, clock=self._clock) as admin:
            while True:
                try:
                    look.found, look.trouble = await self._messages(admin, topic), ""
                except PyroMQError as error:  # a broker that is down just now; the next look may be luckier
                    look.trouble = str(error)
                if (not look.trouble and is_enough(look.found)) or time.monotonic() > deadline:
                    return look
                await asyncio.sleep(_PAUSE)

    async def _messages(self, admin: AdminClient, topic: str) -> list[MessageExt]:
        try:
            reader = await TopicReader.open(admin.api, topic)
        except NoRoute:
            return []
        found = [message async for message in self._new_messages(reader)]
        return sorted(found, key=lambda message: (message.store_timestamp_ms, message.physical_offset))

    async def _new_messages(self, reader: TopicReader) -> AsyncIterator[MessageExt]:
        for queue in reader.queues:
            low, high = await reader.ends(queue)
            begun = self._begun.get(queue.broker_name, 0)
            if begun and low < high:
                low = await _first_since(reader, queue, low, high, begun)
            async for message in reader.read_queue(queue, low, high):
                yield message


class _Look:
    """What the latest look at a topic has shown."""

    def __init__(self) -> None:
        self.found: list[MessageExt] = []
        self.trouble = ""

    def fitting(self, fits: Callable[[MessageExt], bool]) -> list[MessageExt]:
        return [message for message in self.found if fits(message)]

    def failure(self, topic: str, count: int, fits: Callable[[MessageExt], bool], how: str) -> str:
        """Return the text of a failed assertion: what was expected, and what is there."""
        shown = [f"  {'*' if fits(message) else ' '} {_line(message)}" for message in self.found[:_MOST_SHOWN]]
        if len(self.found) > _MOST_SHOWN:
            shown.append(f"    … {len(self.found) - _MOST_SHOWN} more")
        said = f"expected count={count} in {topic} {how}: {len(self.fitting(fits))} of {len(self.found)} messages fit"
        return "\n".join([said, *shown, *([f"the last look failed: {self.trouble}"] if self.trouble else [])])


def _line(message: MessageExt) -> str:
    body = repr(message.body)
    shown = body if len(body) <= _MOST_BODY else body[:_MOST_BODY] + "…"
    return f"tags={message.tags!r} keys={message.keys!r} body={shown}"


async def _first_since(reader: TopicReader, queue: MessageQueue, low: int, high: int, begun: int) -> int:
    """Return the first offset of a queue whose message lies at or behind a place in the broker's log."""
    while low < high:
        middle = (low + high) // 2
        answer = await reader.pull(queue, middle, 1)
        first = next(iter(decode_messages(answer.body, queue.broker_name)), None)
        if first is None or first.physical_offset >= begun:
            high = middle
        else:
            low = middle + 1
    return low
