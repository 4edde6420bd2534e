"""Checks: who is asked about which half message, when, how often, and what becomes of it."""

from __future__ import annotations

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.transactions import state_checks
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.transactions import ResumeCheckHalfMessageRequestHeader, TransactionState
from pyromq.protocol.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Join, StartBroker
from tests.broker.messages.test_acknowledgements import SlowDisk
from tests.broker.transactions.transaction_peer import COMMIT, ROLLBACK, UNKNOWN, Place, TransactionPeer

LONG_ENOUGH = 61.0  # a round every 60 s, and nothing younger than 6 s is asked about


@pytest.fixture
async def producer(broker: Broker, join: Join) -> TransactionPeer:
    return await join(broker)


async def resume(producer: TransactionPeer, message_id: str, expect: int = 0) -> None:
    header = ResumeCheckHalfMessageRequestHeader(msg_id=message_id)
    await producer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, header, expect=expect)


async def give_up(producer: TransactionPeer) -> None:
    """Let the one transaction of a broker with transactionCheckMax=1 be given up."""
    await producer.stay(130)
    await eventually(lambda: len(producer.given_up()) == 1)


async def test_a_producer_is_asked_about_an_open_half_message(producer: TransactionPeer) -> None:
    place = await producer.prepare("tx-1", TAGS="paid", colour="blue")
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    copy = producer.halves()[1]
    assert question.place == Place(copy.queue_offset, copy.physical_offset)  # the copy, not the one that was sent
    assert question.place != place
    assert question.header.msg_id == question.header.transaction_id == "tx-1"
    assert question.header.offset_msg_id == copy.offset_message_id
    message = question.message
    assert (message.topic, message.queue_id, message.body, message.tags) == ("orders", 0, b"tx-1", "paid")
    assert (message.queue_offset, message.physical_offset) == question.place
    assert message.properties["colour"] == "blue"
    assert message.properties["PGROUP"] == "payers"


@pytest.mark.parametrize(("state", "delivered"), [(COMMIT, 1), (ROLLBACK, 0)])
async def test_the_answer_ends_the_transaction(
    producer: TransactionPeer, state: TransactionState, delivered: int
) -> None:
    await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.answer(question, state)
    assert len(producer.delivered()) == delivered
    assert await producer.listed() == []
    await producer.stay(200)
    assert len(producer.questions) == 1


async def test_nobody_is_asked_about_what_has_ended(producer: TransactionPeer) -> None:
    await producer.end(await producer.prepare("tx-1"), COMMIT)
    await producer.end(await producer.prepare("tx-2"), ROLLBACK)
    await producer.stay(LONG_ENOUGH)
    assert producer.questions == []
    assert len(producer.halves()) == 2


async def test_nobody_is_asked_about_what_is_younger_than_the_time_out(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(transactionTimeOut=30_000))
    await producer.stay(40)
    await producer.prepare()
    await producer.stay(25)  # the first round comes meanwhile
    assert producer.questions == []
    await producer.stay(60)
    await producer.asked(1)


async def test_a_clock_that_was_set_back_does_not_stop_the_questions(producer: TransactionPeer) -> None:
    await producer.prepare()
    producer.clock.set_wall_clock(minutes=-10)
    await producer.stay(LONG_ENOUGH)
    await producer.asked(1)


async def test_a_half_message_may_ask_to_be_left_alone_for_longer(producer: TransactionPeer) -> None:
    await producer.prepare("patient", CHECK_IMMUNITY_TIME_IN_SECONDS="200")
    await producer.prepare("hasty")
    await producer.stay(190)
    await producer.asked(3)
    assert {question.message.body for question in producer.questions} == {b"hasty"}
    await producer.stay(60)
    await eventually(lambda: any(question.message.body == b"patient" for question in producer.questions))
    patient = next(question for question in producer.questions if question.message.body == b"patient")
    assert patient.message.properties["TRANSACTION_CHECK_TIMES"] == "1"  # waiting was not counted


async def test_an_immunity_that_is_no_number_is_none(producer: TransactionPeer) -> None:
    await producer.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    await producer.stay(LONG_ENOUGH)
    await producer.asked(1)


async def test_the_copies_count_the_questions(producer: TransactionPeer) -> None:
    await producer.prepare()
    await producer.stay(200)
    await producer.asked(3)
    assert [half.properties.get("TRANSACTION_CHECK_TIMES") for half in producer.halves()] == [None, "1", "2", "3"]
    assert [op.body for op in producer.ops()] == [b"0", b"1", b"2"]  # only the last copy is open
    assert [half.queue_offset for half in await producer.listed()] == [3]


async def test_a_transaction_is_given_up_after_so_many_questions(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(transactionCheckMax=2))
    await producer.prepare("tx-1", KEYS="o-1")
    await producer.stay(300)
    [message] = producer.given_up()
    assert len(producer.questions) == 2
    assert (message.body, message.keys) == (b"tx-1", ("o-1",))
    assert message.properties["REAL_TOPIC"] == "orders"
    assert await producer.listed() == []
    assert [half.message_id for half in await producer.listed(given_up=True)] == ["tx-1"]


async def test_a_transaction_older_than_the_log_is_kept_is_given_up(
    clock: TestClock, start_broker: StartBroker, join: Join
) -> None:
    producer = await join(await start_broker(fileReservedTime=1, transactionCheckInterval=600_000))
    await producer.prepare(CHECK_IMMUNITY_TIME_IN_SECONDS="86400")
    await clock.advance_async(hours=1.3)
    await eventually(lambda: len(producer.given_up()) == 1)
    assert producer.questions == []


async def test_a_transaction_whose_producers_are_gone_waits_for_them(
    clock: TestClock, broker: Broker, producer: TransactionPeer, join: Join
) -> None:
    await producer.prepare()
    await producer.remoting.close()
    await eventually(lambda: not broker.clients.producers)
    await clock.advance_async(minutes=30)
    assert producer.given_up() == []
    assert len(producer.halves()) == 1  # nor is it written again and again
    heir = await join(broker)
    await heir.stay(LONG_ENOUGH)
    [question] = await heir.asked(1)
    await heir.answer(question)
    assert len(heir.delivered()) == 1


async def test_the_producers_of_a_group_are_asked_in_turn(
    broker: Broker, producer: TransactionPeer, join: Join
) -> None:
    second = await join(broker)
    other = await join(broker, "others")
    for number in range(10):
        await producer.prepare(f"tx-{number}")
    await producer.stay(LONG_ENOUGH)
    await eventually(lambda: len(producer.questions) + len(second.questions) == 10)
    assert len(producer.questions) == len(second.questions) == 5
    assert other.questions == []


async def test_a_late_end_by_the_half_message_that_was_sent_still_counts(producer: TransactionPeer) -> None:
    place = await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.end(place, COMMIT)  # the local transaction took its time
    assert len(producer.delivered()) == 1
    assert await producer.listed() == []
    await producer.answer(question, COMMIT)
    assert len(producer.delivered()) == 1


async def test_answers_to_two_questions_have_one_effect(producer: TransactionPeer) -> None:
    await producer.prepare()
    await producer.stay(2 * LONG_ENOUGH)
    first, second = await producer.asked(2)
    await producer.answer(second, COMMIT)
    await producer.answer(first, COMMIT)
    assert len(producer.delivered()) == 1


async def test_a_producer_that_does_not_know_is_asked_again(producer: TransactionPeer) -> None:
    await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.answer(question, UNKNOWN)
    await producer.stay(LONG_ENOUGH)
    await producer.asked(2)


async def test_a_send_that_was_tried_twice_is_committed_once(
    clock: TestClock, producer: TransactionPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    born_ms = clock.now_ms()
    monkeypatch.setattr(type(clock), "now_ms", lambda self: born_ms)  # the second attempt is the same message
    await producer.prepare("tx-1")
    second = await producer.prepare("tx-1")
    monkeypatch.undo()
    await producer.end(second, COMMIT)
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.answer(question, COMMIT)
    assert len(producer.delivered()) == 1


async def test_without_an_index_an_end_by_a_replaced_half_message_is_refused(
    start_broker: StartBroker, join: Join
) -> None:
    producer = await join(await start_broker(messageIndexEnable="false"))
    place = await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.end(place, COMMIT, expect=ResponseCode.SYSTEM_ERROR)
    await producer.answer(question, COMMIT)
    await producer.answer(question, COMMIT, expect=ResponseCode.SYSTEM_ERROR)
    assert len(producer.delivered()) == 1


async def test_an_index_that_has_lost_a_half_message_does_not_end_it(
    producer: TransactionPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await producer.prepare()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    monkeypatch.setattr(producer.broker.store, "find", lambda *query: [])
    await producer.answer(question, COMMIT)
    assert len(producer.delivered()) == 1


# --- given up, and what may still come of it


async def test_a_given_up_transaction_can_be_resumed(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(transactionCheckMax=1))
    await producer.prepare()
    await give_up(producer)
    [message] = await producer.listed(given_up=True)
    await resume(producer, message.offset_message_id)
    assert await producer.listed(given_up=True) == []
    [half] = await producer.listed()
    assert half.properties["TRANSACTION_CHECK_TIMES"] == "0"
    producer.questions.clear()
    await producer.stay(LONG_ENOUGH)
    [question] = await producer.asked(1)
    await producer.answer(question, COMMIT)
    assert len(producer.delivered()) == 1


async def test_a_transaction_is_resumed_only_once(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(transactionCheckMax=1))
    await producer.prepare()
    await give_up(producer)
    [message] = producer.given_up()
    await resume(producer, message.offset_message_id)
    await resume(producer, message.offset_message_id, expect=ResponseCode.SYSTEM_ERROR)
    assert len(await producer.listed()) == 1


async def test_only_what_was_given_up_can_be_resumed(producer: TransactionPeer) -> None:
    await producer.prepare()
    [half] = producer.halves()
    for message_id in (half.offset_message_id, "00" * 16, "nonsense", ""):
        await resume(producer, message_id, expect=ResponseCode.SYSTEM_ERROR)
    assert len(producer.halves()) == 1


async def test_a_commit_of_a_given_up_transaction_is_taken_once(start_broker: StartBroker, join: Join) -> None:
    producer = await join(await start_broker(transactionCheckMax=1))
    place = await producer.prepare()
    await give_up(producer)
    await producer.end(place, ROLLBACK)
    assert len(await producer.listed(given_up=True)) == 1
    await producer.end(place, COMMIT)
    await producer.end(place, COMMIT)
    assert len(producer.delivered()) == 1
    assert await producer.listed(given_up=True) == []
    [message] = producer.given_up()
    await resume(producer, message.offset_message_id, expect=ResponseCode.SYSTEM_ERROR)


# --- progress


async def progress(producer: TransactionPeer) -> tuple[int | None, int | None]:
    """Return how many half messages and op records are done with, once the log is durable and that is saved."""
    store, offsets = producer.broker.store, producer.broker.offsets
    await eventually(lambda: store.flushed_offset == store.max_physical_offset)
    await producer.stay(3)
    half = offsets.get(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0)
    return half, offsets.get(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, 0)


async def test_progress_is_kept_as_apache_keeps_it(producer: TransactionPeer) -> None:
    places = [await producer.prepare(f"tx-{number}") for number in range(4)]
    for place in (places[0], places[1], places[3]):
        await producer.end(place, COMMIT)
    assert await progress(producer) == (2, 2)  # the third op record is of a half message behind the open one
    await producer.end(places[2], ROLLBACK)
    assert await progress(producer) == (4, 4)


async def test_progress_is_not_saved_before_the_log_is_durable(start_broker: StartBroker, join: Join) -> None:
    disk = SlowDisk()
    producer = await join(await start_broker(disk))
    await producer.end(await producer.prepare("tx-1"), COMMIT)
    assert await progress(producer) == (1, 1)
    disk.passes.clear()
    try:
        await producer.end(await producer.prepare("tx-2"), COMMIT)
        await producer.stay(5)
        assert producer.broker.offsets.get(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, 0) == 1
    finally:
        disk.passes.set()
    assert await progress(producer) == (2, 2)


async def test_a_half_message_that_holds_up_too_many_is_moved(
    producer: TransactionPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_checks, "MOST_IN_LEDGER", 3)
    await producer.prepare("patient", CHECK_IMMUNITY_TIME_IN_SECONDS="3600")
    for number in range(5):
        await producer.end(await producer.prepare(f"tx-{number}"), COMMIT)
    await producer.stay(LONG_ENOUGH)
    assert await progress(producer) == (6, 6)
    [half] = await producer.listed()
    assert half.queue_offset == 6
    assert half.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "0"
    assert "TRANSACTION_CHECK_TIMES" not in half.properties
