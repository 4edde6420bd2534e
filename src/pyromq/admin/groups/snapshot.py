"""A snapshot of a group: what all brokers and all of its members say about it at one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from pyromq.admin.groups.admin_calls import GroupAdminCalls
from pyromq.admin.groups.description import Member, Opinion, TopicSubscription
from pyromq.admin.masters import Masters, gather_limited
from pyromq.errors import BrokerError, LocalProtocolError, ProtocolError, RemotingError
from pyromq.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    MessageModel,
    OffsetWrapper,
    ProcessQueueInfo,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.tag_filter import TAG, parse_tags

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_RELEASE = 213  # 4.0.0; a minor release has twenty numbers, a snapshot and a release for each patch


class KnownMember(Struct, frozen=True):
    """A member, as the brokers that hear from it know it."""

    connection: Connection
    brokers: list[str]


MemberReport = ConsumerRunningInfo | str
"""What a member told of itself, or why it did not."""


def known_members(connections: Mapping[str, ConsumerConnection | None]) -> dict[str, KnownMember]:
    """Return all members by client id: each broker knows them by a connection of its own."""
    found: dict[str, KnownMember] = {}
    for broker, known in connections.items():
        for connection in known.connection_set if known else ():
            found.setdefault(connection.client_id, KnownMember(connection, [])).brokers.append(broker)
    return dict(sorted(found.items()))


def member(known: KnownMember, said: MemberReport) -> Member:
    """Return a member with what it told of itself."""
    info = said if isinstance(said, ConsumerRunningInfo) else ConsumerRunningInfo()
    return Member(
        client_id=known.connection.client_id,
        address=known.connection.client_addr,
        language=known.connection.language.name,
        version=release(known.connection.version),
        brokers=tuple(known.brokers),
        started=_started(info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")),
        orderly=_flag(info.properties.get("PROP_CONSUMEORDERLY")),
        subscriptions=topic_subscriptions(info.subscription_set),
        queues=tuple(sorted(queue for queue, state in info.mq_table.items() if not state.dropped)),
        silence=said if isinstance(said, str) else None,
    )


def release(version: int) -> str:
    """Return the release that a version number on the wire stands for."""
    if version < _FIRST_RELEASE:
        return f"before 4.0 ({version})"
    minor, rest = divmod(version - _FIRST_RELEASE, 20)
    major, minor = (4, minor) if minor < 10 else (5, minor - 10)
    return f"{major}.{minor}.{(rest + 1) // 2}" + ("-SNAPSHOT" if rest % 2 else "")


def topic_subscriptions(data: Iterable[SubscriptionData]) -> tuple[TopicSubscription, ...]:
    """Return what is wanted of which topic, without the retries that every member wants."""
    return tuple(
        sorted(
            TopicSubscription(topic=each.topic, expression=each.sub_string, kind=each.expression_type or TAG)
            for each in data
            if not each.topic.startswith(RETRY_PREFIX)
        )
    )


def opinions(members: Iterable[Member]) -> tuple[Opinion, ...]:
    """Return who wants what, if the members that told it do not all want the same; else nothing."""
    by_wants: dict[frozenset[object], list[Member]] = {}
    for each in members:
        if each.silence is None:
            by_wants.setdefault(frozenset(map(_comparable, each.subscriptions)), []).append(each)
    if len(by_wants) < 2:
        return ()
    return tuple(
        Opinion(members=tuple(each.client_id for each in same), subscriptions=same[0].subscriptions)
        for same in by_wants.values()
    )


def _comparable(wanted: TopicSubscription) -> object:
    """Leave out what makes no difference: the order of tags, and blanks between them."""
    if wanted.kind != TAG:
        return wanted
    try:
        return wanted.topic, frozenset(parse_tags(wanted.expression).tags)
    except LocalProtocolError:
        return wanted


def _started(text: str) -> datetime | None:
    return EPOCH + timedelta(milliseconds=int(text)) if text.isdecimal() else None


def _flag(text: str | None) -> bool | None:
    return None if text is None else text == "true"


class BrokerView(NamedTuple):
    """What one broker says."""

    groups: dict[str, SubscriptionGroupConfig]
    connection: ConsumerConnection | None
    stats: ConsumeStats


class GroupSnapshot:
    """A group at one moment."""

    def __init__(
        self,
        group: str,
        views: dict[str, BrokerView],
        silent: dict[str, str],
        known: dict[str, KnownMember],
        said: dict[str, MemberReport],
    ) -> None:
        self.group = group
        self.views = views
        """By broker."""
        self.silent = silent
        """Brokers that did not answer, and why."""
        self.known = known
        """The members, by client id."""
        self.said = said

    @property
    def exists(self) -> bool:
        """Whether some broker knows the group."""
        views = self.views.values()
        return any(self.group in view.groups or view.connection or view.stats.offset_table for view in views)

    @property
    def connection(self) -> ConsumerConnection | None:
        """How its members say that they consume, None without members."""
        found = [view.connection for view in self.views.values() if view.connection]
        return found[0] if found else None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member keeps offsets of its own."""
        return self.connection is not None and self.connection.message_model is MessageModel.BROADCASTING

    @cached_property
    def infos(self) -> dict[str, ConsumerRunningInfo]:
        """What the members that answered told, by client id."""
        return {client_id: said for client_id, said in self.said.items() if isinstance(said, ConsumerRunningInfo)}

    @cached_property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """What brokers and members say that is wanted of each topic; the newest if they differ."""
        told = [data for info in self.infos.values() for data in info.subscription_set]
        for view in self.views.values():
            told += view.connection.subscription_table.values() if view.connection else ()
        return {data.topic: data for data in sorted(told, key=lambda data: data.sub_version)}

    @cached_property
    def offsets(self) -> dict[MessageQueue, OffsetWrapper]:
        """How far the group is, as brokers say, in the topics that it consumes.

        A broker that hears of no member also tells of topics that the group has left.
        """
        rows = {queue: row for view in self.views.values() for queue, row in view.stats.offset_table.items()}
        if not self.known:
            return rows
        wanted = self.subscriptions
        return {queue: row for queue, row in rows.items() if queue.topic in wanted}

    def holders(self, queue: MessageQueue) -> dict[str, ProcessQueueInfo]:
        """Return the members that say they have a queue, and how it stands there."""
        states = {client_id: info.mq_table.get(queue) for client_id, info in self.infos.items()}
        return {client_id: state for client_id, state in states.items() if state is not None and not state.dropped}

    def position(self, queue: MessageQueue) -> tuple[object, ...]:
        """Return all that moves when the queue's first messages are finished."""
        row = self.offsets.get(queue)
        held = [(state.commit_offset, state.cached_msg_min_offset) for state in self.holders(queue).values()]
        return (row.consumer_offset if row else None, *held)

    @property
    def waits(self) -> bool:
        """Whether messages wait for the group in some queue."""
        states = [state for info in self.infos.values() for state in info.mq_table.values()]
        is_behind = any(row.broker_offset > row.consumer_offset for row in self.offsets.values())
        return is_behind or any(state.cached_msg_count for state in states)


async def take_snapshot(calls: GroupAdminCalls, masters: Masters, group: str) -> GroupSnapshot:
    """Ask all brokers, and through them all members."""

    async def view(address: str) -> BrokerView:
        return BrokerView(
            *await asyncio.gather(
                calls.settings(address), calls.connections(address, group), calls.consume_stats(address, group)
            )
        )

    async def ask(member: KnownMember) -> MemberReport:
        address = masters.addresses[member.brokers[0]]
        try:
            return await calls.running_info(address, group, member.connection.client_id)
        except BrokerError as error:
            return error.remark or str(error)
        except (RemotingError, ProtocolError) as error:
            return str(error)

    views = await masters.ask(view)
    known = known_members({broker: seen.connection for broker, seen in views.items()})
    said = dict(zip(known, await gather_limited(known.values(), ask), strict=True))
    return GroupSnapshot(group, views, masters.silent, known, said)
