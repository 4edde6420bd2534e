from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any
from unittest import mock

import pytest

from pyromq.client.listener.listener import Listener, bind, check_listener, is_async, takes_batches
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt

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


def generator(message: MessageExt) -> Iterator[int]:
    yield 1


async def async_generator(message: MessageExt) -> AsyncIterator[int]:
    yield 1


class GeneratorHandler:
    async def __call__(self, message: MessageExt) -> AsyncIterator[int]:
        yield 1


def two(message: MessageExt, context: object) -> None: ...


def keyword(*, message: MessageExt) -> None: ...


def bare_list(messages: list) -> None: ...  # type: ignore[type-arg]


def bare_text(messages: list, other: NotThere = None) -> None: ...  # type: ignore[name-defined,type-arg] # noqa: F821


def bare_sequence(messages: Sequence) -> None: ...  # type: ignore[type-arg]


def iterable(messages: Iterable[MessageExt]) -> None: ...


def several(messages: tuple[MessageExt, ...]) -> None: ...


def bodies(messages: list[bytes]) -> None: ...


def text(message: str) -> None: ...


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        (None, "needs a listener"),
        ("print", "needs a listener"),
        (Handler, "is a class"),
        (generator, "has a `yield`"),
        (async_generator, "has a `yield`"),
        (GeneratorHandler(), "has a `yield`"),
        (functools.partial(generator), "has a `yield`"),
        (lambda: None, r"\(\) must take the message as its one argument"),
        (two, r"two\(message, context\) must take the message as its one argument"),
        (keyword, "must take the message as its one argument"),
        (functools.partial(plain_one, message=ONE), "must take the message as its one argument"),
        (Handler.handle, "must take the message as its one argument"),  # not of an object
        (bare_list, "or a list of them, not list:"),
        (bare_text, "or a list of them, not list:"),
        (bare_sequence, "not Sequence:"),
        (iterable, "not .*Iterable"),
        (several, "not tuple"),
        (bodies, r"not list\[bytes\]"),
        (text, "not str"),
    ],
)
def test_a_listener_that_could_never_work_is_refused(listener: Any, reason: str) -> None:
    with pytest.raises(ClientError, match=reason) as raised:
        PushConsumer("billing", "127.0.0.1:1", {"orders": "*"}, listener)
    if listener is not Handler:
        assert "async def listen(message: MessageExt)" in str(raised.value)


class Anything:
    """Looks like a message, for all that a listener knows."""


def any_one(message: Any) -> None: ...


def base_class(message: Message | None) -> None: ...


def own_class(message: Anything) -> None: ...


def list_of_any(messages: list[Any]) -> None: ...


def more_with_defaults(message: MessageExt, database: str = "shop", *rest: int, **options: int) -> None: ...


@pytest.mark.parametrize(
    "listener",
    [
        any_one, base_class, own_class, list_of_any, more_with_defaults, async_one, async_list, plain_sequence,
        unannotated, unknown_name, Handler(), Handler().handle, print, [].append, mock.Mock(), mock.AsyncMock(),
        functools.partial(two, context=1), functools.partial(functools.partial(async_list)),
    ],
)  # fmt: skip
def test_every_other_listener_is_accepted(listener: Any) -> None:
    assert check_listener(listener) is listener


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
