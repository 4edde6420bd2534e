from __future__ import annotations

import pytest

from pyromq.client.net.unreachable import UnreachableBrokers
from pyromq.errors import BrokerError, ConnectFailed, ConnectionLost, RequestTimeout
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.server import RemotingServer
from pyromq.testing import TestClock

GONE = "127.0.0.1:1"


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


async def test_a_broker_that_cannot_be_reached_is_noted_until_it_answers(clock: TestClock) -> None:
    async with RemotingClient(clock) as remoting:
        unreachable = UnreachableBrokers(remoting)
        unreachable.failed(GONE, ConnectFailed("refused"))
        assert GONE in unreachable
        unreachable.answered(GONE)
        assert GONE not in unreachable
        assert not unreachable


async def test_it_is_tried_again_after_some_time(clock: TestClock) -> None:
    async with RemotingClient(clock) as remoting:
        unreachable = UnreachableBrokers(remoting)
        unreachable.failed(GONE, RequestTimeout("silence"))
        assert GONE in unreachable
        await clock.advance_async(seconds=31)
        assert GONE not in unreachable


@pytest.mark.parametrize("error", [ConnectionLost("restarted?"), BrokerError("it answers"), ValueError("ours")])
async def test_other_failures_say_nothing_about_the_way(clock: TestClock, error: Exception) -> None:
    async with RemotingClient(clock) as remoting:
        unreachable = UnreachableBrokers(remoting)
        unreachable.failed(GONE, error)
        unreachable.failed(None, error)
        assert GONE not in unreachable


async def test_one_late_answer_condemns_no_broker_whose_connection_stands(clock: TestClock) -> None:
    async with RemotingServer({}, host="127.0.0.1", port=0, clock=clock) as server, RemotingClient(clock) as remoting:
        address = f"127.0.0.1:{server.port}"
        await remoting.connection(address)
        unreachable = UnreachableBrokers(remoting)
        unreachable.failed(address, RequestTimeout("late"))
        assert address not in unreachable
