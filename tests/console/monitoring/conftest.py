"""A broker and a name server in the test's process, and the pages about them."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.console.monitoring.http_server import bind
from pyromq.console.monitoring.monitoring import Monitoring
from pyromq.namesrv.server import NameServer
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock
from tests.broker.helpers import PATIENT, Peer

TOKEN = "a-token-of-some-length"


class Answer(NamedTuple):
    """What a page answered."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def fetch(url: str, token: str | None = None) -> Answer:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode())


class Site:
    """Pages, and the servers that they tell about."""

    def __init__(self, pages: Monitoring, name_server: NameServer, broker: Broker, peer: Peer) -> None:
        self.pages = pages
        self.name_server = name_server
        self.broker = broker
        self.peer = peer

    async def get(self, path: str, token: str | None = None) -> Answer:
        return await asyncio.to_thread(fetch, self.pages.url + path, token)


StartSite = Callable[..., Awaitable[Site]]


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def start_site(clock: TestClock, tmp_path: Path) -> AsyncIterator[StartSite]:
    """Start a name server, a broker with settings by RocketMQ's keys, and their pages."""
    async with AsyncExitStack() as stack:

        async def start(
            files: OsFiles | None = None, host: str = "127.0.0.1", token: str | None = None, **settings: Any
        ) -> Site:
            listener = stack.enter_context(bind("127.0.0.1", 0))
            pages = await stack.enter_async_context(Monitoring(listener, host, token))
            name_server = NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None)
            await stack.enter_async_context(name_server)
            values = PATIENT | {"listenPort": "0", "storePathRootDir": str(tmp_path / "store")}
            values |= {"namesrvAddr": name_server.address, **{key: str(value) for key, value in settings.items()}}
            broker = await stack.enter_async_context(Broker(broker_config(values), clock, files))
            peer = Peer(broker.address, clock)
            stack.push_async_callback(peer.remoting.close)
            stack.callback(pages.watched.stop)
            pages.watched.run(name_server, [broker])
            return Site(pages, name_server, broker, peer)

        yield start


@pytest.fixture
async def site(start_site: StartSite) -> Site:
    return await start_site()
