from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from pyromq.errors import ConnectionLost, RequestTimeout
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.limits import Limits
from pyromq.remoting.round import ANSWER_SHARE
from pyromq.remoting.server import RemotingServer
from pyromq.testing import eventually

from .helpers import ECHO, NEVER, FakeClock, RawPeer, echo, numbered, serve, shrink_buffers

ANSWER = bytes(64 * 1024)
LIMITS = Limits(write_high=256 * 1024)


def generous(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return response(command, body=ANSWER)


def unsent(server: RemotingServer) -> int:
    return max(connection.queued + connection._transport.get_write_buffer_size() for connection in server.connections)


async def test_a_peer_that_does_not_read_its_answers_may_not_ask_more(clock: FakeClock) -> None:
    served = 0
    most = 0

    def count(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        nonlocal served, most
        served += 1
        most = max(most, unsent(server))
        return generous(command, connection)

    async with serve(clock, {ECHO: count}, limits=LIMITS) as server:
        quick = await RawPeer.connect(server.port)
        with contextlib.closing(await RawPeer.connect(server.port)) as slow:
            slow.send(*(numbered(ECHO, number) for number in range(1000)))  # for 64 MB of answers
            before = -1
            while served != before + 20:  # until all that was served meanwhile was for the quick one
                before = served
                for _ in range(20):
                    await quick.ask(numbered(ECHO, 1))
            assert any(connection._paused for connection in server.connections)
            assert most <= 2 * LIMITS.write_high + len(ANSWER) + 1000  # what is with the transport, and one round
            for number in range(1000):
                answer = await slow.receive()
                assert (answer.opaque, len(answer.body)) == (number, len(ANSWER))


async def test_one_large_answer_unread_stops_further_requests(clock: FakeClock) -> None:
    served: list[int] = []

    def count(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        served.append(command.opaque)
        return response(command, body=bytes(15 << 20)) if command.opaque == 0 else response(command)

    async with serve(clock, {ECHO: count, NEVER: echo}, limits=LIMITS) as server:
        quick = await RawPeer.connect(server.port)
        with contextlib.closing(await RawPeer.connect(server.port)) as slow:
            slow.send(numbered(ECHO, 0))
            await eventually(lambda: any(connection._paused for connection in server.connections))
            slow.send(numbered(ECHO, 1), numbered(ECHO, 2))
            for _ in range(20):
                await quick.ask(numbered(NEVER, 1))
            assert served == [0]
            assert [(await slow.receive()).opaque for _ in range(3)] == served == [0, 1, 2]


@pytest.mark.parametrize("limits", [LIMITS, Limits()])
async def test_a_small_read_that_asks_for_much_is_served_in_slices(clock: FakeClock, limits: Limits) -> None:
    """The peer reads, so the transport never pauses; still no more than its share is made at once."""
    most = 0

    def count(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        nonlocal most
        most = max(most, connection.queued)
        return generous(command, connection)

    async with serve(clock, {ECHO: count}, limits=limits) as server:
        peer = await RawPeer.connect(server.port, limit=1 << 24)
        peer.send(*(numbered(ECHO, number) for number in range(300)))
        assert [(await peer.receive()).opaque for _ in range(300)] == list(range(300))
        assert most <= min(limits.write_high, ANSWER_SHARE) + len(ANSWER) + 1000


@contextlib.contextmanager
def deaf_listener() -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener


async def test_a_sender_waits_for_a_peer_that_does_not_read(clock: FakeClock) -> None:
    with deaf_listener() as listener:
        async with RemotingClient(clock, limits=LIMITS) as client:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            connection = await client.connection(address)
            peer, _ = listener.accept()
            while connection.writable:
                connection.oneway(request(ECHO, body=ANSWER))
                await asyncio.sleep(0)
            draining = asyncio.ensure_future(connection.drain())
            await asyncio.sleep(0)
            clock.advance(60.0)
            assert not draining.done()
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            while not draining.done():
                await loop.sock_recv(peer, 1 << 20)
            await draining
            assert connection.writable
            peer.close()


async def test_a_request_that_a_silent_peer_does_not_take_closes_the_connection(clock: FakeClock) -> None:
    with deaf_listener() as listener:
        async with RemotingClient(clock, limits=LIMITS) as client:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            connection = await client.connection(address)
            while connection.writable:
                connection.oneway(request(ECHO, body=ANSWER))
                await asyncio.sleep(0)
            draining = asyncio.ensure_future(connection.drain())
            asking = asyncio.ensure_future(connection.request(request(ECHO), 4.0))
            await clock.next_timer()
            assert not draining.done()
            clock.advance(4.1)
            with pytest.raises(RequestTimeout, match=f"{address} took no request"):
                await asking
            with pytest.raises(ConnectionLost, match="took no request within 4 s, and nothing arrived"):
                await draining


async def test_senders_waiting_for_a_peer_hear_that_it_has_gone(clock: FakeClock) -> None:
    with deaf_listener() as listener:
        async with RemotingClient(clock, limits=LIMITS) as client:
            connection = await client.connection(f"127.0.0.1:{listener.getsockname()[1]}")
            peer, _ = listener.accept()
            while connection.writable:
                connection.oneway(request(ECHO, body=ANSWER))
                await asyncio.sleep(0)
            waiting = [asyncio.ensure_future(connection.drain()) for _ in range(3)]
            await asyncio.sleep(0)  # now they wait
            peer.close()
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, ConnectionLost) for result in results)


async def test_a_burst_within_one_round_is_held_back_too(clock: FakeClock) -> None:
    """Before the round ends no byte is with the transport, so the transport cannot say stop."""
    async with serve(clock) as server, RemotingClient(clock, limits=LIMITS) as client:
        connection = await client.connection(f"127.0.0.1:{server.port}")
        sent = 0
        while connection.writable:
            connection.oneway(request(NEVER, body=ANSWER))
            sent += 1
        assert sent == 4  # the frames are a little longer than a quarter of the limit
        await connection.drain()
        assert connection.writable


async def test_both_sides_flooding_each_other_do_not_lock_up(clock: FakeClock) -> None:
    """The server stops reading while its answers wait; a client that did the same would wait for ever."""

    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=ANSWER * 4)

    async with serve(clock, {ECHO: large}, limits=LIMITS) as server, RemotingClient(clock, limits=LIMITS) as client:
        shrink_buffers(server._listener.sockets[0])
        address = f"127.0.0.1:{server.port}"
        shrink_buffers((await client.connection(address))._transport.get_extra_info("socket"))
        answers = await asyncio.gather(*(client.request(address, request(ECHO, body=ANSWER)) for _ in range(100)))
        assert all(len(answer.body) == 4 * len(ANSWER) for answer in answers)


async def test_a_slow_reader_is_not_idle_and_a_dead_one_is(clock: FakeClock) -> None:
    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=bytes(15 << 20))

    async with serve(clock, {ECHO: large}, idle_timeout=10.0) as server:
        shrink_buffers(server._listener.sockets[0])
        with contextlib.closing(await RawPeer.connect(server.port)) as peer:
            peer.send(numbered(ECHO, 1))
            await eventually(lambda: any(connection._paused for connection in server.connections))
            [connection] = server.connections
            for _ in range(4):
                clock.advance(6.0)
                before = connection._transport.get_write_buffer_size()
                while connection._transport.get_write_buffer_size() == before:  # first comes what the kernel holds
                    await peer.reader.read(65536)
            assert not connection.closed
            clock.advance(25.0)
            await eventually(lambda: connection.closed)


@pytest.mark.parametrize("reads", [True, False])
async def test_a_timeout_closes_only_if_a_large_request_does_not_move_either(clock: FakeClock, reads: bool) -> None:
    reader: asyncio.StreamReader | None = None

    async def accept(incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        nonlocal reader
        reader = incoming
        RawPeer(incoming, outgoing)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, limit=64 * 1024)
    shrink_buffers(listener.sockets[0])
    async with RemotingClient(clock) as client:
        connection = await client.connection(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        future = connection.request_future(request(ECHO, body=bytes(12 << 20)), 3.0)
        await eventually(lambda: connection._transport.get_write_buffer_size() > 0 and reader is not None)
        assert reader is not None
        clock.advance(2.5)  # the idle watch looks, too
        if reads:
            before = connection._transport.get_write_buffer_size()
            while connection._transport.get_write_buffer_size() == before:
                await reader.read(1 << 20)
        clock.advance(0.6)
        with pytest.raises(RequestTimeout):
            await future
        assert connection.closed is not reads
        connection.abort("the end")
    listener.close()
