from __future__ import annotations

import asyncio

import pytest

from pyromq.client.send.in_flight import InFlightLimit


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_no_more_than_the_count_are_inside() -> None:
    window = InFlightLimit(count=2, size=1000)
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        await window.enter(1)
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        window.leave(1)

    await asyncio.gather(*[work() for _ in range(50)])
    assert most == 2


async def test_no_more_than_the_bytes_are_inside() -> None:
    window = InFlightLimit(count=100, size=10)
    assert window.try_enter(6)
    assert not window.try_enter(5)
    assert window.try_enter(4)


async def test_one_that_is_too_large_goes_alone() -> None:
    window = InFlightLimit(count=100, size=10)
    assert window.try_enter(500)
    assert not window.try_enter(1)
    window.leave(500)
    assert window.try_enter(1)


async def test_waiting_is_first_come_first_served() -> None:
    window = InFlightLimit(count=1, size=1000)
    await window.enter(1)
    order: list[int] = []

    async def work(number: int) -> None:
        await window.enter(1)
        order.append(number)
        window.leave(1)

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await settle()
    assert not window.try_enter(1)
    window.leave(1)
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_cancelled_caller_takes_no_place(admitted: bool) -> None:
    window = InFlightLimit(count=1, size=1000)
    await window.enter(1)
    first = asyncio.create_task(window.enter(1))
    second = asyncio.create_task(window.enter(1))
    await settle()
    if admitted:
        window.leave(1)  # lets the first one in, which is cancelled before it runs
    first.cancel()
    await settle()
    if not admitted:
        window.leave(1)
    await asyncio.wait_for(second, 5)
    window.leave(1)
    await window.idle()


async def test_idle_waits_for_the_last_one() -> None:
    window = InFlightLimit(count=5, size=1000)
    await window.idle()
    await window.enter(1)
    waiting = asyncio.create_task(window.idle())
    await settle()
    assert not waiting.done()
    window.leave(1)
    await asyncio.wait_for(waiting, 5)


def test_reserved_places_leave_room_for_others_and_can_be_given_back() -> None:
    window = InFlightLimit(count=100, size=1000)
    assert window.reserve(64) == 12, "an eighth"
    assert window.reserve(5) == 5
    assert window.count == 17
    window.use_reserved(unused=10, size=700)
    assert window.count == 7
    assert not window.try_enter(301), "the bytes of those that were used count"
    assert window.try_enter(300)
    assert not window.reserve(1), "there is no room for more bytes"
    window.leave(300)
    while window.reserve(64):
        pass
    assert window.count == 100, "all places can be reserved, the last ones singly"


async def test_nobody_reserves_a_place_before_those_who_wait() -> None:
    window = InFlightLimit(count=2, size=1000)
    assert window.reserve(1)
    assert window.reserve(1)
    waiting = asyncio.ensure_future(window.enter(1))
    await settle()
    window.use_reserved(unused=1, size=1)
    assert not window.reserve(1)
    await waiting
    assert window.count == 2
