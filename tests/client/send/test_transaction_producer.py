"""TransactionProducer against a real broker, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pyromq import COMMIT, ROLLBACK, UNKNOWN, ClientError, Message, MessageExt, SendStatus, TransactionProducer
from pyromq.blocking import TransactionProducer as BlockingTransactionProducer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader, TransactionState
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import ScriptedBroker, register_broker, stored_count

ROUND = 61.0  # the broker asks every 60 s


@pytest.fixture
async def timed() -> AsyncIterator[LocalCluster]:
    """A cluster whose clock this test alone moves."""
    async with LocalCluster() as cluster:
        yield cluster


class Ledger:
    """A local database: what was done, and a check that looks into it."""

    def __init__(self, *answers: TransactionState) -> None:
        self.done: list[str] = []
        self.asked: list[MessageExt] = []
        self._answers = list(answers)

    async def commit(self, message: MessageExt) -> TransactionState:
        self.done.append(message.message_id)
        return COMMIT

    async def check(self, message: MessageExt) -> TransactionState:
        self.asked.append(message)
        return self._answers.pop(0) if self._answers else UNKNOWN


def open_producer(cluster: LocalCluster, group: str, check: Any, **options: Any) -> TransactionProducer:
    return TransactionProducer(group, cluster.namesrv, check=check, clock=cluster.clock, **options)


async def count(cluster: LocalCluster, topic: str) -> int:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        return await stored_count(api, topic)


async def delivered(cluster: LocalCluster, topic: str, wanted: int) -> None:
    """Wait until a topic holds so many messages."""

    async def held() -> bool:
        return await count(cluster, topic) == wanted

    await eventually(held)


async def test_a_committed_message_is_delivered(cluster: LocalCluster, topic: str, group: str) -> None:
    ledger = Ledger()
    async with open_producer(cluster, group, ledger.check) as producer:
        result = await producer.send_in_transaction(Message(topic=topic, body=b"pay", keys=["o-1"]), ledger.commit)
        assert (result.status, result.state, result.error) == (SendStatus.SEND_OK, COMMIT, None)
        assert ledger.done == [result.message_id]
        await delivered(cluster, topic, 1)
        found = await producer.find(topic, result.message_id)
        assert found is not None
        assert (found.body, found.keys, found.properties["PGROUP"]) == (b"pay", ("o-1",), group)


async def test_the_local_transaction_gets_the_message_with_its_id(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    got: list[MessageExt] = []

    async def execute(half: MessageExt) -> TransactionState:
        got.append(half)
        return ROLLBACK

    async with open_producer(cluster, group, Ledger().check) as producer:
        body = b"x" * 10_000  # compressed on its way
        message = Message(topic=topic, body=body, tags="t", keys=["k"], properties={"p": "1"})
        result = await producer.send_in_transaction(message, execute)
    [half] = got
    assert (half.topic, half.body, half.tags, half.keys) == (topic, body, "t", ("k",))
    assert (half.properties["p"], half.message_id) == ("1", result.message_id)
    assert half.offset_message_id == result.offset_message_id


async def test_a_message_that_was_rolled_back_is_never_delivered(timed: LocalCluster, topic: str, group: str) -> None:
    ledger = Ledger(COMMIT)
    async with open_producer(timed, group, ledger.check) as producer:
        result = await producer.send_in_transaction(Message(topic=topic, body=b"pay"), lambda half: ROLLBACK)
        assert result.state is ROLLBACK
        await producer.send(Message(topic=topic, body=b"plain"))
        await timed.clock.advance_async(seconds=2 * ROUND)
        assert ledger.asked == []
        assert await count(timed, topic) == 1


@pytest.mark.parametrize("answer", [COMMIT, ROLLBACK])
async def test_an_unknown_outcome_is_found_out_by_the_check(
    timed: LocalCluster, topic: str, group: str, answer: TransactionState
) -> None:
    ledger = Ledger(UNKNOWN, answer)
    async with open_producer(timed, group, ledger.check) as producer:
        await producer.send(Message(topic=topic, body=b"plain"))
        message = Message(topic=topic, body=b"pay" * 2000, tags="paid", keys=["o-1"])
        result = await producer.send_in_transaction(message, lambda half: UNKNOWN)
        await timed.clock.advance_async(seconds=3 * ROUND)
        await eventually(lambda: len(ledger.asked) == 2)
        await delivered(timed, topic, 2 if answer is COMMIT else 1)
    for asked in ledger.asked:
        assert (asked.topic, asked.body, asked.tags, asked.keys) == (topic, b"pay" * 2000, "paid", ("o-1",))
        assert asked.message_id == result.message_id


@pytest.mark.parametrize(
    "outcome", [None, "yes", 8, ValueError("no money"), asyncio.CancelledError(), SystemExit("no money")]
)
async def test_anything_but_a_state_means_that_nobody_knows(
    timed: LocalCluster, topic: str, group: str, outcome: object
) -> None:
    ends = heard_ends(timed)

    async def execute(message: MessageExt) -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async with open_producer(timed, group, Ledger().check) as producer:
        result = await producer.send_in_transaction(Message(topic=topic, body=b"pay"), execute)
        assert result.state is UNKNOWN
        assert result.error is (outcome if isinstance(outcome, BaseException) else None)
        await eventually(lambda: len(ends) == 1)
    remark = ends[0].remark or ""
    assert ("no money" in remark) == ("no money" in str(outcome))
    assert ("yes" in remark) == (outcome == "yes")


def heard_ends(cluster: LocalCluster) -> list[RemotingCommand]:
    """Keep the ends that a cluster's broker gets, besides doing what they say."""
    heard: list[RemotingCommand] = []
    server = cluster.brokers[0].server
    assert server is not None
    handler = server.handlers[RequestCode.END_TRANSACTION]

    def listen(command: RemotingCommand, connection: Any) -> Any:
        heard.append(command)
        return handler(command, connection)

    server.handlers[RequestCode.END_TRANSACTION] = listen
    return heard


async def test_an_end_is_what_java_sends(timed: LocalCluster, topic: str, group: str) -> None:
    ends = heard_ends(timed)
    async with open_producer(timed, group, Ledger(COMMIT).check) as producer:
        first = await producer.send_in_transaction(Message(topic=topic, body=b"1"), Ledger().commit)
        await producer.send_in_transaction(Message(topic=topic, body=b"2"), lambda half: UNKNOWN)
        await eventually(lambda: len(ends) == 2)
        await timed.clock.advance_async(seconds=ROUND)
        await eventually(lambda: len(ends) == 3)
    headers = [command.header(EndTransactionRequestHeader) for command in ends]
    assert [header.commit_or_rollback for header in headers] == [COMMIT, UNKNOWN, COMMIT]
    assert [header.from_transaction_check for header in headers] == [False, False, True]
    assert {header.producer_group for header in headers} == {group}
    assert headers[0].msg_id == first.message_id
    assert headers[0].tran_state_table_offset == first.queue_offset
    assert all(command.flag & 2 for command in ends)


async def test_plain_functions_run_on_threads(timed: LocalCluster, topic: str, group: str) -> None:
    threads: list[str] = []

    def execute(message: MessageExt) -> TransactionState:
        threads.append(threading.current_thread().name)
        return UNKNOWN

    def check(message: MessageExt) -> TransactionState:
        threads.append(threading.current_thread().name)
        return COMMIT

    async with open_producer(timed, group, check) as producer:
        await producer.send_in_transaction(Message(topic=topic, body=b"pay"), execute)
        await timed.clock.advance_async(seconds=ROUND)
        await delivered(timed, topic, 1)
    assert len(threads) == 2
    assert threading.current_thread().name not in threads


async def test_a_check_that_raises_leaves_the_transaction_open(timed: LocalCluster, topic: str, group: str) -> None:
    attempts = 0

    async def check(message: MessageExt) -> TransactionState:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ConnectionError("the database is away")
        return COMMIT

    async with open_producer(timed, group, check) as producer:
        await producer.send_in_transaction(Message(topic=topic, body=b"pay"), lambda half: UNKNOWN)
        await timed.clock.advance_async(seconds=2 * ROUND)
        await delivered(timed, topic, 1)
    assert attempts == 2


async def test_a_transaction_may_ask_to_be_left_alone(timed: LocalCluster, topic: str, group: str) -> None:
    ledger = Ledger(COMMIT)
    async with open_producer(timed, group, ledger.check) as producer:
        message = Message(topic=topic, body=b"pay")
        await producer.send_in_transaction(message, lambda half: UNKNOWN, immunity=timedelta(minutes=5))
        await timed.clock.advance_async(seconds=280)
        assert ledger.asked == []
        await timed.clock.advance_async(seconds=90)
        await delivered(timed, topic, 1)


async def test_another_producer_answers_for_one_that_died(timed: LocalCluster, topic: str, group: str) -> None:
    async def never(message: MessageExt) -> TransactionState:
        raise AssertionError("it is dead")

    async with open_producer(timed, group, never) as producer:
        await producer.send_in_transaction(Message(topic=topic, body=b"pay"), lambda half: UNKNOWN)
    heir = Ledger(COMMIT)
    async with open_producer(timed, group, heir.check):  # it has sent nothing, and knows no topic
        await timed.clock.advance_async(seconds=ROUND)
        await delivered(timed, topic, 1)
    assert len(heir.asked) == 1


async def test_the_check_goes_on_after_the_broker_came_back(timed: LocalCluster, topic: str, group: str) -> None:
    ledger = Ledger(COMMIT)
    async with open_producer(timed, group, ledger.check) as producer:
        await producer.send_in_transaction(Message(topic=topic, body=b"pay"), lambda half: UNKNOWN)
        await asyncio.to_thread(timed.stop_broker)
        await asyncio.to_thread(timed.start_broker)
        await timed.clock.advance_async(seconds=2 * ROUND)
        await delivered(timed, topic, 1)


async def test_a_half_message_goes_to_the_queue_that_was_chosen(cluster: LocalCluster, topic: str, group: str) -> None:
    async with open_producer(cluster, group, Ledger().check) as producer:
        queue = MessageQueue(topic, "broker-a", 3)
        message = Message(topic=topic, body=b"pay")
        result = await producer.send_in_transaction(message, lambda half: COMMIT, queue=queue)
        assert result.queue == queue
        keyed = await producer.send_in_transaction(message, lambda half: COMMIT, order_key="o-1")
        again = await producer.send_in_transaction(message, lambda half: COMMIT, order_key="o-1")
        assert keyed.queue == again.queue
        await delivered(cluster, topic, 3)


async def test_inside_a_namespace_names_stay_as_the_caller_wrote_them(timed: LocalCluster) -> None:
    ledger = Ledger(COMMIT)
    got: list[str] = []

    async def execute(half: MessageExt) -> TransactionState:
        got.append(half.topic)
        return UNKNOWN

    async with open_producer(timed, "payers", ledger.check, namespace="shop") as producer:
        message = Message(topic="pay", body=b"1")
        await producer.send_in_transaction(message, execute)
        await timed.clock.advance_async(seconds=ROUND)
        await delivered(timed, "shop%pay", 1)
    assert got == [asked.topic for asked in ledger.asked] == ["pay"]


async def test_what_is_stored_less_safely_is_rolled_back(timed: LocalCluster, group: str) -> None:
    ledger = Ledger()
    async with ScriptedBroker(10, timed.clock) as broker, await BrokerApi.connect(timed.namesrv) as api:
        ends: list[RemotingCommand] = []
        broker.handlers[RequestCode.END_TRANSACTION] = lambda command, _: ends.append(command)
        await register_broker(api, "flaky", broker.address, "flaky-topic")
        async with open_producer(timed, group, ledger.check) as producer:
            result = await producer.send_in_transaction(Message(topic="flaky-topic", body=b"pay"), ledger.commit)
            assert (result.status, result.state) == (SendStatus.FLUSH_DISK_TIMEOUT, ROLLBACK)
            assert ledger.done == []
            await eventually(lambda: len(ends) == 1)
        assert ends[0].header(EndTransactionRequestHeader).commit_or_rollback is ROLLBACK


async def test_a_cancelled_transaction_is_found_out_by_the_check(timed: LocalCluster, topic: str, group: str) -> None:
    ledger = Ledger(COMMIT)
    begun = asyncio.Event()

    async def execute(message: MessageExt) -> TransactionState:
        begun.set()
        await asyncio.Event().wait()
        return COMMIT

    async with open_producer(timed, group, ledger.check) as producer:
        sending = asyncio.create_task(producer.send_in_transaction(Message(topic=topic, body=b"pay"), execute))
        await begun.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await timed.clock.advance_async(seconds=ROUND)
        await delivered(timed, topic, 1)


async def test_closing_waits_for_a_transaction_that_is_under_way(cluster: LocalCluster, topic: str, group: str) -> None:
    begun = asyncio.Event()

    async def execute(message: MessageExt) -> TransactionState:
        begun.set()
        await asyncio.sleep(0.05)
        await producer.send(Message(topic=topic, body=b"a message of the local transaction's own"))
        return COMMIT

    async with open_producer(cluster, group, Ledger().check) as producer:
        sending = asyncio.create_task(producer.send_in_transaction(Message(topic=topic, body=b"pay"), execute))
        await begun.wait()
    assert (await sending).state is COMMIT
    await delivered(cluster, topic, 2)


def test_a_producer_of_transactions_needs_a_check() -> None:
    with pytest.raises(TypeError):
        TransactionProducer("payers", "127.0.0.1:1")  # type: ignore[call-arg]
    with pytest.raises(ClientError):
        TransactionProducer("payers", "127.0.0.1:1", check=None)  # type: ignore[arg-type]


async def test_it_starts_without_a_name_server_and_sends_plainly_too(cluster: LocalCluster, topic: str) -> None:
    async with TransactionProducer("lonely", "127.0.0.1:1", check=Ledger().check) as producer:
        assert producer.client_id
    async with open_producer(cluster, "plain", Ledger().check) as producer:
        await producer.send(Message(topic=topic, body=b"plain"))
    assert await count(cluster, topic) == 1


def test_the_blocking_face_runs_plain_functions(cluster: LocalCluster, topic: str) -> None:
    def pay(message: MessageExt) -> TransactionState:
        return COMMIT

    with BlockingTransactionProducer("blocking-payers", cluster.namesrv, check=pay) as producer:
        result = producer.send_in_transaction(Message(topic=topic, body=b"pay"), pay)
        assert result.state is COMMIT
        found = producer.find(topic, result.message_id)
    assert found is None or found.body == b"pay"  # an end is not answered: it may be on its way


async def test_a_closed_producer_is_not_asked_any_more(timed: LocalCluster, topic: str) -> None:
    dead, alive = Ledger(), Ledger(COMMIT)
    async with open_producer(timed, "alive", alive.check, instance_name="shared") as producer:
        async with open_producer(timed, "dead", dead.check, instance_name="shared") as other:
            await other.send_in_transaction(Message(topic=topic, body=b"dead"), lambda half: UNKNOWN)
        await producer.send_in_transaction(Message(topic=topic, body=b"alive"), lambda half: UNKNOWN)
        await timed.clock.advance_async(seconds=ROUND)
        await delivered(timed, topic, 1)
    assert dead.asked == []
