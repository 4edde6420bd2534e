"""Delete a topic everywhere: brokers, their slaves and name servers, with all that belongs to it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.masters import Masters
from pyromq.admin.topics.changes import TopicChanges
from pyromq.admin.topics.consumers import find_consumers
from pyromq.admin.topics.description import TopicConsumer
from pyromq.admin.topics.order_setting import OrderSetting
from pyromq.admin.topics.queue_ends import find_ends
from pyromq.errors import BrokerError, NoRoute, PyroMQError
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.names import retry_topic

logger = logging.getLogger(__name__)

_PATIENCE: Final = 10.0
"""Seconds for a slave to follow its master."""
_PAUSE: Final = 0.1


class TopicDeletion(Struct, frozen=True, kw_only=True):
    """What goes with a topic."""

    topic: str
    brokers: Mapping[str, tuple[str, ...]]
    """The addresses that have it, the master's first, by broker."""
    queues: int
    messages: int
    groups: tuple[TopicConsumer, ...]
    """The groups that lose their offsets in it."""
    retry_topics: tuple[str, ...]
    """The retry topics of groups that consume nothing else and have no members."""
    order: str | None
    """The order setting."""
    name_servers: tuple[str, ...]
    silent_slaves: Mapping[str, str] = {}
    """Slaves that still have it, by address, and why; they delete it when they follow their master again."""


class TopicDeletions(TopicChanges):
    """Deletes topics."""

    async def plan_delete(self, topic: str) -> TopicDeletion:
        """Return what goes with a topic, and change nothing; raises NoRoute if nobody has it."""
        routed = topic in await self._api.topic_list()
        try:
            settings = await self._settings_of(topic)
        except NoRoute:
            if not routed:
                raise
            settings = {}  # a name server of Apache's keeps the route of a topic that all brokers have lost
        masters = await self._masters([*settings])
        ends = await find_ends(self._api, masters, topic, settings)
        groups = await find_consumers(self._calls, masters, topic)
        masters.check_all_answered()
        return TopicDeletion(
            topic=topic,
            brokers=await self._addresses([*settings]),
            queues=sum(max(it.read_queue_nums, it.write_queue_nums) for it in settings.values()),
            messages=sum(row.max_offset - row.min_offset for row in ends.values()),
            groups=groups,
            retry_topics=tuple(await self._retry_topics(topic, groups)),
            order=await OrderSetting(self._namesrv, topic).get(),
            name_servers=await self._namesrv.addresses(),
        )

    async def delete(self, topic: str) -> TopicDeletion:
        """Delete a topic from all brokers and name servers, with offsets and settings; return what went.

        Groups stay, and so do their dead letters. The log keeps the messages until they expire, and nobody can read
        them. If it fails half-way, the same call goes on.
        """
        plan = await self.plan_delete(topic)
        names = (topic, *plan.retry_topics)
        silent: dict[str, str] = {}
        for broker, (master, *slaves) in plan.brokers.items():
            for name in names:
                await self._calls.delete_topic(master, name)
                await self._reset_offsets(master, name)
            logger.info("topic deleted topic=%s broker=%s messages=%d", topic, broker, plan.messages)
            for slave in slaves:
                silent |= await self._delete_at_slave(slave, names)
        for name in names:
            await self._namesrv.delete_topic(name)
        await OrderSetting(self._namesrv, topic).remove()
        return replace(plan, silent_slaves=silent)

    async def _reset_offsets(self, address: str, topic: str) -> None:
        """Move groups back to 0 in a deleted topic: Apache's brokers keep offsets, and a new topic would lose messages.

        Our brokers have none left.
        """
        for key, offsets in (await self._calls.committed_offsets(address)).items():
            of, _, group = key.partition("@")
            for queue_id, offset in offsets.items() if of == topic else ():
                if offset > 0:
                    await self._api.commit_offset(address, group, topic, queue_id, 0, reset=True)

    async def _addresses(self, names: list[str]) -> dict[str, tuple[str, ...]]:
        """Return the addresses of brokers and their slaves."""
        info = (await self._api.cluster_info()).broker_addr_table
        found = {name: sorted((int(number), at) for number, at in info[name].broker_addrs.items()) for name in names}
        return {name: tuple(at for number, at in places if number >= MASTER_ID) for name, places in found.items()}

    async def _retry_topics(self, topic: str, groups: tuple[TopicConsumer, ...]) -> Iterator[str]:
        """Return the retry topics in which nothing but retries of this topic can be."""
        masters = await Masters.find(self._api)
        tables = (await masters.ask_all(self._calls.topics_by_group)).values()
        known = {name for table in (await masters.ask_all(self._calls.topic_configs)).values() for name in table}

        def consumes_more(group: str) -> bool:
            topics = set[str]().union(*(table.get(group, ()) for table in tables))
            return bool(topics - {topic, retry_topic(group)})

        idle = [it.group for it in groups if not it.members and not consumes_more(it.group)]
        return (name for name in map(retry_topic, idle) if name in known)

    async def _delete_at_slave(self, address: str, topics: tuple[str, ...]) -> dict[str, str]:
        """Delete topics at a slave, or wait until it follows its master; return it with the reason if it does not."""
        try:
            for topic in topics:
                await self._at_slave(address, topic)
            deadline = self._clock.monotonic() + _PATIENCE
            while topics[0] in await self._calls.topic_configs(address):
                if self._clock.monotonic() > deadline:
                    return {address: f"it has not followed its master for {_PATIENCE:.0f} s"}
                await self._clock.sleep(_PAUSE)
        except PyroMQError as error:
            return {address: str(error)}
        return {}

    async def _at_slave(self, address: str, topic: str) -> None:
        try:
            await self._calls.delete_topic(address, topic)
        except BrokerError as error:  # ours take nothing from anybody but their master
            logger.debug("slave follows its master topic=%s slave=%s: %s", topic, address, error)
