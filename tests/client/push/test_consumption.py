"""Listeners that fail in unusual ways, against a real broker: their messages are neither lost nor overtaken."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from pyromq.client.hooks import ConsumeContext, ConsumeHook
from pyromq.client.listener.outcomes import Ack, RetryLater
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import dlq_topic
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import SendBacks

COUNT = 10


@pytest.fixture
async def own_cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as running:
        yield running


async def send_numbers(cluster: LocalCluster, topic: str, count: int = COUNT) -> None:
    """Send numbered messages to one queue, in order."""
    async with Producer("p", cluster.namesrv) as producer:
        queue = (await producer.queues(topic))[0]
        for number in range(count):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)


async def pass_time(cluster: LocalCluster, until: Callable[[], bool], step: float = 0.5, most: int = 200) -> None:
    """Move the clock on, step by step, until something is so; a busy machine gets real time for each step."""
    for _ in range(most):
        for _ in range(20):
            if until():
                return
            await asyncio.sleep(0.001)
        await cluster.clock.advance_async(seconds=step)
    raise AssertionError(f"not so after {most * step:g} s")


def number_of(message: MessageExt) -> int:
    return int(message.body)


class Unreadable(Exception):
    """An exception that cannot be looked at."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class BareRetry(RetryLater):
    """A subclass that does not call the constructor of its base."""

    def __init__(self) -> None:
        pass


class WrongDelay(RetryLater):
    """A delay that is no time."""

    delay = "soon"  # type: ignore[assignment]


async def wait_for_something_cancelled() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await future


async def cancel_oneself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


FAILURES = ["cancelled", "cancels itself", "unreadable", "bare retry", "wrong delay", "exit"]


async def fail(kind: str) -> None:
    match kind:
        case "cancelled":
            await wait_for_something_cancelled()
        case "cancels itself":
            await cancel_oneself()
        case "unreadable":
            raise Unreadable
        case "bare retry":
            raise BareRetry
        case "wrong delay":
            raise WrongDelay
        case "exit":
            raise SystemExit(3)


@pytest.mark.parametrize("kind", FAILURES)
async def test_nothing_overtakes_a_message_in_an_orderly_queue(
    own_cluster: LocalCluster, topic: str, group: str, kind: str
) -> None:
    await send_numbers(own_cluster, topic)
    seen: list[int] = []
    failed = False

    async def listen(message: MessageExt) -> None:
        nonlocal failed
        if number_of(message) == 3 and not failed:
            failed = True
            await fail(kind)
        seen.append(number_of(message))

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=clock
    ):
        await eventually(lambda: failed)
        await clock.advance_async(seconds=0.5)
        assert seen == [0, 1, 2]
        await pass_time(own_cluster, lambda: len(seen) >= COUNT)
    assert seen == list(range(COUNT))


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failed_message_goes_back_to_the_broker_and_the_others_go_on(
    own_cluster: LocalCluster, topic: str, group: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With one task: if it ended, the consumer would stand still."""
    backs = SendBacks(own_cluster)
    await send_numbers(own_cluster, topic)
    seen: list[int] = []

    async def listen(message: MessageExt) -> None:
        if number_of(message) == 3:
            await fail(kind)
        seen.append(number_of(message))

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, concurrency=1, start_from="earliest", clock=clock
    ):
        await pass_time(own_cluster, lambda: len(seen) == COUNT - 1 and backs.headers != [], step=0.2)
    assert seen == [number for number in range(COUNT) if number != 3]
    (header,) = backs.headers
    assert header.pyromq_cause
    if kind in ("cancelled", "unreadable", "exit"):
        assert [record.levelname for record in caplog.records if "failed message=" in record.getMessage()] == [
            "WARNING"
        ]


async def test_a_message_whose_failure_cannot_be_read_becomes_a_dead_letter(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_numbers(own_cluster, topic, 1)
    tries = 0

    async def listen(message: MessageExt) -> None:
        nonlocal tries
        tries += 1
        raise Unreadable

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, max_reconsume=1, start_from="earliest", clock=clock
    ):
        await pass_time(own_cluster, lambda: dead_letters(own_cluster, group) != [], step=5)
    assert tries == 2
    (letter,) = dead_letters(own_cluster, group)
    assert "Unreadable: its text cannot be read" in letter.properties["PYROMQ_CAUSE"]


async def test_a_log_handler_that_raises_does_not_change_what_becomes_of_a_message(
    own_cluster: LocalCluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(logging.Handler):
        """Reads the text of each error, as formatters do that write JSON, and does not catch what that raises."""

        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                str(record.exc_info[1])

    tried: list[int] = []

    async def listen(message: MessageExt) -> None:
        tried.append(message.reconsume_times)
        raise Unreadable

    await send_numbers(own_cluster, topic, 1)
    monkeypatch.setattr(logging.getLogger("pyromq.client.push.consumption"), "handlers", [Strict()])
    async with PushConsumer(
        group,
        own_cluster.namesrv,
        {topic: "*"},
        listen,
        max_reconsume=1,
        start_from="earliest",
        clock=own_cluster.clock,
    ):
        await pass_time(own_cluster, lambda: dead_letters(own_cluster, group) != [], step=5)
    assert tried == [0, 1]


def dead_letters(cluster: LocalCluster, group: str) -> list[MessageExt]:
    """Return what lies among a group's dead letters."""
    server = cluster.brokers[0].server
    assert server is not None
    return decode_messages(b"".join(map(bytes, server.store.get(dlq_topic(group), 0, 0, 32).views)))


async def test_a_worker_that_is_cancelled_from_outside_is_replaced(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_numbers(own_cluster, topic)
    seen: list[int] = []
    tasks: list[asyncio.Task[object]] = []

    async def listen(message: MessageExt) -> None:
        task = asyncio.current_task()
        assert task is not None
        if number_of(message) == 3 and not tasks:
            tasks.append(task)
            await asyncio.Event().wait()
        seen.append(number_of(message))

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=True, start_from="earliest", clock=clock
    ):
        await eventually(lambda: tasks != [])
        tasks[0].cancel()
        await pass_time(own_cluster, lambda: len(seen) >= COUNT)
    assert seen == list(range(COUNT))


async def test_messages_behind_a_partial_acknowledgement_are_not_given_up(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    await send_numbers(own_cluster, topic, 6)
    tried: dict[int, int] = {}
    seen: list[int] = []

    async def listen(messages: list[MessageExt]) -> Ack:
        for index, message in enumerate(messages):
            number = number_of(message)
            if number == 2:
                tried[number] = tried.get(number, 0) + 1
                return Ack(first=index)
            assert message.reconsume_times == 0
            seen.append(number)
        return Ack(first=len(messages))

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen,
        orderly=True, batch_size=6, max_reconsume=2, start_from="earliest", clock=clock,
    ) as consumer:  # fmt: skip
        for times in (1, 2):  # the clock moves only while the queue rests: no request is under way
            await eventually(lambda times=times: [found.times for found in consumer.blocked] == [times])  # type: ignore[misc]
            await clock.advance_async(seconds=1.1)
        await eventually(lambda: len(seen) >= 5)
    assert seen == [0, 1, 3, 4, 5]
    assert tried == {2: 3}
    assert [letter.body for letter in dead_letters(own_cluster, group)] == [b"2"]


@pytest.mark.parametrize("orderly", [True, False])
async def test_a_fault_of_our_own_loses_nothing(
    own_cluster: LocalCluster, topic: str, group: str, orderly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_numbers(own_cluster, topic)
    seen: list[int] = []
    faults = 0

    def fault(*args: object) -> None:
        nonlocal faults
        faults += 1
        if faults == 1:
            raise RuntimeError("a fault of our own")

    async def listen(message: MessageExt) -> None:
        if number_of(message) == 3 and not faults:
            raise ValueError("not yet")
        seen.append(number_of(message))

    clock = own_cluster.clock
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen, orderly=orderly, start_from="earliest", clock=clock
    ) as consumer:
        monkeypatch.setattr(consumer._session.consumption, "_log_failure", fault)
        await pass_time(own_cluster, lambda: len(seen) >= COUNT)
    assert faults == 1
    assert sorted(seen) == list(range(COUNT))
    if orderly:
        assert seen == sorted(seen)


async def test_a_listener_that_returns_something_unrun_has_failed(
    own_cluster: LocalCluster, topic: str, group: str
) -> None:
    backs = SendBacks(own_cluster)
    await send_numbers(own_cluster, topic, 1)

    async def work() -> None:
        raise AssertionError("never awaited")

    async def listen(message: MessageExt) -> object:
        return work()

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        await eventually(lambda: backs.headers != [])
    assert "returned a coroutine, which nobody runs" in str(backs.headers[0].pyromq_cause)


# --- hooks ------------------------------------------------------------------------------------------------------------


class Broken(ConsumeHook):
    """Fails wherever it is called."""

    def accept(self, message: MessageExt) -> bool:
        raise RuntimeError("a hook's own trouble")

    def before(self, context: ConsumeContext) -> None:
        raise SystemExit("a hook's own trouble")

    def after(self, context: ConsumeContext) -> None:
        raise RuntimeError("a hook's own trouble")


async def test_a_hook_that_fails_changes_nothing(
    own_cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await send_numbers(own_cluster, topic)
    seen: list[int] = []

    async def listen(message: MessageExt) -> None:
        seen.append(number_of(message))

    async with PushConsumer(group, own_cluster.namesrv, {topic: "*"}, listen, start_from="earliest", hooks=[Broken()]):
        await eventually(lambda: len(seen) == COUNT)
    assert sorted(seen) == list(range(COUNT))
    assert any("Broken.accept failed and is ignored" in record.getMessage() for record in caplog.records)


# --- listeners that hang ----------------------------------------------------------------------------------------------


async def test_listeners_that_hang_take_a_bounded_number_of_threads(
    own_cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After the time-out a thread is left behind: as many as `concurrency`, then each takes a place."""
    count, concurrency = 40, 3
    backs = SendBacks(own_cluster)
    await send_numbers(own_cluster, topic, count)
    gate = threading.Event()
    seen: list[int] = []

    def listen(message: MessageExt) -> None:
        gate.wait(60)
        seen.append(number_of(message))

    def threads() -> int:
        return sum(thread.name.startswith("pyromq listener") for thread in threading.enumerate())

    before = threads()
    async with PushConsumer(
        group, own_cluster.namesrv, {topic: "*"}, listen,
        concurrency=concurrency, consume_timeout=1.0, start_from="earliest", clock=own_cluster.clock,
    ) as consumer:  # fmt: skip
        await pass_time(own_cluster, lambda: consumer._session._threads.left_behind == 2 * concurrency)
        for _ in range(20):
            await own_cluster.clock.advance_async(seconds=1)
        assert threads() - before == 2 * concurrency
        assert len(backs.headers) == 2 * concurrency, "the others were not tried and have not failed"
        assert [record.levelname for record in caplog.records if "hang although" in record.getMessage()] == ["ERROR"]
        gate.set()
        await eventually(lambda: len(seen) == count)
    assert sorted(seen) == list(range(count))
