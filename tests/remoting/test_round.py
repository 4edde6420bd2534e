from __future__ import annotations

import asyncio
import itertools
import logging
import math
import socket

import pytest

from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import SHARE, Connection
from pyromq.remoting.round import ANSWER_BYTES, READ_BYTES, Round
from pyromq.testing import eventually

from .helpers import ECHO, NEVER, FakeClock, RawPeer, let_loop_run, numbered, serve


class Member:
    """Notes in a shared list when it is flushed."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    def flush(self) -> None:
        self.notes.append(self.name)


@pytest.fixture(name="round")
async def new_round() -> Round:
    return Round(asyncio.get_running_loop())


async def test_hooks_run_before_the_members_are_flushed(round: Round) -> None:
    notes: list[str] = []
    round.at_end(lambda: notes.append("hook 1"))
    round.at_end(lambda: notes.append("hook 2"))
    round.add(Member("a", notes))
    round.add(Member("b", notes))
    assert notes == []
    await asyncio.sleep(0)
    assert notes == ["hook 1", "hook 2", "a", "b"]


async def test_no_round_ends_that_nobody_asked_for(round: Round) -> None:
    notes: list[str] = []
    round.at_end(lambda: notes.append("hook"))
    await let_loop_run()
    assert notes == []
    round.schedule()
    round.schedule()
    await let_loop_run()
    assert notes == ["hook"]


async def test_turns_end_when_the_round_has_its_bytes_of_answers() -> None:
    round = Round(asyncio.get_running_loop(), serving_time=math.inf)
    served: list[int] = []  # what the round had at each turn

    class Taker:
        cut_off_at = 0.0

        def take_turn(self) -> None:
            served.append(round.answer_bytes)
            round.answer_bytes += ANSWER_BYTES // 2 + 1

    for _ in range(5):
        round.wait_turn(Taker())
    await let_loop_run()
    assert [size > 0 for size in served] == [False, True, False, True, False]  # two in each round


async def test_who_has_just_come_is_served_before_those_who_want_more() -> None:
    round = Round(asyncio.get_running_loop(), serving_time=0.0)  # one turn in each round
    served: list[str] = []

    class Taker:
        cut_off_at = 0.0

        def __init__(self, name: str, turns: int) -> None:
            self.name = name
            self.turns = turns

        def take_turn(self) -> None:
            served.append(self.name)
            self.turns -= 1
            if self.turns:
                round.wait_turn(self)
            if served == ["a", "b", "a"]:
                round.wait_turn(Taker("modest", 1), is_new=True)
                round.wait_turn(self, is_new=True)  # it is not, it was cut off just now

    for name in ("a", "b"):
        round.wait_turn(Taker(name, 4), is_new=True)
    await let_loop_run()
    assert served == ["a", "b", "a", "modest", "b", "a", "b", "a", "b"]


class Patient:
    """Notes its turns, and wants no more of them."""

    def __init__(self, cut_off_at: float = 0.0) -> None:
        self.cut_off_at = cut_off_at
        self.turns = 0

    def take_turn(self) -> None:
        self.turns += 1


async def test_who_waits_already_is_not_taken_for_one_who_wants_more() -> None:
    round = Round(asyncio.get_running_loop())
    round.schedule()
    taker = Patient()
    round.wait_turn(taker, is_new=True)
    round.wait_turn(taker)  # its answers of this round were written, and it has requests: those that it waits with
    assert taker.cut_off_at == 0.0
    await let_loop_run()
    assert taker.turns == 1


async def test_who_was_cut_off_is_new_again_after_a_moment_however_often_it_asks() -> None:
    round = Round(asyncio.get_running_loop())
    round.schedule()
    before = round.serves_until - 0.5
    taker = Patient(before)
    round.wait_turn(taker, is_new=True)  # nothing of this was served
    assert taker.cut_off_at == before
    await let_loop_run()
    round.wait_turn(taker)
    assert taker.cut_off_at == round.serves_until


async def test_rounds_on_one_loop_share_the_time_and_the_bytes_of_a_pass(round: Round) -> None:
    other = Round(asyncio.get_running_loop())
    assert not round.has_read(READ_BYTES - 1)
    assert other.has_read(1)
    assert other.serves_until == round.serves_until
    await let_loop_run()
    assert not other.has_read(1)
    assert other.serves_until > round.serves_until


async def test_what_a_hook_adds_leaves_in_the_same_round(round: Round) -> None:
    notes: list[str] = []
    round.at_end(lambda: round.add(Member("woken", notes)))
    round.schedule()
    await asyncio.sleep(0)
    assert notes == ["woken"]
    await let_loop_run()
    assert notes == ["woken"]  # and asks for no further round


async def test_a_hook_can_ask_for_another_round(round: Round) -> None:
    calls: list[int] = []

    def again() -> None:
        calls.append(1)
        if len(calls) < 3:
            round.schedule()

    round.at_end(again)
    round.schedule()
    await eventually(lambda: len(calls) == 3)


async def test_a_hook_or_member_that_raises_is_logged_and_stops_nobody(
    round: Round, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []

    class Broken(Member):
        def flush(self) -> None:
            raise OSError("broken member")

    def broken() -> None:
        raise RuntimeError("broken hook")

    round.at_end(broken)
    round.at_end(lambda: notes.append("hook"))
    round.add(Broken("x", notes))
    round.add(Member("a", notes))
    await asyncio.sleep(0)
    assert notes == ["hook", "a"]
    assert "broken hook" in caplog.text
    assert "broken member" in caplog.text
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    round.add(Member("b", notes))
    await asyncio.sleep(0)
    assert notes == ["hook", "a", "hook", "b"]


async def test_requests_of_200_connections_share_one_end_of_round(clock: FakeClock) -> None:
    """All sockets are readable before the loop comes round, so their answers must leave together."""
    parked: list[tuple[RemotingCommand, Connection]] = []
    calls: list[int] = []

    def park(command: RemotingCommand, connection: Connection) -> None:
        parked.append((command, connection))
        shared.schedule()

    def commit() -> None:
        calls.append(len(parked))
        for command, connection in parked:
            connection.send(response(command).encode())
        parked.clear()

    shared = Round(asyncio.get_running_loop(), serving_time=math.inf)  # however slow the machine
    shared.at_end(commit)
    async with serve(clock, {ECHO: park}, round=shared) as server:
        sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
        await eventually(lambda: len(server.connections) == 200)
        for peer in sockets:
            peer.sendall(numbered(ECHO, 1).encode() + numbered(ECHO, 2).encode())
        await eventually(lambda: sum(calls) == 400)
        assert len([count for count in calls if count]) <= 3
        for peer in sockets:
            assert peer.recv(65536).count(b'"opaque":') == 2  # both answers in one segment
            peer.close()


async def test_a_waiting_request_that_a_hook_wakes_is_answered_in_that_round(clock: FakeClock) -> None:
    """As a long poll: the pull of one connection leaves together with the answer to the send of another."""
    waiting: list[tuple[RemotingCommand, Connection]] = []
    rounds = 0

    def hold(command: RemotingCommand, connection: Connection) -> None:
        waiting.append((command, connection))

    def touch(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command)

    def wake() -> None:
        nonlocal rounds
        rounds += 1
        for command, connection in waiting:
            connection.send(response(command, body=b"woken").encode())
        waiting.clear()

    shared = Round(asyncio.get_running_loop())
    async with serve(clock, {NEVER: hold, ECHO: touch}, round=shared) as server:
        consumer, producer = await RawPeer.connect(server.port), await RawPeer.connect(server.port)
        consumer.send(numbered(NEVER, 1))
        await eventually(lambda: bool(waiting))
        shared.at_end(wake)
        assert (await producer.ask(numbered(ECHO, 1))).opaque == 1
        assert (await consumer.receive()).body == b"woken"
        assert rounds == 1


async def test_a_connection_that_sends_without_a_pause_does_not_starve_the_others(clock: FakeClock) -> None:
    served: list[str] = []

    def note(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        served.append(connection.peer)
        return response(command)

    shared = Round(asyncio.get_running_loop(), serving_time=math.inf)
    async with serve(clock, {ECHO: note}, round=shared) as server:
        greedy = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        modest = socket.create_connection(("127.0.0.1", server.port))
        await eventually(lambda: len(server.connections) == 5)
        for peer in greedy:
            peer.sendall(b"".join(numbered(ECHO, number).encode() for number in range(1200)))
        modest.sendall(numbered(ECHO, 1).encode())
        await eventually(lambda: len(served) == 4 * 1200 + 1)
        name = ":".join(map(str, modest.getsockname()))
        assert served.index(name) <= 4 * SHARE
        turns = [peer for peer, _ in itertools.groupby(peer for peer in served if peer != name)]
        assert len(turns) >= 4 * 4  # each comes back to its turn after the others had theirs
        for peer in (*greedy, modest):
            peer.close()


async def test_requests_that_do_not_fit_into_a_round_are_served_in_the_next(clock: FakeClock) -> None:
    """No time at all is left after the first request of each round, and still all are served, in their order."""
    served: list[int] = []
    rounds: list[int] = []

    def note(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        served.append(command.opaque)
        return response(command)

    shared = Round(asyncio.get_running_loop(), serving_time=math.inf)
    shared.at_end(lambda: rounds.append(len(served)))
    shared.at_end(lambda: setattr(shared, "_serving_time", 0.0))  # from the second round on
    async with serve(clock, {ECHO: note}, round=shared) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(ECHO, 0))
        await peer.receive()
        peer.send(*(numbered(ECHO, number) for number in range(1, 6)))
        assert [(await peer.receive()).opaque for _ in range(5)] == served[1:] == [1, 2, 3, 4, 5]
        assert len(rounds) > 2


async def test_a_round_reads_a_bounded_number_of_bytes(clock: FakeClock) -> None:
    """A pass of the loop may bring megabytes of unfinished frames from each connection, read after read."""
    shared = Round(asyncio.get_running_loop())
    async with serve(clock, {}, round=shared) as server:
        sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        await eventually(lambda: len(server.connections) == 3)
        first, second, third = server.connections
        for connection in (first, second, third):
            connection.data_received((15 << 20).to_bytes(4, "big"))
        chunk = bytes(READ_BYTES // 8)
        for _ in range(7):
            first.data_received(chunk)
        assert first._transport.is_reading()
        second.data_received(chunk)
        assert not second._transport.is_reading(), "what it sends now waits"
        third.data_received(b"a few bytes")
        assert third._transport.is_reading()
        await let_loop_run()
        assert second._transport.is_reading(), "its turn has come"
        for each in sockets:
            each.close()
