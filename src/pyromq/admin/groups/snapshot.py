"""A snapshot of a group: what all brokers and all of its members report about it at one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from pyromq.admin.groups.description import Member, Opinion, TopicSubscription
from pyromq.admin.masters import Masters, gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.errors import BrokerError, LocalProtocolError, ProtocolError, RemotingError
from pyromq.protocol.bodies import (
    ClientConnection,
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
_FIRST_RELEASE = 213  # 4.0.0; a minor release has 20 numbers: a snapshot and a release for each patch


class KnownMember(Struct, frozen=True):
    """A member, as brokers know it from its heartbeats."""

    connection: ClientConnection
    brokers: list[str]


MemberReport = ConsumerRunningInfo | str
"""What a member reports about itself, or why it does not."""


def known_members(connections: Mapping[str, ConsumerConnection | None]) -> dict[str, KnownMember]:
    """Return all members by client id. Each broker has its own connection to a member."""
    found: dict[str, KnownMember] = {}
    for broker, known in connections.items():
        for connection in known.connection_set if known else ():
            found.setdefault(connection.client_id, KnownMember(connection, [])).brokers.append(broker)
    return dict(sorted(found.items()))


def describe_member(known: KnownMember, report: MemberReport) -> Member:
    """Return a member with what it reports about itself."""
    info = report if isinstance(report, ConsumerRunningInfo) else ConsumerRunningInfo()
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
        silence=report if isinstance(report, str) else None,
    )


def release(version: int) -> str:
    """Return the release that a version number on the wire stands for."""
    if version < _FIRST_RELEASE:
        return f"before 4.0 ({version})"
    minor, rest = divmod(version - _FIRST_RELEASE, 20)
    major, minor = (4, minor) if minor < 10 else (5, minor - 10)
    return f"{major}.{minor}.{(rest + 1) // 2}" + ("-SNAPSHOT" if rest % 2 else "")


def topic_subscriptions(data: Iterable[SubscriptionData]) -> tuple[TopicSubscription, ...]:
    """Return the subscriptions by topic, without the retry topic, which every member subscribes to."""
    return tuple(
        sorted(
            TopicSubscription(topic=each.topic, expression=each.sub_string, kind=each.expression_type or TAG)
            for each in data
            if not each.topic.startswith(RETRY_PREFIX)
        )
    )


def differing_opinions(members: Iterable[Member]) -> tuple[Opinion, ...]:
    """Return which members want what, if their reported subscriptions differ; otherwise nothing."""
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
    """Return a subscription without what makes no difference: the order of tags, and blanks between them."""
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


# --- the snapshot ----------------------------------------------------------------------------------------------------


class BrokerAnswer(NamedTuple):
    """What one broker reports."""

    settings: dict[str, SubscriptionGroupConfig]
    """Of all groups, by name."""
    connection: ConsumerConnection | None
    stats: ConsumeStats


class GroupSnapshot:
    """A group at one moment."""

    def __init__(
        self,
        group: str,
        answers: dict[str, BrokerAnswer],
        silent: dict[str, str],
        members: dict[str, KnownMember],
        reports: dict[str, MemberReport],
    ) -> None:
        self.group = group
        self.answers = answers
        """By broker."""
        self.silent = silent
        """Brokers that did not answer, and why."""
        self.members = members
        """By client id."""
        self.reports = reports
        """By client id."""

    @property
    def exists(self) -> bool:
        """True if a broker knows the group."""
        answers = self.answers.values()
        return any(self.group in it.settings or it.connection or it.stats.offset_table for it in answers)

    @property
    def connection(self) -> ConsumerConnection | None:
        """How its members consume, by one broker's account; None without members."""
        found = [answer.connection for answer in self.answers.values() if answer.connection]
        return found[0] if found else None

    @property
    def is_broadcasting(self) -> bool:
        """True if each member keeps its own offsets."""
        return self.connection is not None and self.connection.message_model is MessageModel.BROADCASTING

    @cached_property
    def infos(self) -> dict[str, ConsumerRunningInfo]:
        """The reports of the members that answered, by client id."""
        return {client_id: info for client_id, info in self.reports.items() if isinstance(info, ConsumerRunningInfo)}

    @cached_property
    def subscriptions(self) -> dict[str, SubscriptionData]:
        """The subscription of each topic, by brokers and members; the newest if they differ."""
        found = [data for info in self.infos.values() for data in info.subscription_set]
        for answer in self.answers.values():
            found += answer.connection.subscription_table.values() if answer.connection else ()
        return {data.topic: data for data in sorted(found, key=lambda data: data.sub_version)}

    @cached_property
    def offsets(self) -> dict[MessageQueue, OffsetWrapper]:
        """How far the group is, as brokers report, in the topics that it consumes.

        A broker without members of the group also reports topics that the group no longer consumes.
        """
        rows = {queue: row for answer in self.answers.values() for queue, row in answer.stats.offset_table.items()}
        if not self.members:
            return rows
        wanted = self.subscriptions
        return {queue: row for queue, row in rows.items() if queue.topic in wanted}

    def holders(self, queue: MessageQueue) -> dict[str, ProcessQueueInfo]:
        """Return the members that claim a queue, and its state there."""
        states = {client_id: info.mq_table.get(queue) for client_id, info in self.infos.items()}
        return {client_id: state for client_id, state in states.items() if state is not None and not state.dropped}

    def position(self, queue: MessageQueue) -> tuple[object, ...]:
        """Return everything that changes when the queue's first messages are finished."""
        row = self.offsets.get(queue)
        held = [(state.commit_offset, state.cached_msg_min_offset) for state in self.holders(queue).values()]
        return (row.consumer_offset if row else None, *held)

    @property
    def has_waiting_messages(self) -> bool:
        """True if messages wait for the group in some queue."""
        states = [state for info in self.infos.values() for state in info.mq_table.values()]
        is_behind = any(row.broker_offset > row.consumer_offset for row in self.offsets.values())
        return is_behind or any(state.cached_msg_count for state in states)


async def take_snapshot(calls: AdminCalls, masters: Masters, group: str) -> GroupSnapshot:
    """Ask all brokers, and through them all members."""

    async def ask_broker(address: str) -> BrokerAnswer:
        return BrokerAnswer(
            *await asyncio.gather(
                calls.group_settings(address),
                calls.group_connections(address, group),
                calls.consume_stats(address, group),
            )
        )

    async def ask_member(member: KnownMember) -> MemberReport:
        address = masters.addresses[member.brokers[0]]
        try:
            return await calls.running_info(address, group, member.connection.client_id)
        except BrokerError as error:
            return error.remark or str(error)
        except (RemotingError, ProtocolError) as error:
            return str(error)

    answers = await masters.ask(ask_broker)
    members = known_members({broker: answer.connection for broker, answer in answers.items()})
    reports = dict(zip(members, await gather_limited(members.values(), ask_member), strict=True))
    return GroupSnapshot(group, answers, masters.silent, members, reports)
