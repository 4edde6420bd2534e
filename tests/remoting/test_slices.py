"""Requests whose handlers are generators: they share a slice of each pass of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from pyromq.errors import BrokerError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import MAX_FRAME, RemotingCommand, response
from pyromq.remoting import slices
from pyromq.remoting.connection import Connection
from pyromq.remoting.limits import Limits
from pyromq.remoting.requests import Answer, Handler
from pyromq.testing import eventually

from .helpers import ECHO, SLOW, FakeClock, RawPeer, echo, let_loop_run, numbered, serve

COUNT = 9100
Steps = Generator[None, None, Answer]


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice ends after each step, on any machine."""
    monkeypatch.setattr(slices, "SLICE", 0.0)


class Counting:
    """Take as many steps as the body says, and note each."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.given_up: list[int] = []

    def count(self, command: RemotingCommand, connection: Connection) -> Steps:
        try:
            for _ in range(int(command.body)):
                self.steps.append(command.opaque)
                yield
        except GeneratorExit:
            self.given_up.append(command.opaque)
            raise
        return response(command, body=command.body)


async def test_a_short_request_is_answered_within_the_read(clock: FakeClock) -> None:
    async with serve(clock, {COUNT: Counting().count}) as server:
        peer = await RawPeer.connect(server.port)
        answer = await peer.ask(numbered(COUNT, 7, b"0"))
        assert (answer.opaque, answer.body) == (7, b"0")


async def test_others_are_served_between_the_steps_of_a_long_request(clock: FakeClock) -> None:
    counting = Counting()
    async with serve(clock, {COUNT: counting.count, ECHO: echo}) as server:
        long, quick = await RawPeer.connect(server.port), await RawPeer.connect(server.port)
        long.send(numbered(COUNT, 1, b"1000000"))
        await eventually(lambda: bool(counting.steps))
        for _ in range(5):
            await quick.ask(numbered(ECHO, 2))
        assert len(counting.steps) < 1_000_000
        long.close()


async def test_connections_take_turns_and_each_is_served_in_order(clock: FakeClock) -> None:
    counting = Counting()
    async with serve(clock, {COUNT: counting.count}) as server:
        first, second = await RawPeer.connect(server.port), await RawPeer.connect(server.port)
        first.send(numbered(COUNT, 1, b"300"), numbered(COUNT, 2, b"300"))
        await eventually(lambda: bool(counting.steps))
        second.send(numbered(COUNT, 3, b"10"))
        assert (await second.receive()).opaque == 3
        assert [(await first.receive()).opaque for _ in range(2)] == [1, 2]
        of_first = [opaque for opaque in counting.steps if opaque != 3]
        assert of_first == [1] * 300 + [2] * 300
        last = len(counting.steps) - counting.steps[::-1].index(3)
        assert last - counting.steps.index(3) <= 2 * 10  # every second step was its own


async def test_what_a_generator_raises_is_the_answer(clock: FakeClock) -> None:
    def refuse(command: RemotingCommand, connection: Connection) -> Steps:
        yield
        raise BrokerError("too many queues")

    async with serve(clock, {COUNT: refuse}) as server:
        answer = await (await RawPeer.connect(server.port)).ask(numbered(COUNT, 1))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "too many queues")


async def test_the_requests_of_a_closed_connection_are_given_up(clock: FakeClock) -> None:
    counting = Counting()
    async with serve(clock, {COUNT: counting.count}) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(COUNT, 1, b"1000000"), numbered(COUNT, 2, b"1000000"))
        await eventually(lambda: bool(counting.steps))
        peer.close()
        await eventually(lambda: counting.given_up == [1])  # the second had not begun
        steps = len(counting.steps)
        await let_loop_run()
        assert len(counting.steps) == steps


async def test_generators_and_tasks_share_the_limit_of_running_requests(clock: FakeClock) -> None:
    over = asyncio.Event()

    async def wait(command: RemotingCommand, connection: Connection) -> Answer:
        await over.wait()
        return None

    handlers: dict[int, Handler] = {COUNT: Counting().count, SLOW: wait}
    async with serve(clock, handlers, limits=Limits(max_running=2)) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(SLOW, 1), numbered(COUNT, 2, b"1000000"), numbered(COUNT, 3, b"1"))
        answer = await peer.receive()
        assert (answer.opaque, answer.code) == (3, ResponseCode.SYSTEM_BUSY)
        over.set()
        peer.close()


async def test_a_stopping_server_finishes_what_it_began(clock: FakeClock) -> None:
    counting = Counting()
    async with serve(clock, {COUNT: counting.count}) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(COUNT, 1, b"200"))
        await eventually(lambda: bool(counting.steps))
    assert (await peer.receive()).body == b"200"


async def test_a_stopping_server_gives_up_what_takes_too_long(clock: FakeClock) -> None:
    counting = Counting()
    server = await serve(clock, {COUNT: counting.count}, close_timeout=5.0).__aenter__()
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(COUNT, 1, b"1000000000"))
    await eventually(lambda: bool(counting.steps))
    closing = asyncio.ensure_future(server.__aexit__(None, None, None))
    await clock.next_timer()
    clock.advance(6.0)
    await closing
    assert counting.given_up == [1]


async def test_an_answer_that_fits_into_no_frame_is_reported_without_its_bytes(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def large(command: RemotingCommand, connection: Connection) -> Steps:
        yield
        return response(command, body=b"x" * MAX_FRAME)

    async with serve(clock, {COUNT: large}) as server:
        peer = await RawPeer.connect(server.port)
        answer = await peer.ask(numbered(COUNT, 7))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "over the limit" in (answer.remark or "")
    assert "over the limit" in caplog.text
    assert len(caplog.text) < 10_000
