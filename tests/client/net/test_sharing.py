"""Clients with one instance name are one client."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq import UNKNOWN, TransactionProducer, TransactionState
from pyromq.client.config import ClientConfig
from pyromq.client.net.sharing import borrow_instance
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.clock import SystemClock
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard


async def test_clients_with_the_same_name_share_everything(cluster: LocalCluster, topic: str, group: str) -> None:
    heard = Heard()
    async with (
        Producer("p", cluster.namesrv, instance_name="shared") as producer,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, instance_name="shared") as consumer,
        LitePullConsumer(f"{group}-b", cluster.namesrv, {topic: "*"}, instance_name="shared") as reader,
        Producer("p", cluster.namesrv) as stranger,
    ):
        assert producer.client_id == consumer.client_id == reader.client_id
        assert producer.client_id.endswith("@shared")
        assert stranger.client_id != producer.client_id
        assert producer._delivery.instance is consumer._session.instance is reader._session.instance
        await producer.send(Message(topic=topic, body=b"x"))
        await heard.wait_for(1)
        server = cluster.brokers[0].server
        assert server is not None
        await eventually(lambda: bool(server.clients.members(group)) and bool(server.clients.members(f"{group}-b")))
        assert server.clients.members(group) == server.clients.members(f"{group}-b"), "one connection"


async def test_a_group_is_in_a_client_once(cluster: LocalCluster, topic: str, group: str) -> None:
    async with (
        Producer("p", cluster.namesrv, instance_name="one") as first,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), instance_name="one"),
    ):
        with pytest.raises(ClientError, match="already has a producer in the group 'p'"):
            await Producer("p", cluster.namesrv, instance_name="one").start()
        with pytest.raises(ClientError, match=f"already has a consumer in the group '{group}'"):
            await PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), instance_name="one").start()
        async with Producer("p", cluster.namesrv, instance_name="two") as other:
            assert other.client_id != first.client_id
        await first.send(Message(topic=topic, body=b"still works"))


async def test_the_last_one_closes_it(cluster: LocalCluster, topic: str) -> None:
    first = Producer("a", cluster.namesrv, instance_name="last")
    second = Producer("b", cluster.namesrv, instance_name="last")
    await first.start()
    await second.start()
    await second.send(Message(topic=topic, body=b"x"))
    await first.close()
    await second.send(Message(topic=topic, body=b"x"))
    instance = second._delivery.instance
    await second.close()
    assert instance.users == 0
    async with Producer("a", cluster.namesrv, instance_name="last") as again:
        assert again._delivery.instance is not instance
        await again.send(Message(topic=topic, body=b"x"))


async def test_other_name_servers_are_another_client(cluster: LocalCluster) -> None:
    async with (
        Producer("p", cluster.namesrv, instance_name="same") as here,
        Producer("p", f"{cluster.namesrv};127.0.0.1:1", instance_name="same") as there,
    ):
        assert here._delivery.instance is not there._delivery.instance


@pytest.mark.parametrize("options", [{"instance_name": "seat"}, {"broadcasting": True}], ids=["named", "broadcasting"])
async def test_a_refused_consumer_leaves_the_first_one_in_its_group(
    cluster: LocalCluster, topic: str, group: str, options: dict[str, Any]
) -> None:
    clients = cluster.brokers[0].server.clients  # type: ignore[union-attr]
    async with Producer("p", cluster.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"makes the topic"))
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), **options):
        await eventually(lambda: len(clients.members(group)) == 1)
        second = PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), **options)
        with pytest.raises(ClientError, match="already has a consumer"):
            await second.start()
        await second.close()
        assert len(clients.members(group)) == 1, "the refused one signed off the other"
    await eventually(lambda: not clients.members(group))


async def test_a_refused_transaction_producer_leaves_the_first_one_its_questions(cluster: LocalCluster) -> None:
    async def check(message: MessageExt) -> TransactionState:
        return UNKNOWN

    async with TransactionProducer("payers", cluster.namesrv, check=check, instance_name="bank") as first:
        checks = first._session.instance.checks
        answering = checks["payers"]
        with pytest.raises(ClientError, match="already has a producer"):
            await TransactionProducer("payers", cluster.namesrv, check=check, instance_name="bank").start()
        assert checks == {"payers": answering}
    assert checks == {}


async def test_a_handle_gives_back_once_what_it_joined(cluster: LocalCluster) -> None:
    config = ClientConfig(namesrv=cluster.namesrv, instance_name="handles")
    clock = SystemClock()
    first, second = borrow_instance(config, clock), borrow_instance(config, clock)
    instance = first.instance
    assert second.instance is instance
    first.join_as_producer("p")
    with pytest.raises(ClientError):
        second.join_as_producer("p")
    await second.close()
    await second.close()
    assert instance.users == 1
    assert [data.group_name for data in instance._heartbeat_data().producer_data_set] == ["p"]
    await first.close()
    assert instance.users == 0
