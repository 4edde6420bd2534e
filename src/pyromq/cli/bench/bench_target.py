"""The target of a benchmark: the addresses of a topic's brokers and the number of queues."""

from __future__ import annotations

from typing import NamedTuple

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.names import TBW102

DEFAULT_QUEUES = 4


class BenchTarget(NamedTuple):
    """The masters of a topic, and the number of queues that all of them have."""

    addresses: list[tuple[str, int]]
    queues: int


async def find_target(api: BrokerApi, topic: str, *, writing: bool) -> BenchTarget:
    """Return the brokers of a topic; for writing, those that will create it if it is new."""
    queues_of_new = 0
    try:
        route = await api.route(topic)
    except NoRoute:
        if not writing:
            raise
        route = await api.route(TBW102)
        queues_of_new = DEFAULT_QUEUES
    masters = {data.broker_name: data.broker_addrs.get(MASTER_ID) for data in route.broker_datas}
    addresses, queues = [], []
    for data in route.queue_datas:
        if address := masters.get(data.broker_name):
            host, _, port = address.rpartition(":")
            addresses.append((host.strip("[]"), int(port)))
            queues.append(queues_of_new or (data.write_queue_nums if writing else data.read_queue_nums))
    if not addresses:
        raise NoRoute(f"no master has the topic {topic!r} now")
    return BenchTarget(addresses, min(queues))


async def filled_ranges(api: BrokerApi, target: BenchTarget, topic: str) -> list[tuple[int, int, int]]:
    """Return (queue id, first offset, end) of the queues that hold messages on every broker."""
    ranges = []
    for queue_id in range(target.queues):
        names = [f"{host}:{port}" for host, port in target.addresses]
        low = max([await api.min_offset(name, topic, queue_id) for name in names])
        high = min([await api.max_offset(name, topic, queue_id) for name in names])
        if low < high:
            ranges.append((queue_id, low, high))
    return ranges
