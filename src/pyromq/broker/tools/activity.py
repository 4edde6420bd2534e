"""The activity of all topics and all groups in one answer each: what `pyromq top` and `check` ask every few seconds.

Work on the loop is done in short steps. The age of a waiting message needs a read of the log; it is kept from one
answer to the next while the message is the first of its queue, so that a group that stands still costs no reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from pyromq.broker.parts import Parts
from pyromq.broker.stats.group_lag import NEVER, stored_at
from pyromq.broker.tables.topic_table import Topic
from pyromq.protocol.bodies.activity import (
    GroupActivities,
    GroupActivity,
    TopicActivities,
    TopicActivity,
    encode_activity,
)
from pyromq.protocol.bodies.clients import MessageModel
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import TablePartRequestHeader, TablePartResponseHeader
from pyromq.protocol.names import DLQ_PREFIX
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps

TOPICS_A_PART: Final = 5_000
_TOPICS_A_STEP: Final = 250
_QUEUES_A_STEP: Final = 200


class _Place(NamedTuple):
    """The first waiting message of a group in a queue."""

    topic: str
    queue_id: int
    offset: int


class ActivityHandlers:
    """Answers with the activity of this broker's topics and groups."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._store = parts.store
        self._reads = parts.reads
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._stats = parts.stats
        self._stored: dict[_Place, int] = {}
        self._edition = ""
        self._looked_at = 0
        self._one_at_a_time = asyncio.Lock()

    # --- topics

    def of_topics(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return what was counted of all topics, or of a part of them."""
        start = max(request.header(TablePartRequestHeader).pyromq_from or 0, 0)
        edition = self._topics.parts.edition
        chosen = list(islice(self._topics.by_name.values(), start, start + TOPICS_A_PART + 1))
        rows: dict[str, TopicActivity] = {}
        for topic in chosen[:TOPICS_A_PART]:
            rows[topic.name] = self._of_topic(topic)
            if len(rows) % _TOPICS_A_STEP == 0:
                yield
        following = start + TOPICS_A_PART if len(chosen) > TOPICS_A_PART else None
        header = TablePartResponseHeader(pyromq_next=following, pyromq_edition=edition)
        return response(request, header=header, body=encode_activity(TopicActivities(rows)))

    def _of_topic(self, topic: Topic) -> TopicActivity:
        rate = topic.series.rate if topic.series is not None else 0.0
        held = self._held(topic) if topic.name.startswith(DLQ_PREFIX) else None
        return TopicActivity(topic.puts, topic.put_bytes, round(rate, 3), held)

    def _held(self, topic: Topic) -> int:
        store, name = self._store, topic.name
        return sum(store.max_offset(name, queue) - store.min_offset(name, queue) for queue in range(topic.queues))

    # --- groups

    async def of_groups(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how far all groups are, in messages and in time."""
        async with self._one_at_a_time:
            known, self._stored = self._known_times(), {}
            names = {*self._groups.by_name, *self._offsets.group_names(), *self._clients.consumers}
            rows = {name: await self._of_group(name, known) for name in sorted(names)}
        body = encode_activity(GroupActivities(now_ms=self._clock.now_ms(), groups=rows))
        return response(request, body=body)

    def _known_times(self) -> dict[_Place, int]:
        """Return the times of the last answer; none if a topic was deleted: a new one may have its name."""
        edition, self._edition = self._edition, self._topics.parts.edition
        return self._stored if edition == self._edition else {}

    async def _of_group(self, group: str, known: dict[_Place, int]) -> GroupActivity:
        online = self._clients.consumers.get(group)
        topics = list(self._consumed(online.subscriptions if online else self._offsets.topics_of(group)))
        lag, oldest_ms = 0, None
        if online is None or online.message_model is not MessageModel.BROADCASTING:
            lag, oldest_ms = await self._waiting(group, topics, known)
        gets = [count for topic in topics if (count := self._stats.gets.get((topic.name, group)))]
        return GroupActivity(
            members=tuple(sorted(client.client_id for client in online.members.values())) if online else (),
            model=online.message_model if online else None,
            lag=lag,
            oldest_ms=oldest_ms,
            gets=sum(count.messages for count in gets),
            rate=round(sum(count.series.rate for count in gets), 3),
            topics=tuple(topic.name for topic in topics),
        )

    def _consumed(self, names: Iterable[str]) -> Iterator[Topic]:
        return (topic for name in names if (topic := self._topics.get(name)) is not None)

    async def _waiting(self, group: str, topics: Iterable[Topic], known: dict[_Place, int]) -> tuple[int, int | None]:
        """Return how many messages wait for a group, and when the first of them was stored."""
        lag = 0
        times: list[int] = []
        for topic in topics:
            for start in range(0, topic.read_queues, _QUEUES_A_STEP):
                for place, count in self._places(group, topic, start):
                    lag += count
                    time = known.get(place)
                    if time is None:
                        time = await self._reads.read(partial(self._stored_at, place))
                    self._stored[place] = time
                    times.append(time)
                await self._pause(min(topic.read_queues - start, _QUEUES_A_STEP))
        return lag, min((time for time in times if time != NEVER), default=None)

    async def _pause(self, queues: int) -> None:
        """Let other requests have their turn after some queues."""
        self._looked_at += queues
        if self._looked_at >= _QUEUES_A_STEP:
            self._looked_at = 0
            await self._clock.sleep(0)

    def _places(self, group: str, topic: Topic, start: int) -> list[tuple[_Place, int]]:
        """Return where messages wait in some queues of a topic, and how many."""
        committed = self._offsets.of(group, topic.name)
        found = []
        for queue_id in range(start, min(start + _QUEUES_A_STEP, topic.read_queues)):
            end = self._store.max_offset(topic.name, queue_id)
            first = max(committed.get(queue_id, 0), self._store.min_offset(topic.name, queue_id), 0)
            if first < end:
                found.append((_Place(topic.name, queue_id, first), end - first))
        return found

    def _stored_at(self, place: _Place) -> int:
        return stored_at(self._store, place.topic, place.queue_id, place.offset)
