from __future__ import annotations

from pyromq.client.rate_limit import RateLimit


class SteppedClock:
    """A clock whose time passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.wall = 1_600_000_000.0

    def now(self) -> float:
        return self.wall + self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


async def pass_messages(limit: RateLimit, count: int) -> None:
    for _ in range(count):
        await limit.wait()
        limit.count(1)


async def test_messages_are_spread_evenly() -> None:
    clock = SteppedClock()
    limit = RateLimit(50, clock)  # type: ignore[arg-type]
    await pass_messages(limit, 101)
    assert round(clock.time - 1000.0, 6) == 2.0


async def test_a_late_caller_catches_up_no_more_than_a_moment() -> None:
    clock = SteppedClock()
    limit = RateLimit(100, clock)  # type: ignore[arg-type]
    clock.time += 60
    started = clock.time
    await pass_messages(limit, 103)
    assert round(clock.time - started, 6) == 1.0, "two messages at once, then one every 10 ms"


async def test_a_clock_that_was_set_back_holds_up_nothing() -> None:
    clock = SteppedClock()
    limit = RateLimit(100, clock)  # type: ignore[arg-type]
    await pass_messages(limit, 10)
    clock.wall -= 600
    started = clock.time
    await pass_messages(limit, 10)
    assert round(clock.time - started, 6) == 0.1


async def test_a_clock_that_was_set_forward_lets_no_burst_pass() -> None:
    clock = SteppedClock()
    limit = RateLimit(100, clock)  # type: ignore[arg-type]
    await pass_messages(limit, 10)
    clock.wall += 600
    started = clock.time
    await pass_messages(limit, 10)
    assert round(clock.time - started, 6) == 0.1
