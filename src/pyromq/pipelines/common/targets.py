"""Topics that a pipeline sends to: they exist before its first message.

A topic that gets its queues while messages arrive keeps no order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pyromq.blocking import Portal
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import read_queues
from pyromq.errors import NoRoute
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TBW102

_ROUTE_PATIENCE = 30.0
_GLANCE = 0.1


def ensure_topic(namesrv: str, topic: str) -> None:
    """Create a topic, if it does not exist, where brokers create topics themselves; elsewhere raise NoRoute."""
    try:
        brokers_of(cluster(namesrv)).queues([topic])
    except NoRoute as missing:
        if not Portal.shared().call(_create_like_template(namesrv, topic)):
            raise missing from None


async def _create_like_template(namesrv: str, topic: str) -> bool:
    async with await BrokerApi.connect(namesrv, credentials=environment_credentials()) as api:
        try:
            template = await api.route(TBW102)
        except NoRoute:
            return False
        counts = {data.broker_name: data.write_queue_nums for data in template.queue_datas}
        addresses = masters(template)
        await create_topic(api, topic, {addresses[name]: count for name, count in counts.items() if name in addresses})
    return True


def masters(route: TopicRouteData) -> dict[str, str]:
    """Return the addresses of a topic's masters by broker name; brokers without a master are left out."""
    found = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
    return {name: address for name, address in sorted(found.items()) if address}


async def create_topic(api: BrokerApi, topic: str, counts: Mapping[str, int]) -> list[MessageQueue]:
    """Create a topic with so many queues at each address; return them once name servers know all of them."""
    for address, count in counts.items():
        await api.create_topic(address, topic, count)
    total = sum(counts.values())
    try:
        return await asyncio.wait_for(_until_known(api, topic, total), _ROUTE_PATIENCE)
    except TimeoutError:
        raise NoRoute(f"name servers do not show all {total} queues of {topic!r} yet: run this again") from None


async def _until_known(api: BrokerApi, topic: str, total: int) -> list[MessageQueue]:
    """Wait until name servers know all queues; a key must not change its queue when more of them appear."""
    while True:
        try:
            found = read_queues(topic, await api.route(topic))
        except NoRoute:
            found = []
        if len(found) == total:
            return sorted(found)
        await asyncio.sleep(_GLANCE)
