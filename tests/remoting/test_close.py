from __future__ import annotations

import asyncio

import pytest

from pyromq.errors import ConnectionLost
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.round import Round
from pyromq.testing import eventually

from .helpers import ECHO, NEVER, SLOW, FakeClock, RawPeer, echo, never, numbered, serve


class Slow:
    """A handler that ends when the test says so."""

    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0
        self.release = asyncio.Event()

    async def __call__(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        self.started += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return response(command, body=b"finished")


async def test_closing_waits_for_running_handlers_and_sends_their_answers(clock: FakeClock) -> None:
    slow = Slow()
    server = await serve(clock, {SLOW: slow}).__aenter__()
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(SLOW, 1))
    await eventually(lambda: slow.started == 1)
    closing = asyncio.ensure_future(server.__aexit__(None, None, None))
    await clock.next_timer()
    assert not closing.done()
    slow.release.set()
    await closing
    assert (await peer.receive()).body == b"finished"
    assert await peer.is_closed()


async def test_a_closing_server_refuses_new_requests_and_new_connections(clock: FakeClock) -> None:
    slow = Slow()
    server = await serve(clock, {SLOW: slow, ECHO: echo}).__aenter__()
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(SLOW, 1))
    await eventually(lambda: slow.started == 1)
    closing = asyncio.ensure_future(server.__aexit__(None, None, None))
    await clock.next_timer()
    refused = await peer.ask(numbered(ECHO, 2))
    assert (refused.opaque, refused.code) == (2, ResponseCode.SERVICE_NOT_AVAILABLE)
    with pytest.raises(OSError, match=r"."):
        await RawPeer.connect(server.port)
    slow.release.set()
    await closing


async def test_a_handler_that_does_not_end_is_cancelled(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    server = await serve(clock, {SLOW: slow}, close_timeout=5.0).__aenter__()
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(SLOW, 1))
    await eventually(lambda: slow.started == 1)
    closing = asyncio.ensure_future(server.__aexit__(None, None, None))
    await clock.next_timer()
    clock.advance(5.1)
    await closing
    assert slow.cancelled == 1
    assert "cancelled 1 requests" in caplog.text
    assert await peer.is_closed()


async def test_closing_ends_the_round_so_that_grouped_answers_leave(clock: FakeClock) -> None:
    parked: list[tuple[RemotingCommand, Connection]] = []

    def release() -> None:
        for command, connection in parked:
            connection.send(response(command).encode())
        parked.clear()

    round = Round(asyncio.get_running_loop())
    async with serve(clock, {ECHO: lambda *ask: parked.append(ask)}, round=round) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(ECHO, 4))
        await eventually(lambda: bool(parked))
        round.at_end(release)
    assert (await peer.receive()).opaque == 4


async def test_requests_in_flight_end_when_the_server_closes(clock: FakeClock) -> None:
    async with RemotingClient(clock) as client:
        async with serve(clock, {NEVER: never}) as server:
            connection = await client.connection(f"127.0.0.1:{server.port}")
            futures = [connection.request_future(request(NEVER), 3.0) for _ in range(10)]
            await eventually(lambda: len(server.connections) == 1)
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(result, ConnectionLost) for result in results)


async def test_a_peer_that_does_not_read_cannot_hold_up_closing(clock: FakeClock) -> None:
    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=bytes(12 << 20))

    server = await serve(clock, {ECHO: large}).__aenter__()
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(ECHO, 1))
    await eventually(lambda: any(connection._paused for connection in server.connections))
    closing = asyncio.ensure_future(server.__aexit__(None, None, None))
    await clock.next_timer()
    assert not closing.done()
    clock.advance(3.1)
    await closing
    assert not server.connections
    assert clock.waiting == 0


async def test_a_task_whose_peer_has_gone_ends_quietly(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    async with serve(clock, {SLOW: slow}) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(SLOW, 1))
        await eventually(lambda: slow.started == 1)
        peer.writer.close()
        await eventually(lambda: not server.connections)
        slow.release.set()
    assert caplog.records == []


async def test_a_callback_that_raises_on_close_stops_nobody(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def broken(connection: Connection) -> None:
        raise RuntimeError("broken callback")

    async with serve(clock) as server:
        peer = await RawPeer.connect(server.port)
        await eventually(lambda: len(server.connections) == 1)
        next(iter(server.connections)).on_close[:0] = [broken, lambda connection: told.append(connection.peer)]
        peer.writer.close()
        await eventually(lambda: not server.connections)
    assert len(told) == 1
    assert "broken callback" in caplog.text
