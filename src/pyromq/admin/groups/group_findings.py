"""What an operator should look at in a group, in plain words, what is worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyromq.admin.groups.description import Member, Opinion, QueueProgress, TopicCount
from pyromq.admin.groups.snapshot import GroupSnapshot


def of_brokers(sight: GroupSnapshot) -> Iterator[str]:
    """Yield which brokers do not answer, and which let the group have nothing."""
    for broker, reason in sight.silent.items():
        yield f"{broker} does not answer: {reason}"
    for broker, view in sight.views.items():
        settings = view.groups.get(sight.group)
        if settings is not None and not settings.consume_enable:
            yield f"{broker} lets the group consume nothing: its consumeEnable is false"


def of_subscriptions(opinions: Iterable[Opinion], without_route: Iterable[str]) -> Iterator[str]:
    """Yield that members want different things, and topics that do not exist."""
    different = "; ".join(map(str, opinions))
    if different:
        yield f"its members subscribe differently, so that messages go astray: {different}"
    for topic in without_route:
        yield f"no broker has the topic {topic}, which it subscribes to"


def of_members(members: Iterable[Member], queues: Iterable[QueueProgress]) -> Iterator[str]:
    """Yield members that do not answer, that have nothing to do, and that a broker does not know."""
    brokers = {progress.queue.broker_name for progress in queues}
    for member in members:
        if member.silence is not None:
            yield f"member {member.client_id} does not tell what it does: {member.silence}"
        if member.is_idle:
            yield f"member {member.client_id} has no queue: there are more members than queues, or it is starting"
        for broker in sorted(brokers.difference(member.brokers)):
            yield f"{broker} does not know member {member.client_id}: its queues may be shared out wrongly"


def of_queues(queues: Iterable[QueueProgress]) -> Iterator[str]:
    """Yield queues that do not go on, and those whose offset lies behind their end."""
    for progress in queues:
        if progress.blocked is not None:
            yield f"{progress} with {progress.lag:,} waiting: {progress.blocked}"
        if progress.committed_offset > progress.end_offset:
            ahead = progress.committed_offset - progress.end_offset
            yield f"{progress} is committed {ahead:,} beyond its end, which the broker has lost"


def of_dead_letters(group: str, dead_letters: TopicCount | None) -> Iterator[str]:
    """Yield that there are dead letters."""
    if dead_letters is not None and dead_letters.messages:
        yield f"{dead_letters.messages:,} dead letters: see `pyromq dlq show {group}`"
