from __future__ import annotations

from collections.abc import Callable

from pyromq.client.rate_limit import RateLimit


class SteppedClock:
    """A clock whose time passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def now_ms(self) -> int:
        return int(self.time * 1000)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> object:
        raise NotImplementedError


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
