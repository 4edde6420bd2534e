"""Which answers of a broker are taken, which lead to another broker, and which are raised at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendStatus
from pyromq.clock import SystemClock
from pyromq.errors import BrokerError, SystemBusy
from pyromq.namesrv.server import NameServer
from pyromq.protocol.messages.message import Message
from tests.client.helpers import ScriptedBroker, register_broker

TOPIC = "orders"
RETRIED = [17, 14, 1, 16, 204, 205]


@asynccontextmanager
async def scripted(*codes: int) -> AsyncIterator[tuple[str, list[ScriptedBroker]]]:
    """Run a name server and a broker for each code; yield the name server's address and the brokers."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None))
        api = await stack.enter_async_context(await BrokerApi.connect(names.address))
        brokers = [await stack.enter_async_context(ScriptedBroker(code, clock)) for code in codes]
        for number, broker in enumerate(brokers):
            await register_broker(api, f"broker-{number}", broker.address, TOPIC)
        yield names.address, brokers


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
async def test_all_four_statuses_are_results(code: int, status: SendStatus) -> None:
    async with scripted(code) as (namesrv, (broker,)), Producer("p", namesrv) as producer:
        result = await producer.send(Message(topic=TOPIC, body=b"x"))
    assert (result.status, result.queue_offset, broker.sends) == (status, 7, 1)


@pytest.mark.parametrize("code", RETRIED)
async def test_an_answer_that_another_broker_may_not_give_leads_there(code: int) -> None:
    async with scripted(code, 0) as (namesrv, (broken, healthy)), Producer("p", namesrv) as producer:
        for _ in range(8):  # once round all queues
            result = await producer.send(Message(topic=TOPIC, body=b"x"))
            assert (result.status, result.queue.broker_name) == (SendStatus.SEND_OK, "broker-1")
    assert healthy.sends == 8
    assert broken.sends > 0


@pytest.mark.parametrize("code", RETRIED)
async def test_the_last_answer_is_raised_when_all_attempts_fail(code: int) -> None:
    async with scripted(code, code) as (namesrv, brokers), Producer("p", namesrv, retries=3) as producer:
        with pytest.raises(BrokerError, match="as the script says") as failure:
            await producer.send(Message(topic=TOPIC, body=b"x"))
    assert failure.value.code == code
    assert [broker.sends for broker in brokers] == [2, 2]
    assert failure.value.__notes__[0].startswith("attempts: 4, on broker-")


@pytest.mark.parametrize("code", [2, 13, 26])
async def test_other_answers_are_raised_at_once(code: int) -> None:
    async with scripted(code, code) as (namesrv, brokers), Producer("p", namesrv) as producer:
        with pytest.raises(BrokerError) as failure:
            await producer.send(Message(topic=TOPIC, body=b"x"))
    assert failure.value.code == code
    assert sum(broker.sends for broker in brokers) == 1
    assert isinstance(failure.value, SystemBusy) == (code == 2)


async def test_an_ordered_send_is_tried_once() -> None:
    async with scripted(1) as (namesrv, (broker,)), Producer("p", namesrv) as producer:
        with pytest.raises(BrokerError):
            await producer.send(Message(topic=TOPIC, body=b"x"), order_key="k")
    assert broker.sends == 1


async def test_a_message_not_stored_safely_is_sent_again_only_if_told_so() -> None:
    async with scripted(11, 0) as (namesrv, (unsafe, _)):
        async with Producer("p", namesrv) as producer:
            statuses = {(await producer.send(Message(topic=TOPIC, body=b"x"))).status for _ in range(8)}
        assert statuses == {SendStatus.SEND_OK, SendStatus.SLAVE_NOT_AVAILABLE}
        before = unsafe.sends
        async with Producer("p", namesrv, retry_other_broker_when_not_stored=True) as producer:
            statuses = {(await producer.send(Message(topic=TOPIC, body=b"x"))).status for _ in range(8)}
        assert statuses == {SendStatus.SEND_OK}
        assert unsafe.sends > before


@pytest.mark.parametrize("second", [11, 1, 13])
async def test_a_message_stored_somewhere_is_not_raised_as_failed(second: int) -> None:
    async with (
        scripted(11, second) as (namesrv, (stores, _)),
        Producer("p", namesrv, retry_other_broker_when_not_stored=True) as producer,
    ):
        for queue in [queue for queue in await producer.queues(TOPIC) if queue.broker_name == "broker-0"][:2]:
            info = producer._delivery.instance.routes.publish_info(TOPIC)
            assert info is not None
            info._index = info.queues.index(queue) - 1  # so that the one that stores comes first
            result = await producer.send(Message(topic=TOPIC, body=b"x"))
            assert result.status is SendStatus.SLAVE_NOT_AVAILABLE
    assert stores.sends >= 2
