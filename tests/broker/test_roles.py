"""A broker's role is a value: the writing side comes and goes, the reading side stays."""

from __future__ import annotations

from pyromq.broker.server import Broker, Role
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.properties import DELAY, TIMER_DELAY_SEC, encode_properties
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Join
from tests.broker.helpers import Peer

DELAYED = encode_properties({DELAY: "1", "UNIQ_KEY": "A"})
TIMED = encode_properties({TIMER_DELAY_SEC: "30", "UNIQ_KEY": "B"})


async def test_a_demoted_broker_takes_no_messages_and_still_serves_those_it_has(broker: Broker, peer: Peer) -> None:
    await peer.send()
    await broker.demote()
    assert broker.role is Role.SLAVE
    answer = await peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    assert "slave" in (answer.remark or "")
    assert [message.body for message in await peer.read()] == [b"hello"]


async def test_a_promoted_broker_goes_on_in_the_same_process(broker: Broker, peer: Peer) -> None:
    await peer.send(body=b"one")
    await broker.demote()
    await broker.promote()
    assert broker.role is Role.MASTER
    await peer.send(body=b"two", queue_id=0)
    assert sum(broker.store.max_offset("orders", queue) for queue in broker.store.queue_ids("orders")) == 2


async def test_changing_to_the_same_role_does_nothing(broker: Broker, peer: Peer) -> None:
    await broker.promote()
    await peer.send()
    await broker.demote()
    await broker.demote()
    assert broker.role is Role.SLAVE


async def test_what_waits_for_its_time_is_delivered_by_the_next_writing_side(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.send(body=b"delayed", properties=DELAYED)
    await peer.send(body=b"timed", properties=TIMED)
    await broker.demote()
    await clock.advance_async(seconds=60)
    assert await _bodies(broker) == set()
    await broker.promote()
    await clock.advance_async(seconds=2)
    await eventually(lambda: _count(broker) == 2)
    assert await _bodies(broker) == {b"delayed", b"timed"}


async def test_an_open_transaction_can_be_ended_after_a_promotion(broker: Broker, join: Join) -> None:
    producer = await join(broker)
    half = await producer.prepare()
    await broker.demote()
    await producer.end(half, expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    await broker.promote()
    await producer.end(half)
    assert _count(broker) == 1


async def test_nothing_of_a_writing_side_stays_behind(broker: Broker, peer: Peer) -> None:
    """Each promotion builds another one; hooks and subscriptions of the last are gone."""
    before = _subscriptions(broker)
    for _ in range(5):
        await broker.demote()
        await broker.promote()
    assert _subscriptions(broker) == before
    await peer.send()


async def test_figures_of_the_writing_side_are_shown_while_there_is_one(broker: Broker) -> None:
    assert "transactions_open" in broker.http_info()
    await broker.demote()
    assert "transactions_open" not in broker.http_info()
    await broker.promote()
    assert "transactions_open" in broker.http_info()


async def test_every_request_that_writes_is_refused_by_a_slave(broker: Broker, peer: Peer) -> None:
    await broker.demote()
    for code in (RequestCode.SEND_MESSAGE, RequestCode.END_TRANSACTION, RequestCode.UPDATE_AND_CREATE_TOPIC):
        await peer.ask(code, expect=ResponseCode.SERVICE_NOT_AVAILABLE)


def _count(broker: Broker) -> int:
    return sum(broker.store.max_offset("orders", queue) for queue in broker.store.queue_ids("orders"))


async def _bodies(broker: Broker) -> set[bytes]:
    found = [broker.store.get("orders", queue, 0, 32) for queue in broker.store.queue_ids("orders")]
    return {body for result in found for view in result.views for body in (b"delayed", b"timed") if body in bytes(view)}


def _subscriptions(broker: Broker) -> list[int]:
    parts = broker.service.parts
    signals = (parts.signals.durable, parts.signals.failed, parts.offset_moved, parts.settings.changed)
    return [
        len(parts.round._hooks),
        len(broker.store.cleaner._free_to),
        *(len(signal._listeners) for signal in signals),
    ]
