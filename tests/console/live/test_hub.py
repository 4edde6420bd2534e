"""LiveHub: a hundred browsers cost what one does, and nobody looking costs nothing."""

from __future__ import annotations

import asyncio

from pyromq.console.login.users import EVERYBODY
from pyromq.testing import LocalCluster, eventually
from tests.console.site import ConsoleSite


async def test_a_hundred_browsers_cost_what_one_does(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site:
        hub, reader = site.console.parts.hub, site.console.parts.reader
        made = 0

        async def render() -> str:
            nonlocal made
            made += 1
            return f"page {made}"

        received = [0] * 100

        async def follow(number: int) -> None:
            async for data in hub.follow(("/", EVERYBODY.name), render):
                received[number] += b"event: page" in data

        followers = [asyncio.create_task(follow(number)) for number in range(100)]
        await eventually(lambda: min(received) >= 1)
        taken = reader.count
        assert made <= max(received) + 1
        assert hub.count == 100
        for task in followers:
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        assert hub.count == 0
        assert reader.count <= taken + 1


async def test_visitors_at_once_wait_for_one_reading(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site:
        reader = site.console.parts.reader
        await reader.get()
        before = reader.count
        reader.expire()
        found = await asyncio.gather(*(reader.get() for _ in range(100)))
        assert reader.count == before + 1
        assert len({id(snapshot) for snapshot in found}) == 1
