"""QuickPulls: plain pulls that are answered without decoding them.

The pulls of one consumer about one queue differ in three numbers only. What is left is their shape. The first pull of a
shape is decoded and checked as any other. Of the next ones only the three numbers are read, by the native lane, and of
the checks only what may have changed since: group, topic, subscription. See the head of `lane/_pulls.c`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from pyromq.broker.clients.client_registry import GroupSubscription
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.pull import PullHandler
from pyromq.errors import BrokerError, RemoteProtocolError
from pyromq.lane.pull_answers import packed_codes
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import MASTER_ID, PULL_SUBSCRIPTION_FLAG
from pyromq.protocol.command import decode
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.remoting.connection import Connection

MOST_SHAPES: Final = 8192
"""Shapes that are remembered: some kilobytes each, at worst."""

Shape: TypeAlias = Callable[[bytes | memoryview], tuple[bytes, int, int, int] | None]
"""Returns the shape of a request, its queue offset, commit offset and opaque; None if it has no shape."""


class _Known(NamedTuple):
    """What pulls of a shape have in common."""

    header: PullMessageRequestHeader
    codes: bytes | None
    group: SubscriptionGroupConfig
    subscription: GroupSubscription | None
    """That of the group's heartbeats, if the pull has none of its own."""


class QuickPulls:
    """Answers pulls of shapes that it knows."""

    def __init__(self, parts: Parts, pulls: PullHandler, shape: Shape) -> None:
        self._pulls = pulls
        self._shape = shape
        self._found = pulls.plain.found
        self._waiting = parts.reads.waiting_connections
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._lives = parts.lives
        self._known: dict[bytes, _Known | None] = {}

    def answer(self, frame: bytes | memoryview, connection: Connection) -> bytes | None:
        """Return the answer to a pull; None if it has to be served as usual."""
        found = self._shape(frame)
        if found is None:
            return None
        shape, offset, commit_offset, opaque = found
        known = self._known.get(shape)
        if known is None:
            if shape not in self._known:
                self._learn(frame, *found)
            return None
        if not self._is_current(known):
            del self._known[shape]
            return None
        if self._waiting and connection in self._waiting:
            return None
        header = known.header
        suggest = known.group.broker_id if self._pulls.slave_read else MASTER_ID
        return self._found(header, known.codes, suggest, offset, commit_offset, opaque, connection.peer)

    def _is_current(self, known: _Known) -> bool:
        """Return True if the checks of a pull would have the same result as when its shape was learned."""
        header, _, group, subscription = known
        topic = self._topics.by_name.get(header.topic)
        if self._groups.by_name.get(header.consumer_group) is not group or topic is None:
            return False
        if not (topic.readable and 0 <= header.queue_id < topic.read_queues and self._pulls.is_readable):
            return False
        if header.pyromq_deleted_at is not None and not self._lives.is_current(topic.name, header.pyromq_deleted_at):
            return False
        return subscription is None or self._subscribes(known)

    def _subscribes(self, known: _Known) -> bool:
        online = self._clients.consumers.get(known.header.consumer_group)
        if online is None or online.subscriptions.get(known.header.topic) is not known.subscription:
            return False
        return known.group.consume_broadcast_enable or online.message_model is not MessageModel.BROADCASTING

    def _learn(self, frame: bytes | memoryview, shape: bytes, offset: int, commit_offset: int, opaque: int) -> None:
        """Remember what the pulls of a shape have in common; this one is served as usual."""
        try:
            command = decode(frame)
            header = command.ext
            if command.flag or not isinstance(header, PullMessageRequestHeader):
                return
            if (header.queue_offset, header.commit_offset, command.opaque) != (offset, commit_offset, opaque):
                return
            wanted = self._pulls.check(header)
        except (BrokerError, RemoteProtocolError):
            return
        codes = None if wanted.codes is None else packed_codes(wanted.codes)
        is_plain = wanted.properties is None and (codes is None) == (wanted.codes is None)
        group = self._groups.by_name.get(header.consumer_group)
        if group is None or header.pyromq_deleted_at == -1:
            return
        if len(self._known) >= MOST_SHAPES:
            del self._known[next(iter(self._known))]
        self._known[shape] = _Known(header, codes, group, self._subscription(header)) if is_plain else None

    def _subscription(self, header: PullMessageRequestHeader) -> GroupSubscription | None:
        online = self._clients.consumers.get(header.consumer_group)
        if header.sys_flag & PULL_SUBSCRIPTION_FLAG or online is None:
            return None
        return online.subscriptions.get(header.topic)
