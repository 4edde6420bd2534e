"""QuickPulls: plain pulls that are answered without decoding them.

The pulls of one consumer about one queue differ in three numbers only, and in their signature. What is left is their
shape. The first pull of a shape is decoded and checked as any other, and what all pulls of the shape have in common is
learned. The next ones are served by the lane (lane/pull_serving.py), all those of a read in one call.

Where there is access control, pulls are served so if they come from the account of the request before. Whether it may
pull is looked at when a shape becomes current for it; the lane compares the signature of every pull.

A change of topics, groups, subscriptions or settings makes every shape stale. The next pull of a stale shape is looked
at once more: if its checks would have the same result as when it was learned, it is current again.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Final

from pyromq.broker.clients.client_registry import GroupSubscription
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.plain_pulls import PullNotes
from pyromq.broker.pulls.pull import PullHandler
from pyromq.errors import BrokerError, RemoteProtocolError
from pyromq.lane.callers import Caller, signed_pull
from pyromq.lane.pull_answers import packed_codes
from pyromq.lane.pull_passes import PullPass, new_pull_pass
from pyromq.lane.pull_serving import KnownPull, ServePulls, serve_pulls
from pyromq.lane.pull_shapes import FindShape, PullShape, find_shape
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import (
    MASTER_ID,
    PULL_SUBSCRIPTION_FLAG,
    RequestCode,
)
from pyromq.protocol.command import decode
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.dispatch import QuickAnswer
from pyromq.store.read.plain_reader import PlainReader

MOST_SHAPES: Final = 8192
"""Shapes that are remembered: some kilobytes each, at worst."""
_PULL: Final = int(RequestCode.PULL_MESSAGE)


class QuickPulls:
    """Answers pulls of shapes that it knows."""

    def __init__(
        self,
        parts: Parts,
        pulls: PullHandler,
        reader: PlainReader,
        shape: FindShape | None = None,
        serve: ServePulls | None = None,
    ) -> None:
        """`shape` and `serve` are the native forms if there are such, unless given."""
        self.pulls = pulls
        self.parts = parts
        self._plain = pulls.plain
        self._reader = reader
        self._shape = shape or find_shape()
        self._serve = serve or serve_pulls()
        self._new_pass = new_pull_pass()
        self.has_passes = self._new_pass is not None
        """Whether `begin_pass` may begin one: with the native lane."""
        self._waiting = parts.reads.waiting_connections
        self._access = parts.access
        self._now_ms = parts.clock.now_ms
        self._learned: dict[bytes, LearnedShape | None] = {}
        self._current: dict[bytes, KnownPull] = {}
        parts.topics.changed.subscribe(lambda names: self._current.clear())
        parts.settings.changed.subscribe(lambda config: self._current.clear())
        parts.groups.changed.subscribe(self._current.clear)
        parts.clients.subscribed.subscribe(self._current.clear)

    def answer(self, frames: Frames, index: int, most: int, connection: Connection, scratch: memoryview) -> QuickAnswer:
        """Answer some of the frames, from an index on; the first that has to be served as usual ends it."""
        if not self._reader.is_on or (self._waiting and connection in self._waiting):
            return 0, b"", False
        caller, now_ms = None, 0
        if not self._access.is_open:
            caller, now_ms = self._access.caller(connection), self._now_ms()
            if caller is None:
                return 0, b"", False
        plain = self._plain
        plain.peer = connection.peer
        plain.since = now = perf_counter()
        place = self._reader.last_place(now)
        found = self._serve(frames, index, most, self._current, place, self._reader, scratch, caller, now_ms)
        answered, answers, more = found
        if more or index + answered == len(frames):
            return found
        if not self._is_current_again(frames[index + answered], caller, connection):
            return found
        if answered:
            return answered, answers, True
        return self._serve(frames, index, most, self._current, place, self._reader, scratch, caller, now_ms)

    def begin_pass(self, scratch: memoryview, budget: int) -> PullPass | None:
        """Begin to answer whole reads: what is looked at here holds for a pass of the loop."""
        if self._new_pass is None or not self._reader.is_on or self._waiting or not self._access.is_open:
            return None
        self._reader.last_place(perf_counter())
        return self._new_pass(self._current, self._reader, self._reader.log, scratch, budget)

    def _is_current_again(self, frame: bytes | memoryview, caller: Caller | None, connection: Connection) -> bool:
        """Look at a pull that the lane has left; return True if it may take it now."""
        found = self._shape(frame)
        if found is None:
            return False
        shape = found.shape
        if shape not in self._learned:
            self._learn(frame, found)
            return False
        learned = self._learned[shape]
        if learned is None:
            return False
        before = self._current.get(shape)
        if before is not None and before.queue is learned.queue(self._reader) and _is_of(before, caller):
            return False  # it is current, and this pull of it is not plain
        if not learned.is_current(self.parts, self.pulls):
            self._current.pop(shape, None)
            del self._learned[shape]
            return False
        if caller is not None and not self._access.may_ask(connection, _PULL, learned.fields):
            return False
        known = learned.known_pull(self._reader, self.pulls, caller)
        if known is None:
            return False
        self._current[shape] = known
        return True

    def _learn(self, frame: bytes | memoryview, found: PullShape) -> None:
        """Remember what the pulls of a shape have in common; this one is served as usual."""
        try:
            command = decode(frame)
            header = command.ext
            if command.code != _PULL or command.flag or not isinstance(header, PullMessageRequestHeader):
                return
            if (header.queue_offset, header.commit_offset, command.opaque) != found[1:4]:
                return
            fields = {} if self._access.is_open else decode(frame, typed=False).ext_fields
            wanted = self.pulls.check(header)
        except (BrokerError, RemoteProtocolError):
            return
        codes = None if wanted.codes is None else packed_codes(wanted.codes)
        is_plain = wanted.properties is None and (codes is None) == (wanted.codes is None)
        group = self.parts.groups.by_name.get(header.consumer_group)
        if group is None or header.pyromq_deleted_at == -1:
            return
        if len(self._learned) >= MOST_SHAPES:
            oldest = next(iter(self._learned))
            del self._learned[oldest]
            self._current.pop(oldest, None)
        self._learned[found.shape] = LearnedShape(self, header, fields, codes, group) if is_plain else None


class LearnedShape:
    """What pulls of a shape have in common, and what their checks depended on when it was learned."""

    __slots__ = ("_codes", "_group", "_header", "_notes", "_subscription", "fields")

    def __init__(
        self,
        pulls: QuickPulls,
        header: PullMessageRequestHeader,
        fields: Mapping[str, str],
        codes: bytes | None,
        group: SubscriptionGroupConfig,
    ) -> None:
        self.fields = fields
        """All ext fields of a pull, where there is access control."""
        self._header = header
        self._codes = codes
        self._group = group
        self._subscription = _subscription(pulls.parts, header)
        self._notes = PullNotes(pulls.pulls.plain, header)

    def queue(self, reader: PlainReader) -> object:
        """Return the queue that is pulled from, as it is now."""
        return reader.queue(self._header.topic, self._header.queue_id)

    def is_current(self, parts: Parts, pulls: PullHandler) -> bool:
        """Return True if the checks of a pull would have the same result as when its shape was learned."""
        header = self._header
        topic = parts.topics.by_name.get(header.topic)
        if parts.groups.by_name.get(header.consumer_group) is not self._group or topic is None:
            return False
        if not (topic.readable and 0 <= header.queue_id < topic.read_queues and pulls.is_readable):
            return False
        if header.pyromq_deleted_at is not None and not parts.lives.is_current(topic.name, header.pyromq_deleted_at):
            return False
        return self._subscription is None or self._subscribes(parts)

    def _subscribes(self, parts: Parts) -> bool:
        online = parts.clients.consumers.get(self._header.consumer_group)
        if online is None or online.subscriptions.get(self._header.topic) is not self._subscription:
            return False
        return self._group.consume_broadcast_enable or online.message_model is not MessageModel.BROADCASTING

    def known_pull(self, reader: PlainReader, pulls: PullHandler, caller: Caller | None) -> KnownPull | None:
        """Return the shape as the lane wants it; None as long as its queue has no message, or for another account."""
        header = self._header
        queue = reader.queue(header.topic, header.queue_id)
        signed = None if caller is None else signed_pull(caller, self.fields)
        if queue is None or (caller is not None and signed is None):
            return None
        suggest = self._group.broker_id if pulls.slave_read else MASTER_ID
        numbers = reader.numbers(queue, header.max_msg_nums, header.max_bytes, self._codes, suggest)
        if numbers is None:
            return None
        return KnownPull(queue, self._codes, numbers, self._notes.note, signed, self._notes.quick_note())


def _is_of(known: KnownPull, caller: Caller | None) -> bool:
    """Return True if the lane serves pulls of a shape for this account."""
    return caller is None if known.signed is None else known.signed.caller is caller


def _subscription(parts: Parts, header: PullMessageRequestHeader) -> GroupSubscription | None:
    """Return that of the group's heartbeats, if a pull has none of its own."""
    online = parts.clients.consumers.get(header.consumer_group)
    if header.sys_flag & PULL_SUBSCRIPTION_FLAG or online is None:
        return None
    return online.subscriptions.get(header.topic)
