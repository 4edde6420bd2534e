"""Every test of this directory runs on uvloop and on asyncio, with a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from .helpers import FakeClock, RawPeer


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(autouse=True)
async def close_raw_peers() -> AsyncIterator[None]:
    yield
    while RawPeer.opened:
        RawPeer.opened.pop().close()
