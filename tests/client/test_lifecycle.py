"""Start, close, `async with` and forks, as all clients have them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from pyromq.client.lifecycle import ClientLifecycle, ForkGuard
from pyromq.errors import ClientError


class Session:
    """Writes down what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failure: BaseException | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def start(self) -> None:
        self.events.append("start")
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure

    async def close(self, *, failed: bool) -> None:
        self.events.append("close after a failure" if failed else "close")


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
