"""TraceDispatcher: what goes together into a trace message, and what is lost."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.trace.dispatcher import TraceCounts, TraceDispatcher
from pyromq.errors import NoRoute
from pyromq.protocol.messages.message import Message
from pyromq.protocol.trace_records import Pub, SubBefore, decode_trace_records
from pyromq.testing import TestClock, eventually


def record(number: int, keys: str | None = None) -> SubBefore:
    return SubBefore(number, None, "g", f"r{number}", f"id-{number}", 0, keys)


class Sent:
    """Stands for the brokers: keeps trace messages, once it is let."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None

    async def __call__(self, message: Message) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        message.check()
        self.messages.append(message)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


async def test_records_wait_half_a_second_for_others(clock: TestClock) -> None:
    sent = Sent()
    dispatcher = TraceDispatcher("traces", clock, sent)
    dispatcher.put([record(1, "k-1 k-2"), record(2)])
    await clock.advance_async(seconds=0.2)
    dispatcher.put([record(1, "k-1 k-3")])
    assert not sent.messages
    await clock.advance_async(seconds=0.4)
    await eventually(lambda: len(sent.messages) == 1)
    message = sent.messages[0]
    assert (message.topic, message.keys) == ("traces", ("id-1", "k-1", "k-2", "id-2", "k-3"))
    assert list(decode_trace_records(message.body)) == [record(1, "k-1 k-2"), record(2), record(1, "k-1 k-3")]
    assert dispatcher.counts == TraceCounts(written=3)


async def test_a_large_trace_message_goes_at_once_and_no_record_is_cut(clock: TestClock) -> None:
    sent = Sent()
    dispatcher = TraceDispatcher("traces", clock, sent)
    pub = Pub(1, "r" * 20_000, "g", "t", "id", None, None, "h:1", 1, 1, 0, None, True)
    dispatcher.put([pub] * 10)
    await eventually(lambda: len(sent.messages) == 1)
    assert 118_000 <= len(sent.messages[0].body) < 140_000
    await dispatcher.close()
    assert sum(len(list(decode_trace_records(message.body))) for message in sent.messages) == 10


async def test_the_keys_of_a_trace_message_never_outgrow_a_messages_properties(clock: TestClock) -> None:
    sent = Sent()
    dispatcher = TraceDispatcher("traces", clock, sent)
    dispatcher.put([record(number, f"{'ä' * 500}{number}") for number in range(100)])
    dispatcher.put([record(200, " ".join(f"{number:04}" for number in range(9000)))])
    await dispatcher.close()  # Sent has the messages checked as brokers would
    assert dispatcher.counts == TraceCounts(written=101)
    assert len(sent.messages) > 3
    assert "id-200" in sent.messages[-1].keys


async def test_what_is_too_much_is_dropped_and_counted(clock: TestClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.client.trace.dispatcher.MAX_WAITING", 10)
    sent = Sent()
    sent.gate.clear()
    dispatcher = TraceDispatcher("traces", clock, sent)
    dispatcher.put([record(number) for number in range(6)])
    dispatcher.flush()
    dispatcher.put([record(number) for number in range(4)])
    dispatcher.put([record(number) for number in range(3)])
    assert dispatcher.counts == TraceCounts(dropped=3)
    sent.gate.set()
    await eventually(lambda: dispatcher.counts.written == 6)
    dispatcher.put([record(7)])
    await dispatcher.close()
    assert dispatcher.counts == TraceCounts(written=11, dropped=3)


async def test_what_brokers_do_not_take_is_counted_and_said_once(
    clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    sent = Sent()
    sent.error = NoRoute("no broker has the topic 'traces'")
    dispatcher = TraceDispatcher("traces", clock, sent)
    for number in range(3):
        dispatcher.put([record(number)])
        dispatcher.flush()
    await eventually(lambda: dispatcher.counts == TraceCounts(failed=3))
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert "no broker has the topic" in caplog.text


async def test_closing_does_not_wait_for_ever(clock: TestClock) -> None:
    sent = Sent()
    sent.gate.clear()
    dispatcher = TraceDispatcher("traces", clock, sent)
    dispatcher.put([record(1)])
    closing = asyncio.create_task(dispatcher.close())
    await asyncio.sleep(0)
    await clock.advance_async(seconds=5)
    await asyncio.wait_for(closing, 30)
    assert dispatcher.counts == TraceCounts()
