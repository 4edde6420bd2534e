"""Changes to topics: create them, and change their permissions and their order setting."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from msgspec.structs import replace

from pyromq.admin.masters import Masters
from pyromq.admin.topics.order_setting import OrderSetting
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.clock import Clock
from pyromq.errors import ClientError, NoRoute
from pyromq.protocol.bodies import TopicConfig
from pyromq.protocol.codes import PERM_READ, PERM_WRITE
from pyromq.protocol.names import MAX_QUEUES, check_topic, is_system_topic

logger = logging.getLogger(__name__)

DEFAULT_QUEUES: Final = 8
"""On each broker, as with mqadmin."""

_PERMS: Final = {"rw": PERM_READ | PERM_WRITE, "wr": PERM_READ | PERM_WRITE, "r": PERM_READ, "w": PERM_WRITE}
_NUMBERS: Final = {str(value): value for value in _PERMS.values()}


def parse_perm(perm: str | int) -> int:
    """Return permissions as a number: rw or 6, r or 4, w or 2; raises ClientError for anything else."""
    found = (_PERMS | _NUMBERS).get(str(perm).lower())
    if found is None:
        raise ClientError(f"permissions are rw (6), r (4) or w (2), not {perm!r}")
    return found


def check_queues(count: int, what: str = "queues") -> int:
    """Return a number of queues; raises ClientError unless a topic can have so many."""
    if not 1 <= count <= MAX_QUEUES:
        raise ClientError(f"a topic has 1 to {MAX_QUEUES} {what} on each broker, not {count}")
    return count


class TopicChanges:
    """Creates and changes topics; nothing is changed unless all brokers concerned answer."""

    def __init__(self, api: BrokerApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._calls = AdminCalls(api.remoting)
        self._namesrv = NamesrvCalls(api)

    # --- create ------------------------------------------------------------------------------------------------------

    async def create(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        brokers: Sequence[str] = (),
        read_queues: int = DEFAULT_QUEUES,
        write_queues: int = DEFAULT_QUEUES,
        perm: str | int = "rw",
        order: bool = False,
    ) -> dict[str, TopicConfig]:
        """Create a topic on all brokers of a cluster, or on some brokers; return its settings by broker.

        Without both, it is the one cluster that there is. The numbers of queues are those on each broker. Raises
        ClientError if one of the brokers already has the topic.
        """
        created = await self.plan_create(
            topic,
            cluster=cluster,
            brokers=brokers,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
        )
        masters = await Masters.find(self._api)
        await self._update(masters, created)
        if order:
            await self._set_order(masters, topic, created, order=True)
        return created

    async def plan_create(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        brokers: Sequence[str] = (),
        read_queues: int = DEFAULT_QUEUES,
        write_queues: int = DEFAULT_QUEUES,
        perm: str | int = "rw",
        order: bool = False,
    ) -> dict[str, TopicConfig]:
        """Return the settings that `create` would make, by broker, and change nothing."""
        check_topic(topic)
        settings = TopicConfig(
            topic_name=topic,
            read_queue_nums=check_queues(read_queues, "read queues"),
            write_queue_nums=check_queues(write_queues, "write queues"),
            perm=parse_perm(perm),
            order=order,
        )
        names = await self._places(cluster, brokers)
        if is_system_topic(topic) or topic in await self._own_names():
            raise ClientError(f"{topic!r} is one of RocketMQ's own topics")
        tables = await (await self._masters(names)).ask_all(self._calls.topic_configs)
        if existing := [name for name, table in tables.items() if topic in table]:
            raise ClientError(
                f"the topic {topic!r} already exists on {', '.join(existing)}; change it with `topic set` or"
                " `topic resize`"
            )
        return dict.fromkeys(names, settings)

    async def _places(self, cluster: str | None, brokers: Sequence[str]) -> list[str]:
        """Return the names of the brokers that are meant."""
        info = await self._api.cluster_info()
        if brokers:
            if cluster is not None:
                raise ClientError("either a cluster or brokers, not both")
            for name in brokers:
                if name not in info.broker_addr_table:
                    raise ClientError(_unknown("broker", name, info.broker_addr_table))
            return sorted(set(brokers))
        clusters = info.cluster_addr_table
        if cluster is None:
            if len(clusters) != 1:
                found = f"there are {', '.join(sorted(clusters))}" if clusters else "no broker is registered"
                raise ClientError(f"which cluster? {found}")
            cluster = next(iter(clusters))
        if cluster not in clusters:
            raise ClientError(_unknown("cluster", cluster, clusters))
        return sorted(clusters[cluster])

    async def _own_names(self) -> frozenset[str]:
        """Return the names of clusters and brokers: each has a topic of its own name."""
        info = await self._api.cluster_info()
        return frozenset((*info.cluster_addr_table, *info.broker_addr_table))

    # --- set ---------------------------------------------------------------------------------------------------------

    async def set(
        self,
        topic: str,
        *,
        perm: str | int | None = None,
        order: bool | None = None,
        broker: str | None = None,
    ) -> dict[str, TopicConfig]:
        """Change who may use a topic, and whether it is ordered, on all of its brokers or one; return its settings.

        The order setting is kept by all name servers; brokers take it over at once.
        """
        changed = await self.plan_set(topic, perm=perm, order=order, broker=broker)
        masters = await Masters.find(self._api)
        if perm is not None:
            await self._update(masters, changed)
        if order is not None:
            await self._set_order(masters, topic, changed, order=order)
        return changed

    async def plan_set(
        self,
        topic: str,
        *,
        perm: str | int | None = None,
        order: bool | None = None,
        broker: str | None = None,
    ) -> dict[str, TopicConfig]:
        """Return the settings that `set` would make, by broker, and change nothing."""
        if perm is None and order is None:
            raise ClientError("nothing to change: neither permissions nor the order setting were given")
        settings = await self._settings_of(topic)
        if broker is not None:
            if broker not in settings:
                raise ClientError(f"{broker!r} does not have the topic {topic!r}; {', '.join(settings)} do")
            settings = {broker: settings[broker]}
        changes: dict[str, bool | int] = {} if order is None else {"order": order}
        if perm is not None:
            changes["perm"] = parse_perm(perm)
        return {name: replace(config, **changes) for name, config in settings.items()}

    # --- common ------------------------------------------------------------------------------------------------------

    async def _masters(self, names: Sequence[str]) -> Masters:
        """Return the masters of these brokers."""
        brokers = await Masters.find(self._api)
        return Masters({name: brokers.addresses.get(name) for name in names})

    async def _settings_of(self, topic: str) -> dict[str, TopicConfig]:
        """Return the settings of a topic that an operator may change, by broker; raises NoRoute if none has it."""
        if is_system_topic(topic) or topic in await self._own_names():
            raise ClientError(f"{topic!r} is one of RocketMQ's own topics")
        tables = await (await Masters.find(self._api)).ask_all(self._calls.topic_configs)
        found = {name: table[topic] for name, table in tables.items() if topic in table}
        if not found:
            nearest = get_close_matches(topic, {name for table in tables.values() for name in table}, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise NoRoute(f"no broker has the topic {topic!r}{hint}")
        return found

    async def _update(self, masters: Masters, settings: Mapping[str, TopicConfig]) -> None:
        for name, config in settings.items():
            await self._calls.update_topic(masters.addresses[name], config)
            logger.info(
                "topic set topic=%s broker=%s read=%d write=%d perm=%d",
                *(config.topic_name, name, config.read_queue_nums, config.write_queue_nums, config.perm),
            )

    async def _set_order(
        self, masters: Masters, topic: str, settings: Mapping[str, TopicConfig], *, order: bool
    ) -> None:
        """Change the order setting of these brokers; they learn of it when they register, which an update makes do."""
        queues = {name: config.write_queue_nums if order else None for name, config in settings.items()}
        text = await OrderSetting(self._namesrv, topic).change(queues)
        logger.info("order set topic=%s order=%s", topic, text)
        await self._update(masters, settings)


def _unknown(what: str, name: str, known: Mapping[str, object]) -> str:
    nearest = get_close_matches(name, known, n=1)
    return f"there is no {what} {name!r}" + (
        f"; did you mean {nearest[0]}?" if nearest else f"; there are {', '.join(sorted(known))}"
    )
