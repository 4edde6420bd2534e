"""Our Spark source reads from a slave of Apache's broker, behind either name server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from interop.servers import HOST, Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit
from pyromq import Message, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies.codec import decode
from pyromq.protocol.bodies.routes import KVTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request as make_request
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.testing import eventually

TOPIC = "replicated"
COUNT = 600


class Pair:
    """A master and its slave with the same messages."""

    def __init__(self, namesrv: str, master: str, slave: str) -> None:
        self.namesrv = namesrv
        self.addresses = {"master": master, "slave": slave}

    async def given_out(self, role: str) -> int:
        """Return how many messages a broker has delivered to consumers today."""
        async with await BrokerApi.connect(self.namesrv) as api:
            answer = await api.call(self.addresses[role], make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
            return int(decode(KVTable, answer.body).table["msgGetTotalTodayNow"])

    async def fill(self) -> None:
        """Send messages and wait until the slave has them."""
        async with Producer("python-producers", self.namesrv) as producer:
            await producer.send_batch([Message(topic=TOPIC, body=b"%d" % number) for number in range(COUNT)])
        async with await BrokerApi.connect(self.namesrv) as api:
            await eventually(lambda: self._is_level(api), "the slave has all messages", seconds=300, pause=0.2)

    async def _is_level(self, api: BrokerApi) -> bool:
        ends = [
            [await api.max_offset(address, TOPIC, queue_id) for queue_id in range(4)]
            for address in self.addresses.values()
        ]
        return ends[0] == ends[1] and sum(ends[0]) == COUNT


@pytest.fixture(scope="module", params=["pyromq", "apache"])
def cluster(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    kind: Kind = request.param
    directory = tmp_path_factory.mktemp("pair")
    roles = {"master": {"brokerRole": "ASYNC_MASTER"}, "slave": {"brokerRole": "SLAVE", "brokerId": "1"}}
    ports = {role: free_port() for role in roles}
    with NameServer(kind, toolkit, directory / "namesrv") as namesrv:

        def start(role: str) -> Broker:
            own = roles[role] | {"haListenPort": str(ports[role] + 1), "brokerIP2": HOST}
            return Broker("apache", toolkit, directory / role, namesrv.address, own, port=ports[role])

        with start("master") as master, start("slave") as slave:
            pair = Pair(namesrv.address, master.address, slave.address)
            asyncio.run(pair.fill())
            yield pair


@pytest.mark.parametrize(("read_from", "reader"), [("slave", "slave"), ("master", "master"), ("suggested", "master")])
async def test_messages_come_from_the_broker_that_is_asked_for(cluster: Pair, read_from: str, reader: str) -> None:
    before = {role: await cluster.given_out(role) for role in cluster.addresses}
    assert await asyncio.to_thread(_read, cluster.namesrv, read_from) == sorted(b"%d" % n for n in range(COUNT))
    given = {role: await cluster.given_out(role) - before[role] for role in cluster.addresses}
    assert given == {"master": 0, "slave": 0, reader: COUNT}


def _read(namesrv: str, read_from: str) -> list[bytes]:
    given = {"namesrv": namesrv, "subscribe": TOPIC, "columns": "body", "readFrom": read_from}
    reader = BatchReader(read_options(given, streaming=False))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch["body"].to_pylist()]
    return sorted(rows)
