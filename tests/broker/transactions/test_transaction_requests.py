"""Half messages and their ends, over a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.record import TRANSACTION_COMMIT, TRANSACTION_MASK
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Join, StartBroker
from tests.broker.transactions.transaction_peer import COMMIT, ROLLBACK, UNKNOWN, Place, TransactionPeer


@pytest.fixture
async def producer(broker: Broker, join: Join) -> TransactionPeer:
    return await join(broker)


async def test_a_half_message_is_stored_where_no_consumer_looks(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1", TAGS="paid")
    [half] = producer.halves()
    assert (half.queue_offset, half.physical_offset) == place
    assert half.properties["REAL_TOPIC"] == "orders"
    assert half.properties["REAL_QID"] == "0"
    assert half.tags == "paid"
    assert not half.sys_flag & TRANSACTION_MASK
    assert producer.delivered() == []


async def test_a_commit_delivers_the_message_as_it_was_sent(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1", TAGS="paid", KEYS="o-1", colour="blue")
    await producer.end(place, COMMIT)
    [message] = producer.delivered()
    [half] = producer.halves()
    assert message.body == b"tx-1"
    assert message.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
    assert message.prepared_transaction_offset == place.physical_offset
    assert message.born_timestamp_ms == half.born_timestamp_ms
    assert message.properties == half.properties  # as in RocketMQ, TRAN_MSG among them
    assert (message.tags, message.keys, message.properties["colour"]) == ("paid", ("o-1",), "blue")


async def test_a_rollback_delivers_nothing(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    await producer.end(place, ROLLBACK)
    assert producer.delivered() == []
    assert [op.body for op in producer.ops()] == [b"0"]
    assert await producer.listed() == []


async def test_the_op_record_is_the_one_that_apache_writes(producer: TransactionPeer) -> None:
    await producer.prepare("tx-0")
    place = await producer.prepare("tx-1")
    await producer.end(place, COMMIT)
    [op] = producer.ops()
    assert (op.topic, op.queue_id, op.queue_offset) == (TRANSACTION_OP_TOPIC, 0, 0)
    assert op.body == b"1"
    assert op.properties == {"TAGS": "d", "WAIT": "true"}
    assert (op.sys_flag, op.flag, op.reconsume_times) == (0, 0, 0)
    assert op.born_host == op.store_host == producer.broker.address


async def test_the_op_topic_is_in_no_table(producer: TransactionPeer) -> None:
    await producer.end(await producer.prepare(), COMMIT)
    assert TRANSACTION_OP_TOPIC not in producer.broker.topics.by_name
    assert TRANSACTION_HALF_TOPIC in producer.broker.topics.by_name


async def test_an_unknown_end_changes_nothing(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    await producer.end(place, UNKNOWN)
    assert producer.ops() == []
    assert [half.message_id for half in await producer.listed()] == ["tx-1"]
    await producer.end(place, COMMIT)
    assert len(producer.delivered()) == 1


@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
async def test_a_repeated_end_has_no_second_effect(producer: TransactionPeer, second: TransactionState) -> None:
    place = await producer.prepare()
    await producer.end(place, COMMIT)
    await producer.end(place, second)
    assert len(producer.delivered()) == 1
    assert len(producer.ops()) == 1


async def test_many_ends_of_one_transaction_at_once_have_one_effect(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    for is_check in (True, False, True, False, True):
        await producer.end_oneway(place, COMMIT, from_transaction_check=is_check)
    await producer.end(place, COMMIT)
    assert len(producer.delivered()) == 1
    assert len(producer.ops()) == 1


async def test_a_commit_after_a_rollback_delivers_nothing(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    await producer.end(place, ROLLBACK)
    await producer.end(place, COMMIT)
    assert producer.delivered() == []


async def test_an_end_must_name_the_half_message_exactly(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    error = ResponseCode.SYSTEM_ERROR
    await producer.send(body=b"a plain message")
    await producer.end(Place(place.queue_offset + 1, place.physical_offset), COMMIT, expect=error)
    await producer.end(Place(place.queue_offset, place.physical_offset + 1), COMMIT, expect=error)
    await producer.end(Place(0, 1 << 40), COMMIT, expect=error)
    await producer.end(Place(0, -1), COMMIT, expect=error)
    await producer.end(place, COMMIT, producer_group="others", expect=error)
    assert len(producer.delivered()) == 1  # the plain one


async def test_a_message_that_is_no_half_message_cannot_be_committed(producer: TransactionPeer) -> None:
    await producer.end(await producer.prepare(), COMMIT)
    [message] = producer.delivered()
    copied = Place(message.queue_offset, message.physical_offset)  # its PGROUP and its offsets are right
    await producer.end(copied, COMMIT, expect=ResponseCode.SYSTEM_ERROR)
    assert len(producer.delivered()) == 1


async def test_an_end_with_a_state_that_is_none_is_refused(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    fields = {
        "producerGroup": "payers",
        "tranStateTableOffset": str(place.queue_offset),
        "commitLogOffset": str(place.physical_offset),
        "commitOrRollback": "4",
        "msgId": "x",
    }
    await producer.ask(RequestCode.END_TRANSACTION, fields, expect=ResponseCode.SYSTEM_ERROR)
    fields |= {"commitOrRollback": "8", "fromTransactionCheck": "0", "transactionId": ""}  # as C++ clients say it
    await producer.ask(RequestCode.END_TRANSACTION, fields)
    assert len(producer.delivered()) == 1


async def test_transactions_can_be_refused(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(rejectTransactionMessage="true"))
    await producer.prepare(expect=ResponseCode.NO_PERMISSION)


async def test_a_half_message_without_its_group_is_refused(producer: TransactionPeer) -> None:
    await producer.send(properties="TRAN_MSG\x01true", sys_flag=4, expect=ResponseCode.MESSAGE_ILLEGAL)


@pytest.mark.parametrize("properties", [None, "TRAN_MSG\x01false\x02PGROUP\x01payers", "MYTRAN_MSG\x01true"])
async def test_a_prepared_flag_without_the_property_is_refused(
    producer: TransactionPeer, properties: str | None
) -> None:
    await producer.send(properties=properties, sys_flag=4, expect=ResponseCode.NO_PERMISSION)
    assert producer.broker.store.max_offset("orders", 0) == 0


async def test_the_property_alone_makes_a_half_message(producer: TransactionPeer) -> None:
    await producer.send(properties="TRAN_MSG\x01TRUE\x02PGROUP\x01payers", sys_flag=0)
    assert len(producer.halves()) == 1
    assert producer.delivered() == []


async def test_a_consumers_retry_of_a_committed_message_is_no_half_message(producer: TransactionPeer) -> None:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01payers\x02DELAY\x013"
    await producer.send("%RETRY%billing", properties=properties, reconsume_times=1)
    assert producer.halves() == []


async def test_a_transaction_whose_topic_was_deleted_stays_open(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    producer.broker.topics.remove("orders")
    await producer.end(place, COMMIT, expect=ResponseCode.TOPIC_NOT_EXIST)
    assert len(await producer.listed()) == 1
    await producer.send(body=b"makes the topic again")
    await producer.end(place, COMMIT)
    assert [message.body for message in producer.delivered()] == [b"makes the topic again", b"tx-1"]


@pytest.mark.parametrize("by_level", [True, False])
async def test_a_committed_message_may_be_a_delayed_one(
    clock: TestClock, producer: TransactionPeer, by_level: bool
) -> None:
    await producer.send(body=b"now")
    place = await (producer.prepare(DELAY="1") if by_level else producer.prepare(TIMER_DELAY_MS="1000"))
    await producer.end(place, COMMIT)
    await producer.end(place, COMMIT)
    assert [message.body for message in producer.delivered()] == [b"now"]
    await clock.advance_async(seconds=2)
    await eventually(lambda: len(producer.delivered()) == 2)
    await producer.end(place, COMMIT, from_transaction_check=True)
    await clock.advance_async(seconds=3)
    assert len(producer.delivered()) == 2


async def test_an_end_is_answered_when_it_is_durable(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(flushDiskType="SYNC_FLUSH"))
    await producer.end(await producer.prepare(), COMMIT)
    assert producer.broker.store.flushed_offset == producer.broker.store.max_physical_offset
    assert len(producer.delivered()) == 1


async def test_half_messages_without_a_unique_key_are_not_taken_for_one_another(producer: TransactionPeer) -> None:
    fields: dict[str, Any] = {"properties": "TRAN_MSG\x01true\x02PGROUP\x01payers", "sys_flag": 4, "born_timestamp": 7}
    for body in (b"one", b"two"):
        await producer.send(body=body, **fields)
    places = [Place(half.queue_offset, half.physical_offset) for half in producer.halves()]
    for place in places:
        await producer.end_oneway(place, COMMIT, from_transaction_check=True)
    await eventually(lambda: len(producer.delivered()) == 2)
    assert {message.body for message in producer.delivered()} == {b"one", b"two"}
