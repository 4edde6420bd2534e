"""All brokers are asked at once, and some do not answer."""

from __future__ import annotations

import asyncio

from pyromq.admin.masters import Masters, gather_limited
from pyromq.errors import BrokerError, ConnectFailed


async def test_who_cannot_be_reached_is_told_of_and_not_asked_again() -> None:
    asked: list[str] = []
    masters = Masters({"b": "host-b", "a": "host-a", "headless": None})

    async def question(address: str) -> int:
        asked.append(address)
        if address == "host-b":
            raise ConnectFailed("nobody listens")
        return 7

    assert await masters.ask(question) == {"a": 7}
    assert await masters.ask(question) == {"a": 7}
    assert asked == ["host-a", "host-b", "host-a"]
    assert masters.silent == {"headless": "it has no master now", "b": "nobody listens"}


async def test_who_refuses_one_question_is_told_of_and_asked_the_next() -> None:
    masters = Masters({"a": "host-a"})

    async def refused(address: str) -> int:
        raise BrokerError("not for you")

    async def answered(address: str) -> int:
        return 7

    assert await masters.ask(refused) == {}
    assert await masters.ask(answered) == {"a": 7}
    assert masters.silent == {"a": "SYSTEM_ERROR (1): not for you"}


async def test_only_some_are_at_work_at_a_time() -> None:
    running, most = 0, 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert await gather_limited(range(10), work, at_a_time=3) == [number * 2 for number in range(10)]
    assert most == 3
