"""Start, close, `async with` and forks, as all clients have them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from pyromq import UNKNOWN, TransactionProducer, TransactionState
from pyromq.client.lifecycle import ClientLifecycle, ForkGuard
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, MemoryOffsets, fill, read


class Session:
    """Writes down what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failure: BaseException | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.may_close = asyncio.Event()
        self.may_close.set()

    async def start(self) -> None:
        self.events.append("start")
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure

    async def close(self, *, failed: bool) -> None:
        await self.may_close.wait()
        self.events.append("close after a failure" if failed else "close")
        if self.failure is not None and not failed:
            raise self.failure


class Lamp(ClientLifecycle[Session]):
    """A client that does nothing."""

    def __init__(self, new_session: Callable[[], Session] = Session) -> None:
        super().__init__("lamp", new_session)

    def events(self) -> list[str]:
        return self._session.events


async def test_it_is_usable_only_while_it_is_open() -> None:
    lamp = Lamp()
    with pytest.raises(ClientError, match="this lamp is not open: use it inside `async with`"):
        lamp.events()
    async with lamp as opened:
        assert opened is lamp
        events = lamp.events()
        assert events == ["start"]
        with pytest.raises(ClientError, match="this lamp is open already"):
            await lamp.start()
        assert lamp.events() is events, "a refused start leaves it open"
    assert events == ["start", "close"]
    with pytest.raises(ClientError, match="not open"):
        lamp.events()


async def test_it_may_be_closed_twice_and_opened_again() -> None:
    lamp = Lamp()
    await lamp.close()
    await lamp.start()
    first = lamp.events()
    await lamp.close()
    await lamp.close()
    assert first == ["start", "close"]
    async with lamp:
        assert lamp.events() == ["start"]


async def test_a_session_hears_that_the_body_raised() -> None:
    session = Session()
    with pytest.raises(ValueError, match="dark"):
        async with Lamp(lambda: session):
            raise ValueError("dark")
    assert session.events == ["start", "close after a failure"]


@pytest.mark.parametrize("failure", [ClientError("no"), KeyboardInterrupt()])
async def test_what_a_failed_start_opened_is_closed(failure: BaseException) -> None:
    session = Session()
    session.failure = failure
    lamp = Lamp(lambda: session)
    with pytest.raises(type(failure)):
        await lamp.start()
    assert session.events == ["start", "close after a failure"]
    session.failure = None
    await lamp.start()
    assert lamp.events() is session.events


async def test_what_a_cancelled_start_opened_is_closed() -> None:
    session = Session()
    session.go_on.clear()
    starting = asyncio.create_task(Lamp(lambda: session).start())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert session.events == ["start", "close after a failure"]


async def cancelled(task: asyncio.Task[None], times: int = 1) -> None:
    """Let a task begin, cancel it so many times and see it end."""
    for _ in range(times):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_close_goes_on_in_the_background() -> None:
    session = Session()
    session.may_close.clear()
    lamp = Lamp(lambda: session)
    await lamp.start()
    await cancelled(asyncio.create_task(lamp.close()))
    assert session.events == ["start"]
    waiting = asyncio.create_task(lamp.close())  # for the one that was begun
    await asyncio.sleep(0)
    assert not waiting.done()
    session.may_close.set()
    await waiting
    assert session.events == ["start", "close"]


async def test_it_opens_again_only_when_it_is_closed() -> None:
    sessions = [Session(), Session()]
    opened = sessions[0]
    opened.may_close.clear()
    lamp = Lamp(lambda: sessions.pop(0))
    await lamp.start()
    await cancelled(asyncio.create_task(lamp.close()))
    starting = asyncio.create_task(lamp.start())
    await asyncio.sleep(0)
    assert (len(sessions), starting.done()) == (1, False)
    opened.may_close.set()
    await starting
    assert opened.events == ["start", "close"]
    await lamp.close()


async def test_a_start_that_is_cancelled_twice_is_closed_all_the_same() -> None:
    session = Session()
    session.go_on.clear()
    session.may_close.clear()
    lamp = Lamp(lambda: session)
    await cancelled(asyncio.create_task(lamp.start()), times=2)
    session.may_close.set()
    await lamp.close()
    assert session.events == ["start", "close after a failure"]


async def test_a_close_that_fails_unheard_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    session.may_close.clear()
    lamp = Lamp(lambda: session)
    await lamp.start()
    session.failure = ClientError("broken")
    await cancelled(asyncio.create_task(lamp.close()))
    session.may_close.set()
    await lamp.close()
    assert caplog.messages == ["closing the lamp failed"]


# --- real clients -----------------------------------------------------------------------------------------------------


def running() -> list[str]:
    """Return the names of our own tasks."""
    return sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("pyromq"))


async def check(message: MessageExt) -> TransactionState:
    return UNKNOWN


def client_of(kind: str, cluster: LocalCluster, topic: str, group: str) -> ClientLifecycle[Any]:
    if kind == "push":
        return PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard(), start_from="earliest")
    if kind == "poll":
        return LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest")
    return TransactionProducer(group, cluster.namesrv, check=check)


def members(cluster: LocalCluster, group: str) -> int:
    clients = cluster.brokers[0].server.clients  # type: ignore[union-attr]
    return len(clients.members(group)) + len(clients.producers.get(group, ()))


@pytest.mark.parametrize("kind", ["push", "poll", "transactions"])
@pytest.mark.parametrize("call", ["start", "close"])
async def test_a_client_whose_start_or_close_is_cancelled_leaves_its_group(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, kind: str, call: str
) -> None:
    await fill(producer, topic, 4)
    before = running()
    for rounds in (1, 2, 4, 8, 16, 32):  # wherever it may be then
        client = client_of(kind, cluster, topic, group)
        if call == "close":
            await client.start()
        task = asyncio.create_task(getattr(client, call)())
        for _ in range(2):
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
        assert running() == before
        await eventually(lambda: members(cluster, group) == 0)


class BrokenOffsets(MemoryOffsets):
    """An offset store that is down."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        raise OSError("the store is down")


@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
async def test_a_consumer_whose_offset_store_is_down_leaves_its_group(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, kind: type[PushConsumer | LitePullConsumer]
) -> None:
    await fill(producer, topic, 4)
    before = running()
    heard = Heard()
    options: dict[str, Any] = {"listener": heard} if kind is PushConsumer else {}
    async with kind(
        group, cluster.namesrv, {topic: "*"}, start_from="earliest", offset_store=BrokenOffsets(), **options
    ) as consumer:
        if isinstance(consumer, LitePullConsumer):
            await read(consumer, 4)
        else:
            await heard.wait_for(4)
    assert running() == before
    await eventually(lambda: members(cluster, group) == 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
async def test_a_forked_child_can_neither_use_nor_close_it() -> None:
    async with Lamp() as lamp:
        guard = ForkGuard()
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(ClientError, match="forked"):
                    lamp.events()
                with pytest.raises(ClientError, match="forked"):
                    guard.check()
                events = lamp._opened.events  # type: ignore[union-attr]
                closing = lamp.close()
                with pytest.raises(StopIteration):
                    closing.send(None)
                os._exit(0 if events == ["start"] else 1)
            except BaseException:
                os._exit(1)
        assert await asyncio.to_thread(_exit_code, child) == 0
        guard.check()
        assert lamp.events() == ["start"]


def _exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
