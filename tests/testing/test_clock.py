"""The clock that tests move: in real time, by advancing, on several loops at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest

from pyromq.blocking import Portal
from pyromq.clock import wait_for, wall_ms
from pyromq.testing import TestClock, wait_until
from pyromq.testing import clock as clock_module


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def portal() -> Iterator[Portal]:
    """An event loop on its own thread."""
    portal = Portal()
    yield portal
    portal.close()


async def set_timers(clock: TestClock, fired: list[float], *delays: float) -> list[clock_module._Timer]:
    """Set timers that record when they fired, in seconds from now."""
    start = clock.now()
    return [clock.call_later(delay, lambda: fired.append(clock.now() - start)) for delay in delays]


def test_it_starts_at_the_real_time_and_runs_with_it(clock: TestClock) -> None:
    assert abs(clock.now() - time.time()) < 60
    before = clock.now()
    assert clock.now() >= before
    assert abs(clock.now_ms() - clock.now() * 1000) < 10_000


def test_advancing_adds_to_the_real_time(clock: TestClock) -> None:
    before = clock.now()
    clock.advance(days=1, hours=2, minutes=3, seconds=4)
    passed = clock.now() - before
    assert 93784 <= passed < 93784 + 60


def test_time_does_not_go_back(clock: TestClock) -> None:
    with pytest.raises(ValueError, match="forward"):
        clock.advance(hours=-1)


async def test_a_timer_fires_when_real_time_has_passed(clock: TestClock) -> None:
    fired = asyncio.Event()
    clock.call_later(0.02, fired.set)
    await asyncio.wait_for(fired.wait(), 10)


async def test_a_timer_is_armed_anew_after_an_advance(clock: TestClock) -> None:
    fired = asyncio.Event()
    clock.call_later(3600.05, fired.set)
    await clock.advance_async(hours=1)
    await asyncio.wait_for(fired.wait(), 10)


def test_timers_fire_in_their_order_and_never_early(clock: TestClock, portal: Portal) -> None:
    fired: list[float] = []
    portal.call(set_timers(clock, fired, 5.0, 1.0, 100.0, 1.0, 3.0))
    clock.advance(seconds=6)
    assert len(fired) == 4
    assert all(when >= due for when, due in zip(fired, [1, 1, 3, 5], strict=True))
    assert all(when < due + 0.9 for when, due in zip(fired, [1, 1, 3, 5], strict=True))
    clock.advance(minutes=2)
    assert len(fired) == 5


def test_a_cancelled_timer_does_not_fire(clock: TestClock, portal: Portal) -> None:
    fired: list[float] = []
    timers = portal.call(set_timers(clock, fired, 1.0, 2.0))

    async def cancel() -> None:
        timers[0].cancel()
        timers[0].cancel()

    portal.call(cancel())
    clock.advance(seconds=3)
    assert len(fired) == 1


def test_a_timer_can_cancel_one_that_is_due_with_it(clock: TestClock, portal: Portal) -> None:
    fired: list[str] = []

    async def set_both() -> None:
        clock.call_later(1.0, lambda: second.cancel())
        second = clock.call_later(1.0001, fired.append, "second")  # set second: due second, however slow the machine is

    portal.call(set_both())
    clock.advance(seconds=2)
    assert fired == []


async def test_many_cancelled_timers_are_dropped(clock: TestClock) -> None:
    kept = clock.call_later(100, list)
    for _ in range(1000):
        clock.call_later(1000, list).cancel()
    assert len(kept.timers._heap) < 200


async def test_a_sleeper_wakes_when_time_advances(clock: TestClock) -> None:
    sleeper = asyncio.create_task(clock.sleep(3600))
    await asyncio.sleep(0)
    await clock.advance_async(minutes=59)
    assert not sleeper.done()
    await clock.advance_async(minutes=2)
    await asyncio.wait_for(sleeper, 10)


async def test_no_sleep_at_all_gives_way_once(clock: TestClock) -> None:
    await clock.sleep(0)
    await clock.sleep(-1)


async def test_a_cancelled_sleep_leaves_no_timer(clock: TestClock) -> None:
    sleeper = asyncio.create_task(clock.sleep(3600))
    await asyncio.sleep(0)
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    clock.advance(seconds=1)  # would refuse, if anything on this loop waited


async def test_waiting_for_something_times_out_by_this_clock(clock: TestClock) -> None:
    waiting = asyncio.create_task(wait_for(clock, asyncio.Event().wait(), 60))
    await asyncio.sleep(0)
    await clock.advance_async(seconds=61)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 10)


async def test_advancing_on_a_loop_that_waits_for_the_clock_is_refused(clock: TestClock) -> None:
    clock.call_later(10, list)
    with pytest.raises(RuntimeError, match="advance_async"):
        clock.advance(seconds=1)


async def test_advancing_on_a_loop_that_does_not_is_fine(clock: TestClock, portal: Portal) -> None:
    fired: list[float] = []
    await asyncio.to_thread(portal.call, set_timers(clock, fired, 10.0))
    clock.advance(seconds=11)
    assert len(fired) == 1


def test_periodic_work_is_done_all_along_the_way(clock: TestClock, portal: Portal) -> None:
    beats: list[float] = []

    async def beat() -> None:
        beats.append(clock.now())
        clock.call_later(30, lambda: asyncio.ensure_future(beat()))

    portal.call(beat())
    clock.advance(hours=2)
    assert 180 <= len(beats) <= 241
    assert max(later - earlier for earlier, later in pairwise(beats)) < 45


def test_frequent_timers_fire_together_on_a_long_way(
    clock: TestClock, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    settle = clock._settle

    def count(own: asyncio.AbstractEventLoop | None) -> float:
        nonlocal steps
        steps += 1
        return settle(own)

    async def tick() -> None:
        clock.call_later(0.05, lambda: asyncio.ensure_future(tick()))

    monkeypatch.setattr(clock, "_settle", count)
    portal.call(tick())
    clock.advance(hours=2)
    assert 700 <= steps <= 810


def test_the_caller_may_choose_the_step(clock: TestClock, portal: Portal) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        ticks.append(clock.now())
        clock.call_later(1, lambda: asyncio.ensure_future(tick()))

    portal.call(tick())
    clock.advance(hours=1, step=60)
    assert 55 <= len(ticks) <= 65, "once in each step"


class Echo:
    """Two loops with a real socket: one asks every 30 s, the other drops clients that are silent for 120 s."""

    def __init__(self, clock: TestClock) -> None:
        self.clock = clock
        self.last_seen = clock.now()
        self.longest_silence = 0.0
        self.answers = 0

    async def serve(self) -> int:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                self.longest_silence = max(self.longest_silence, self.clock.now() - self.last_seen)
                self.last_seen = self.clock.now()
                writer.write(line)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def ask(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            self.clock.now()  # like every part of PyroMQ when it works
            writer.write(b"ping\n")
            await wait_for(self.clock, reader.readline(), 3.0)
            self.clock.now()
            self.answers += 1
            await self.clock.sleep(30)


def test_heartbeats_and_their_answers_keep_pace_with_a_far_advance(clock: TestClock, portal: Portal) -> None:
    echo, other = Echo(clock), Portal()
    try:
        port = portal.call(echo.serve())
        asking = asyncio.run_coroutine_threadsafe(echo.ask(port), other._usable_loop())
        wait_until(lambda: echo.answers > 0)
        clock.advance(hours=2)
        assert not asking.done()  # no request timed out
        assert echo.answers >= 180
        assert echo.longest_silence < 60
    finally:
        other.close()


@pytest.fixture
async def chatter(clock: TestClock) -> AsyncIterator[None]:
    """Keep asking the time."""

    async def ask() -> None:
        while True:
            clock.now()
            await asyncio.sleep(0)

    task = asyncio.create_task(ask())
    yield
    task.cancel()


@pytest.mark.usefixtures("chatter")
async def test_constant_work_does_not_hold_time_up(clock: TestClock) -> None:
    before = clock.now()
    await clock.advance_async(minutes=10)
    assert clock.now() - before >= 600


def test_time_waits_for_work_on_a_thread(clock: TestClock, portal: Portal) -> None:
    working = threading.Event()
    clock.busy.append(working.is_set)
    took: list[float] = []

    def work(started: float) -> None:
        time.sleep(0.05)
        took.append(clock.peek() - started)
        working.clear()

    def begin() -> None:
        working.set()
        threading.Thread(target=work, args=(clock.peek(),)).start()

    async def set_timer() -> None:
        clock.call_later(5, begin)

    portal.call(set_timer())
    clock.advance(hours=1)
    assert took[0] < 5  # an hour passed, but not while the thread worked


def test_a_blocked_loop_is_passed_over(clock: TestClock, portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "_LOOP_PATIENCE", 0.05)
    unblock, blocked = threading.Event(), threading.Event()
    fired: list[float] = []

    async def block() -> None:
        blocked.set()
        unblock.wait(10)

    portal.call(set_timers(clock, fired, 1.0))
    blocking = asyncio.run_coroutine_threadsafe(block(), portal._usable_loop())
    blocked.wait(10)
    clock.advance(minutes=1)
    assert fired == []
    unblock.set()
    blocking.result(10)
    wait_until(lambda: len(fired) == 1)


def test_loops_that_are_closed_are_forgotten(clock: TestClock) -> None:
    for _ in range(3):
        asyncio.run(set_timers(clock, [], 1.0))
    clock.advance(seconds=2)
    assert len(clock._loops) == 1


def test_advancing_moves_both_clocks_and_setting_the_date_only_one(clock: TestClock) -> None:
    date, time_passed = clock.now(), clock.monotonic()
    clock.advance(hours=1)
    assert 3600 <= clock.now() - date < 3660
    assert 3600 <= clock.monotonic() - time_passed < 3660
    clock.set_wall_clock(hours=-3)
    assert -7200 <= clock.now() - date < -7140
    assert 3600 <= clock.monotonic() - time_passed < 3660


async def test_setting_the_date_fires_no_timer_and_delays_none(clock: TestClock) -> None:
    fired: list[str] = []
    clock.call_later(60, fired.append, "in a minute")
    clock.set_wall_clock(hours=1)
    await clock.advance_async(seconds=30)
    assert fired == []
    clock.set_wall_clock(hours=-2)
    await clock.advance_async(seconds=31)
    assert fired == ["in a minute"]


@pytest.mark.parametrize("step", [0.0, -600.0, 600.0])
def test_a_monotonic_time_is_shown_by_the_date_as_it_is_now(clock: TestClock, step: float) -> None:
    at = clock.monotonic()
    clock.advance(seconds=100)
    clock.set_wall_clock(seconds=step)
    assert 99_000 < clock.now_ms() - wall_ms(clock, at) < 160_000
