"""Several sends in flight: results in order, failures and interrupts lose no result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyromq.cli.send.send_window import Numbered, SendWindow
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageQueue


class FakeProducer:
    """Answers each send when the test says so."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, asyncio.Future[SendResult]] = {}

    async def send(self, message: Message) -> SendResult:
        self.waiting[message.body] = asyncio.get_running_loop().create_future()
        return await self.waiting[message.body]

    def store(self, *bodies: bytes) -> None:
        for body in bodies:
            queue = MessageQueue("t", "broker-a", 0)
            result = SendResult(SendStatus.SEND_OK, body.decode(), "", queue, 0)
            self.waiting[body].set_result(result)


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


async def lines(*bodies: bytes, then: asyncio.Event | None = None) -> AsyncIterator[Numbered]:
    for number, body in enumerate(bodies, 1):
        yield Numbered(number, Message("t", body))
    if then is not None:
        await then.wait()


async def passes() -> None:
    """Let everything that can happen now happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.split()[1] for line in capsys.readouterr().out.splitlines()]


async def test_results_are_printed_in_order_while_the_input_is_open(
    producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    end = asyncio.Event()
    running = asyncio.create_task(SendWindow(producer.send, 8, False).run(lines(b"a", b"b", b"c", then=end)))
    await passes()
    producer.store(b"b")
    await passes()
    assert printed(capsys) == []
    producer.store(b"a")
    await passes()
    assert printed(capsys) == ["a", "b"]
    producer.store(b"c")
    end.set()
    await running
    assert printed(capsys) == ["c"]


async def test_no_more_than_the_window_is_in_flight(producer: FakeProducer) -> None:
    running = asyncio.create_task(SendWindow(producer.send, 1, False).run(lines(b"a", b"b")))
    await passes()
    assert list(producer.waiting) == [b"a"]
    producer.store(b"a")
    await passes()
    producer.store(b"b")
    await running


async def test_a_failure_ends_the_input_and_reports_all_that_was_stored(
    producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    end = asyncio.Event()
    running = asyncio.create_task(SendWindow(producer.send, 4, False).run(lines(b"a", b"b", b"c", b"d", then=end)))
    await passes()
    producer.waiting[b"b"].set_exception(ClientError("too large"))
    producer.waiting[b"c"].set_exception(ClientError("too small"))
    producer.store(b"a", b"d")
    with pytest.raises(ClientError, match=r"^line 2: too large, and 1 more; 2 messages were sent$"):
        await running
    assert printed(capsys) == ["a", "d"]


async def test_an_interrupt_waits_for_what_is_in_flight(
    producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    end = asyncio.Event()
    running = asyncio.create_task(SendWindow(producer.send, 4, False).run(lines(b"a", b"b", then=end)))
    await passes()
    running.cancel()
    await passes()
    assert not running.done()
    producer.store(b"a", b"b")
    with pytest.raises(asyncio.CancelledError):
        await running
    assert printed(capsys) == ["a", "b"]


async def test_an_input_that_fails_is_told_after_the_results(
    producer: FakeProducer, capsys: pytest.CaptureFixture[str]
) -> None:
    async def failing() -> AsyncIterator[Numbered]:
        yield Numbered(1, Message("t", b"a"))
        raise ClientError("line 2 is too long")

    running = asyncio.create_task(SendWindow(producer.send, 4, False).run(failing()))
    await passes()
    producer.store(b"a")
    with pytest.raises(ClientError, match="line 2 is too long"):
        await running
    assert printed(capsys) == ["a"]
