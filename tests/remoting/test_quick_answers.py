"""Frames that are answered at once, without a round."""

from __future__ import annotations

import asyncio
from typing import cast
from unittest.mock import patch

import pytest

from pyromq.protocol.command import RemotingCommand, decode, response
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.dispatch import QUICK_SHARE, SCRATCH, AnswerQuickly, QuickAnswer, QuickAnswers
from pyromq.remoting.requests import Handler
from pyromq.remoting.round import Round

from .helpers import ECHO, HANDLERS, FakeClock, RawPeer, let_loop_run, numbered, serve

PULL = 11


def usual(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return response(command, body=b"usual")


def quick(frames: Frames, index: int, most: int, connection: Connection, scratch: memoryview) -> QuickAnswer:
    """Answer requests with a body that says so, two at a time."""
    answers: list[bytes] = []
    for frame in frames[index:]:
        command = decode(bytes(frame))
        if command.code != PULL or command.body != b"plain":
            break
        if len(answers) >= min(most, 2):
            return len(answers), b"".join(answers), True
        answers.append(response(command, body=b"quick").encode())
    return len(answers), b"".join(answers), False


def one_of(size: int) -> AnswerQuickly:
    """Return what answers a frame at a time with so many bytes."""
    return lambda frames, index, most, connection, scratch: (1, bytes(size), index + 1 < len(frames))


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


@pytest.mark.parametrize("asks_guard", [False, True])
async def test_a_guard_sees_all_requests_unless_it_is_asked(clock: FakeClock, round: Round, asks_guard: bool) -> None:
    answers = QuickAnswers(round)

    def refuse(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, 1, "no")

    handlers = {PULL: usual}
    answers.start(PULL, quick, handlers, asks_guard=asks_guard)
    async with serve(clock, handlers, round=round, quick=answers, guard=refuse) as server:
        peer = await RawPeer.connect(server.port)
        answer = await peer.ask(numbered(PULL, 1, b"plain"))
        assert (answer.body, answer.remark) == ((b"quick", None) if asks_guard else (b"", "no"))


class Receiver:
    """Takes what is sent at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.written: list[bytes] = []
        self.later: Frames = []
        self._ahead: bytes | memoryview = b""

    def send_ahead(self, frames: bytes | memoryview) -> None:
        self.write_ahead()
        self.sizes.append(len(frames))
        self._ahead = frames

    def write_ahead(self) -> None:
        if self._ahead:
            self.written.append(bytes(self._ahead))
            self._ahead = b""

    def serve_later(self, frames: Frames) -> None:
        self.later = frames


@pytest.mark.parametrize(("size", "share"), [(100_000, 6), (10, QUICK_SHARE)])
async def test_a_read_has_its_share_of_quick_answers(round: Round, size: int, share: int) -> None:
    answers, receiver = QuickAnswers(round), Receiver()
    answers.start(PULL, one_of(size), {})
    frames: Frames = [numbered(PULL, number).encode()[4:] for number in range(100)]
    assert answers.serve(frames, cast(Connection, receiver)) == []
    assert receiver.later == frames[share:]
    assert receiver.sizes == [size] * share


def numbered_bytes(size: int) -> AnswerQuickly:
    """Return what answers a frame at a time, in the buffer, with so many bytes that are its number."""

    def answer(frames: Frames, index: int, most: int, connection: Connection, scratch: memoryview) -> QuickAnswer:
        if len(scratch) < size:
            return 0, b"", True
        scratch[:size] = bytes([decode(bytes(frames[index])).opaque]) * size
        return 1, scratch[:size], index + 1 < len(frames)

    return answer


async def test_answers_wait_in_the_buffer_until_all_are_served_or_it_is_full(round: Round) -> None:
    answers = QuickAnswers(round)
    size = SCRATCH // 4 - 100
    answers.start(PULL, numbered_bytes(size), {})
    receivers = [Receiver() for _ in range(6)]
    for number, receiver in enumerate(receivers):
        assert answers.serve([numbered(PULL, number).encode()[4:]], cast(Connection, receiver)) == []
    assert [len(receiver.written) for receiver in receivers] == [1, 1, 1, 1, 0, 0]
    await let_loop_run()
    assert [receiver.written for receiver in receivers] == [[bytes([number]) * size] for number in range(6)]


async def test_an_answer_that_the_buffer_never_holds_is_not_quick(round: Round) -> None:
    answers, receiver = QuickAnswers(round), Receiver()
    answers.start(PULL, numbered_bytes(SCRATCH + 1), {})
    frames: Frames = [numbered(PULL, 1).encode()[4:]]
    assert answers.serve(frames, cast(Connection, receiver)) == frames
    assert receiver.sizes == []


async def test_quick_answers_of_all_connections_are_bounded_until_the_round_ends(round: Round) -> None:
    answers, receiver = QuickAnswers(round), Receiver()
    answers.start(PULL, one_of(10), {})
    frames: Frames = [numbered(PULL, 1).encode()[4:]]
    left = [answers.serve(frames, cast(Connection, receiver)) for _ in range(1000)]
    assert 400 < left.count([]) < 600
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
    assert (ended, len(receiver.sizes)) == ([], 10)


async def test_a_peer_that_reads_late_gets_all_answers_in_order(clock: FakeClock, round: Round) -> None:
    answers = QuickAnswers(round)
    large = b"x" * 100_000

    def answer(frames: Frames, index: int, most: int, connection: Connection, scratch: memoryview) -> QuickAnswer:
        """Answer one of three in the buffer, one with bytes; every third is served as usual."""
        command = decode(bytes(frames[index]))
        if command.opaque % 3 == 2:
            return 0, b"", False
        data = response(command, body=large).encode()
        if command.opaque % 3:
            return 1, data, index + 1 < len(frames)
        if len(scratch) < len(data):
            return 0, b"", True
        scratch[: len(data)] = data
        return 1, scratch[: len(data)], index + 1 < len(frames)

    handlers: dict[int, Handler] = {PULL: lambda command, connection: response(command, body=large)}
    answers.start(PULL, answer, handlers)
    async with serve(clock, handlers, round=round, quick=answers) as server:
        peer = await RawPeer.connect(server.port)
        for number in range(0, 60, 4):
            peer.send(*(numbered(PULL, opaque) for opaque in range(number, number + 4)))
            await let_loop_run()
        found = [await peer.receive() for _ in range(60)]
        assert [each.opaque for each in found] == list(range(60))
        assert all(each.body == large for each in found)


async def test_one_who_may_read_on_has_no_frames(
    clock: FakeClock, round: Round, caplog: pytest.LogCaptureFixture
) -> None:
    answers = QuickAnswers(round)
    answers.start(PULL, quick, {})
    assert answers.serve([], cast(Connection, Receiver())) == []
    async with serve(clock, {PULL: usual}, round=round, quick=answers) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(PULL, 1))).body == b"usual"
        (connection,) = server.connections
        connection.pause_writing()
        connection.resume_writing()
        assert (await peer.ask(numbered(PULL, 2))).body == b"usual"
    assert not caplog.records


async def test_what_is_sent_at_once_overtakes_nothing_that_was_queued_before(clock: FakeClock, round: Round) -> None:
    def answer(command: RemotingCommand, connection: Connection) -> None:
        frame = response(command, body=command.body).encode()
        if command.body == b"queued":
            connection.send(frame)
        else:
            connection.send_at_once(frame)

    async with serve(clock, {ECHO: answer}, round=round) as server:
        peer = await RawPeer.connect(server.port)
        bodies = [b"first", b"queued", b"at once", b"queued", b"at once"]
        peer.send(*(numbered(ECHO, number, body) for number, body in enumerate(bodies)))
        found = [await peer.receive() for _ in bodies]
        assert [(answer.opaque, answer.body) for answer in found] == list(enumerate(bodies))


async def test_what_is_sent_at_once_waits_for_no_round(clock: FakeClock, round: Round) -> None:
    kept: list[tuple[RemotingCommand, Connection]] = []
    async with serve(clock, {ECHO: lambda *request: kept.append(request)}, round=round) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(ECHO, 1))
        while not kept:
            await let_loop_run()
        command, connection = kept[0]
        with patch.object(round, "schedule", side_effect=AssertionError):
            connection.send_at_once(response(command, body=b"done").encode())
        assert (await peer.receive()).body == b"done"
        connection.abort("test")
        connection.send_at_once(b"a closed connection drops it")


class EchoPass:
    """Answers requests whose body is `plain` into the buffer, as long as there is room."""

    def __init__(self, room: memoryview, log: list[str]) -> None:
        self._room = room
        self._log = log
        self.count = self.used = 0

    def feed(self, data: bytes, /) -> tuple[int, memoryview]:
        first, at = self.used, 0
        while at + 4 <= len(data) and at + 4 + int.from_bytes(data[at : at + 4]) <= len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4])
            command = decode(data[at + 4 : end])
            answer = response(command, body=b"passed" + bytes(100_000)).encode()
            if command.body != b"plain" or self.used + len(answer) > len(self._room):
                break
            self._room[self.used : self.used + len(answer)] = answer
            self.used, self.count, at = self.used + len(answer), self.count + 1, end
        self._log.append("fed" if at else "left")
        return at, self._room[first : self.used]

    def end(self) -> tuple[int, int]:
        self._log.append("ended")
        return self.count, self.used


async def test_a_pass_answers_whole_reads_until_something_else_is_served(clock: FakeClock, round: Round) -> None:
    answers, log = QuickAnswers(round), []  # type: ignore[var-annotated]
    handlers = {**HANDLERS, PULL: usual}
    answers.start(PULL, nothing, handlers, begin_pass=lambda room, budget: EchoPass(room, log))
    async with serve(clock, handlers, round=round, quick=answers) as server:
        peers = [await RawPeer.connect(server.port) for _ in range(3)]
        for peer in peers:
            await peer.ask(numbered(ECHO, 0))  # only a peer that has asked something is served so
        for number in range(20):  # more answers than the buffer holds
            peers[0].send(numbered(PULL, number, b"plain"))
            peers[1].send(numbered(PULL, number, b"plain" if number % 3 else b"held"), numbered(ECHO, number, b"echo"))
            peers[2].send(*(numbered(PULL, 10 * number + each, b"plain") for each in range(10)))
        found = [[await peer.receive() for _ in range(count)] for peer, count in zip(peers, (20, 40, 200), strict=True)]
    quickly = {b"passed", b"usual"}  # as usual while a peer has not read what was sent
    assert [answer.opaque for answer in found[0]] == list(range(20))
    assert {answer.body[:6] for answer in found[0]} <= quickly
    assert [answer.opaque for answer in found[1]] == [number for number in range(20) for _ in range(2)]
    assert [answer.body for answer in found[1][1::2]] == [b"echo"] * 20
    assert {answer.body[:6] for answer in found[1][::6]} == {b"usual"}
    assert [answer.opaque for answer in found[2]] == list(range(200))
    assert {answer.body[:6] for answer in found[2]} <= quickly
    assert sum(answer.body[:6] == b"passed" for answers in found for answer in answers) > 20
    assert "left" in log


async def test_a_pass_is_not_begun_if_another_handler_answers(clock: FakeClock, round: Round) -> None:
    answers, log = QuickAnswers(round), []  # type: ignore[var-annotated]
    handlers: dict[int, Handler] = {**HANDLERS, PULL: usual}
    answers.start(PULL, nothing, handlers, begin_pass=lambda room, budget: EchoPass(room, log))
    async with serve(clock, handlers, round=round, quick=answers) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(PULL, 1, b"plain"))).body == b"usual", "it has not asked anything before"
        handlers[PULL] = HANDLERS[ECHO]
        assert (await peer.ask(numbered(PULL, 2, b"plain"))).body == b"plain"
        handlers[PULL] = usual
        assert (await peer.ask(numbered(PULL, 3, b"plain"))).body[:6] == b"passed"
        answers.stop()
        assert (await peer.ask(numbered(PULL, 4, b"plain"))).body == b"usual"


def nothing(frames: Frames, index: int, most: int, connection: Connection, scratch: memoryview) -> QuickAnswer:
    """Answer nothing."""
    return 0, b"", False
