from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from typing import Any, cast

import pytest

from pyromq.broker.pulls.long_polling import PASSED_OVER_LIMIT, SLICE, HeldPull, LongPolling
from pyromq.errors import ServiceNotAvailable, SystemBusy
from pyromq.protocol.command import request
from pyromq.remoting.connection import Connection
from pyromq.store.results import Arrival
from pyromq.testing import TestClock, eventually


class Waiting:
    """A table of held pulls, and what it has resumed."""

    def __init__(self, limit: int = 100) -> None:
        self.clock = TestClock()
        self.resumed: list[HeldPull] = []
        self.seconds = 0.0
        self.seconds_for_one = 0.0
        self.table = LongPolling(self.clock, limit, self._resume, seconds=lambda: self.seconds)

    def _resume(self, pull: HeldPull) -> None:
        self.resumed.append(pull)
        self.seconds += self.seconds_for_one

    def hold(
        self,
        queue_id: int = 0,
        offset: int = 10,
        codes: frozenset[int] | None = None,
        seconds: float = 15.0,
        connection: Connection | None = None,
        look: Callable[[int], tuple[bool, int]] | None = None,
        look_key: object = None,
    ) -> HeldPull:
        connection = connection or cast(Connection, object())
        deadline = self.clock.monotonic() + seconds
        pull = HeldPull(request(11), connection, ("orders", queue_id), offset, codes, deadline, look, look_key)
        self.table.hold(pull)
        return pull

    def arrive(self, queue_id: int = 0, offset: int = 10, code: int = 0) -> None:
        self.table.on_arrival([Arrival("orders", queue_id, offset, code)])


async def test_a_message_resumes_all_pulls_of_its_queue_and_no_others() -> None:
    waiting = Waiting()
    mine = [waiting.hold(queue_id=1), waiting.hold(queue_id=1)]
    waiting.hold(queue_id=2)
    waiting.arrive(queue_id=1)
    assert waiting.resumed == mine
    assert len(waiting.table) == 1
    waiting.arrive(queue_id=1)
    assert waiting.resumed == mine


async def test_only_wanted_tags_resume_a_pull() -> None:
    waiting = Waiting()
    pull = waiting.hold(codes=frozenset({7}))
    waiting.arrive(code=8)
    assert waiting.resumed == []
    waiting.arrive(code=7)
    assert waiting.resumed == [pull]


async def test_a_filter_by_property_looks_once_at_messages_that_come_together() -> None:
    waiting = Waiting()
    looked: list[int] = []

    def look(offset: int) -> tuple[bool, int]:
        looked.append(offset)
        return offset >= 20, 20  # ten messages came together, none of them is wanted

    pull = waiting.hold(offset=10, look=look)
    for offset in range(10, 20):
        waiting.arrive(offset=offset)
    assert (looked, waiting.resumed) == ([10], [])
    waiting.arrive(offset=20)
    assert (looked, waiting.resumed) == ([10, 20], [pull])


class CountedCodes(frozenset[int]):
    """Tags codes that count how often somebody compares them."""

    looks = 0

    def __and__(self, other: Set[object]) -> Any:
        type(self).looks += 1
        return super().__and__(other)

    def __contains__(self, code: object) -> bool:
        type(self).looks += 1
        return super().__contains__(code)


async def test_a_commit_looks_at_each_pull_once_however_many_messages_it_brings() -> None:
    waiting = Waiting(limit=1000)
    for number in range(300):
        waiting.hold(codes=CountedCodes({1000 + number}))
    waiting.table.on_arrival([Arrival("orders", 0, 10 + number, number) for number in range(300)])
    assert (CountedCodes.looks, waiting.resumed) == (300, [])
    assert len(waiting.table) == 300


async def test_the_message_that_a_pull_wants_may_lie_between_others() -> None:
    waiting = Waiting()
    ahead, wanted = waiting.hold(offset=12, codes=frozenset({7})), waiting.hold(offset=10, codes=frozenset({7}))
    waiting.table.on_arrival([Arrival("orders", 0, 10, 8), Arrival("orders", 0, 11, 7), Arrival("orders", 0, 12, 8)])
    assert waiting.resumed == [wanted]
    await waiting.clock.advance_async(seconds=PASSED_OVER_LIMIT + 2)
    assert waiting.resumed == [wanted, ahead]


async def test_thousands_that_want_one_message_are_resumed_in_slices() -> None:
    waiting = Waiting(limit=5000)
    waiting.seconds_for_one = SLICE / 10
    pulls = [waiting.hold() for _ in range(2000)]
    waiting.arrive()
    assert len(waiting.resumed) == 10
    passes = 0
    while len(waiting.resumed) < 2000:
        await asyncio.sleep(0)
        passes += 1
    assert passes > 100
    assert waiting.resumed == pulls
    assert len(waiting.table) == 0


async def test_pulls_that_run_out_of_time_together_are_resumed_in_slices() -> None:
    waiting = Waiting()
    waiting.seconds_for_one = SLICE
    pulls = [waiting.hold(seconds=3.0) for _ in range(5)]
    counts: list[int] = []

    def resume(pull: HeldPull) -> None:
        waiting._resume(pull)
        asyncio.get_running_loop().call_soon(lambda: counts.append(len(waiting.resumed)))

    waiting.table._resume = resume
    await waiting.clock.advance_async(seconds=5)
    await eventually(lambda: len(counts) == 5)
    assert counts == [1, 2, 3, 4, 5]  # everything else that waited for the loop had its turn in between
    assert set(waiting.resumed) == set(pulls)


async def test_messages_wait_for_nothing_while_earlier_ones_are_served_in_slices() -> None:
    waiting = Waiting()
    waiting.seconds_for_one = SLICE
    early, late = [waiting.hold(queue_id=1) for _ in range(3)], waiting.hold(queue_id=2)
    waiting.arrive(queue_id=1)
    waiting.arrive(queue_id=2)
    assert waiting.resumed == early[:1]
    await eventually(lambda: len(waiting.resumed) == 4)
    assert waiting.resumed == [*early, late]


async def test_slow_filters_look_in_slices() -> None:
    waiting = Waiting()
    looked: list[int] = []

    def look(offset: int) -> tuple[bool, int]:
        looked.append(offset)
        waiting.seconds += SLICE
        return True, offset

    pulls = [waiting.hold(look=look) for _ in range(3)]
    waiting.arrive()
    assert looked == [10]
    await eventually(lambda: len(waiting.resumed) == 3)
    assert looked == [10, 10, 10]
    assert waiting.resumed == pulls


async def test_alike_filters_share_what_they_find() -> None:
    waiting = Waiting()
    looked: list[int] = []

    def look(offset: int) -> tuple[bool, int]:
        looked.append(offset)
        return False, 11

    for _ in range(100):
        waiting.hold(look=look, look_key="vip > 3")
    waiting.arrive()
    assert looked == [10]
    waiting.arrive(offset=11)
    assert looked == [10, 11]


async def test_a_connection_that_closes_takes_along_what_is_ready() -> None:
    waiting = Waiting()
    waiting.seconds_for_one = SLICE
    connection = cast(Connection, object())
    first, other = waiting.hold(), waiting.hold(connection=connection)
    last = waiting.hold()
    waiting.arrive()
    waiting.table.drop(connection)
    await eventually(lambda: len(waiting.resumed) == 2)
    assert waiting.resumed == [first, last]
    assert other not in waiting.resumed
    assert len(waiting.table) == 0


async def test_a_pull_for_what_lies_ahead_goes_on_waiting() -> None:
    waiting = Waiting()
    pull = waiting.hold(offset=12)
    waiting.arrive(offset=11)
    assert waiting.resumed == []
    waiting.arrive(offset=12)
    assert waiting.resumed == [pull]


async def test_a_pull_is_resumed_when_its_time_is_up() -> None:
    waiting = Waiting()
    early, late = waiting.hold(seconds=3.0), waiting.hold(seconds=60.0)
    await waiting.clock.advance_async(seconds=2)
    assert waiting.resumed == []
    await waiting.clock.advance_async(seconds=3)
    assert waiting.resumed == [early]
    await waiting.clock.advance_async(seconds=60)
    assert waiting.resumed == [early, late]


async def test_setting_the_machines_clock_resumes_no_pull_early_and_none_late() -> None:
    waiting = Waiting()
    early, late = waiting.hold(seconds=3.0), waiting.hold(seconds=60.0)
    waiting.clock.set_wall_clock(minutes=10)
    await waiting.clock.advance_async(seconds=2)
    assert waiting.resumed == []
    waiting.clock.set_wall_clock(minutes=-20)
    await waiting.clock.advance_async(seconds=3)
    assert waiting.resumed == [early]
    await waiting.clock.advance_async(seconds=60)
    assert waiting.resumed == [early, late]


async def test_a_pull_passed_over_by_unwanted_messages_moves_on_within_seconds() -> None:
    waiting = Waiting()
    pull = waiting.hold(codes=frozenset({7}), seconds=300.0)
    waiting.arrive(code=8)
    await waiting.clock.advance_async(seconds=PASSED_OVER_LIMIT + 2)
    assert waiting.resumed == [pull]


async def test_pulls_of_a_closed_connection_are_dropped() -> None:
    waiting = Waiting()
    connection = cast(Connection, object())
    waiting.hold(connection=connection)
    waiting.hold(queue_id=1, connection=connection)
    other = waiting.hold()
    waiting.table.drop(connection)
    waiting.arrive()
    assert waiting.resumed == [other]
    assert len(waiting.table) == 0


async def test_no_more_pulls_wait_than_the_limit_says() -> None:
    waiting = Waiting(limit=2)
    waiting.hold()
    waiting.hold()
    with pytest.raises(SystemBusy, match="2 pulls"):
        waiting.hold()
    waiting.arrive()
    waiting.hold()


async def test_a_pull_held_again_while_resuming_is_not_lost() -> None:
    waiting = Waiting()
    again: list[HeldPull] = []

    def resume(pull: HeldPull) -> None:
        if not again:
            again.append(waiting.hold(offset=11))

    waiting.table._resume = resume
    waiting.hold()
    waiting.arrive(offset=10)
    assert len(waiting.table) == 1
    waiting.table._resume = waiting.resumed.append
    waiting.arrive(offset=11)
    assert waiting.resumed == again


async def test_closing_resumes_what_is_held_and_holds_nothing_more() -> None:
    waiting = Waiting()
    pulls = [waiting.hold(queue_id=1), waiting.hold(queue_id=2, codes=frozenset({7}))]
    waiting.table.close()
    assert waiting.resumed == pulls
    assert len(waiting.table) == 0
    with pytest.raises(ServiceNotAvailable):
        waiting.hold()
    await waiting.clock.advance_async(seconds=30)
    assert waiting.resumed == pulls
