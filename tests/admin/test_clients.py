"""All clients of a cluster, by id."""

from __future__ import annotations

from pyromq import Message, MessageExt, Producer, PushConsumer
from pyromq.admin import AdminClient
from pyromq.testing import LocalCluster, eventually


async def listen(message: MessageExt) -> None:
    pass


async def test_producers_and_consumers_of_all_brokers_are_listed(pair: LocalCluster, admin: AdminClient) -> None:
    async with (
        Producer("shop", pair.namesrv) as producer,
        PushConsumer("billing", pair.namesrv, {"orders": "*"}, listen),
    ):
        for _ in range(8):
            await producer.send(Message(topic="orders", body=b"one"))

        async def both() -> bool:
            found = (await admin.clients.list()).clients
            return {group for one in found for group in one.consumer_groups} >= {"billing"} and {
                group for one in found for group in one.producer_groups
            } >= {"shop"}

        await eventually(both)
        listing = await admin.clients.list()
    consumer = next(one for one in listing.clients if "billing" in one.consumer_groups)
    assert consumer.brokers == ("broker-a", "broker-b")
    assert consumer.host == "127.0.0.1"
    assert consumer.language == "PYTHON"
    assert consumer.version.startswith("4.9")
    sender = next(one for one in listing.clients if "shop" in one.producer_groups)
    assert sender.address.startswith("127.0.0.1:")
    assert (listing.silent_brokers, listing.without_producers) == ({}, ())
    assert len({one.client_id for one in listing.clients}) == len(listing.clients)
