"""Who is alive: producers and consumers by group, and who owns a queue that is consumed in order."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from pyromq.errors import LocalProtocolError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import ConsumerData, SubscriptionData
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.tag_filter import TAG, parse_tags
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

TAG_TYPES = (TAG, "", None)  # without a type an expression is one of tags
LOCK_LIFETIME = 60.0  # a lock that its owner does not renew is free again


class Client(Struct, kw_only=True, eq=False):
    """One client on one connection, as its last heartbeat described it."""

    connection: Connection
    client_id: str
    language: LanguageCode
    version: int
    seen: float


class GroupSubscription(Struct, kw_only=True, frozen=True):
    """What a group wants of a topic; `codes` is None where every tag matches."""

    data: SubscriptionData
    codes: frozenset[int] | None

    @property
    def is_tags(self) -> bool:
        """Tell whether this is a tag expression, the kind that needs no property of the message."""
        return self.data.expression_type in TAG_TYPES


def group_subscription(data: SubscriptionData) -> GroupSubscription:
    """Prepare a subscription for matching."""
    return GroupSubscription(data=data, codes=_codes(data))


def _codes(data: SubscriptionData) -> frozenset[int] | None:
    if data.expression_type not in TAG_TYPES:
        return None
    if data.code_set:
        return frozenset(data.code_set)
    try:  # some clients leave the sets out; the expression says the same
        tags = parse_tags(data.sub_string)
    except LocalProtocolError:
        return frozenset()
    return None if tags.everything else tags.codes


class ConsumerGroup:
    """The members of a consumer group that are online, and what they subscribe to."""

    def __init__(self, data: ConsumerData) -> None:
        self.name = data.group_name
        self.members: dict[Connection, Client] = {}
        self.subscriptions: dict[str, GroupSubscription] = {}
        self.describe(data)

    def describe(self, data: ConsumerData) -> None:
        """Take over how the group consumes; the latest heartbeat counts."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where

    def join(self, client: Client) -> bool:
        """Add or renew a member; tell whether it is new."""
        is_new = client.connection not in self.members
        self.members[client.connection] = client
        return is_new

    def subscribe(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Take over the subscriptions of a heartbeat; tell whether the set of topics changed."""
        fresh = {data.topic: data for data in wanted}
        changed = fresh.keys() != self.subscriptions.keys()
        kept = {topic: old for topic, old in self.subscriptions.items() if topic in fresh}
        for topic, data in fresh.items():
            old = kept.get(topic)
            if old is None or old.data.sub_version < data.sub_version:
                kept[topic] = group_subscription(data)
        self.subscriptions = kept
        return changed


class ClientRegistry:
    """Every producer and consumer that this broker hears from."""

    def __init__(self) -> None:
        self.producers: dict[str, dict[Connection, Client]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self._producing: dict[Connection, set[str]] = {}
        self._producer_ids: dict[str, Connection] = {}
        self._consuming: dict[Connection, set[str]] = {}

    def register_producer(self, group: str, client: Client) -> None:
        """Note that a client produces in a group."""
        self.producers.setdefault(group, {})[client.connection] = client
        self._producing.setdefault(client.connection, set()).add(group)
        self._producer_ids[client.client_id] = client.connection

    def register_consumer(self, data: ConsumerData, client: Client) -> bool:
        """Note that a client consumes in a group; tell whether the others should rebalance."""
        group = self.consumers.get(data.group_name)
        if group is None:
            group = self.consumers[data.group_name] = ConsumerGroup(data)
        group.describe(data)
        self._consuming.setdefault(client.connection, set()).add(group.name)
        joined = group.join(client)
        resubscribed = group.subscribe(data.subscription_data_set)
        return joined or resubscribed

    def unregister_producer(self, group: str, connection: Connection) -> None:
        """Forget a client's place in a producer group."""
        _leave(self._producing, connection, group)
        members = self.producers.get(group)
        if members is not None:
            client = members.pop(connection, None)
            if client is not None:
                self._forget_producer_id(client)
            if not members:
                del self.producers[group]

    def producer_connection(self, client_id: str) -> Connection | None:
        """Return the connection of a client that produces in some group."""
        return self._producer_ids.get(client_id)

    def _forget_producer_id(self, client: Client) -> None:
        is_its_own = self._producer_ids.get(client.client_id) is client.connection
        if is_its_own and client.connection not in self._producing:
            del self._producer_ids[client.client_id]

    def unregister_consumer(self, name: str, connection: Connection) -> bool:
        """Forget a client's place in a consumer group; tell whether it had one."""
        _leave(self._consuming, connection, name)
        group = self.consumers.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return False
        if not group.members:
            del self.consumers[name]
        return True

    def drop(self, connection: Connection) -> list[str]:
        """Forget a connection that has closed; return the consumer groups it was in."""
        for name in tuple(self._producing.get(connection, ())):
            self.unregister_producer(name, connection)
        left = tuple(self._consuming.get(connection, ()))
        return [name for name in left if self.unregister_consumer(name, connection)]

    def silent(self, since: float) -> list[Client]:
        """Return the clients whose last heartbeat came before `since`."""
        found = {client.connection: client for client in self._clients() if client.seen < since}
        return list(found.values())

    def consumer_ids(self, group: str) -> list[str]:
        """Return the client ids of a consumer group's members."""
        known = self.consumers.get(group)
        return [] if known is None else [client.client_id for client in known.members.values()]

    def find_consumer(self, group: str, client_id: str | None) -> Client | None:
        """Return the member of a consumer group that has this client id."""
        known = self.consumers.get(group)
        members = known.members.values() if known else ()
        return next((client for client in members if client.client_id == client_id), None)

    def members(self, group: str) -> list[Connection]:
        """Return the connections of a consumer group's members."""
        known = self.consumers.get(group)
        return [] if known is None else list(known.members)

    def figures(self) -> BoundFigures[ClientRegistry]:
        """Return the figures of the connected clients."""
        return BoundFigures(_FIGURES, lambda: self)

    def _clients(self) -> Iterator[Client]:
        for members in self.producers.values():
            yield from members.values()
        for group in self.consumers.values():
            yield from group.members.values()


_FIGURES: Final[tuple[Figure[ClientRegistry], ...]] = (
    Figure(
        "consumer_groups_online",
        "Consumer groups with a member online.",
        Kind.GAUGE,
        lambda clients: len(clients.consumers),
    ),
)


def _leave(index: dict[Connection, set[str]], connection: Connection, group: str) -> None:
    groups = index.get(connection)
    if groups is not None:
        groups.discard(group)
        if not groups:
            del index[connection]


class _Lock(Struct):
    owner: str
    renewed: float


class QueueLockTable:
    """Which client may consume a queue in order; a lock lives 60 s after its last renewal, as RocketMQ's does."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str, now: float) -> list[MessageQueue]:
        """Take or renew the locks that are free, expired or the client's own; return those it now has."""
        held = self._locks.setdefault(group, {})
        granted = []
        for queue in queues:
            lock = held.get(queue)
            if lock is None or lock.owner == client_id or lock.renewed + LOCK_LIFETIME < now:
                if lock is not None and lock.owner != client_id:
                    logger.info("expired queue lock taken over group=%s queue=%s by=%s", group, queue, client_id)
                held[queue] = _Lock(client_id, now)
                granted.append(queue)
        return granted

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up the locks that the client holds."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.owner == client_id:
                del held[queue]

    def forget_expired(self, now: float) -> None:
        """Drop locks that nobody renewed, so that names made up by clients do not pile up."""
        for group, held in list(self._locks.items()):
            for queue, lock in list(held.items()):
                if lock.renewed + LOCK_LIFETIME < now:
                    del held[queue]
            if not held:
                del self._locks[group]
