"""The rows of a group's description: each queue with its lag, its oldest message, its owner and what blocks it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from msgspec import Struct

from pyromq.admin.groups.blocked_queues import WaitingQueue, find_block
from pyromq.admin.groups.description import HeadMessage, QueueProgress
from pyromq.admin.groups.snapshot import EPOCH, GroupSnapshot
from pyromq.admin.masters import gather_limited
from pyromq.client.consume.start_from import plain_pull
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import read_queues
from pyromq.errors import NoRoute, PyroMQError
from pyromq.protocol.bodies import ConsumerRunningInfo, ProcessQueueInfo
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import RETRY_PREFIX, TOOLS_CONSUMER_GROUP

PULL_TIMEOUT = 5.0


class QueuePosition(NamedTuple):
    """Where a group, or one member of a broadcasting group, is in a queue."""

    queue: MessageQueue
    committed: int
    end: int
    client_id: str = ""


class OldestMessage(NamedTuple):
    """The first message that is not consumed: its offset, and the message if it could be read."""

    offset: int
    message: MessageExt | None


class GroupQueues:
    """Finds the queues of a group, and what waits in them."""

    def __init__(self, api: BrokerApi, addresses: dict[str, str]) -> None:
        self._api = api
        self._addresses = addresses
        self.without_route: list[str] = []
        """Topics that are subscribed to and that no broker has."""

    async def find(self, sight: GroupSnapshot) -> list[QueuePosition]:
        """Return where the group is in every queue of its topics."""
        counted = sight.offsets
        uncounted = [queue for queue in await self._subscribed(sight) if queue not in counted]
        places = [QueuePosition(queue, row.consumer_offset, row.broker_offset) for queue, row in counted.items()]
        places += await gather_limited(uncounted, lambda queue: self._ask(sight.group, queue))
        if sight.is_broadcasting:
            places = [own for place in places for own in _of_members(sight, place)]
        return sorted(places, key=lambda place: (place.queue.topic.startswith(RETRY_PREFIX), place))

    async def _subscribed(self, sight: GroupSnapshot) -> list[MessageQueue]:
        """Return the queues of all topics that are subscribed to: a group commits nothing before it has consumed."""
        found = []
        for topic in sorted(sight.subscriptions):
            try:
                queues = read_queues(topic, await self._api.route(topic))
            except NoRoute:
                if not topic.startswith(RETRY_PREFIX):
                    self.without_route.append(topic)
                continue
            found += [queue for queue in queues if queue.broker_name in sight.views]
        return found

    async def _ask(self, group: str, queue: MessageQueue) -> QueuePosition:
        address = self._addresses[queue.broker_name]
        committed = await self._api.query_offset(address, group, queue.topic, queue.queue_id)
        end = await self._api.max_offset(address, queue.topic, queue.queue_id)
        return QueuePosition(queue, committed or 0, end)

    async def first_messages(self, places: Iterable[QueuePosition]) -> dict[QueuePosition, OldestMessage]:
        """Return the first message of each place that something waits at."""
        waiting = [place for place in places if place.committed < place.end]
        return dict(zip(waiting, await gather_limited(waiting, self._first), strict=True))

    async def _first(self, place: QueuePosition) -> OldestMessage:
        try:
            return await self._read(place.queue, place.committed)
        except PyroMQError:  # one that may not be read, or a broker that has gone meanwhile
            return OldestMessage(place.committed, None)

    async def _read(self, queue: MessageQueue, offset: int) -> OldestMessage:
        address = self._addresses[queue.broker_name]
        for _ in range(2):  # where the log no longer has the offset, a second pull reads where it begins
            header = plain_pull(TOOLS_CONSUMER_GROUP, queue.topic, queue.queue_id, offset, most=1)
            answer = await self._api.pull(address, header, timeout=PULL_TIMEOUT)
            for message in decode_messages(answer.body, queue.broker_name):
                return OldestMessage(message.queue_offset, message)
            offset = answer.next_offset
        return OldestMessage(offset, None)


def _of_members(sight: GroupSnapshot, place: QueuePosition) -> Iterable[QueuePosition]:
    """Return where each member of a broadcasting group is: brokers do not know."""
    for client_id, state in sight.holders(place.queue).items():
        yield QueuePosition(place.queue, max(state.commit_offset, 0), place.end, client_id)


_NOT_READ = OldestMessage(0, None)


class GroupObservation(Struct, frozen=True, kw_only=True):
    """Two looks at a group, one after the other; only one if nobody watched."""

    sight: GroupSnapshot
    before: GroupSnapshot | None
    seconds: float
    slow: float
    now: float

    def progress(self, place: QueuePosition, waiting: OldestMessage | None = None) -> QueueProgress:
        """Return how far the group is in a queue, given the first message that waits there, if one does."""
        first = waiting or _NOT_READ
        lag = max(place.end - max(place.committed, first.offset), 0)
        owners = (place.client_id,) if place.client_id else tuple(self.sight.holders(place.queue))
        moved = self._moved(place) if lag else None
        case = self._case(place, owners, moved)
        return QueueProgress(
            queue=place.queue,
            committed_offset=place.committed,
            end_offset=place.end,
            lag=lag,
            behind=self._behind(lag, first),
            owners=owners,
            held=case.state.cached_msg_count if owners else None,
            moved=moved,
            head=_head(case, first),
            blocked=self._blocked(owners, case) if lag else None,
        )

    def _moved(self, place: QueuePosition) -> bool | None:
        if self.before is None:
            return None
        return self.before.position(place.queue) != self.sight.position(place.queue)

    def _behind(self, lag: int, first: OldestMessage) -> float | None:
        if not lag:
            return 0.0
        if first.message is None:
            return None
        return max(self.now - first.message.store_timestamp_ms / 1000, 0.0)

    def _blocked(self, owners: tuple[str, ...], case: WaitingQueue) -> str | None:
        if len(owners) > 1:
            return f"{len(owners)} members say that they have it"
        everybody_answered = len(self.sight.infos) == len(self.sight.known)
        if not owners and self.sight.known and everybody_answered:
            return "no member has it"
        return find_block(case)

    def _case(self, place: QueuePosition, owners: tuple[str, ...], moved: bool | None) -> WaitingQueue:
        info = self.sight.infos[owners[0]] if owners else ConsumerRunningInfo()
        return WaitingQueue(
            queue=place.queue,
            info=info,
            state=info.mq_table.get(place.queue, ProcessQueueInfo()),
            is_broadcasting=self.sight.is_broadcasting,
            moved=moved,
            watch=self.seconds,
            slow=self.slow,
            now=self.now,
        )


def _head(case: WaitingQueue, first: OldestMessage) -> HeadMessage | None:
    message, working = first.message, case.head
    if message is None:
        return None
    has_it = working is not None and working.queue_offset == message.queue_offset
    return HeadMessage(
        queue_offset=message.queue_offset,
        message_id=message.message_id,
        keys=tuple(message.keys),
        tags=message.tags,
        stored=EPOCH + timedelta(milliseconds=message.store_timestamp_ms),
        listening=case.since(working.since_ms) if working is not None and has_it else None,
    )
