"""Who is let in, and who has to make room."""

from __future__ import annotations

import pytest

from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting import endpoint
from pyromq.remoting.connection import Connection
from pyromq.remoting.limits import ConnectionRoom, PortLimits
from pyromq.testing import eventually

from .helpers import ECHO, FakeClock, RawPeer, numbered, serve

TWO = PortLimits(max_connections=2)


async def test_a_full_port_closes_the_oldest_that_asked_nothing(clock: FakeClock) -> None:
    async with serve(clock, port_limits=TWO) as server:
        asking = await RawPeer.connect(server.port)
        await asking.ask(numbered(ECHO, 1))
        idle = await RawPeer.connect(server.port)
        await eventually(lambda: len(server.connections) == 2)
        clock.advance(1.0)
        clock.advance(1.0)
        late = await RawPeer.connect(server.port)
        assert (await late.ask(numbered(ECHO, 2))).opaque == 2
        assert await idle.is_closed()
        assert (await asking.ask(numbered(ECHO, 3))).opaque == 3
        assert server.tally.closed == {"made_room": 1}
        assert len(server.connections) == 2


async def test_those_that_connect_at_once_do_not_drive_each_other_out(clock: FakeClock) -> None:
    async with serve(clock, port_limits=TWO) as server:
        first, second = [await RawPeer.connect(server.port) for _ in range(2)]
        await eventually(lambda: len(server.connections) == 2)
        assert await (await RawPeer.connect(server.port)).is_closed()
        for peer in (first, second):
            await peer.ask(numbered(ECHO, 1))
        assert server.tally.closed == {"full": 1}


async def test_descriptors_are_given_back_by_those_that_asked_nothing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConnectionRoom, "most", 2)
    room = ConnectionRoom()
    async with serve(clock, room=room) as server:
        for _ in range(2):
            await RawPeer.connect(server.port)
        await eventually(lambda: len(server.connections) == 2)
        clock.advance(1.0)
        clock.advance(1.0)
        for number in range(2):
            await (await RawPeer.connect(server.port)).ask(numbered(ECHO, number))
        assert room.taken == 2
        assert await (await RawPeer.connect(server.port)).is_closed()


async def test_a_flood_at_one_port_makes_room_for_a_client_of_another(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConnectionRoom, "most", 2)
    room = ConnectionRoom()
    async with serve(clock, room=room) as flooded, serve(clock, room=room) as other:
        for _ in range(2):
            await RawPeer.connect(flooded.port)
        await eventually(lambda: len(flooded.connections) == 2)
        clock.advance(1.0)
        clock.advance(1.0)
        await (await RawPeer.connect(other.port)).ask(numbered(ECHO, 1))
        assert flooded.tally.closed == {"made_room": 1}
    assert room.taken == 0


async def test_an_address_has_so_many_connections(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "is_limited", lambda connection: True)
    async with serve(clock, port_limits=PortLimits(max_connections_per_address=2)) as server:
        kept = [await RawPeer.connect(server.port) for _ in range(2)]
        for peer in kept:
            await peer.ask(numbered(ECHO, 1))
        assert await (await RawPeer.connect(server.port)).is_closed()
        assert server.tally.closed == {"per_address": 1}
        kept[0].close()
        await eventually(lambda: len(server.connections) == 1)
        await (await RawPeer.connect(server.port)).ask(numbered(ECHO, 2))


async def test_all_users_of_a_machine_share_its_loopback(clock: FakeClock) -> None:
    async with serve(clock, port_limits=PortLimits(max_connections_per_address=1)) as server:
        for number in range(3):
            await (await RawPeer.connect(server.port)).ask(numbered(ECHO, number))


async def test_whoever_does_not_sign_in_time_is_closed(clock: FakeClock) -> None:
    def guard(command: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        return None if command.opaque == 7 else response(command, 1, "no")

    async with serve(clock, guard=guard) as server:
        silent, refused, known = [await RawPeer.connect(server.port) for _ in range(3)]
        await known.ask(numbered(ECHO, 7))
        await refused.ask(numbered(ECHO, 8))
        await eventually(lambda: len(server.connections) == 3)
        for _ in range(11):
            clock.advance(1.0)
        assert await silent.is_closed()
        assert await refused.is_closed()
        assert (await known.ask(numbered(ECHO, 7))).opaque == 7
        assert server.tally.closed == {"unsigned": 2}
