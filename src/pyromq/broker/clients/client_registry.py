"""Who is alive: producers and consumers by group. Who consumes a queue in order is in tables/queue_locks.py."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import Struct

from pyromq.broker.config.limits import BrokerLimits
from pyromq.broker.signals import Signal
from pyromq.errors import BrokerError, LocalProtocolError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.tag_filter import TAG, parse_tags
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

DEFAULT_LIMITS: Final = BrokerLimits()
TAG_TYPES = (TAG, "", None)  # without a type an expression is one of tags


class _Place(NamedTuple):
    """A client's place in a group."""

    group: str
    connection: Connection
    consumes: bool


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

    def subscribe(self, wanted: Iterable[GroupSubscription]) -> bool:
        """Take over the subscriptions of a heartbeat; tell whether the set of topics changed."""
        fresh = {each.data.topic: each for each in wanted}
        changed = fresh.keys() != self.subscriptions.keys()
        kept = {topic: old for topic, old in self.subscriptions.items() if topic in fresh}
        for topic, new in fresh.items():
            old = kept.get(topic)
            if old is None or old.data.sub_version < new.data.sub_version:
                kept[topic] = new
        self.subscriptions = kept
        return changed


class ClientRegistry:
    """Every producer and consumer that this broker hears from.

    Each place of a client in a group takes memory, and clients make up the names of groups: `limits` says how many.
    """

    def __init__(self, limits: BrokerLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self.subscribed: Signal[[]] = Signal()
        """What a consumer group wants, or how it consumes, is different now, or it is gone."""
        self.producers: dict[str, dict[Connection, Client]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self._producing: dict[Connection, set[str]] = {}
        self._reply_takers: dict[str, Connection] = {}
        self._producer_ids: dict[Connection, Counter[str]] = {}  # and in how many groups each produces
        self._consuming: dict[Connection, set[str]] = {}
        self._by_age: OrderedDict[_Place, Client] = OrderedDict()  # the longest silent first

    @property
    def places(self) -> int:
        """How many places of clients in groups there are."""
        return len(self._by_age)

    def check_room(self, connection: Connection, data: HeartbeatData) -> None:
        """Raise BrokerError if a client wants more groups or subscriptions than one may have, or all together."""
        limits = self._limits
        count = sum(len(consumer.subscription_data_set) for consumer in data.consumer_data_set)
        if count > limits.max_subscriptions_per_client:
            text = f"{connection.peer} has {count} subscriptions, the limit is {limits.max_subscriptions_per_client}"
            raise BrokerError(text, limit="pyromqMaxSubscriptionsPerClient")
        for known, wanted in (
            (self._producing, {producer.group_name for producer in data.producer_data_set}),
            (self._consuming, {consumer.group_name for consumer in data.consumer_data_set}),
        ):
            wanted -= known.get(connection, set())
            if wanted and len(known.get(connection, ())) + len(wanted) > limits.max_groups_per_client:
                text = f"a client can be in {limits.max_groups_per_client} groups, and {connection.peer} wants more"
                raise BrokerError(text, limit="pyromqMaxGroupsPerClient")
            if len(self._by_age) + len(wanted) > limits.max_members:
                text = f"the groups of this broker have {limits.max_members} members already"
                raise BrokerError(text, limit="pyromqMaxMembers")

    def register_producer(self, group: str, client: Client, *, takes_replies: bool = True) -> None:
        """Note that a client produces in a group, and whether replies to its client id go to it from now on."""
        connection = client.connection
        members = self.producers.setdefault(group, {})
        before = members.get(connection)
        members[connection] = client
        self._producing.setdefault(connection, set()).add(group)
        if before is None or before.client_id != client.client_id:
            self._producer_ids.setdefault(connection, Counter())[client.client_id] += 1
        if before is not None and before.client_id != client.client_id:
            self._forget_producer_id(before)
        if takes_replies:
            self._reply_takers[client.client_id] = connection
        self._renew(_Place(group, connection, consumes=False), client)

    def register_consumer(self, data: ConsumerData, client: Client, wanted: Iterable[GroupSubscription]) -> bool:
        """Note that a client consumes in a group, and what; tell whether the others should rebalance."""
        group = self.consumers.get(data.group_name)
        if group is None:
            group = self.consumers[data.group_name] = ConsumerGroup(data)
        before = group.message_model, group.subscriptions
        group.describe(data)
        self._consuming.setdefault(client.connection, set()).add(group.name)
        self._renew(_Place(group.name, client.connection, consumes=True), client)
        joined = group.join(client)
        resubscribed = group.subscribe(wanted)
        if before != (group.message_model, group.subscriptions):
            self.subscribed()
        return joined or resubscribed

    def unregister_producer(self, group: str, connection: Connection) -> None:
        """Forget a client's place in a producer group."""
        _leave(self._producing, connection, group)
        self._by_age.pop(_Place(group, connection, consumes=False), None)
        members = self.producers.get(group)
        if members is not None:
            client = members.pop(connection, None)
            if client is not None:
                self._forget_producer_id(client)
            if not members:
                del self.producers[group]

    def producer_connection(self, client_id: str) -> Connection | None:
        """Return the connection of a client that produces in some group: where replies to it go."""
        return self._reply_takers.get(client_id)

    def _forget_producer_id(self, client: Client) -> None:
        """Forget a client id in one group; after the last one, replies to it do not go to this connection."""
        ids = self._producer_ids[client.connection]
        ids[client.client_id] -= 1
        if ids[client.client_id]:
            return
        del ids[client.client_id]
        if not ids:
            del self._producer_ids[client.connection]
        if self._reply_takers.get(client.client_id) is client.connection:
            del self._reply_takers[client.client_id]

    def unregister_consumer(self, name: str, connection: Connection) -> bool:
        """Forget a client's place in a consumer group; tell whether it had one."""
        _leave(self._consuming, connection, name)
        self._by_age.pop(_Place(name, connection, consumes=True), None)
        group = self.consumers.get(name)
        if group is None or group.members.pop(connection, None) is None:
            return False
        if not group.members:
            del self.consumers[name]
            self.subscribed()
        return True

    def drop(self, connection: Connection) -> list[str]:
        """Forget a connection that has closed; return the consumer groups it was in."""
        for name in tuple(self._producing.get(connection, ())):
            self.unregister_producer(name, connection)
        left = tuple(self._consuming.get(connection, ()))
        return [name for name in left if self.unregister_consumer(name, connection)]

    def silent(self, since: float) -> list[Client]:
        """Return the clients whose last heartbeat came before `since`."""
        silent = takewhile(lambda client: client.seen < since, self._by_age.values())
        return list({client.connection: client for client in silent}.values())

    def _renew(self, place: _Place, client: Client) -> None:
        self._by_age[place] = client
        self._by_age.move_to_end(place)

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


_FIGURES: Final[tuple[Figure[ClientRegistry], ...]] = (
    Figure(
        "consumer_groups_online",
        "Consumer groups with a member online.",
        Kind.GAUGE,
        lambda clients: len(clients.consumers),
    ),
    Figure(
        "group_members",
        "Places of clients in groups, of producers and consumers.",
        Kind.GAUGE,
        lambda clients: clients.places,
    ),
)


def _leave(index: dict[Connection, set[str]], connection: Connection, group: str) -> None:
    groups = index.get(connection)
    if groups is not None:
        groups.discard(group)
        if not groups:
            del index[connection]
