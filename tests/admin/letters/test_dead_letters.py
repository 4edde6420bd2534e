"""Dead letters: counted, read on every broker, sent again without the properties that brokers wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyromq.admin import AdminClient, Letter, Wanted
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.errors import ClientError, NoPermission, NoRoute, TopicNotFound
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.testing import LocalCluster
from tests.client.helpers import read

# What brokers leave in a message: transaction, delays, retries, request and reply.
BAGGAGE = {
    "TRAN_MSG": "true",
    "PGROUP": "shop",
    "TRAN_PREPARED_QUEUE_OFFSET": "3",
    "TRANSACTION_CHECK_TIMES": "1",
    "CHECK_IMMUNITY_TIME_IN_SECONDS": "30",
    "__transactionId__": "7F",
    "DELAY": "0",
    "REAL_TOPIC": "%RETRY%billing",
    "REAL_QID": "0",
    "TIMER_DELAY_MS": "1000",
    "TIMER_DELAY_SEC": "1",
    "TIMER_DELIVER_MS": "99",
    "TIMER_OUT_MS": "99",
    "PYROMQ_TIMER_FROM": "4096",
    "__STARTDELIVERTIME": "99",
    "RETRY_TOPIC": "orders",
    "ORIGIN_MESSAGE_ID": "AB" * 16,
    "RECONSUME_TIME": "2",
    "MAX_RECONSUME_TIMES": "2",
    "WAIT": "false",
    "UNIQ_KEY": "CD" * 16,
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
    "CORRELATION_ID": "1",
    "REPLY_TO_CLIENT": "me",
    "TTL": "3000",
    "MIN_OFFSET": "0",
    "MAX_OFFSET": "1",
    "CONSUME_START_TIME": "1",
}
OWN = {"amount": "7", "TAGS": "paid", "KEYS": "a b", "__SHARDINGKEY": "o-1"}


def letter(**properties: str) -> Letter:
    return Letter(MessageExt("%DLQ%billing", b"body", encode_properties(properties).encode(), flag=5))


def test_what_brokers_wrote_is_not_sent_again() -> None:
    message = letter(**OWN, **BAGGAGE).resent()
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"body", "paid", ("a", "b"))
    assert message.flag == 5
    assert message.properties == {
        "amount": "7",
        "PYROMQ_ORIGIN_TOPIC": "orders",
        "PYROMQ_ORIGIN_GROUP": "billing",
        "PYROMQ_ORIGIN_MESSAGE_ID": "CD" * 16,
        "PYROMQ_RESENDS": "1",
    }
    message.check()


def test_tags_that_our_own_clients_refuse_are_sent_again() -> None:
    assert letter(TAGS="a||b").resent("orders").tags == "a||b"


def test_history_grows_over_resends() -> None:
    first = letter(RETRY_TOPIC="orders", UNIQ_KEY="11" * 16, PYROMQ_CAUSE="ValueError: a").resent("elsewhere")
    second = letter(**first.properties, RETRY_TOPIC="elsewhere", UNIQ_KEY="22" * 16).resent()
    assert second.topic == "elsewhere"
    assert second.properties["PYROMQ_ORIGIN_TOPIC"] == "orders"
    assert second.properties["PYROMQ_ORIGIN_MESSAGE_ID"] == "11" * 16
    assert second.properties["PYROMQ_RESENDS"] == "2"


def test_a_letter_of_unknown_origin_needs_a_topic() -> None:
    with pytest.raises(ClientError, match="which topic"):
        letter(amount="7").resent()
    assert letter(amount="7", PYROMQ_RESENDS="many").resent("orders").properties["PYROMQ_RESENDS"] == "1"


@pytest.fixture
async def pair() -> AsyncIterator[LocalCluster]:
    """Two brokers, each with two dead letters of one group."""
    async with LocalCluster(brokers=2) as cluster:
        async with await BrokerApi.connect(cluster.namesrv) as api:
            for broker in cluster.brokers:
                await api.create_topic(broker.address, "orders", queues=2)
                for number in range(2):
                    body = f"{broker.name} {number}".encode()
                    properties = {"RETRY_TOPIC": "orders", "n": str(number), "PYROMQ_CAUSE": f"cause {number}"}
                    await api.send(broker.address, send_header(encode_properties(properties)), body)
        yield cluster


def send_header(properties: str) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2(
        producer_group="p",
        topic="%DLQ%billing",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
    )


async def test_the_dead_letters_of_all_brokers_are_counted_and_read(pair: LocalCluster) -> None:
    async with AdminClient(pair.namesrv, clock=pair.clock) as admin:
        (topic,) = await admin.dead_letters.groups()
        letters = [letter async for letter in admin.dead_letters.read("billing")]
        assert await admin.masters() == {broker.name: broker.address for broker in pair.brokers}
        assert "%DLQ%billing" in await admin.topics.names()
    assert (topic.group, topic.topic, topic.count, topic.expires_soon) == ("billing", "%DLQ%billing", 4, False)
    assert sorted(letter.message.body for letter in letters) == [
        b"broker-a 0",
        b"broker-a 1",
        b"broker-b 0",
        b"broker-b 1",
    ]
    assert topic.oldest == min(letter.message.stored_at for letter in letters)


async def test_before_they_expire_that_is_told() -> None:
    async with (
        LocalCluster(settings={"fileReservedTime": 4}) as cluster,
        AdminClient(cluster.namesrv, clock=cluster.clock) as admin,
    ):
        await admin.api.send(cluster.brokers[0].address, send_header("RETRY_TOPIC\x01orders"), b"x")
        (topic,) = await admin.dead_letters.groups()
        assert topic.oldest is not None
        assert topic.expires is not None
        assert (topic.expires - topic.oldest).total_seconds() == 4 * 3600
        await cluster.clock.advance_async(hours=2.9, step=80)
        assert not (await admin.dead_letters.groups())[0].expires_soon
        await cluster.clock.advance_async(hours=0.2, step=80)
        assert (await admin.dead_letters.groups())[0].expires_soon


async def test_some_are_picked_by_condition_by_cause_and_by_id(pair: LocalCluster) -> None:
    async with AdminClient(pair.namesrv) as admin:

        async def bodies(wanted: Wanted) -> list[bytes]:
            return sorted([letter.message.body async for letter in admin.dead_letters.read("billing", wanted)])

        assert await bodies(Wanted(where="n = 1")) == [b"broker-a 1", b"broker-b 1"]
        assert await bodies(Wanted(cause="cause 0")) == [b"broker-a 0", b"broker-b 0"]
        assert await bodies(Wanted(where="n = 1", cause="cause 0")) == []
        first, *_ = [letter async for letter in admin.dead_letters.read("billing")]
        assert await bodies(Wanted(ids=[first.message.message_id, "another"])) == [first.message.body]


async def test_dead_letters_that_may_not_be_read_are_an_error_and_not_none(pair: LocalCluster) -> None:
    async with AdminClient(pair.namesrv) as admin:
        for broker in pair.brokers:
            await admin.api.create_topic(broker.address, "%DLQ%billing", queues=1, perm=2)
        assert (await admin.dead_letters.groups())[0].count == 4
        with pytest.raises(NoPermission):
            [letter async for letter in admin.dead_letters.read("billing")]


async def test_they_are_sent_again_one_after_the_other_at_a_rate(pair: LocalCluster) -> None:
    started = pair.clock.now()
    async with AdminClient(pair.namesrv) as admin:
        results = [pair_ async for pair_ in admin.dead_letters.resend_all("billing", rate=10)]
    assert pair.clock.now() - started >= 0.2, "three gaps of 0.1 s, of which the first may be short"
    assert {result.queue.topic for _, result in results} == {"orders"}
    async with LitePullConsumer("look", pair.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        messages = await read(consumer, 4)
    assert sorted(message.body for message in messages) == sorted(letter.message.body for letter, _ in results)


async def test_who_has_none_and_what_is_not_there(pair: LocalCluster) -> None:
    admin = AdminClient(pair.namesrv)
    with pytest.raises(ClientError, match="not open"):
        await admin.masters()
    async with admin:
        with pytest.raises(TopicNotFound, match="no dead letters"):
            [letter async for letter in admin.dead_letters.read("nobody")]
        with pytest.raises(NoRoute):
            [message async for message in admin.read("nothing")]
        with pytest.raises(ClientError, match="open already"):
            await admin.start()
