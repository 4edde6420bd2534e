"""CPU time and waiting time of listeners: one call in sixteen is measured, and no call behaves differently for it."""

from __future__ import annotations

import asyncio
import threading
from time import thread_time

import pytest

from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.listener.listener_times import SAMPLE, bind_sampled
from pyromq.protocol.messages.message import MessageExt

CPU = 0.005
MESSAGE = MessageExt(topic="orders", stored_body=b"x")


def compute() -> None:
    end = thread_time() + CPU
    while thread_time() < end:
        pass


class Times:
    """Records what was measured."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, float, float]] = []

    def __call__(self, topic: str, messages: int, cpu: float, seconds: float) -> None:
        self.rows.append((topic, messages, cpu, seconds))


async def test_an_async_listener_is_charged_for_its_own_steps_only() -> None:
    times, gate = Times(), asyncio.Event()

    async def listen(message: MessageExt) -> str:
        compute()
        await gate.wait()
        compute()
        return "done"

    call = bind_sampled(listen, ListenerThreads(), times)
    task = asyncio.ensure_future(call([MESSAGE]))
    await asyncio.sleep(0)
    for _ in range(10):
        compute()  # the work of others
    gate.set()
    assert await task == "done"
    ((topic, messages, cpu, seconds),) = times.rows
    assert (topic, messages) == ("orders", 1)
    assert 2 * CPU <= cpu < 6 * CPU
    assert seconds >= 12 * CPU


async def test_a_plain_listener_is_charged_for_its_thread() -> None:
    times, go_on = Times(), threading.Event()

    def listen(message: MessageExt) -> str:
        compute()
        go_on.wait(10)
        return "done"

    call = bind_sampled(listen, ListenerThreads(), times)
    task = asyncio.ensure_future(call([MESSAGE]))
    await asyncio.sleep(0)
    for _ in range(4):
        compute()
    go_on.set()
    assert await task == "done"
    ((_, _, cpu, seconds),) = times.rows
    assert CPU <= cpu < 3 * CPU
    assert seconds >= cpu


async def test_a_batch_counts_all_of_its_messages() -> None:
    times = Times()

    def listen(messages: list[MessageExt]) -> None: ...

    async def listen_async(messages: list[MessageExt]) -> None: ...

    for listener in (listen, listen_async):
        await bind_sampled(listener, ListenerThreads(), times)([MESSAGE] * 3)
    assert [row[1] for row in times.rows] == [3, 3]


async def test_one_call_in_sixteen_is_measured() -> None:
    times, calls = Times(), 0

    async def listen(message: MessageExt) -> None:
        nonlocal calls
        calls += 1

    call = bind_sampled(listen, ListenerThreads(), times)
    for _ in range(2 * SAMPLE + 1):
        await call([MESSAGE])
    assert (calls, len(times.rows)) == (2 * SAMPLE + 1, 3)


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_what_a_listener_raises_comes_through(kind: str) -> None:
    times = Times()

    async def fail_async(message: MessageExt) -> None:
        await asyncio.sleep(0)
        raise ValueError("oops")

    def fail(message: MessageExt) -> None:
        raise ValueError("oops")

    call = bind_sampled(fail_async if kind == "async" else fail, ListenerThreads(), times)
    with pytest.raises(ValueError, match="oops"):
        await call([MESSAGE])
    assert len(times.rows) == 1


async def test_a_measured_listener_can_be_cancelled_and_may_go_on() -> None:
    times = Times()

    async def listen(message: MessageExt) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "cleaned up"
        return "never"

    task = asyncio.ensure_future(bind_sampled(listen, ListenerThreads(), times)([MESSAGE]))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cleaned up"
    assert len(times.rows) == 1
