"""The members of a group: put together from what all brokers say, and compared in what they want."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pyromq.client.admin_groups_results import Member, Opinion, TopicSubscription
from pyromq.errors import LocalProtocolError
from pyromq.protocol.bodies import Connection, ConsumerConnection, ConsumerRunningInfo, SubscriptionData
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.tag_filter import TAG, parse_tags

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_RELEASE = 213  # 4.0.0; a minor release has twenty numbers, a snapshot and a release for each patch


class Known(Struct, frozen=True):
    """A member, as the brokers that hear from it know it."""

    connection: Connection
    brokers: list[str]


Said = ConsumerRunningInfo | str
"""What a member told of itself, or why it did not."""


def known_members(connections: Mapping[str, ConsumerConnection | None]) -> dict[str, Known]:
    """Return all members by client id: each broker knows them by a connection of its own."""
    found: dict[str, Known] = {}
    for broker, known in connections.items():
        for connection in known.connection_set if known else ():
            found.setdefault(connection.client_id, Known(connection, [])).brokers.append(broker)
    return dict(sorted(found.items()))


def member(known: Known, said: Said) -> Member:
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
