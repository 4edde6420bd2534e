"""The clock that tests move: real time plus the time that the test added.

Each event loop has a heap of timers. They fire on their own loop, when real time has passed or when a test advances
the clock. Advancing goes in steps, from timer to timer. Between two steps every loop runs a few rounds, so that
heartbeats, their answers and expiry scans follow one another as in real time.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

_LONGEST_STEP = 10.0  # seconds of virtual time: what is due every 30 s must not be late by a whole period
_MOST_STEPS = 800  # of one advance, unless the longest step needs more; timers that are closer fire together
_FINEST_STEP = 0.01
_ROUNDS = 4  # of a loop in one pass: opening a connection takes several
_QUIET_PASSES = 3  # without a look at the clock: then nothing seems to be working
_MOST_PASSES = 20  # of one step: constant traffic must not stop time
_LOOP_PATIENCE = 2.0  # real seconds to wait for a loop that does not answer
_THREAD_PATIENCE = 1.0  # real seconds to wait for work on a thread
_ALARM_GRACE = 0.001  # loops count in milliseconds and may wake that much early
_MANY_CANCELLED = 64  # below that, cancelled timers may stay in the heap


class _Timer:
    """A callback that waits for its time; cancel it on its own loop, like those of asyncio."""

    __slots__ = ("args", "callback", "context", "due", "handle", "timers")

    def __init__(self, timers: _LoopTimers, due: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.timers = timers
        self.due = due
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = contextvars.copy_context()
        self.handle: asyncio.Handle | None = None

    def __lt__(self, other: _Timer) -> bool:
        return self.due < other.due

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
        elif self.callback is not None:
            self.callback, self.args = None, ()
            self.timers.note_cancelled()


class _LoopTimers:
    """The timers of one event loop; used only on that loop."""

    def __init__(self, clock: TestClock, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.in_rounds = False
        self._clock = clock
        self._heap: list[_Timer] = []
        self._cancelled = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_due = math.inf

    def add(self, seconds: float, callback: Callable[..., object], args: tuple[Any, ...]) -> _Timer:
        """Add a callback that fires after `seconds`."""
        timer = _Timer(self, self._clock.monotonic() + seconds, callback, args)
        heapq.heappush(self._heap, timer)
        if timer.due < self._alarm_due:
            self._set_alarm()
        return timer

    def note_cancelled(self) -> None:
        """Drop the cancelled timers when they outnumber the others."""
        self._cancelled += 1
        if self._cancelled > _MANY_CANCELLED and self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def fire_due(self) -> float:
        """Pass the timers that are due to the loop, in their order; return when the next one is due."""
        now = self._clock.peek()
        while self._heap and (self._heap[0].callback is None or self._heap[0].due <= now):
            timer = heapq.heappop(self._heap)
            if timer.callback is None:
                self._cancelled -= 1
            else:
                timer.handle = self.loop.call_soon(timer.callback, *timer.args, context=timer.context)
                self._clock.monotonic()  # a fired timer is work, whether or not it asks the time
        self._set_alarm()
        return self._heap[0].due if self._heap else math.inf

    def has_waiting(self) -> bool:
        """Return True if anything on this loop waits for the clock."""
        return len(self._heap) > self._cancelled

    def ask_rounds(self, answers: SimpleQueue[float]) -> None:
        """From any thread: let the loop fire due timers and run a few rounds, then answer when the next one is due."""
        self.in_rounds = True
        try:
            self.loop.call_soon_threadsafe(self._go_round, answers, _ROUNDS)
        except RuntimeError:  # closed meanwhile
            answers.put(math.inf)

    def _go_round(self, answers: SimpleQueue[float], left: int) -> None:
        next_due = self.fire_due()
        if left:
            self.loop.call_soon(self._go_round, answers, left - 1)  # after the fired timers and a look at the sockets
        else:
            self.in_rounds = False
            answers.put(next_due)

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_due = None, math.inf
        if self._heap:
            self._alarm_due = self._heap[0].due
            delay = max(0.0, self._alarm_due - self._clock.peek()) + _ALARM_GRACE
            self._alarm = self.loop.call_later(delay, self.fire_due)


class TestClock:
    """A `Clock` that runs in real time and that a test moves forward: `clock.advance(hours=2)`.

    `set_wall_clock(minutes=-10)` changes only the date, as an administrator or NTP does. Any number of event loops may
    share one clock. The functions in `busy` return True while threads beside those loops have work that time should
    wait for.
    """

    __test__: ClassVar = False  # not a test, despite its name

    def __init__(self) -> None:
        self.busy: list[Callable[[], bool]] = []
        self.moved = False
        """True once a test has moved it."""
        self._epoch = time.time() - time.monotonic()  # added to the monotonic time, it is the wall clock
        self._advanced = 0.0
        self._looks = 0  # how often the time was read: a sign of work
        self._loops: dict[asyncio.AbstractEventLoop, _LoopTimers] = {}
        self._loops_lock = threading.Lock()
        self._advancing = threading.Lock()

    def now(self) -> float:
        """Return seconds since the epoch: real time plus the time that the test added."""
        return self._epoch + self.monotonic()

    def now_ms(self) -> int:
        """Return whole milliseconds since the epoch."""
        return int(self.now() * 1000)

    def monotonic(self) -> float:
        """Return seconds that `advance` moves and `set_wall_clock` does not."""
        self._looks += 1
        loop = _running_loop()
        if loop is not None and loop not in self._loops:
            self._meet(loop)
        return self.peek()

    def peek(self) -> float:
        """Return the same as `monotonic`, but do not count as work."""
        return time.monotonic() + self._advanced

    def set_wall_clock(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Set the date forward or back at once; no time passes, and no timer fires."""
        self.moved = True
        self._epoch += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait until `seconds` have passed, in real time or by advancing."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        slept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _finish, slept)
        try:
            await slept
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> _Timer:
        """Run `callback(*args)` on the calling loop after `seconds`."""
        loop = asyncio.get_running_loop()
        timers = self._loops.get(loop) or self._meet(loop)
        return timers.add(seconds, callback, args)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, step: float | None = None
    ) -> None:
        """Move time forward; return when everything that was due on the way has happened.

        With `step`, time moves in steps of that many seconds, and everything due in one step happens together. This is
        faster for long distances; heartbeats need steps below 90 s.

        It blocks the calling thread. If that thread runs an event loop on which something waits for this clock, it
        raises RuntimeError, because that could not happen meanwhile: use `await clock.advance_async(...)` there.
        """
        distance = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if distance < 0:
            raise ValueError("time only goes forward")
        own = _running_loop()
        if own in self._loops and self._loops[own].has_waiting():
            raise RuntimeError("this event loop itself waits for the clock: use `await clock.advance_async(...)` here")
        with self._advancing:
            self.moved = True
            self._move(distance, own, step)

    async def advance_async(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, step: float | None = None
    ) -> None:
        """Move time forward like `advance`, while the calling loop continues and its own timers fire too."""
        await asyncio.to_thread(self.advance, days=days, hours=hours, minutes=minutes, seconds=seconds, step=step)

    def _meet(self, loop: asyncio.AbstractEventLoop) -> _LoopTimers:
        with self._loops_lock:  # a new dict each time: `_pass` may be walking through the old one
            known = {other: timers for other, timers in self._loops.items() if not other.is_closed()}
            self._loops = {loop: _LoopTimers(self, loop), **known}
            return self._loops[loop]

    def _move(self, distance: float, own: asyncio.AbstractEventLoop | None, step: float | None) -> None:
        longest = step or _LONGEST_STEP
        shortest = step or min(longest, max(_FINEST_STEP, distance / _MOST_STEPS))
        next_due = self._settle(own)
        while distance > 0:
            stride = min(distance, longest, max(shortest, next_due - self.peek()))
            self._advanced += stride
            distance -= stride
            next_due = self._settle(own)

    def _settle(self, own: asyncio.AbstractEventLoop | None) -> float:
        """Let the loops run until nothing works; return when the next timer is due."""
        quiet = 0
        for _ in range(_MOST_PASSES):
            looks = self._looks
            next_due = self._pass(own)
            quiet = quiet + 1 if looks == self._looks and not self._await_threads() else 0
            if quiet >= _QUIET_PASSES:
                break
        return next_due

    def _await_threads(self) -> bool:
        """Wait until no thread has work; return True if one had."""
        patience = time.monotonic() + _THREAD_PATIENCE
        waited = False
        while any(busy() for busy in self.busy) and time.monotonic() < patience:
            waited = True
            time.sleep(0.0005)
        return waited

    def _pass(self, own: asyncio.AbstractEventLoop | None) -> float:
        """Let every loop but our own run a few rounds; return when the next timer is due.

        A loop that did not answer in the previous pass, because a test's plain call blocks it, is left out.
        """
        loops = [timers for loop, timers in self._loops.items() if loop is not own and loop.is_running()]
        ready = [timers for timers in loops if not timers.in_rounds]
        answers: SimpleQueue[float] = SimpleQueue()
        for timers in ready:
            timers.ask_rounds(answers)
        try:
            return min((answers.get(timeout=_LOOP_PATIENCE) for _ in ready), default=math.inf)
        except Empty:
            return math.inf


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
