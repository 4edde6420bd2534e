"""How far consumer groups are behind: in messages and seconds, and since when a queue has stood still.

A walk goes through every topic of every group, a few queues at a time, and lets others have their turn in between.
What it reads of the log is remembered while a queue's offset stays, so a queue that stands still is read once. Nothing
is counted when messages are sent, pulled or committed.

The broker walks every 10 s to notice queues that stand still; /metrics and /groupz walk when they are asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

from pyromq.broker.parts import Parts
from pyromq.broker.tables.topic_table import Topic
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.messages.record import read_head
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.remoting.ticker import Ticker
from pyromq.store.read.readable import ReadableStore
from pyromq.store.segments import NotInMemory

logger = logging.getLogger(__name__)

WALK_PERIOD: Final = 10.0
SHARE_OF_TIME: Final = 100  # walking takes a hundredth of the time at most: with many groups it is done less often
QUEUES_A_STEP: Final = 64
MOST_FETCHES: Final = 100
"""Reads in one walk that may wait for the disk; the others are made by the next walks."""

NEVER: Final = -1

_NO_MODEL: Final = ""


def stored_at(store: ReadableStore, topic: str, queue_id: int, offset: int) -> int:
    """Return when the message at a queue offset was stored, ms since the epoch; NEVER if it is not there."""
    if offset < 0:
        return NEVER
    views = store.get(topic, queue_id, offset, 1).views
    return read_head(bytes(views[0])).store_timestamp_ms if views else NEVER


class QueueBacklog(NamedTuple):
    """A queue in which messages wait for a group."""

    group: str
    topic: str
    queue_id: int
    committed: int
    end: int
    lag: int
    behind: float | None
    """Seconds since the first waiting message was stored; None if it could not be read yet."""
    still: float
    """Seconds for which the committed offset has not moved while messages waited."""


class GroupBacklog(NamedTuple):
    """How far a group is in one topic."""

    group: str
    topic: str
    members: int
    model: str
    """CLUSTERING, or empty if no member is online. Brokers do not know how far a broadcasting group is."""
    committed: int
    """The committed offsets of all queues, added up."""
    end: int
    lag: int
    behind: float | None
    """The age of the oldest message that waits, 0 if none does; None if it could not be read yet."""
    still: float
    queues: tuple[QueueBacklog, ...]
    """The queues in which messages wait."""

    @property
    def is_retry(self) -> bool:
        """Whether these are messages to be consumed again."""
        return self.topic.startswith(RETRY_PREFIX)


class _Head:
    """The first message that waits in a queue, and since when the group's offset has been there."""

    __slots__ = ("offset", "since", "stored_ms", "topic", "walk")

    def __init__(self, topic: Topic, offset: int, since: float) -> None:
        self.topic = topic
        self.offset = offset
        self.since = since
        self.stored_ms: int | None = None
        self.walk = 0


class _Pair(NamedTuple):
    group: str
    topic: Topic
    members: int
    model: str


class GroupLags:
    """Walks through groups and topics; one walk at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._heads: dict[tuple[str, str, int], _Head] = {}
        self._walks = 0
        self._fetches = 0
        self._turn = asyncio.Lock()
        self._ticker = Ticker(parts.clock, WALK_PERIOD, self._tick)
        self._walking: asyncio.Task[None] | None = None
        self._rest = 0

    def start(self) -> None:
        """Walk every 10 s from now on, while this broker is master."""
        self._ticker.start()

    async def stop(self) -> None:
        """Walk no more."""
        self._ticker.stop()
        if self._walking is not None:
            self._walking.cancel()
            await asyncio.gather(self._walking, return_exceptions=True)

    async def walk(self) -> AsyncGenerator[list[GroupBacklog], None]:
        """Yield the progress of all groups, a few at a time."""
        async with self._turn:
            self._walks += 1
            self._fetches = 0
            batch: list[GroupBacklog] = []
            queues = 0
            for pair in self._pairs():
                batch.append(await self._progress(pair))
                queues += pair.topic.read_queues
                if queues >= QUEUES_A_STEP:
                    yield batch
                    batch, queues = [], 0
                    await self._parts.clock.sleep(0)
            yield batch
            self._forget()

    def _pairs(self) -> Iterator[_Pair]:
        parts = self._parts
        known = [*parts.groups.by_name, *parts.offsets.group_names(), *parts.clients.consumers]
        for group in dict.fromkeys(known):
            online = parts.clients.consumers.get(group)
            if online is not None and online.message_model is MessageModel.BROADCASTING:
                continue
            names = parts.offsets.topics_of(group)
            if online is not None:
                kept = (name for name in names if name in online.subscriptions)
                names = list(dict.fromkeys([*kept, *online.subscriptions]))
            members = 0 if online is None else len(online.members)
            model = _NO_MODEL if online is None else str(online.message_model.value)
            for name in names:
                topic = parts.topics.get(name)
                if topic is not None:
                    yield _Pair(group, topic, members, model)

    async def _progress(self, pair: _Pair) -> GroupBacklog:
        try:
            with self._parts.store.disk.memory_only():
                return self._read(pair)
        except NotInMemory:
            if self._fetches < MOST_FETCHES:
                self._fetches += 1
                return await self._parts.reads.read(partial(self._read, pair))
            with self._parts.store.disk.memory_only():
                return self._read(pair, leave_out=True)

    def _read(self, pair: _Pair, leave_out: bool = False) -> GroupBacklog:
        """Return the progress of a group in a topic; raise NotInMemory for an age on disk, unless that is left out."""
        parts, name = self._parts, pair.topic.name
        now, now_ms = parts.clock.monotonic(), parts.clock.now_ms()
        offsets = parts.offsets.of(pair.group, name)
        committed = end = lag = 0
        waiting: list[QueueBacklog] = []
        for queue_id in range(pair.topic.read_queues):
            queue_end = max(parts.store.max_offset(name, queue_id), 0)
            offset = max(offsets.get(queue_id, 0), 0)
            committed += offset
            end += queue_end
            if offset < queue_end:
                first = max(offset, parts.store.min_offset(name, queue_id))
                if first < queue_end:
                    head = self._head(pair.group, pair.topic, queue_id, first, now)
                    behind = self._behind(head, name, queue_id, now_ms, leave_out)
                    still = now - head.since if behind is None else min(now - head.since, behind)
                    row = (pair.group, name, queue_id, offset, queue_end, queue_end - first, behind, still)
                    waiting.append(QueueBacklog(*row))
                    lag += queue_end - first
        ages = [queue.behind for queue in waiting if queue.behind is not None]
        return GroupBacklog(
            pair.group,
            name,
            pair.members,
            pair.model,
            committed,
            end,
            lag,
            max(ages) if ages else (None if waiting else 0.0),
            max((queue.still for queue in waiting), default=0.0),
            tuple(waiting),
        )

    def _head(self, group: str, topic: Topic, queue_id: int, offset: int, now: float) -> _Head:
        key = (group, topic.name, queue_id)
        head = self._heads.get(key)
        if head is None or head.offset != offset or head.topic is not topic:  # it was deleted and created again
            head = self._heads[key] = _Head(topic, offset, now)
        head.walk = self._walks
        return head

    def _behind(self, head: _Head, topic: str, queue_id: int, now_ms: int, leave_out: bool) -> float | None:
        if head.stored_ms is None:
            try:
                stored_ms = stored_at(self._parts.store, topic, queue_id, head.offset)
            except NotInMemory:
                if leave_out:
                    return None
                raise
            if stored_ms < 0:
                return None
            head.stored_ms = stored_ms
        return max(now_ms - head.stored_ms, 0) / 1000

    def _forget(self) -> None:
        """Forget the queues in which nothing waits any more."""
        for key in [key for key, head in self._heads.items() if head.walk != self._walks]:
            del self._heads[key]

    def _tick(self) -> bool:
        self._rest -= 1
        is_idle = self._walking is None or self._walking.done()
        if self._rest < 0 and is_idle and not self._parts.standing.is_slave():
            self._walking = asyncio.get_running_loop().create_task(self._look())
        return True

    async def _look(self) -> None:
        began = perf_counter()
        try:
            async for _ in self.walk():
                pass
        except ServiceNotAvailable:
            return  # the broker stops
        except Exception:
            logger.exception("looking at the progress of groups failed")
        self._rest = int((perf_counter() - began) * SHARE_OF_TIME / WALK_PERIOD)
