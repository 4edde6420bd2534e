"""The target of a benchmark: the addresses of a topic's brokers and the number of queues."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
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


def local_pids(addresses: Sequence[tuple[str, int]]) -> list[int]:
    """Return the processes behind these addresses if all of them are on this machine and can be seen, else nothing."""
    listening = _listening_sockets()
    wanted = {listening.get(port) for host, port in addresses if _is_loopback(host)}
    if not addresses or None in wanted or len(wanted) < len({port for _, port in addresses}):
        return []
    return sorted({pid for pid, sockets in _sockets_of_processes() if sockets & wanted})


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening_sockets() -> dict[int, str]:
    """Return, by port, the number of the socket that listens there."""
    found = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if fields[3] == "0A":
                found[int(fields[1].rpartition(":")[2], 16)] = f"socket:[{fields[9]}]"
    return found


def _sockets_of_processes() -> list[tuple[int, set[str | None]]]:
    found: list[tuple[int, set[str | None]]] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = {str(link.readlink()) for link in (process / "fd").iterdir()}
        except OSError:  # it has ended, or belongs to somebody else
            continue
        found.append((int(process.name), {*links}))
    return found
