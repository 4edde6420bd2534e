"""Accounts: every request of a client is signed with its own, and a refusal is one clear line."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from pyromq import (
    COMMIT,
    UNKNOWN,
    AccessDenied,
    Credentials,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    Sql,
    TransactionProducer,
    TransactionState,
    blocking,
)
from pyromq.admin import AdminClient
from pyromq.client.environment import environment_credentials
from pyromq.errors import ConfigError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, read
from tests.client.signed_requests import OTHER, SHOP, Requests

REFUSAL = "org.apache.rocketmq.acl.common.AclException: {}, org.apache.rocketmq.acl.plain.Some.check(Some.java:7)"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """What servers in this process read from now on."""
    return Requests(monkeypatch)


async def test_all_that_a_producer_sends_is_signed(
    cluster: LocalCluster, requests: Requests, topic: str, group: str
) -> None:
    async def listen(message: MessageExt) -> None:
        if message.properties.get("CORRELATION_ID"):
            await message.reply(b"here I am")

    async with (
        Producer("signing", cluster.namesrv, credentials=SHOP, trace=True) as traced,
        Producer("signing", cluster.namesrv, credentials=SHOP) as producer,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", credentials=SHOP),
    ):
        await traced.send(Message(topic=topic, body=b"traced"))
        for number in range(3):  # the second and third by the short way
            await producer.send(Message(topic=topic, body=b"%d" % number, tags="näh%", keys=["k"]))
            await producer.send(Message(topic=topic, body=b"%d" % number))
        sent = await producer.send(Message(topic=topic, body=b"large" * 5000, properties={"a": "\U0001f600"}))
        await producer.send_oneway(Message(topic=topic, body=b"gone"))
        await producer.send_batch([Message(topic=topic, body=b"a"), Message(topic=topic, body=b"b")])
        assert (await producer.request(Message(topic=topic, body=b"there?"), timeout=5)).body == b"here I am"
        later = await producer.send(Message(topic=topic, body=b"late"), delay=timedelta(hours=1))
        assert await producer.cancel(later)
        assert await producer.find(topic, sent.message_id)
    assert set(requests.accounts()) == {"shop-app"}
    assert requests.codes.keys() >= {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.RECALL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
    }


async def test_all_that_consumers_ask_is_signed(
    cluster: LocalCluster, requests: Requests, topic: str, group: str
) -> None:
    heard, failed = Heard(), []

    async def fail(message: MessageExt) -> None:
        failed.append(message)
        raise RetryLater

    async with Producer("signing", cluster.namesrv, credentials=SHOP) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
    subscribed = {"subscriptions": {topic: "*"}, "start_from": "earliest", "credentials": SHOP}
    async with (
        PushConsumer(f"{group}-a", cluster.namesrv, listener=fail, **subscribed),  # type: ignore[arg-type]
        PushConsumer(f"{group}-b", cluster.namesrv, listener=heard, orderly=True, **subscribed),  # type: ignore[arg-type]
        LitePullConsumer(f"{group}-c", cluster.namesrv, **subscribed) as reader,  # type: ignore[arg-type]
        LitePullConsumer(f"{group}-d", cluster.namesrv, credentials=SHOP) as assigned,
    ):
        await heard.wait_for(1)
        await read(reader, 1)
        await reader.commit()
        await assigned.assign(await assigned.queues(topic), Sql("TAGS IS NULL"))
        for queue in assigned.assignment:
            await assigned.seek_to_begin(queue)
        await read(assigned, 1)
        await eventually(lambda: RequestCode.CONSUMER_SEND_MSG_BACK in requests.codes and bool(failed))
    assert set(requests.accounts()) == {"shop-app"}
    assert requests.codes.keys() >= {
        RequestCode.PULL_MESSAGE,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_MIN_OFFSET,
    }


async def test_both_ends_of_a_transaction_are_signed(requests: Requests, topic: str, group: str) -> None:
    async def check(message: MessageExt) -> TransactionState:
        return COMMIT

    async with LocalCluster() as cluster:
        namesrv, clock = cluster.namesrv, cluster.clock
        async with TransactionProducer(group, namesrv, check=check, clock=clock, credentials=SHOP) as producer:
            await producer.send_in_transaction(Message(topic=topic, body=b"x"), lambda message: COMMIT)
            await producer.send_in_transaction(Message(topic=topic, body=b"y"), lambda message: UNKNOWN)
            await eventually(lambda: requests.codes[RequestCode.END_TRANSACTION] == 2)
            await clock.advance_async(seconds=122)
            await eventually(lambda: requests.codes[RequestCode.END_TRANSACTION] == 3)  # told because it was asked
    assert set(requests.accounts()) == {"shop-app"}


def test_operators_and_the_blocking_clients_sign_too(cluster: LocalCluster, requests: Requests, topic: str) -> None:
    with blocking.Producer("signing", cluster.namesrv, credentials=SHOP) as producer:
        sent = producer.send(Message(topic=topic, body=b"x"))
    with blocking.AdminClient(cluster.namesrv, credentials=OTHER) as admin:
        assert topic in admin.topics.names()
        assert admin.topics.describe(topic).queues
        assert [message.message_id for message in admin.read(topic)] == [sent.message_id]
        assert admin.groups.list() is not None
        assert admin.timed_messages.count() >= 0
        assert list(admin.transactions.pending()) == []
    assert set(requests.accounts()) == {"shop-app", "other-app"}


async def test_clients_of_one_name_and_two_accounts_are_two(
    cluster: LocalCluster, requests: Requests, topic: str
) -> None:
    options = {"instance_name": "both", "trace": True}
    async with (
        Producer("p", cluster.namesrv, credentials=SHOP, **options) as one,  # type: ignore[arg-type]
        Producer("q", cluster.namesrv, credentials=Credentials("shop-app", "shop-secret"), **options) as same,  # type: ignore[arg-type]
        Producer("p", cluster.namesrv, credentials=OTHER, **options) as two,  # type: ignore[arg-type]
    ):
        assert one._delivery.instance is same._delivery.instance
        assert one._delivery.instance is not two._delivery.instance
        for number in range(3):
            await one.send(Message(topic=topic, body=b"%d" % number))
            await two.send(Message(topic=topic, body=b"%d" % number))
    accounts = requests.accounts()
    assert accounts["other-app"] > 3
    assert set(accounts) == {"shop-app", "other-app"}


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse(cluster: LocalCluster, reason: str, *codes: int) -> None:
    """Have a broker say what Apache's says to those whom it does not let in."""

    def answer(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, 1, REFUSAL.format(reason))

    server = cluster.brokers[0].server
    assert server is not None
    for code in codes:
        server.handlers[code] = answer


async def test_a_send_that_is_refused_is_not_tried_again_and_says_which_account(topic: str) -> None:
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv, credentials=SHOP) as producer:
        refuse(cluster, f"No default permission for topic:{topic}", RequestCode.SEND_MESSAGE_V2)
        with pytest.raises(AccessDenied) as caught:
            await producer.send(Message(topic=topic, body=b"x"))
        assert str(caught.value) == f"access denied to account 'shop-app': No default permission for topic:{topic}"
        assert caught.value.__notes__ == ["attempts: 1, on broker-a"]


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_a_consumer_that_no_broker_lets_in_does_not_start(
    kind: type[PushConsumer] | type[LitePullConsumer], topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"listener": Heard()} if kind is PushConsumer else {}
    async with LocalCluster() as cluster:
        async with Producer("p", cluster.namesrv) as producer:
            await producer.send(Message(topic=topic, body=b"x"))
        refuse(cluster, "No accessKey is configured", RequestCode.HEART_BEAT)
        caplog.clear()
        with pytest.raises(AccessDenied, match="access denied to a client without credentials: No accessKey"):
            await kind(group, cluster.namesrv, {topic: "*"}, **options).start()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_who_polls_hears_that_a_queue_may_not_be_read_and_goes_on_once_it_may(topic: str, group: str) -> None:
    async with LocalCluster() as cluster:
        async with Producer("p", cluster.namesrv) as producer:
            await producer.send(Message(topic=topic, body=b"x"))
        server = cluster.brokers[0].server
        assert server is not None
        pulls = server.handlers[RequestCode.PULL_MESSAGE]
        refuse(cluster, f"No default permission for topic:{topic}", RequestCode.PULL_MESSAGE)
        subscriptions = {topic: "*"}
        async with LitePullConsumer(
            group, cluster.namesrv, subscriptions, start_from="earliest", credentials=SHOP
        ) as consumer:
            with pytest.raises(AccessDenied, match=f"account 'shop-app': No default permission for topic:{topic}"):
                await consumer.poll(timeout=30.0)
            server.handlers[RequestCode.PULL_MESSAGE] = pulls
            found: list[MessageExt] = []
            while not found:
                try:
                    found = await consumer.poll(timeout=1.0)
                except AccessDenied:
                    continue
            assert [message.body for message in found] == [b"x"]


async def test_a_message_that_may_not_be_viewed_is_not_taken_for_one_that_is_not_there(topic: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv, credentials=SHOP) as admin:
        refuse(cluster, "Check signature failed for accessKey=shop-app", RequestCode.VIEW_MESSAGE_BY_ID)
        with pytest.raises(AccessDenied, match="account 'shop-app': Check signature failed"):
            await admin.api.view(cluster.brokers[0].address, 0)


async def test_an_operator_who_is_refused_is_told_and_does_not_see_an_empty_cluster() -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv, credentials=SHOP) as admin:
        reason = "Check signature failed for accessKey=shop-app"
        refuse(cluster, reason, RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GROUP_ACTIVITY)
        for question in (admin.topics.list, admin.groups.list):
            with pytest.raises(AccessDenied, match=reason):
                await question()


# --- the environment --------------------------------------------------------------------------------------------------


def test_commands_take_their_account_from_the_environment() -> None:
    both = {"PYROMQ_ACCESS_KEY": "shop-app", "PYROMQ_SECRET_KEY": "shop-secret"}
    assert environment_credentials(both) == SHOP
    assert environment_credentials({}) is None
    for name in both:
        with pytest.raises(ConfigError) as caught:
            environment_credentials({name: both[name]})
        assert str(caught.value).startswith(f"{next(other for other in both if other != name)} is not set")
        assert both[name] not in str(caught.value)
