from __future__ import annotations

import asyncio

from pyromq.client.net.route_watch import RouteWatch
from pyromq.errors import NoNameServer
from pyromq.testing import TestClock


class Names:
    """Stands in for the name servers: notes when a route was asked for."""

    def __init__(self, clock: TestClock) -> None:
        self.asked: list[float] = []
        self.error: Exception | None = None
        self._clock = clock
        self._start = clock.monotonic()

    async def refresh(self, topic: str) -> None:
        self.asked.append(self._clock.monotonic() - self._start)
        if self.error is not None:
            raise self.error


async def test_the_first_look_is_made_at_once_and_shared() -> None:
    clock = TestClock()
    names = Names(clock)
    watch = RouteWatch(names.refresh, clock)
    assert watch.is_calm("broker-a")
    await asyncio.gather(*(watch.look(f"topic-{number}", "broker-a") for number in range(1000)))
    assert len(names.asked) == 1
    assert watch.is_calm("broker-b")


async def test_looks_that_change_nothing_become_rare_and_start_anew_after_some_time() -> None:
    clock = TestClock()
    names = Names(clock)
    names.error = NoNameServer("none")
    watch = RouteWatch(names.refresh, clock)

    async def persist() -> None:
        while True:
            await watch.look("topic", "broker-a")

    callers = [asyncio.create_task(persist()) for _ in range(10)]
    await clock.advance_async(seconds=10)
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert 3 < len(names.asked) <= 23  # at 0, 0.1, 0.3, and then every half second
    await clock.advance_async(seconds=6)
    asked = len(names.asked)
    assert watch.is_calm("broker-a")
    await watch.look("topic", "broker-a")
    assert len(names.asked) == asked + 1


async def test_a_caller_that_gives_up_ends_no_look_of_others() -> None:
    clock = TestClock()
    names = Names(clock)
    watch = RouteWatch(names.refresh, clock)
    await watch.look("topic", "broker-a")
    patient, hasty = (asyncio.create_task(watch.look("topic", "broker-a")) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    await clock.advance_async(seconds=1)
    await patient
    assert len(names.asked) == 2
