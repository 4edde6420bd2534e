from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from pyromq.errors import ConnectFailed, ConnectionLost, LocalProtocolError, RemotingError, RequestTimeout
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import MAX_FRAME, RemotingCommand, request, response
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.limits import Limits
from pyromq.remoting.outstanding import OPAQUE_MASK
from pyromq.remoting.server import RemotingServer
from pyromq.testing import eventually

from .helpers import ECHO, FAIL, NEVER, SLOW, FakeClock, RawPeer, echo, numbered, serve


@pytest.fixture
async def server(clock: FakeClock) -> AsyncIterator[RemotingServer]:
    async with serve(clock) as server:
        yield server


@pytest.fixture
async def client(clock: FakeClock) -> AsyncIterator[RemotingClient]:
    async with RemotingClient(clock) as client:
        yield client


@pytest.fixture
def address(server: RemotingServer) -> str:
    return f"127.0.0.1:{server.port}"


async def test_a_request_returns_its_answer_whatever_the_code(client: RemotingClient, address: str) -> None:
    assert (await client.request(address, request(ECHO, body=b"hello"))).body == b"hello"
    assert (await client.request(address, request(SLOW, body=b"later"))).body == b"later"
    assert (await client.request(address, request(FAIL))).code == ResponseCode.SYSTEM_ERROR


async def test_a_thousand_requests_share_one_connection(
    client: RemotingClient, server: RemotingServer, address: str
) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    answers = await asyncio.gather(*(client.request(address, request(ECHO, body=body)) for body in bodies))
    assert [answer.body for answer in answers] == bodies
    assert len(server.connections) == 1


async def test_requests_of_one_round_leave_in_one_write(clock: FakeClock, client: RemotingClient) -> None:
    reads: list[int] = []

    class Counting(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            reads.append(data.count(b'"opaque":'))

    listener = await asyncio.get_running_loop().create_server(Counting, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    connection = await client.connection(f"127.0.0.1:{port}")
    for _ in range(100):
        connection.request_future(request(ECHO), 3.0)
    await eventually(lambda: sum(reads) == 100)
    assert reads == [100]
    listener.close()


async def test_what_is_queued_may_leave_before_the_round_ends(client: RemotingClient, address: str) -> None:
    connection = await client.connection(address)
    first = connection.request_future(request(ECHO, body=b"x" * 1000), 3.0)
    second = connection.request_future(request(ECHO, body=b"y" * 70_000), 3.0)
    assert connection._written == 0
    assert connection.queued > 71_000
    connection.flush()
    assert (connection._written > 71_000, connection.queued) == (True, 0)
    assert [len((await answer).body) for answer in (first, second)] == [1000, 70_000]


async def test_answers_are_paired_by_opaque_in_any_order(client: RemotingClient) -> None:
    def swapped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def talk() -> None:
            peer = RawPeer(reader, writer)
            first, second = await peer.receive(), await peer.receive()
            peer.send(response(second, body=second.body), response(first, body=first.body))

        talks.append(asyncio.ensure_future(talk()))

    talks: list[asyncio.Future[None]] = []
    listener = await asyncio.start_server(swapped, "127.0.0.1", 0)
    connection = await client.connection(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    futures = [connection.request_future(request(ECHO, body=body), 3.0) for body in (b"a", b"b")]
    assert [(await future).body for future in futures] == [b"a", b"b"]
    await client.close()
    listener.close()


async def test_a_request_times_out_and_names_the_address(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    early, late = (connection.request_future(request(NEVER), timeout) for timeout in (3.0, 30.0))
    clock.advance(2.99)
    assert not early.done()
    await connection.request(request(ECHO), 3.0)
    clock.advance(0.11)
    with pytest.raises(RequestTimeout, match=rf"no answer from {address} within 3 s \(request code {NEVER}\)"):
        await early
    assert not late.done()
    assert (await client.request(address, request(ECHO, body=b"goes on"))).body == b"goes on"
    late.cancel()


async def test_a_timeout_closes_a_connection_on_which_nothing_arrived_since(
    clock: FakeClock, client: RemotingClient, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await client.connection(address)
    await connection.request(request(ECHO), 3.0)
    silent, late = (connection.request_future(request(NEVER), timeout) for timeout in (3.0, 30.0))
    clock.advance(3.2)
    with pytest.raises(RequestTimeout):
        await silent
    assert connection.closed
    with pytest.raises(ConnectionLost, match=r"had no answer within 3 s, and nothing else arrived"):
        await late
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert (await client.request(address, request(ECHO, body=b"anew"))).body == b"anew"
    assert await client.connection(address) is not connection


async def test_a_timeout_keeps_a_connection_on_which_something_arrived_since(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    unanswered = connection.request_future(request(NEVER), 3.0)
    clock.advance(1.0)
    await connection.request(request(ECHO), 3.0)
    clock.advance(2.2)
    with pytest.raises(RequestTimeout):
        await unanswered
    assert not connection.closed


async def test_silence_is_recognized_when_the_opaque_wraps(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    connection._outstanding.opaque = OPAQUE_MASK - 2
    await connection.request(request(ECHO), 3.0)
    unanswered = [connection.request_future(request(NEVER), 3.0) for _ in range(3)]
    clock.advance(3.2)
    await asyncio.gather(*unanswered, return_exceptions=True)
    assert connection.closed


async def test_a_server_keeps_a_client_that_does_not_answer_its_question(clock: FakeClock) -> None:
    asked: list[asyncio.Future[RemotingCommand]] = []

    def ask_back(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        asked.append(connection.request_future(request(NEVER), 3.0))
        return response(command)

    async with serve(clock, {ECHO: ask_back}) as server:
        peer = await RawPeer.connect(server.port)
        assert (await peer.ask(numbered(ECHO, 1))).code == NEVER  # its question, then its answer
        await peer.receive()
        clock.advance(3.2)
        with pytest.raises(RequestTimeout):
            await asked[0]
        await peer.ask(numbered(ECHO, 2))
        assert len(server.connections) == 1
        asked[1].cancel()


async def test_setting_the_clock_of_the_machine_times_nothing_out(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    future = connection.request_future(request(NEVER), 3.0)
    clock.wall += 86_400
    clock.advance(0.5)
    assert not future.done()
    future.cancel()


async def test_no_timer_runs_while_nothing_is_outstanding(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    idle = clock.waiting
    futures = [connection.request_future(request(ECHO), 3.0) for _ in range(50)]
    assert clock.waiting == idle + 1  # one for all
    await asyncio.gather(*futures)
    clock.advance(0.1)
    assert clock.waiting == idle


async def test_a_late_answer_is_dropped(clock: FakeClock, client: RemotingClient) -> None:
    held: list[tuple[RemotingCommand, Connection]] = []

    async with serve(clock, {ECHO: lambda *request: held.append(request), SLOW: echo}) as server:
        address = f"127.0.0.1:{server.port}"
        connection = await client.connection(address)
        future = connection.request_future(request(ECHO), 1.0)
        await connection.request(request(SLOW), 1.0)  # something arrives, so the connection stays
        clock.advance(1.2)
        with pytest.raises(RequestTimeout):
            await future
        [(command, back)] = held
        back.send(response(command, body=b"too late").encode())
        second = connection.request_future(request(ECHO), 1.0)
        await eventually(lambda: len(held) == 2)
        back.send(response(held[1][0], body=b"in time").encode())
        assert (await second).body == b"in time"


async def test_a_cancelled_request_is_forgotten(clock: FakeClock, client: RemotingClient, address: str) -> None:
    waiting = asyncio.ensure_future(client.request(address, request(NEVER), timeout=1000.0))
    await eventually(lambda: clock.waiting > 0)
    connection = await client.connection(address)
    await eventually(lambda: len(connection._outstanding) == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    clock.advance(0.1)
    assert len(connection._outstanding) == 0


async def test_a_refused_connection_is_one_clear_error(client: RemotingClient) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody else can listen there meanwhile
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: connection refused"):
            await client.request(address, request(ECHO))


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", ":9876", "host:port", "host:99999"])
async def test_an_address_without_host_or_port_is_one_clear_error(client: RemotingClient, address: str) -> None:
    with pytest.raises(ConnectFailed, match="an address must be host:port"):
        await client.request(address, request(ECHO))


async def test_a_connection_that_is_not_accepted_times_out(clock: FakeClock, client: RemotingClient) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = f"127.0.0.1:{full.getsockname()[1]}"
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        attempt = asyncio.ensure_future(client.request(address, request(ECHO), timeout=10.0))
        impatient = asyncio.ensure_future(client.request(address, request(ECHO), timeout=1.0))
        await eventually(lambda: clock.waiting >= 2)
        clock.advance(1.0)
        with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: not within 1 s"):
            await impatient
        clock.advance(2.0)
        with pytest.raises(ConnectFailed, match=f"cannot connect to {address}: not within 3 s"):
            await attempt
        for filler in fillers:
            filler.close()


async def test_concurrent_callers_share_one_attempt(
    client: RemotingClient, server: RemotingServer, address: str
) -> None:
    connections = await asyncio.gather(*(client.connection(address) for _ in range(20)))
    assert len(set(connections)) == 1
    assert len(server.connections) == 1


async def test_a_caller_that_gives_up_does_not_take_the_connection_from_the_others(
    client: RemotingClient, address: str
) -> None:
    impatient, patient = (asyncio.ensure_future(client.connection(address)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert not (await patient).closed


async def test_a_lost_connection_ends_its_requests_and_the_next_call_makes_another(
    clock: FakeClock, client: RemotingClient
) -> None:
    gone: list[str] = []
    client.on_disconnect = lambda connection: gone.append(connection.peer)
    async with serve(clock) as server:
        address, port = f"127.0.0.1:{server.port}", server.port
        connection = await client.connection(address)
        future = connection.request_future(request(NEVER), 3.0)
        await eventually(lambda: len(server.connections) == 1)
        next(iter(server.connections)).abort("for the test")
        with pytest.raises(ConnectionLost, match=f"connection to {address} lost"):
            await future
    assert connection.closed
    assert gone == [address]
    with pytest.raises(ConnectFailed):
        await client.request(address, request(ECHO))
    async with RemotingServer({ECHO: lambda command, _: response(command)}, host="127.0.0.1", port=port, clock=clock):
        assert (await client.request(address, request(ECHO))).code == ResponseCode.SUCCESS


async def test_a_closed_connection_takes_no_more(client: RemotingClient, address: str) -> None:
    connection = await client.connection(address)
    await connection.close()
    connection.send(b"dropped")
    for use in (lambda: connection.request_future(request(ECHO), 1.0), lambda: connection.oneway(request(ECHO))):
        with pytest.raises(ConnectionLost, match="closed on this side"):
            use()
    with pytest.raises(ConnectionLost):
        await connection.request(request(ECHO), 1.0)
    assert (await client.request(address, request(ECHO, body=b"anew"))).body == b"anew"


async def test_a_oneway_request_arrives(clock: FakeClock, client: RemotingClient) -> None:
    seen: list[RemotingCommand] = []
    async with serve(clock, {ECHO: lambda command, connection: seen.append(command)}) as server:
        await client.oneway(f"127.0.0.1:{server.port}", request(ECHO, body=b"once"))
        await eventually(lambda: bool(seen))
        assert [(command.is_oneway, command.body) for command in seen] == [(True, b"once")]


async def test_what_was_queued_before_closing_still_arrives(clock: FakeClock, client: RemotingClient) -> None:
    seen: list[RemotingCommand] = []
    async with serve(clock, {ECHO: lambda command, connection: seen.append(command)}) as server:
        connection = await client.connection(f"127.0.0.1:{server.port}")
        connection.oneway(request(ECHO))
        await connection.close()
        await eventually(lambda: len(seen) == 1)


async def test_the_opaque_wraps_before_it_turns_negative(client: RemotingClient, address: str) -> None:
    connection = await client.connection(address)
    connection._outstanding.opaque = OPAQUE_MASK - 1
    opaques = [(await connection.request(request(ECHO), 3.0)).opaque for _ in range(3)]
    assert opaques == [OPAQUE_MASK, 0, 1]


async def test_a_server_may_ask_its_client(clock: FakeClock) -> None:
    def from_server(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, body=b"client got " + command.body)

    async def ask_back(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        answer = await connection.request(request(FAIL, body=command.body), 3.0)
        assert (await connection.request(request(NEVER), 3.0)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        return response(command, body=b"server got " + answer.body)

    async with (
        serve(clock, {ECHO: ask_back}) as server,
        RemotingClient(clock, handlers={FAIL: from_server}) as client,
    ):
        address = f"127.0.0.1:{server.port}"
        answers = await asyncio.gather(*(client.request(address, request(ECHO, body=b"%d" % n)) for n in range(10)))
        assert [answer.body for answer in answers] == [b"server got client got %d" % n for n in range(10)]


async def test_outstanding_requests_are_bounded(clock: FakeClock, server: RemotingServer, address: str) -> None:
    async with RemotingClient(clock, limits=Limits(max_outstanding=4)) as client:
        connection = await client.connection(address)
        stuck = [connection.request_future(request(NEVER), 2.0) for _ in range(4)]
        assert not connection.writable
        with pytest.raises(RemotingError, match=r"4 requests to .* are already outstanding"):
            connection.request_future(request(ECHO), 2.0)
        patient = asyncio.ensure_future(connection.request(request(ECHO, body=b"in turn"), 5.0))
        impatient = asyncio.ensure_future(connection.request(request(ECHO), 1.0))
        await asyncio.sleep(0)
        clock.advance(1.5)
        with pytest.raises(RequestTimeout, match=f"{address} took no request within 1 s"):
            await impatient
        next(iter(server.connections)).oneway(request(ECHO))  # the server lives, so the connection stays
        await eventually(lambda: not connection._outstanding.silent_since(connection._outstanding.opaque))
        clock.advance(1.0)
        assert (await patient).body == b"in turn"
        assert all(isinstance(future.exception(), RequestTimeout) for future in stuck)


async def test_many_senders_behind_a_full_window_all_get_their_turn(clock: FakeClock, address: str) -> None:
    async with RemotingClient(clock, limits=Limits(max_outstanding=8)) as client:
        answers = await asyncio.gather(
            *(client.request(address, request(ECHO, body=b"%d" % number)) for number in range(500))
        )
        assert [answer.body for answer in answers] == [b"%d" % number for number in range(500)]


async def test_a_request_that_no_frame_can_hold_leaves_nothing_outstanding(
    client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    with pytest.raises(LocalProtocolError):
        await connection.request(request(ECHO, body=bytes(MAX_FRAME)), 3.0)
    assert len(connection._outstanding) == 0
    assert (await connection.request(request(ECHO, body=b"goes on"), 3.0)).body == b"goes on"


async def test_closing_the_client_ends_what_is_outstanding_and_what_connects(address: str) -> None:
    clock = FakeClock()  # of the client alone
    client = RemotingClient(clock)
    outstanding = (await client.connection(address)).request_future(request(NEVER), 3.0)
    connecting = asyncio.ensure_future(client.connection(address.replace("127.0.0.1", "127.0.0.2")))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ConnectionLost):
        await outstanding
    with pytest.raises(ConnectFailed):
        await connecting
    with pytest.raises(ConnectFailed, match="this client is closed"):
        await client.request(address, request(ECHO))
    assert clock.waiting == 0


async def test_an_idle_connection_is_closed_before_the_server_would(
    clock: FakeClock, client: RemotingClient, address: str
) -> None:
    connection = await client.connection(address)
    clock.advance(112)
    await eventually(lambda: connection.closed)
    assert (await client.request(address, request(ECHO, body=b"anew"))).body == b"anew"


async def test_a_client_can_be_built_before_its_loop_runs(clock: FakeClock, address: str) -> None:
    client = await asyncio.to_thread(RemotingClient, clock)  # a thread without a loop
    assert (await client.request(address, request(ECHO, body=b"works"))).body == b"works"
    await client.close()
