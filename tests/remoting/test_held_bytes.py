"""What all connections of a process may hold in memory together."""

from __future__ import annotations

from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import Connection
from pyromq.remoting.held_bytes import HeldBytes
from pyromq.remoting.limits import Limits
from pyromq.testing import eventually

from .helpers import ECHO, FakeClock, RawPeer, echo, numbered, serve, shrink_buffers

MEBI = 1 << 20


class Holder:
    """Notes that it was closed, or told to go on."""

    def __init__(self) -> None:
        self.reason = self.cause = ""
        self.goes_on = False

    def abort(self, reason: str, *, cause: str = "") -> None:
        self.reason, self.cause = reason, cause

    def go_on(self) -> None:
        self.goes_on = True


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
    async with serve(clock, {ECHO: large}, unsent=account, limits=Limits(write_high=8 << 20)) as server:
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


def test_where_it_is_crowded_all_wait_but_the_one_that_came_first() -> None:
    account = HeldBytes(100, 1000)
    first, second, third = Holder(), Holder(), Holder()
    account.set(first, 60)
    assert not account.must_wait(first)
    account.set(second, 60)
    account.set(third, 60)
    assert [account.must_wait(holder) for holder in (first, second, third)] == [False, True, True]
    account.forget(first)
    assert (second.goes_on, third.goes_on) == (True, False)
    account.set(second, 10)
    assert third.goes_on
    assert not account.must_wait(third)


async def test_large_frames_of_a_crowd_all_arrive_in_turn(clock: FakeClock) -> None:
    account = HeldBytes(2 * MEBI, 64 * MEBI)
    async with serve(clock, held=account) as server:
        peers = [await RawPeer.connect(server.port) for _ in range(6)]
        for number, peer in enumerate(peers):
            peer.send(numbered(ECHO, number, bytes(4 * MEBI)))
        for number, peer in enumerate(peers):
            assert (await peer.receive()).opaque == number
        await eventually(lambda: account.total == 0)
        assert not server.tally.closed


async def test_a_stalled_frame_is_closed_where_others_wait_for_its_memory(clock: FakeClock) -> None:
    account = HeldBytes(2 * MEBI, 64 * MEBI)
    async with serve(clock, held=account) as server:
        stalled = await RawPeer.connect(server.port)
        stalled.writer.write(numbered(ECHO, 1, bytes(8 * MEBI)).encode()[: 4 * MEBI])
        await eventually(lambda: account.is_crowded)
        honest = await RawPeer.connect(server.port)
        honest.send(numbered(ECHO, 2, bytes(4 * MEBI)))
        small = await RawPeer.connect(server.port)
        assert (await small.ask(numbered(ECHO, 3))).opaque == 3
        for _ in range(4):
            clock.advance(1.0)
            assert (await small.ask(numbered(ECHO, 4))).opaque == 4  # the watch has looked at all of them
        assert await stalled.is_closed()
        assert (await honest.receive()).opaque == 2
        assert server.tally.closed == {"stalled_frame": 1}


async def test_a_stalled_frame_may_stay_while_there_is_room(clock: FakeClock) -> None:
    account = HeldBytes(8 * MEBI, 64 * MEBI)
    async with serve(clock, held=account) as server:
        slow = await RawPeer.connect(server.port)
        frame = numbered(ECHO, 1, bytes(4 * MEBI)).encode()
        slow.writer.write(frame[: 2 * MEBI])
        await eventually(lambda: account.total >= MEBI)
        for _ in range(10):
            clock.advance(1.0)
        slow.writer.write(frame[2 * MEBI :])
        assert (await slow.receive()).opaque == 1


async def test_a_peer_that_does_not_read_is_closed_where_memory_is_short(clock: FakeClock) -> None:
    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=bytes(MEBI))

    account = HeldBytes(2 * MEBI, 64 * MEBI)
    async with serve(clock, {ECHO: large}, unsent=account) as server:
        shrink_buffers(server._listener.sockets[0])
        deaf = await RawPeer.connect(server.port)
        deaf.send(*(numbered(ECHO, number) for number in range(40)))
        await eventually(lambda: account.is_crowded)
        assert account.total <= 8 * MEBI  # the others of its requests are not served before it reads
        for _ in range(5):
            clock.advance(1.0)
        assert await deaf.is_closed()
        assert server.tally.closed == {"unread_answers": 1}


async def test_a_slow_reader_gets_everything_although_memory_is_short(clock: FakeClock) -> None:
    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=bytes(MEBI))

    account = HeldBytes(MEBI, 64 * MEBI)
    async with serve(clock, {ECHO: large}, unsent=account) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(*(numbered(ECHO, number) for number in range(40)))
        await eventually(lambda: account.is_crowded)
        for number in range(40):
            if number % 10 == 0:
                clock.advance(1.0)
            assert (await peer.receive()).opaque == number
        assert not server.tally.closed
