"""The overview: rates and lag of all brokers, topics and groups at one moment.

Our brokers answer for all of their topics and groups at once, so its cost depends on the number of brokers. Apache's
brokers are asked group by group, and do not say how busy a topic is. Lag is counted as `groups.describe` counts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.groups.activity import is_unclear, members_of, rows_by_group
from pyromq.admin.groups.groups import Groups
from pyromq.admin.masters import Masters, gather_limited
from pyromq.admin.topics.topics import topic_kind
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.clock import Clock
from pyromq.errors import GroupNotFound
from pyromq.protocol.bodies.activity import GroupActivities, GroupActivity, TopicActivity
from pyromq.protocol.bodies.clients import MessageModel
from pyromq.protocol.names import BUILT_IN_GROUPS, DLQ_PREFIX, RETRY_PREFIX, is_system_group

_GROUPS_AT_A_TIME = 8


class BrokerLoad(Struct, frozen=True, kw_only=True):
    """How busy one broker is."""

    name: str
    address: str
    version: str
    put_rate: float
    """Messages stored a second, in the last 10 seconds."""
    get_rate: float
    """Messages delivered a second."""
    puts: int
    """Messages stored since it started."""
    gets: int
    disk_percent: float | None
    """How full the disk of its log is; None if it does not say."""
    log_bytes: int


class TopicLoad(Struct, frozen=True, kw_only=True):
    """How busy one topic is, on all brokers together."""

    topic: str
    kind: str = "topic"
    """`topic`; `retry` or `dead letters` of a group; `system` for RocketMQ's own."""
    rate: float
    """Messages stored a second, in the last minute."""
    byte_rate: float | None
    """Bytes stored a second; None in the first overview, which has nothing to compare with."""
    puts: int
    """Messages stored since its brokers started."""
    put_bytes: int

    @property
    def is_built_in(self) -> bool:
        """True if it is RocketMQ's own, or holds retries or dead letters."""
        return self.kind != "topic"


class GroupLoad(Struct, frozen=True, kw_only=True):
    """How far one group is, on all brokers together."""

    group: str
    members: int
    model: MessageModel | None
    """None if no member is online."""
    lag: int
    """Messages that wait for it."""
    behind: float | None
    """Seconds since the first of them was stored, 0 if none waits; None if it could not be read."""
    rate: float
    """Messages delivered to it a second, in the last minute."""
    gets: int | None
    """Messages delivered since its brokers started; None if they do not say."""
    dead_letters: int = 0
    topics: tuple[str, ...] = ()
    """What it consumes; without its retries."""

    @property
    def is_built_in(self) -> bool:
        """True if it is one of RocketMQ's own."""
        return self.group in BUILT_IN_GROUPS or is_system_group(self.group)


class Overview(Struct, frozen=True, kw_only=True):
    """Brokers, topics and groups at one moment."""

    at: float
    """Seconds since the epoch, by the clock of this client."""
    taken: float = 0.0
    """The same in monotonic time, for `since`."""
    brokers: tuple[BrokerLoad, ...]
    topics: tuple[TopicLoad, ...]
    groups: tuple[GroupLoad, ...]
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why. What only they know is missing."""
    brokers_without_topics: tuple[str, ...] = ()
    """Brokers that do not say how busy topics are: Apache's."""
    clock_differences: Mapping[str, float] = {}
    """Seconds by which the clocks of brokers are ahead of ours; only of those that say."""

    @property
    def dead_letters(self) -> int:
        """The dead letters of all groups."""
        return sum(group.dead_letters for group in self.groups)

    def since(self, before: Overview) -> Overview:
        """Return this overview with the rates since an earlier one, as far as both counted the same."""
        seconds = self.taken - before.taken
        if seconds <= 0:
            return self
        brokers, topics, groups = (
            {one.name: one for one in before.brokers},
            {one.topic: one for one in before.topics},
            {one.group: one for one in before.groups},
        )
        return replace(
            self,
            brokers=tuple(_broker_since(one, brokers.get(one.name), seconds) for one in self.brokers),
            topics=tuple(_topic_since(one, topics.get(one.topic), seconds) for one in self.topics),
            groups=tuple(_group_since(one, groups.get(one.group), seconds) for one in self.groups),
        )


def _broker_since(now: BrokerLoad, before: BrokerLoad | None, seconds: float) -> BrokerLoad:
    if before is None or before.puts > now.puts or before.gets > now.gets:  # restarted meanwhile
        return now
    put_rate, get_rate = (now.puts - before.puts) / seconds, (now.gets - before.gets) / seconds
    return replace(now, put_rate=put_rate, get_rate=get_rate)


def _topic_since(now: TopicLoad, before: TopicLoad | None, seconds: float) -> TopicLoad:
    if before is None or before.puts > now.puts:
        return now
    rate, byte_rate = (now.puts - before.puts) / seconds, (now.put_bytes - before.put_bytes) / seconds
    return replace(now, rate=rate, byte_rate=max(byte_rate, 0.0))


def _group_since(now: GroupLoad, before: GroupLoad | None, seconds: float) -> GroupLoad:
    if before is None or before.gets is None or now.gets is None or before.gets > now.gets:
        return now
    return replace(now, rate=(now.gets - before.gets) / seconds)


# --- asking ----------------------------------------------------------------------------------------------------------


class BrokerActivity(NamedTuple):
    """What one broker answers; topics and groups are None if it is not one of ours."""

    runtime: Mapping[str, str]
    topics: Mapping[str, TopicActivity] | None
    groups: GroupActivities | None
    clock_difference: float | None


class Overviews:
    """Takes overviews of a cluster."""

    def __init__(self, api: BrokerApi, groups: Groups, clock: Clock) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)
        self._groups = groups
        self._clock = clock

    async def take(self) -> Overview:
        """Ask all brokers; those that do not answer are named in the result."""
        cluster = await self._api.cluster_info()
        masters = Masters.of(cluster)
        answers = await masters.ask(self._ask)
        now = self._clock.now()
        topics = _sum_topics(answer.topics or {} for answer in answers.values())
        dead = {name.removeprefix(DLQ_PREFIX): one.held or 0 for name, one in topics.items() if one.held is not None}
        rows = rows_by_group(answer.groups for answer in answers.values())
        groups = {name: _group_load(name, rows[name], now) for name in rows}
        groups |= await self._described(masters, answers, {name for name in rows if is_unclear(rows[name])})
        return Overview(
            at=now,
            taken=self._clock.monotonic(),
            brokers=tuple(_broker_load(name, masters.addresses[name], answers[name]) for name in answers),
            topics=tuple(_topic_load(name, topic_kind(name, cluster), topics[name]) for name in sorted(topics)),
            groups=tuple(replace(groups[name], dead_letters=dead.get(name, 0)) for name in sorted(groups)),
            silent_brokers=masters.silent,
            brokers_without_topics=tuple(name for name, answer in answers.items() if answer.topics is None),
            clock_differences={
                name: answer.clock_difference for name, answer in answers.items() if answer.clock_difference is not None
            },
        )

    async def _ask(self, address: str) -> BrokerActivity:
        runtime, topics = await asyncio.gather(self._calls.runtime_info(address), self._calls.topic_activity(address))
        asked = self._clock.now()
        groups = await self._calls.group_activity(address) if topics is not None else None
        difference = None if groups is None else _difference(groups.now_ms / 1000, asked, self._clock.now())
        return BrokerActivity(runtime, topics, groups, difference)

    async def _described(
        self, masters: Masters, answers: Mapping[str, BrokerActivity], unclear: set[str]
    ) -> dict[str, GroupLoad]:
        """Return the groups that have to be asked for one by one: Apache's brokers answer for one group at a time."""
        names = set(unclear)
        foreign = [name for name, answer in answers.items() if answer.groups is None]
        for broker in foreign:
            address = masters.addresses[broker]
            names |= {*await self._calls.group_settings(address), *await self._calls.topics_by_group(address)}
        loads = await gather_limited(sorted(names), self._describe, _GROUPS_AT_A_TIME)
        return {load.group: load for load in loads if load is not None}

    async def _describe(self, group: str) -> GroupLoad | None:
        try:
            found = await self._groups.describe(group, watch=0)
        except GroupNotFound:
            return None  # deleted meanwhile
        return GroupLoad(
            group=group,
            members=len(found.members),
            model=found.model,
            lag=found.lag,
            behind=found.behind if found.lag else 0.0,
            rate=found.rate,
            gets=None,
            dead_letters=found.dead_letters.messages if found.dead_letters else 0,
            topics=_own_topics(each.queue.topic for each in found.queues),
        )


def _difference(theirs: float, asked: float, answered: float) -> float:
    """Return how far a clock is ahead, 0 if its time lies between question and answer."""
    if theirs < asked:
        return theirs - asked
    return max(theirs - answered, 0.0)


def _sum_topics(tables: Iterable[Mapping[str, TopicActivity]]) -> dict[str, TopicActivity]:
    total: dict[str, TopicActivity] = {}
    for table in tables:
        for name, one in table.items():
            other = total.get(name)
            total[name] = one if other is None else _sum_of(one, other)
    return total


def _sum_of(one: TopicActivity, other: TopicActivity) -> TopicActivity:
    held = None if one.held is None and other.held is None else (one.held or 0) + (other.held or 0)
    return TopicActivity(one.puts + other.puts, one.put_bytes + other.put_bytes, one.rate + other.rate, held)


def _topic_load(name: str, kind: str, one: TopicActivity) -> TopicLoad:
    return TopicLoad(topic=name, kind=kind, rate=one.rate, byte_rate=None, puts=one.puts, put_bytes=one.put_bytes)


def _group_load(name: str, rows: list[GroupActivity], now: float) -> GroupLoad:
    online = [row for row in rows if row.members]
    oldest = [row.oldest_ms for row in rows if row.oldest_ms is not None]
    lag = sum(row.lag for row in rows)
    behind = 0.0 if not lag else max(now - min(oldest) / 1000, 0.0) if oldest else None
    return GroupLoad(
        group=name,
        members=members_of(rows),
        model=online[0].model if online else None,
        lag=lag,
        behind=behind,
        rate=sum(row.rate for row in rows),
        gets=sum(row.gets for row in rows),
        topics=_own_topics(topic for row in rows for topic in row.topics),
    )


def _own_topics(topics: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({topic for topic in topics if not topic.startswith(RETRY_PREFIX)}))


def _broker_load(name: str, address: str, answer: BrokerActivity) -> BrokerLoad:
    table = answer.runtime
    ratio = _number(table.get("commitLogDiskRatio"))
    return BrokerLoad(
        name=name,
        address=address,
        version=table.get("brokerVersionDesc", ""),
        put_rate=_first(table.get("putTps")),
        get_rate=_first(table.get("getTransferedTps")),
        puts=int(_number(table.get("msgPutTotalTodayNow")) or 0),
        gets=int(_number(table.get("msgGetTotalTodayNow")) or 0),
        disk_percent=None if ratio is None else round(ratio * 100, 1),
        log_bytes=int(
            (_number(table.get("commitLogMaxOffset")) or 0) - (_number(table.get("commitLogMinOffset")) or 0)
        ),
    )


def _first(texts: str | None) -> float:
    """Return the first of RocketMQ's three rates: that of the last 10 seconds."""
    return _number((texts or "").split(" ")[0]) or 0.0


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
