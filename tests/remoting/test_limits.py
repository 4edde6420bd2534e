"""What all connections of a process may take together: descriptors and memory."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys

import pytest

from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting import limits
from pyromq.remoting.connection import Connection
from pyromq.remoting.limits import ConnectionRoom, HeldBytes, Limits
from pyromq.testing import eventually

from .helpers import ECHO, FakeClock, RawPeer, echo, numbered, serve, shrink_buffers


class Holder:
    """Notes that it was closed."""

    def __init__(self) -> None:
        self.reason = ""

    def abort(self, reason: str) -> None:
        self.reason = reason


@pytest.mark.parametrize(("limit", "most"), [(1024, 564), (20_000, 15_744), (256, 64)])
def test_connections_leave_descriptors_for_files(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "descriptor_limit", lambda: limit)
    room = ConnectionRoom()
    assert room.most == most
    before = room.left_for_files
    while room.enter():
        pass
    assert room.taken == most
    assert 0 < room.left_for_files <= before
    room.leave()
    assert room.enter()


def test_files_hear_when_connections_take_their_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "descriptor_limit", lambda: 10_000)
    room = ConnectionRoom()
    heard: list[int] = []
    room.listeners.append(heard.append)
    for _ in range(130):
        room.enter()
    for _ in range(130):
        room.leave()
    assert heard == [9680, 9616, 9616, 9680, 9744]


async def test_a_server_refuses_connections_beyond_the_room_of_its_process(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room = ConnectionRoom()
    monkeypatch.setattr(ConnectionRoom, "most", 2)
    async with serve(clock, room=room) as first, serve(clock, room=room) as second:
        peers = [await RawPeer.connect(first.port), await RawPeer.connect(second.port)]
        for peer in peers:
            await peer.ask(numbered(ECHO, 1))
        for server in (first, second, first):
            assert await (await RawPeer.connect(server.port)).is_closed()
        await peers[0].ask(numbered(ECHO, 2))
        peers[1].close()
        await eventually(lambda: room.taken == 1)
        assert (await (await RawPeer.connect(first.port)).ask(numbered(ECHO, 3))).opaque == 3
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in warnings if "all that `ulimit -n` leaves room for" in text]) == 2  # one of each server


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    code = (
        "import resource; from pyromq.remoting.limits import raise_descriptor_limit, descriptor_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        "print(raise_descriptor_limit(), descriptor_limit(), raise_descriptor_limit())"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 300
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["300"] * 3


def test_the_largest_is_closed_first_and_only_as_many_as_needed() -> None:
    account = HeldBytes(100)
    small, large, larger = Holder(), Holder(), Holder()
    account.set(small, 10)
    account.set(large, 40)
    account.set(larger, 50)
    assert account.total == 100
    account.set(small, 11)
    assert (small.reason, large.reason, account.total) == ("", "", 51)
    assert "all connections together more than" in larger.reason
    account.set(large, 0)
    account.set(small, 0)
    assert account.total == 0


async def test_unfinished_frames_of_many_peers_are_added_up(clock: FakeClock) -> None:
    account = HeldBytes(2 << 20)
    async with serve(clock, held=account) as server:
        peers = [await RawPeer.connect(server.port) for _ in range(3)]
        honest = await RawPeer.connect(server.port)
        for number, peer in enumerate(peers):
            frame = numbered(ECHO, 1, bytes(4 << 20)).encode()
            peer.writer.write(frame[: (6 + number) * 100 * 1024])
        await eventually(lambda: account.total > 1 << 20)
        peers[0].writer.write(bytes(1 << 20))  # the largest now, and too much for all
        assert await peers[0].is_closed()
        assert account.total <= 2 << 20
        assert (await honest.ask(numbered(ECHO, 7))).opaque == 7
        for peer in peers:
            peer.close()
        await eventually(lambda: account.total == 0)


async def test_answers_that_are_not_read_are_added_up(clock: FakeClock) -> None:
    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=bytes(1 << 20))

    account = HeldBytes(2 << 20)
    async with serve(clock, {ECHO: large}, held=account, limits=Limits(write_high=8 << 20)) as server:
        shrink_buffers(server._listener.sockets[0])
        deaf = await RawPeer.connect(server.port)
        deaf.send(*(numbered(ECHO, number) for number in range(8)))
        await eventually(lambda: not server.connections)
        assert account.total == 0


async def test_what_was_sent_no_longer_counts(clock: FakeClock) -> None:
    account = HeldBytes(64 << 20)
    async with serve(clock, {ECHO: echo}, held=account) as server:
        peer = await RawPeer.connect(server.port)
        for number in range(3):
            await peer.ask(numbered(ECHO, number, bytes(1 << 20)))
        clock.advance(1.0)  # the watch looks at each connection
        await eventually(lambda: account.total == 0)
