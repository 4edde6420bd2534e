"""A master and its slave are restarted one after the other under load, as docs/upgrade.md says: no send fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pyromq import LitePullConsumer, Message, Producer, SendStatus
from pyromq.admin import AdminClient
from pyromq.testing import LocalBroker, LocalCluster, eventually


class Load:
    """A producer that sends all the time, and what became of it."""

    def __init__(self, producer: Producer) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._producer = producer

    async def run(self) -> None:
        number = 0
        while True:
            body = b"%d" % number
            number += 1
            try:
                result = await self._producer.send(Message(topic="orders", body=body))
            except Exception as error:
                self.failed.append(f"{body!r}: {error}")
            else:
                if result.status is SendStatus.SEND_OK:
                    self.acknowledged.append(body)

    async def goes_on(self) -> None:
        """Wait for some more acknowledged messages."""
        before = len(self.acknowledged)
        await eventually(lambda: len(self.acknowledged) > before + 20)


async def in_sync(admin: AdminClient) -> None:
    """Wait until `cluster status` has no finding."""

    async def is_settled() -> bool:
        return (await admin.cluster_status()).findings == ()

    await eventually(is_settled, "the slave is in sync", pause=0.05)


async def restart(cluster: LocalCluster, broker: LocalBroker) -> None:
    await asyncio.to_thread(cluster.stop_broker, broker)
    await asyncio.to_thread(cluster.start_broker, broker)


async def test_a_pair_is_restarted_one_by_one_without_a_failed_send() -> None:
    async with LocalCluster(slaves=1, settings={"brokerRole": "SYNC_MASTER"}) as cluster:
        master, slave = cluster.brokers[0], cluster.slaves[0]
        async with AdminClient(cluster.namesrv) as admin, Producer("shop", cluster.namesrv) as producer:
            await in_sync(admin)
            load = Load(producer)
            sending = asyncio.create_task(load.run())
            await load.goes_on()
            await restart(cluster, slave)
            await in_sync(admin)
            await admin.promote("broker-a")  # the slave leads, the old master follows
            master.is_slave, slave.is_slave = True, False
            await load.goes_on()
            await restart(cluster, master)
            await in_sync(admin)
            await admin.promote("broker-a")  # and back
            master.is_slave, slave.is_slave = False, True
            await load.goes_on()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
        assert load.failed == []
        assert await read_all(cluster.namesrv, load.acknowledged) >= set(load.acknowledged)


async def read_all(namesrv: str, expected: list[bytes]) -> set[bytes]:
    seen: set[bytes] = set()
    async with LitePullConsumer("audit", namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        while not seen >= set(expected):
            seen |= {message.body for message in await consumer.poll(timeout=5)}
    return seen
