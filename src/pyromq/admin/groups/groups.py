"""Consumer groups, on all brokers: which there are, how far they are, and what holds them up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from difflib import get_close_matches

from pyromq.admin.groups import group_findings as findings
from pyromq.admin.groups.description import GroupDescription, GroupListing, GroupSummary, TopicCount
from pyromq.admin.groups.offset_reset import OffsetResets
from pyromq.admin.groups.queue_progress import GroupObservation, GroupQueues
from pyromq.admin.groups.snapshot import GroupSnapshot, member, opinions, take_snapshot, topic_subscriptions
from pyromq.admin.masters import Masters, gather_limited
from pyromq.errors import GroupNotFound
from pyromq.protocol.bodies import ConsumerConnection, OffsetWrapper, SubscriptionGroupConfig
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic

WATCH = 1.0
"""Seconds for which it is watched whether offsets move, where messages wait."""
SLOW = 10.0
"""Seconds from which on a message takes long."""

_SUMMARIES_AT_A_TIME = 8  # each may be about hundreds of queues, which a broker reads one by one

GroupOffsets = dict[MessageQueue, OffsetWrapper]


class Groups(OffsetResets):
    """Looks at consumer groups, and changes them.

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     billing = await admin.groups.describe("billing")
    ...     print(billing.lag, billing.behind, *billing.findings, sep="\\n")
    """

    # --- all of them -------------------------------------------------------------------------------------------------

    async def list(self) -> GroupListing:
        """Return all groups: those that brokers have settings of, offsets of, or members of."""
        masters = await Masters.find(self._api)
        known = await masters.ask(self._groups_of)
        names = sorted(set().union(*known.values()))
        groups = await gather_limited(names, lambda name: self._summary(masters, name), _SUMMARIES_AT_A_TIME)
        return GroupListing(groups=tuple(groups), silent_brokers=masters.silent)

    async def _groups_of(self, address: str) -> set[str]:
        settings, topics = await asyncio.gather(self._calls.settings(address), self._calls.topics_by_group(address))
        return settings.keys() | topics.keys()

    async def _summary(self, masters: Masters, group: str) -> GroupSummary:
        answers = (await masters.ask(lambda address: self._standing(address, group))).values()
        online = [connection for connection, _ in answers if connection is not None]
        rows = [row for _, offsets in answers for row in offsets.items()]
        topics = set[str]().union(*(connection.subscription_table for connection in online))
        if online:  # a broker that hears of no member also tells of topics that the group has left
            rows = [(queue, row) for queue, row in rows if queue.topic in topics]
        topics |= {queue.topic for queue, _ in rows}
        return GroupSummary(
            group=group,
            members=len({member.client_id for connection in online for member in connection.connection_set}),
            model=online[0].message_model if online else None,
            topics=tuple(sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX))),
            lag=sum(max(offsets.broker_offset - offsets.consumer_offset, 0) for _, offsets in rows),
        )

    async def _standing(self, address: str, group: str) -> tuple[ConsumerConnection | None, GroupOffsets]:
        """Return a group's members and offsets at a broker, also of topics of which it has committed nothing."""
        stats = self._calls.consume_stats(address, group)
        connection, known = await asyncio.gather(self._calls.connections(address, group), stats)
        counted = {queue.topic for queue in known.offset_table}
        missing = connection.subscription_table.keys() - counted if connection else ()
        more = await gather_limited(missing, lambda topic: self._calls.consume_stats(address, group, topic))
        return connection, dict(item for stats in (known, *more) for item in stats.offset_table.items())

    # --- one of them -------------------------------------------------------------------------------------------------

    async def describe(self, group: str, *, watch: float = WATCH, slow: float = SLOW) -> GroupDescription:
        """Return all that is known of a group; raises GroupNotFound if no broker knows it.

        Where messages wait, it looks twice, `watch` seconds apart, to see whether offsets move; 0 looks once. A message
        that takes longer than `slow` seconds is told.
        """
        masters = await Masters.find(self._api)
        before, sight = None, await take_snapshot(self._calls, masters, group)
        if not sight.exists and not await self._has_offsets(masters, group):
            raise GroupNotFound(_nobody_knows(sight))
        if watch > 0 and sight.waits:
            await self._clock.sleep(watch)
            before, sight = sight, await take_snapshot(self._calls, masters, group)
        now = self._clock.now()
        return await self._description(
            masters, GroupObservation(sight=sight, before=before, seconds=watch, slow=slow, now=now)
        )

    async def _has_offsets(self, masters: Masters, group: str) -> bool:
        """Tell whether a group has offsets at all: those of topics that are gone count too."""
        tables = await masters.ask(self._calls.topics_by_group)
        return any(group in table for table in tables.values())

    async def _description(self, masters: Masters, watch: GroupObservation) -> GroupDescription:
        sight, finder = watch.sight, GroupQueues(self._api, masters.addresses)
        places = await finder.find(sight)
        first = await finder.first_messages(places)
        queues = tuple(watch.progress(place, first.get(place)) for place in places)
        members = tuple(member(known, sight.said[client_id]) for client_id, known in sight.known.items())
        differing, connection = opinions(members), sight.connection
        dead_letters = await self._count(masters, dlq_topic(sight.group))
        retries = await self._count(masters, retry_topic(sight.group))
        return GroupDescription(
            group=sight.group,
            model=connection.message_model if connection else None,
            consume_type=connection.consume_type if connection else None,
            start_from=connection.consume_from_where if connection else None,
            settings=_settings(sight),
            members=members,
            subscriptions=topic_subscriptions(sight.subscriptions.values()),
            opinions=differing,
            queues=queues,
            rate=sum(view.stats.consume_tps for view in sight.views.values()),
            retries=retries,
            dead_letters=dead_letters,
            findings=(
                *findings.of_brokers(sight),
                *findings.of_subscriptions(differing, finder.without_route),
                *findings.of_queues(queues),
                *findings.of_members(members, queues),
                *findings.of_dead_letters(sight.group, dead_letters),
            ),
            silent_brokers=sight.silent,
        )

    async def _count(self, masters: Masters, topic: str) -> TopicCount | None:
        tables = await masters.ask(lambda address: self._calls.topic_ends(address, topic))
        ends = [row for table in tables.values() if table is not None for row in table.values()]
        return TopicCount(topic=topic, messages=sum(row.max_offset - row.min_offset for row in ends)) if ends else None


def _settings(sight: GroupSnapshot) -> Mapping[str, SubscriptionGroupConfig]:
    return {broker: view.groups[sight.group] for broker, view in sight.views.items() if sight.group in view.groups}


def _nobody_knows(sight: GroupSnapshot) -> str:
    known = {name for view in sight.views.values() for name in view.groups}
    nearest = get_close_matches(sight.group, known, n=1)
    silent = f"; {', '.join(sight.silent)} did not answer" if sight.silent else ""
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"no broker knows the group {sight.group!r}{silent}{hint}"
