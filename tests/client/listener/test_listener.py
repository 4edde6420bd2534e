from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar

import pytest

from pyromq.client.listener.listener import Listener, bind, is_async, takes_batches
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

ONE = MessageExt(topic="T", stored_body=b"one")
TWO = MessageExt(topic="T", stored_body=b"two")
colour: ContextVar[str] = ContextVar("colour", default="none")


async def async_one(message: MessageExt) -> str:
    return f"async {message.body!r}"


async def async_list(messages: list[MessageExt]) -> int:
    return len(messages)


def plain_one(message: MessageExt) -> str:
    return f"{threading.current_thread().name} {message.body!r}"


def plain_sequence(messages: Sequence[MessageExt]) -> int:
    return len(messages)


def unannotated(message):  # type: ignore[no-untyped-def]
    return message.body


class Handler:
    async def handle(self, message: MessageExt) -> str:
        return "method"

    async def __call__(self, messages: list[MessageExt]) -> int:
        return len(messages)


def unknown_name(messages: list[NotThere]) -> int:  # type: ignore[name-defined] # noqa: F821
    return len(messages)


@pytest.mark.parametrize(
    ("listener", "batches", "awaited"),
    [
        (async_one, False, True),
        (async_list, True, True),
        (plain_one, False, False),
        (plain_sequence, True, False),
        (unannotated, False, False),
        (Handler().handle, False, True),
        (Handler(), True, True),
        (functools.partial(async_list), True, True),
        (lambda message: None, False, False),
        (unknown_name, True, False),
        (print, False, False),
    ],
)
def test_the_signature_says_what_a_listener_wants(listener: Listener, batches: bool, awaited: bool) -> None:
    assert takes_batches(listener) is batches
    assert is_async(listener) is awaited


def test_a_listener_without_a_parameter_is_refused() -> None:
    with pytest.raises(ClientError, match="must take the message"):
        takes_batches(lambda: None)  # type: ignore[arg-type]


@pytest.fixture
async def threads() -> AsyncIterator[ListenerThreads]:
    made = ListenerThreads()
    yield made
    made.close()


async def test_async_listeners_run_on_the_loop_and_plain_ones_on_threads(threads: ListenerThreads) -> None:
    assert await bind(async_one, threads)([ONE]) == "async b'one'"
    assert await bind(async_list, threads)([ONE, TWO]) == 2
    assert await bind(plain_one, threads)([ONE]) == "pyromq listener 1 b'one'"
    assert await bind(plain_sequence, threads)([ONE, TWO]) == 2
    assert await bind(lambda message: async_one(message), threads)([TWO]) == "async b'two'"


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration(), SystemExit(3), KeyboardInterrupt()])
async def test_whatever_a_plain_listener_raises_is_an_exception_of_its_own(
    threads: ListenerThreads, error: BaseException
) -> None:
    def fail(message: MessageExt) -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError)):
        await bind(fail, threads)([ONE])


async def test_threads_are_made_as_they_are_needed_and_used_again(threads: ListenerThreads) -> None:
    all_three = threading.Barrier(3, timeout=10)

    def meet(message: MessageExt) -> str:
        all_three.wait()
        return threading.current_thread().name

    call = bind(meet, threads)
    names = set(await asyncio.gather(*[call([ONE]) for _ in range(3)]))
    assert len(names) == 3
    again = bind(lambda message: threading.current_thread().name, threads)
    assert {await again([ONE]) for _ in range(5)} <= names


async def test_a_thread_that_hangs_is_left_behind(threads: ListenerThreads) -> None:
    begun, gate = threading.Event(), threading.Event()

    def hang(message: MessageExt) -> None:
        begun.set()
        gate.wait(20)

    hanging = asyncio.ensure_future(bind(hang, threads)([ONE]))
    await asyncio.sleep(0)
    await asyncio.to_thread(begun.wait, 10)
    hanging.cancel()
    assert await bind(plain_one, threads)([ONE]) == "pyromq listener 2 b'one'"
    gate.set()


async def test_each_call_sees_a_copy_of_its_callers_context() -> None:
    threads = ListenerThreads()
    colour.set("blue")

    def paint(message: MessageExt) -> str:
        before = colour.get()
        colour.set("green")
        return before

    call = bind(paint, threads)
    assert [await call([ONE]) for _ in range(2)] == ["blue", "blue"]
    threads.close()
