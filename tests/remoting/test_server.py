from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator

import pytest

from pyromq.errors import BrokerError, ConfigError, DiskFull, MalformedHeader, RemotingError, StoreError, TopicNotFound
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import JOIN_LIMIT, Connection
from pyromq.remoting.limits import Limits, PortLimits
from pyromq.remoting.server import RemotingServer, is_loopback
from pyromq.testing import eventually

from .helpers import ECHO, FAIL, HANDLERS, NEVER, SLOW, FakeClock, RawPeer, numbered, serve

UNKNOWN = 31_999


@pytest.fixture
async def server(clock: FakeClock) -> AsyncIterator[RemotingServer]:
    async with serve(clock) as server:
        yield server


async def answer_to_error(clock: FakeClock, error: Exception) -> RemotingCommand:
    def broken(command: RemotingCommand, connection: Connection) -> bytes:
        raise error

    async with serve(clock, {FAIL: broken, ECHO: HANDLERS[ECHO]}) as server:
        peer = await RawPeer.connect(server.port)
        answer = await peer.ask(numbered(FAIL, 5))
        assert (await peer.ask(numbered(ECHO, 6, b"goes on"))).body == b"goes on"
        return answer


async def test_an_answer_carries_the_opaque_of_its_request(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    answer = await peer.ask(numbered(ECHO, 77, b"hello"))
    assert (answer.opaque, answer.is_response, answer.code, answer.body) == (77, True, ResponseCode.SUCCESS, b"hello")


async def test_a_request_may_come_one_byte_at_a_time(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    for byte in numbered(ECHO, 3, b"drop by drop").encode():
        peer.writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await peer.receive()).body == b"drop by drop"


async def test_several_requests_may_come_in_one_segment(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    peer.send(*(numbered(ECHO, number, b"%d" % number) for number in range(100)))
    answers = [await peer.receive() for _ in range(100)]
    assert [(answer.opaque, answer.body) for answer in answers] == [(number, b"%d" % number) for number in range(100)]


async def test_a_request_larger_than_a_read_is_served(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    body = random.randbytes(3_000_000)
    assert (await peer.ask(numbered(ECHO, 1, body))).body == body


async def test_a_handler_may_be_a_coroutine(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    assert (await peer.ask(numbered(SLOW, 8, b"later"))).body == b"later"
    await eventually(lambda: all(connection.running == 0 for connection in server.connections))


async def test_a_handler_may_return_an_encoded_frame(clock: FakeClock) -> None:
    def encoded(command: RemotingCommand, connection: Connection) -> bytes:
        return response(command, body=b"bytes").encode()

    async with serve(clock, {ECHO: encoded}) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(ECHO, 1))).body == b"bytes"


async def test_the_handler_of_a_request_sees_who_asks_and_when(clock: FakeClock) -> None:
    seen: list[tuple[str, str, int]] = []

    def look(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        seen.append((connection.peer, connection.local, connection.received_ms))
        return response(command)

    async with serve(clock, {ECHO: look}) as server:
        peer = await RawPeer.connect(server.port)
        await peer.ask(numbered(ECHO, 1))
        host, port = peer.writer.get_extra_info("sockname")
        assert seen == [(f"{host}:{port}", f"127.0.0.1:{server.port}", clock.now_ms())]


@pytest.mark.parametrize("code", [ECHO, FAIL, SLOW, UNKNOWN])
async def test_a_oneway_request_is_served_and_never_answered(server: RemotingServer, code: int) -> None:
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(code, 1, oneway=True))
    assert (await peer.ask(numbered(ECHO, 2))).opaque == 2


async def test_an_unknown_code_is_answered_with_its_number(server: RemotingServer) -> None:
    answer = await (await RawPeer.connect(server.port)).ask(numbered(UNKNOWN, 1))
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert answer.remark == " request type 31999 not supported"


async def test_an_unknown_code_goes_unanswered_where_name_servers_do_so(clock: FakeClock) -> None:
    async with serve(clock, answer_unknown=False) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(UNKNOWN, 1))
        assert (await peer.ask(numbered(ECHO, 2))).opaque == 2


async def test_a_broker_error_becomes_its_code_and_remark(clock: FakeClock) -> None:
    answer = await answer_to_error(clock, TopicNotFound("no topic called Orders"))
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no topic called Orders")
    assert (await answer_to_error(clock, BrokerError("odd", code=215))).code == 215


@pytest.mark.parametrize("kind", [TopicNotFound, MalformedHeader, RuntimeError])
async def test_an_error_that_quotes_broken_text_is_answered_all_the_same(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    with caplog.at_level(logging.CRITICAL, "pyromq"):  # pytest cannot pass on a log with what is no text
        answer = await answer_to_error(clock, kind("no topic called \ud800"))
    assert (answer.remark or "").endswith("no topic called ?")


async def test_a_malformed_header_is_answered_and_closes_nothing(clock: FakeClock) -> None:
    answer = await answer_to_error(clock, MalformedHeader("queueId is missing"))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "MalformedHeader: queueId is missing")


async def test_a_store_that_may_recover_is_not_available_and_a_broken_one_an_error(clock: FakeClock) -> None:
    assert (await answer_to_error(clock, DiskFull("no room"))).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert (await answer_to_error(clock, StoreError("broken"))).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("code", [FAIL, SLOW])
async def test_any_other_exception_is_logged_and_answered_in_one_line(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async def fail_slowly(command: RemotingCommand, connection: Connection) -> bytes:
        await asyncio.sleep(0)
        return HANDLERS[FAIL](command, connection)  # type: ignore[return-value]

    async with serve(clock, {FAIL: HANDLERS[FAIL], SLOW: fail_slowly}) as server:
        answer = await (await RawPeer.connect(server.port)).ask(numbered(code, 1))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "ValueError: the reason, on two lines")
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.exc_info is not None


async def test_an_answer_names_no_file_of_the_server(clock: FakeClock) -> None:
    error = FileNotFoundError(2, "No such file or directory", "/data/store/commitlog")
    assert (await answer_to_error(clock, error)).remark == "FileNotFoundError: No such file or directory"


GARBAGE = {
    "random": random.Random(7).randbytes(4096),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "negative length": b"\xff\xff\xff\xff",
    "too long": b"\x01\x00\x00\x01",
    "no JSON": b"\x00\x00\x00\x08\x00\x00\x00\x04{bad",
    "header past the frame": b"\x00\x00\x00\x08\x00\x00\xff\xff{}{}",
    "unknown serialize type": b"\x00\x00\x00\x08\x07\x00\x00\x04{}{}",
}


@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage_closes_its_own_connection_with_one_line(
    server: RemotingServer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    good, bad = await RawPeer.connect(server.port), await RawPeer.connect(server.port)
    await good.ask(numbered(ECHO, 1))
    bad.writer.write(GARBAGE[kind])
    assert await bad.is_closed()
    assert (await good.ask(numbered(ECHO, 2))).opaque == 2
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "\n" not in record.getMessage()


async def test_the_log_says_when_a_peer_speaks_tls_or_http(
    server: RemotingServer, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("tls", "http"):
        peer = await RawPeer.connect(server.port)
        peer.writer.write(GARBAGE[kind])
        await peer.is_closed()
    assert ["TLS" in caplog.messages[0], "HTTP" in caplog.messages[1]] == [True, True]


async def test_random_input_never_harms_the_others(server: RemotingServer) -> None:
    good = await RawPeer.connect(server.port)
    frame = numbered(ECHO, 1, b"body").encode()
    for number in range(50):
        spoilt = bytearray(frame)
        spoilt[random.randrange(len(frame))] = random.randrange(256)
        bad = await RawPeer.connect(server.port)
        bad.writer.write(bytes(spoilt) + os.urandom(64))
        bad.writer.close()
        assert (await good.ask(numbered(ECHO, number))).opaque == number
    await eventually(lambda: len(server.connections) == 1)


async def test_a_peer_that_leaves_in_the_middle_of_a_frame_is_forgotten(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    peer.writer.write(numbered(ECHO, 1).encode()[:-1])
    await eventually(lambda: len(server.connections) == 1)
    peer.writer.close()
    await eventually(lambda: not server.connections)


async def test_the_frame_limit_counts_the_length_prefix(clock: FakeClock) -> None:
    size = len(numbered(ECHO, 1, b"x" * 1000).encode())
    async with serve(clock, limits=Limits(max_frame=size)) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(ECHO, 1, b"x" * 1000))).body == b"x" * 1000
        peer.send(numbered(ECHO, 1, b"x" * 1001))
        assert await peer.is_closed()


async def test_connections_over_the_limit_are_refused_with_one_line(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(clock, port_limits=PortLimits(max_connections=2)) as server:
        kept = [await RawPeer.connect(server.port) for _ in range(2)]
        for peer in kept:
            await peer.ask(numbered(ECHO, 1))
        for _ in range(3):
            assert await (await RawPeer.connect(server.port)).is_closed()
        assert len(server.connections) == 2
        kept[0].writer.close()
        await eventually(lambda: len(server.connections) == 1)
        await (await RawPeer.connect(server.port)).ask(numbered(ECHO, 2))
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert sum("2 connections are already open" in record.getMessage() for record in told) == 1


async def test_too_many_running_handlers_of_one_peer_are_answered_busy(clock: FakeClock) -> None:
    release = asyncio.Event()

    async def wait(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        await release.wait()
        return response(command)

    async with serve(clock, {SLOW: wait}, limits=Limits(max_running=2)) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(*(numbered(SLOW, number) for number in range(3)))
        busy = await peer.receive()
        assert (busy.opaque, busy.code) == (2, ResponseCode.SYSTEM_BUSY)
        assert busy.remark is not None
        assert busy.remark.startswith("[OVERLOAD]")
        release.set()
        assert {(await peer.receive()).opaque for _ in range(2)} == {0, 1}


async def test_upper_layers_hear_of_connections(clock: FakeClock) -> None:
    events: list[tuple[str, str]] = []
    async with serve(
        clock,
        on_connect=lambda connection: events.append(("connected", connection.peer)),
        on_disconnect=lambda connection: events.append(("gone", connection.peer)),
    ) as server:
        peer = await RawPeer.connect(server.port)
        host, port = peer.writer.get_extra_info("sockname")
        await eventually(lambda: len(events) == 1)
        peer.writer.close()
        await eventually(lambda: len(events) == 2)
        assert events == [("connected", f"{host}:{port}"), ("gone", f"{host}:{port}")]


async def test_a_port_in_use_is_one_clear_error(server: RemotingServer, clock: FakeClock) -> None:
    second = RemotingServer({}, host="127.0.0.1", port=server.port, clock=clock)
    with pytest.raises(RemotingError, match=rf"cannot listen on 127\.0\.0\.1:{server.port}: address already in use"):
        await second.__aenter__()


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_number_that_is_no_port_is_an_error(clock: FakeClock, port: int) -> None:
    with pytest.raises(ConfigError, match=f"{port} is not a port"):
        RemotingServer({}, host="127.0.0.1", port=port, clock=clock)


async def test_a_silent_connection_is_closed_after_the_idle_timeout(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serve(clock, idle_timeout=120.0) as server:
        silent, lively = await RawPeer.connect(server.port), await RawPeer.connect(server.port)
        await silent.ask(numbered(ECHO, 1))
        for number in range(2):
            clock.advance(61)
            await lively.ask(numbered(ECHO, number))
        assert await silent.is_closed()
        await eventually(lambda: len(server.connections) == 1)
        assert "no traffic for 120 s" in caplog.text


async def drip(clock: FakeClock, server: RemotingServer, chunks: list[bytes]) -> RawPeer:
    """Send a chunk each second until all are sent or the server closes."""
    peer = await RawPeer.connect(server.port)
    await eventually(lambda: len(server.connections) == 1)
    [connection] = server.connections
    for chunk in chunks:
        if not connection.closed:
            peer.writer.write(chunk)
            await eventually(lambda: connection.received_ms == clock.now_ms())
            clock.advance(1)
    return peer


async def test_a_frame_that_drips_is_cut_off(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    frame = numbered(ECHO, 1).encode()
    async with serve(clock, port_limits=PortLimits(frame_timeout=30.0)) as server:
        peer = await drip(clock, server, [bytes([byte]) for byte in frame[:40]])
        assert await peer.is_closed()
        assert "a frame took longer than 30 s" in caplog.text


async def test_frames_that_each_end_in_time_may_come_in_pieces_for_ever(clock: FakeClock) -> None:
    frame = numbered(ECHO, 1).encode()
    async with serve(clock, port_limits=PortLimits(frame_timeout=30.0)) as server:
        peer = await drip(clock, server, [frame[:10]] + 40 * [frame[10:] + frame[:10]] + [frame[10:]])
        assert {(await peer.receive()).opaque for _ in range(41)} == {1}


async def test_no_timer_runs_without_connections(clock: FakeClock) -> None:
    async with serve(clock) as server:
        assert clock.waiting == 0
        peer = await RawPeer.connect(server.port)
        await peer.ask(numbered(ECHO, 1))
        assert clock.waiting == 1
        peer.writer.close()
        await eventually(lambda: not server.connections)
        clock.advance(2)
        assert clock.waiting == 0


async def test_an_unanswered_request_holds_nothing_up(server: RemotingServer) -> None:
    peer = await RawPeer.connect(server.port)
    peer.send(numbered(NEVER, 1), numbered(ECHO, 2))
    assert (await peer.receive()).opaque == 2


async def test_a_large_answer_is_not_copied(clock: FakeClock) -> None:
    body = bytes(JOIN_LIMIT + 1)
    sent: list[object] = []

    def large(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        connection.send = sent.append  # type: ignore[method-assign,assignment]
        return response(command, body=body)

    async with serve(clock, {ECHO: large}) as server:
        peer = await RawPeer.connect(server.port)
        peer.send(numbered(ECHO, 1))
        await eventually(lambda: len(sent) == 2)
        assert sent[1] is body
        assert sent[0] == response(numbered(ECHO, 1), body=body).encode()[: -len(body)]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_only_this_machine_reaches_a_loopback_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.0.0.7", "::", "broker.example"])
def test_others_reach_any_other_address(host: str) -> None:
    assert not is_loopback(host)


async def test_a_public_port_without_accounts_is_a_warning(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    server = serve(clock)
    server.host = ""
    await server.bind()
    await server.close()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line == (
        f"port {server.port} is open to everybody who reaches this machine, without accounts: set aclEnable=true"
        " (docs/security.md)"
    )
    caplog.clear()
    async with serve(clock, guard=lambda command, connection: None):
        pass
    async with serve(clock):
        pass
    assert "without accounts" not in caplog.text
