"""SendSoon: sends from threads that do not wait. Each send is a future; the event loop takes many at a time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from pyromq.client.send.fast_send import settle
from pyromq.client.send.producer import Producer
from pyromq.client.send.sent_soon import SentSoon
from pyromq.client.send_result import SendResult
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.messages.message import Message

MOST_ON_THEIR_WAY = 1024
"""With so many sends on their way, `add` waits: as many as a producer sends at a time."""

STARTED_AT_ONCE = 64
"""Sends that the loop starts before it writes them."""

_Waiting = tuple[Message, Mapping[str, Any], SentSoon]


class SendSoon:
    """Sends that were handed over to the event loop of a producer; `soon` calls a function there.

    Waking the loop for every send would cost more than the send, so the loop is woken once for all that wait.
    """

    def __init__(self, producer: Producer, soon: Callable[[Callable[[], object]], None]) -> None:
        self._producer = producer
        self._soon = soon
        self._waiting: deque[_Waiting] = deque()
        self._unsettled: set[SentSoon] = set()
        self._guard = threading.Lock()
        self._room = threading.Event()  # set unless a thread waits for room
        self._room.set()
        self._is_woken = False

    def add(self, message: Message, options: Mapping[str, Any]) -> Future[SendResult]:
        """Send a message soon, after those that were added before; return its future."""
        if len(self._unsettled) >= MOST_ON_THEIR_WAY:
            self._wait_for_room()
        future = SentSoon(self._guard, self._ended)
        self._unsettled.add(future)
        self._waiting.append((message, options, future))
        if not self._is_woken:
            self._wake()
        return future

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every send that was added before has ended; raise TimeoutError if that takes too long."""
        left = wait(list(self._unsettled), timeout).not_done
        if left:
            raise TimeoutError(f"{len(left)} messages are still on their way after {timeout:g} s")

    def _wait_for_room(self) -> None:
        """Wait until half of the sends have ended: a thread that woke for each one would slow all of them down."""
        self._room.clear()
        if len(self._unsettled) >= MOST_ON_THEIR_WAY:  # otherwise none may be left to wake us
            self._room.wait()
        self._room.set()

    def _wake(self) -> None:
        self._is_woken = True
        try:
            self._soon(self._start_waiting)
        except (ClientError, RuntimeError) as error:  # the loop has ended, or this thread is the loop's own
            self._is_woken = False
            while self._waiting:
                self._waiting.popleft()[2].set_exception(error)
            raise

    def _start_waiting(self) -> None:
        """Start sends; of many only some, and the rest in the next pass, so that the broker begins meanwhile."""
        self._is_woken = False  # before the look: what is added from now on wakes the loop again
        for _ in range(STARTED_AT_ONCE):
            if not self._waiting:
                return
            message, options, future = self._waiting.popleft()
            try:
                if not options and self._producer._start_send(message, future):
                    continue
            except PyroMQError as error:  # it is not open, or the message is wrong
                future.set_exception(error)
                continue
            task = asyncio.ensure_future(self._producer.send(message, **options))
            task.add_done_callback(partial(settle, future))
        if self._waiting and not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._start_waiting)

    def _ended(self, future: SentSoon) -> None:
        unsettled = self._unsettled
        unsettled.discard(future)
        if not self._room.is_set() and len(unsettled) <= MOST_ON_THEIR_WAY // 2:
            self._room.set()
