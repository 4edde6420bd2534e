"""The rows of a group's description: each queue with its lag, its oldest message, its owner and what blocks it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from msgspec import Struct

from pyromq.admin.groups.description import HeadMessage, QueueProgress
from pyromq.admin.groups.problems import WaitingQueue, find_block
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
    """Finds the queues of a group, and the messages that wait in them."""

    def __init__(self, api: BrokerApi, addresses: dict[str, str]) -> None:
        self._api = api
        self._addresses = addresses
        self.without_route: list[str] = []
        """Topics that the group subscribes to and that no broker has."""

    async def positions(self, snapshot: GroupSnapshot) -> list[QueuePosition]:
        """Return where the group is in every queue of its topics."""
        counted = snapshot.offsets
        uncounted = [queue for queue in await self._subscribed(snapshot) if queue not in counted]
        found = [QueuePosition(queue, row.consumer_offset, row.broker_offset) for queue, row in counted.items()]
        found += await gather_limited(uncounted, lambda queue: self._ask(snapshot.group, queue))
        if snapshot.is_broadcasting:
            found = [own for position in found for own in _of_members(snapshot, position)]
        return sorted(found, key=lambda position: (position.queue.topic.startswith(RETRY_PREFIX), position))

    async def _subscribed(self, snapshot: GroupSnapshot) -> list[MessageQueue]:
        """Return the queues of all subscribed topics: a group commits nothing before it has consumed."""
        found = []
        for topic in sorted(snapshot.subscriptions):
            try:
                queues = read_queues(topic, await self._api.route(topic))
            except NoRoute:
                if not topic.startswith(RETRY_PREFIX):
                    self.without_route.append(topic)
                continue
            found += [queue for queue in queues if queue.broker_name in snapshot.answers]
        return found

    async def _ask(self, group: str, queue: MessageQueue) -> QueuePosition:
        address = self._addresses[queue.broker_name]
        committed = await self._api.query_offset(address, group, queue.topic, queue.queue_id)
        end = await self._api.max_offset(address, queue.topic, queue.queue_id)
        return QueuePosition(queue, committed or 0, end)

    async def oldest_messages(self, positions: Iterable[QueuePosition]) -> dict[QueuePosition, OldestMessage]:
        """Return the first waiting message at each position that has one."""
        waiting = [position for position in positions if position.committed < position.end]
        return dict(zip(waiting, await gather_limited(waiting, self._oldest), strict=True))

    async def _oldest(self, position: QueuePosition) -> OldestMessage:
        try:
            return await self._read(position.queue, position.committed)
        except PyroMQError:  # the queue may not be read, or its broker has gone meanwhile
            return OldestMessage(position.committed, None)

    async def _read(self, queue: MessageQueue, offset: int) -> OldestMessage:
        address = self._addresses[queue.broker_name]
        for _ in range(2):  # if the log no longer has the offset, a second pull reads at its beginning
            header = plain_pull(TOOLS_CONSUMER_GROUP, queue.topic, queue.queue_id, offset, most=1)
            answer = await self._api.pull(address, header, timeout=PULL_TIMEOUT)
            for message in decode_messages(answer.body, queue.broker_name):
                return OldestMessage(message.queue_offset, message)
            offset = answer.next_offset
        return OldestMessage(offset, None)


def _of_members(snapshot: GroupSnapshot, position: QueuePosition) -> Iterable[QueuePosition]:
    """Yield where each member of a broadcasting group is: brokers do not know."""
    for client_id, state in snapshot.holders(position.queue).items():
        yield QueuePosition(position.queue, max(state.commit_offset, 0), position.end, client_id)


_NOT_READ = OldestMessage(0, None)


class GroupObservation(Struct, frozen=True, kw_only=True):
    """Two snapshots of a group, `seconds` apart; `before` is None if there is only one."""

    snapshot: GroupSnapshot
    before: GroupSnapshot | None
    seconds: float
    slow: float
    now: float

    def progress(self, position: QueuePosition, waiting: OldestMessage | None = None) -> QueueProgress:
        """Return how far the group is in a queue, given the first message that waits there, if one does."""
        oldest = waiting or _NOT_READ
        lag = max(position.end - max(position.committed, oldest.offset), 0)
        owners = (position.client_id,) if position.client_id else tuple(self.snapshot.holders(position.queue))
        moved = self._moved(position) if lag else None
        queue = self._waiting_queue(position, owners, moved)
        return QueueProgress(
            queue=position.queue,
            committed_offset=position.committed,
            end_offset=position.end,
            lag=lag,
            behind=self._behind(lag, oldest),
            owners=owners,
            held=queue.state.cached_msg_count if owners else None,
            moved=moved,
            head=_head(queue, oldest),
            blocked=self._blocked(owners, queue) if lag else None,
        )

    def _moved(self, position: QueuePosition) -> bool | None:
        if self.before is None:
            return None
        return self.before.position(position.queue) != self.snapshot.position(position.queue)

    def _behind(self, lag: int, oldest: OldestMessage) -> float | None:
        if not lag:
            return 0.0
        if oldest.message is None:
            return None
        return max(self.now - oldest.message.store_timestamp_ms / 1000, 0.0)

    def _blocked(self, owners: tuple[str, ...], queue: WaitingQueue) -> str | None:
        if len(owners) > 1:
            return f"{len(owners)} members claim it"
        everybody_answered = len(self.snapshot.infos) == len(self.snapshot.members)
        if not owners and self.snapshot.members and everybody_answered:
            return "no member has it"
        return find_block(queue)

    def _waiting_queue(self, position: QueuePosition, owners: tuple[str, ...], moved: bool | None) -> WaitingQueue:
        info = self.snapshot.infos[owners[0]] if owners else ConsumerRunningInfo()
        return WaitingQueue(
            queue=position.queue,
            info=info,
            state=info.mq_table.get(position.queue, ProcessQueueInfo()),
            is_broadcasting=self.snapshot.is_broadcasting,
            moved=moved,
            watch=self.seconds,
            slow=self.slow,
            now=self.now,
        )


def _head(queue: WaitingQueue, oldest: OldestMessage) -> HeadMessage | None:
    message, working = oldest.message, queue.head
    if message is None:
        return None
    has_it = working is not None and working.queue_offset == message.queue_offset
    return HeadMessage(
        queue_offset=message.queue_offset,
        message_id=message.message_id,
        keys=tuple(message.keys),
        tags=message.tags,
        stored=EPOCH + timedelta(milliseconds=message.store_timestamp_ms),
        listening=queue.since(working.since_ms) if working is not None and has_it else None,
    )
