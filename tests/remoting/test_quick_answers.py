"""Frames that are answered at once, without a round."""

from __future__ import annotations

import asyncio
from typing import cast
from unittest.mock import patch

import pytest

from pyromq.protocol.command import RemotingCommand, decode, response
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.dispatch import QUICK_SHARE, QuickAnswers
from pyromq.remoting.round import Round

from .helpers import ECHO, HANDLERS, FakeClock, RawPeer, let_loop_run, numbered, serve

PULL = 11


def usual(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return response(command, body=b"usual")


def quick(frame: bytes | memoryview, connection: Connection) -> bytes | None:
    """Answer requests with a body that says so."""
    command = decode(bytes(frame))
    return response(command, body=b"quick").encode() if command.body == b"plain" else None


@pytest.fixture(name="round")
async def new_round() -> Round:
    return Round(asyncio.get_running_loop())


async def test_answers_leave_in_the_order_of_their_requests(clock: FakeClock, round: Round) -> None:
    answers = QuickAnswers(round)
    answers.start(PULL, quick, {})
    async with serve(clock, {**HANDLERS, PULL: usual}, round=round, quick=answers) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(
            numbered(PULL, 1, b"plain"),
            numbered(PULL, 2, b"plain"),
            numbered(ECHO, 3, b"echo"),
            numbered(PULL, 4, b"plain"),
            numbered(PULL, 5),
        )
        found = [await peer.receive() for _ in range(5)]
        assert [(answer.opaque, answer.body) for answer in found] == [
            (1, b"quick"),
            (2, b"quick"),
            (3, b"echo"),
            (4, b"usual"),  # behind one that is not quick
            (5, b"usual"),
        ]
        answers.stop()
        assert (await peer.ask(numbered(PULL, 6, b"plain"))).body == b"usual"
        answers.start(PULL, quick, server.handlers)
        assert (await peer.ask(numbered(PULL, 7, b"plain"))).body == b"quick"
        with patch.dict(server.handlers, {PULL: HANDLERS[ECHO]}):
            assert (await peer.ask(numbered(PULL, 8, b"plain"))).body == b"plain", "another handler answers now"
        assert (await peer.ask(numbered(PULL, 9, b"plain"))).body == b"quick"


async def test_a_guard_sees_all_requests(clock: FakeClock, round: Round) -> None:
    answers = QuickAnswers(round)
    answers.start(PULL, quick, {})

    def refuse(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, 1, "no")

    async with serve(clock, {PULL: usual}, round=round, quick=answers, guard=refuse) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(PULL, 1, b"plain"))).remark == "no"


class Receiver:
    """Takes what is sent at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def send_now(self, frames: list[bytes], size: int) -> None:
        assert sum(map(len, frames)) == size
        self.sizes.append(len(frames))


@pytest.mark.parametrize(("size", "share"), [(100_000, 6), (10, QUICK_SHARE)])
async def test_a_read_has_its_share_of_quick_answers(round: Round, size: int, share: int) -> None:
    answers, receiver = QuickAnswers(round), Receiver()
    answers.start(PULL, lambda frame, connection: bytes(size), {})
    frames: Frames = [numbered(PULL, number).encode()[4:] for number in range(100)]
    assert answers.serve(frames, cast(Connection, receiver)) == frames[share:]
    assert receiver.sizes == [share]


async def test_quick_answers_of_all_connections_are_bounded_until_the_round_ends(round: Round) -> None:
    answers, receiver = QuickAnswers(round), Receiver()
    answers.start(PULL, lambda frame, connection: bytes(10), {})
    frames: Frames = [numbered(PULL, 1).encode()[4:]]
    left = [answers.serve(frames, cast(Connection, receiver)) for _ in range(1000)]
    assert 100 < left.count([]) < 200
    assert left[-1] == frames
    await let_loop_run()
    assert answers.serve(frames, cast(Connection, receiver)) == []


async def test_no_round_ends_for_a_few_quick_answers(round: Round) -> None:
    ended: list[str] = []
    round.at_end(lambda: ended.append("round"))
    answers = QuickAnswers(round)
    answers.start(PULL, quick, {})
    receiver = Receiver()
    plain = numbered(PULL, 1, b"plain").encode()[4:]
    for _ in range(10):
        assert answers.serve([plain, plain], cast(Connection, receiver)) == []
        await let_loop_run()
    assert (ended, sum(receiver.sizes)) == ([], 20)
