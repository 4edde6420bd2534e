"""The theme `groups` of the operator's client: list and describe consumer groups on all brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from pyromq.admin.groups.activity import is_unclear, rows_by_group, summary_of
from pyromq.admin.groups.advice import GroupAdvice, advise
from pyromq.admin.groups.description import GroupDescription, GroupListing, GroupSummary, TopicCount
from pyromq.admin.groups.offset_reset import OffsetResets
from pyromq.admin.groups.problems import (
    broker_findings,
    dead_letter_findings,
    member_findings,
    queue_findings,
    subscription_findings,
)
from pyromq.admin.groups.queue_progress import GroupObservation, GroupQueues
from pyromq.admin.groups.snapshot import (
    GroupSnapshot,
    describe_member,
    differing_opinions,
    take_snapshot,
    topic_subscriptions,
)
from pyromq.admin.masters import Masters, gather_limited
from pyromq.errors import GroupNotFound
from pyromq.protocol.bodies import ConsumerConnection, OffsetWrapper, SubscriptionGroupConfig
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic

WATCH = 1.0
"""Seconds between the two snapshots that show whether offsets move."""
ADVICE_WATCH = 5.0
"""Seconds for which arrivals are watched before advice is given."""
SLOW = 10.0
"""Seconds after which a message counts as slow."""

_SUMMARIES_AT_A_TIME = 8  # each may cover hundreds of queues, which a broker reads one by one

GroupOffsets = dict[MessageQueue, OffsetWrapper]


class Groups(OffsetResets):
    """Lists, describes and changes consumer groups.

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     billing = await admin.groups.describe("billing")
    ...     print(billing.lag, billing.behind, *billing.findings, sep="\\n")
    """

    # --- all groups --------------------------------------------------------------------------------------------------

    async def names(self) -> Sequence[str]:
        """Return the names of all groups for which a broker has settings or offsets."""
        known = await (await Masters.find(self._api)).ask(self._groups_of)
        return sorted(set().union(*known.values()))

    async def list(self) -> GroupListing:
        """Return all groups for which a broker has settings, offsets or members."""
        masters = await Masters.find(self._api)
        activity = await masters.ask(self._calls.group_activity)
        rows = rows_by_group(activity.values())
        unclear = {name for name in rows if is_unclear(rows[name])}
        if None in activity.values():  # Apache's brokers answer for one group at a time
            unclear |= set().union(*(await masters.ask(self._groups_of)).values())
        asked = await gather_limited(unclear, lambda name: self._summary(masters, name), _SUMMARIES_AT_A_TIME)
        groups = [summary_of(name, rows[name]) for name in rows.keys() - unclear]
        listed = sorted([*asked, *groups], key=lambda summary: summary.group)
        return GroupListing(groups=tuple(listed), silent_brokers=masters.silent)

    async def _groups_of(self, address: str) -> set[str]:
        settings, topics = await asyncio.gather(
            self._calls.group_settings(address), self._calls.topics_by_group(address)
        )
        return settings.keys() | topics.keys()

    async def _summary(self, masters: Masters, group: str) -> GroupSummary:
        answers = (await masters.ask(lambda address: self._members_and_offsets(address, group))).values()
        online = [connection for connection, _ in answers if connection is not None]
        rows = [row for _, offsets in answers for row in offsets.items()]
        topics = set[str]().union(*(connection.subscription_table for connection in online))
        if online:  # a broker without members of the group also reports topics that it no longer consumes
            rows = [(queue, row) for queue, row in rows if queue.topic in topics]
        topics |= {queue.topic for queue, _ in rows}
        return GroupSummary(
            group=group,
            members=len({member.client_id for connection in online for member in connection.connection_set}),
            model=online[0].message_model if online else None,
            topics=tuple(sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX))),
            lag=sum(max(offsets.broker_offset - offsets.consumer_offset, 0) for _, offsets in rows),
        )

    async def _members_and_offsets(self, address: str, group: str) -> tuple[ConsumerConnection | None, GroupOffsets]:
        """Return a group's members and offsets at a broker, including topics without a committed offset."""
        stats = self._calls.consume_stats(address, group)
        connection, known = await asyncio.gather(self._calls.group_connections(address, group), stats)
        counted = {queue.topic for queue in known.offset_table}
        missing = connection.subscription_table.keys() - counted if connection else ()
        more = await gather_limited(missing, lambda topic: self._calls.consume_stats(address, group, topic))
        return connection, dict(item for stats in (known, *more) for item in stats.offset_table.items())

    # --- one group ---------------------------------------------------------------------------------------------------

    async def describe(self, group: str, *, watch: float = WATCH, slow: float = SLOW) -> GroupDescription:
        """Return everything that is known about a group; raises GroupNotFound if no broker knows it.

        If messages wait, take two snapshots, `watch` seconds apart, to see whether offsets move; 0 takes only one.
        A message that takes longer than `slow` seconds is reported.
        """
        masters = await Masters.find(self._api)
        before, snapshot = None, await take_snapshot(self._calls, masters, group)
        if not snapshot.exists and not await self._has_offsets(masters, group):
            raise GroupNotFound(_not_found_text(snapshot))
        if watch > 0 and snapshot.has_waiting_messages:
            await self._clock.sleep(watch)
            before, snapshot = snapshot, await take_snapshot(self._calls, masters, group)
        now = self._clock.now()
        observation = GroupObservation(snapshot=snapshot, before=before, seconds=watch, slow=slow, now=now)
        return await self._description(masters, observation)

    async def advise(self, group: str, *, watch: float = ADVICE_WATCH, peak: float | None = None) -> GroupAdvice:
        """Return how many threads and members a group needs, and whether pulling or handling limits it.

        The members are asked for what they measured, and the arrivals are watched for some seconds. `peak` is the rate
        in messages a second that the group shall handle; without it, the highest that is known. Raises GroupNotFound,
        and ClientError if it has no members.
        """
        masters = await Masters.find(self._api)
        before = await take_snapshot(self._calls, masters, group)
        if not before.exists and not await self._has_offsets(masters, group):
            raise GroupNotFound(_not_found_text(before))
        started = self._clock.monotonic()
        if watch > 0 and before.members:
            await self._clock.sleep(watch)
        after = await take_snapshot(self._calls, masters, group)
        return advise(before, after, self._clock.monotonic() - started, peak)

    async def stacks(self, group: str, client_id: str) -> str:
        """Return the stacks of a member's threads, as it reports them; raises GroupNotFound if no broker knows it."""
        masters = await Masters.find(self._api)
        known = await masters.ask(lambda address: self._calls.group_connections(address, group))
        for broker, connection in known.items():
            if connection and any(member.client_id == client_id for member in connection.connection_set):
                info = await self._calls.running_info(masters.addresses[broker], group, client_id, stack=True)
                return info.jstack or ""
        raise GroupNotFound(f"no broker knows a member {client_id!r} of the group {group!r}")

    async def _has_offsets(self, masters: Masters, group: str) -> bool:
        """Return True if a group has any offsets, including those of deleted topics."""
        tables = await masters.ask(self._calls.topics_by_group)
        return any(group in table for table in tables.values())

    async def _description(self, masters: Masters, observation: GroupObservation) -> GroupDescription:
        snapshot, finder = observation.snapshot, GroupQueues(self._api, masters.addresses)
        positions = await finder.positions(snapshot)
        oldest = await finder.oldest_messages(positions)
        queues = tuple(observation.progress(position, oldest.get(position)) for position in positions)
        members = tuple(describe_member(known, snapshot.reports[name]) for name, known in snapshot.members.items())
        opinions, connection = differing_opinions(members), snapshot.connection
        dead_letters = await self._count(masters, dlq_topic(snapshot.group))
        retries = await self._count(masters, retry_topic(snapshot.group))
        return GroupDescription(
            group=snapshot.group,
            model=connection.message_model if connection else None,
            consume_type=connection.consume_type if connection else None,
            start_from=connection.consume_from_where if connection else None,
            settings=_settings(snapshot),
            members=members,
            subscriptions=topic_subscriptions(snapshot.subscriptions.values()),
            opinions=opinions,
            queues=queues,
            rate=sum(answer.stats.consume_tps for answer in snapshot.answers.values()),
            retries=retries,
            dead_letters=dead_letters,
            findings=(  # the worst first
                *broker_findings(snapshot),
                *subscription_findings(opinions, finder.without_route),
                *queue_findings(queues),
                *member_findings(members, queues),
                *dead_letter_findings(snapshot.group, dead_letters),
            ),
            silent_brokers=snapshot.silent,
        )

    async def _count(self, masters: Masters, topic: str) -> TopicCount | None:
        tables = await masters.ask(lambda address: self._calls.topic_ends(address, topic))
        ends = [row for table in tables.values() if table is not None for row in table.values()]
        return TopicCount(topic=topic, messages=sum(row.max_offset - row.min_offset for row in ends)) if ends else None


def _settings(snapshot: GroupSnapshot) -> Mapping[str, SubscriptionGroupConfig]:
    group = snapshot.group
    return {broker: answer.settings[group] for broker, answer in snapshot.answers.items() if group in answer.settings}


def _not_found_text(snapshot: GroupSnapshot) -> str:
    known = {name for answer in snapshot.answers.values() for name in answer.settings}
    nearest = get_close_matches(snapshot.group, known, n=1)
    silent = f"; {', '.join(snapshot.silent)} did not answer" if snapshot.silent else ""
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"no broker knows the group {snapshot.group!r}{silent}{hint}"
