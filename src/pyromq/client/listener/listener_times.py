"""How much CPU time a listener needs and how long it waits: one call in sixteen is measured.

An async listener is driven step by step, and the CPU time of its own steps counts. A plain one runs on a thread of its
own, whose CPU time counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from time import perf_counter, thread_time
from typing import Any, Final

from pyromq.client.listener.listener import Listener, ListenerCall, bind, is_async
from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.protocol.messages.message import MessageExt

SAMPLE: Final = 16
"""One call in so many is measured; the first one is."""

Record = Callable[[str, int, float, float], None]
"""Takes the topic, the number of messages, and the seconds of CPU and of the whole call."""


def bind_sampled(
    listener: Listener, threads: ListenerThreads, record: Record, ended: Callable[[], None] = lambda: None
) -> ListenerCall:
    """Return a coroutine function that calls the listener, as `bind` does, and records the times of some calls."""
    plain = bind(listener, threads, ended)
    measured = (
        _measure_async(plain, record) if is_async(listener) else _measure_thread(listener, threads, record, ended)
    )
    unmeasured = 0

    def call(messages: list[MessageExt]) -> Awaitable[object]:
        nonlocal unmeasured
        if unmeasured:
            unmeasured -= 1
            return plain(messages)
        unmeasured = SAMPLE - 1
        return measured(messages)

    return call


def _measure_async(call: ListenerCall, record: Record) -> ListenerCall:
    return lambda messages: _Stepped(call(messages), messages, record)


class _Stepped:
    """Awaits what it is given, and measures each step: what a task does between two waits."""

    def __init__(self, awaitable: Awaitable[object], messages: Sequence[MessageExt], record: Record) -> None:
        self._awaitable = awaitable
        self._steps: Any = awaitable.__await__()
        self._messages = messages
        self._record = record
        self._cpu = 0.0
        self._started = perf_counter()

    def __await__(self) -> Generator[Any, None, object]:
        return self

    def __iter__(self) -> _Stepped:
        return self

    def __next__(self) -> Any:
        return self._step(self._steps.send, None)

    def send(self, value: Any) -> Any:
        """Go on, as a generator does."""
        return self._step(self._steps.send, value)

    def throw(self, *raised: Any) -> Any:
        """Go on with an exception: the task is cancelled."""
        return self._step(self._steps.throw, *raised)

    def close(self) -> None:
        """End it, as a generator does."""
        self._steps.close()

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        begun = thread_time()
        try:
            waits_for = step(*arguments)
        except BaseException:  # StopIteration too: the end
            self._cpu += thread_time() - begun
            self._record(self._messages[0].topic, len(self._messages), self._cpu, perf_counter() - self._started)
            raise
        self._cpu += thread_time() - begun
        return waits_for

    # Stacks of tasks are followed along these two; they lead on to the listener.

    @property
    def cr_frame(self) -> Any:
        return getattr(self._awaitable, "cr_frame", None)

    @property
    def cr_await(self) -> Any:
        return getattr(self._awaitable, "cr_await", None)


def _measure_thread(
    listener: Listener, threads: ListenerThreads, record: Record, ended: Callable[[], None]
) -> ListenerCall:
    def around(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def measured(argument: Any) -> Any:
            begun, started = thread_time(), perf_counter()
            try:
                return function(argument)
            finally:
                messages = argument if isinstance(argument, list) else [argument]
                record(messages[0].topic, len(messages), thread_time() - begun, perf_counter() - started)

        return measured

    return bind(listener, threads, ended, around)
