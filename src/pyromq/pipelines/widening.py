"""What has to be true at the brokers before a backlog is widened, and after it: topics, members and offsets."""

from __future__ import annotations

import asyncio

from pyromq.admin.groups.admin_calls import GroupAdminCalls
from pyromq.blocking import Portal
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import MASTER_ID
from pyromq.client.net.routes import read_queues
from pyromq.errors import ConfigError, NoRoute
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets

_ROUTE_PATIENCE = 30.0
_GLANCE = 0.1


def prepare(namesrv: str, topic: str, to: str, queues: int, group: str) -> list[MessageQueue]:
    """See to it that the wide topic is there and that nobody else drains the old one; return the wide queues."""
    brokers_of(cluster(namesrv)).queues([topic])  # raises with what to do where there is none
    return Portal.shared().call(_prepare(namesrv, topic, to, queues, group))


async def _prepare(namesrv: str, topic: str, to: str, queues: int, group: str) -> list[MessageQueue]:
    async with await BrokerApi.connect(namesrv, credentials=environment_credentials()) as api:
        masters = await _masters(api, topic)
        await _check_members(api, masters, topic, group)
        return await _find_or_make(api, masters, to, queues)


async def _masters(api: BrokerApi, topic: str) -> dict[str, str]:
    route = await api.route(topic)
    masters = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
    found = {name: address for name, address in sorted(masters.items()) if address}
    if len(found) < len(masters):
        raise NoRoute(f"topic {topic!r} has queues on {', '.join(sorted(masters.keys() - found.keys()))}, now down")
    return found


async def _check_members(api: BrokerApi, masters: dict[str, str], topic: str, group: str) -> None:
    """Raise ConfigError if the group still reads the old topic: it would get messages twice, and out of order."""
    for address in masters.values():
        members = await GroupAdminCalls(api.remoting).connections(address, group)
        if members is not None and topic in members.subscription_table:
            raise ConfigError(
                f"{len(members.connection_set)} members of {group!r} read {topic!r}: stop them, or have them subscribe"
                " to the wide topic instead; then run this again"
            )


async def _find_or_make(api: BrokerApi, masters: dict[str, str], to: str, queues: int) -> list[MessageQueue]:
    try:
        found = read_queues(to, await api.route(to))
    except NoRoute:
        return await _make(api, masters, to, queues)
    if len(found) != queues:
        raise ConfigError(f"the topic {to!r} is there with {len(found)} queues, not {queues}: choose another --to")
    return sorted(found)


async def _make(api: BrokerApi, masters: dict[str, str], to: str, queues: int) -> list[MessageQueue]:
    share, extra = divmod(queues, len(masters))
    if extra:
        raise ConfigError(f"{queues} queues cannot be shared out evenly to {len(masters)} brokers: choose --queues so")
    for address in masters.values():
        await api.create_topic(address, to, share)
    try:
        return await asyncio.wait_for(_until_known(api, to, queues), _ROUTE_PATIENCE)
    except TimeoutError:
        raise NoRoute(f"name servers do not show all {queues} queues of {to!r} yet: run this again") from None


async def _until_known(api: BrokerApi, to: str, queues: int) -> list[MessageQueue]:
    """Wait until name servers know all queues: a key must not go to another queue when more of them show up."""
    while True:
        try:
            found = read_queues(to, await api.route(to))
        except NoRoute:
            found = []
        if len(found) == queues:
            return sorted(found)
        await asyncio.sleep(_GLANCE)


def welcome(namesrv: str, group: str, begin: Offsets) -> None:
    """Have a group begin with the first copy in each wide queue, unless it has begun already."""
    brokers = brokers_of(cluster(namesrv))
    known = brokers.committed_offsets(begin, group)
    brokers.commit({queue: offset for queue, offset in begin.items() if queue not in known}, group)


def backlog(namesrv: str, topic: str, group: str) -> int:
    """Return how many messages of a topic a group has not consumed."""
    brokers = brokers_of(cluster(namesrv))
    queues = brokers.queues([topic])
    ends, begins = brokers.max_offsets(queues), brokers.min_offsets(queues)
    committed = brokers.committed_offsets(queues, group)
    return sum(max(0, ends[queue] - max(begins[queue], committed.get(queue, 0))) for queue in queues)
